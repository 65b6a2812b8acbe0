"""Named experiments: corpus + model + training + evaluation, all frozen."""

from annotated.recipes.corpus import Corpus, Report
from annotated.recipes.exact import Copying, Example, Numbers, Score, score
from annotated.recipes.recipe import FAMILIES, RECIPES, Recipe, override, recipe_named, settings
from annotated.recipes.run import Run, run_record, train
from annotated.recipes.text import Text

__all__ = [
    "FAMILIES",
    "RECIPES",
    "Copying",
    "Corpus",
    "Example",
    "Numbers",
    "Recipe",
    "Report",
    "Run",
    "Score",
    "Text",
    "override",
    "recipe_named",
    "run_record",
    "score",
    "settings",
    "train",
]
