"""Named experiments: task + model + training + evaluation, all frozen."""

from annotated.recipes.exact import Copying, ExactTask, Example, Numbers, Score, score
from annotated.recipes.recipe import (
    FAMILIES,
    RECIPES,
    Recipe,
    as_document,
    explained,
    from_document,
    override,
    own_files,
    recipe_named,
    settings,
)
from annotated.recipes.run import Run, run_record, train
from annotated.recipes.task import Report, Task
from annotated.recipes.text import CorpusTask, FilesTask, TextTask

__all__ = [
    "FAMILIES",
    "RECIPES",
    "Copying",
    "CorpusTask",
    "ExactTask",
    "Example",
    "FilesTask",
    "Numbers",
    "Recipe",
    "Report",
    "Run",
    "Score",
    "Task",
    "TextTask",
    "as_document",
    "explained",
    "from_document",
    "override",
    "own_files",
    "recipe_named",
    "run_record",
    "score",
    "settings",
    "train",
]
