"""The kinds of entries in the registry. What they run is imported when it runs, PyTorch too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from annotated import records
from annotated.jobs import Job, Result, Unavailable
from annotated.records import Record

if TYPE_CHECKING:
    from annotated.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is recorded under one name.

    name: that of the records, and of `annotated record`.
    pages: file names, without ending, of the pages that read the records.
    seeds: how many random seeds are recorded, from 0.
    least: the kinds of device it is recorded on, "cpu" or "cuda", each with the seconds below
        which a run is not begun when time is short.
    share: what part of the time that is left over it can use, against the shares of others.
    """

    name: str
    pages: tuple[str, ...] = ()
    seeds: int = 1
    least: Mapping[str, float] = field(default_factory=lambda: {"cpu": 60.0})
    share: float = 0.0

    def make(self, job: Job) -> Result:
        """Run it; `Unavailable` if something is missing here."""
        raise NotImplementedError

    def recorded(self, root: Path | None = None) -> list[Record]:
        """Its records in a folder of results, by default the package's own."""
        try:
            return records.find(self.name, root=root)
        except records.NoRecords:
            return []

    def missing(self, kind: str, root: Path | None = None) -> list[int]:
        """The seeds without a record on that kind of device."""
        if kind not in self.least:
            return []
        there = {record.seed for record in self.recorded(root) if record.kind == kind}
        return [seed for seed in range(self.seeds) if seed not in there]


@dataclass(frozen=True, kw_only=True)
class Measurement(Experiment):
    """A function, by its dotted name, that takes a job and `arguments` and gives a record."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def make(self, job: Job) -> Result:
        record = resolve_name(self.function)(job, **self.arguments)
        return Result(record, f"{len(record.metrics)} metrics, tables {', '.join(record.tables)}")


@dataclass(frozen=True, kw_only=True)
class Training(Experiment):
    """A recipe, perhaps with something changed, trained and tested.

    recipe: its name.
    changes: settings of it, as of `annotated train --set`.
    without: what of the paper is then missing, in words.
    model: the class of the model, by its dotted name.
    column: a function of model and batches that is one more column of the curve, by its
        dotted name; the column has the function's.
    film: a function of translator and recipe that is more columns of the curve, name → value,
        by its dotted name: what the model says and can do by then.
    measures: what is measured besides the recipe's own test: a function of the report, the
        translator, the recipe and the seed that gives a longer report, by its dotted name.
    """

    recipe: str
    changes: tuple[str, ...] = ()
    without: str = "nothing"
    model: str = "annotated.model:Transformer"
    column: str = ""
    film: str = ""
    measures: str = ""

    def resolve(self) -> "Recipe":
        """The recipe with the changes."""
        from annotated.recipes import override, recipe_named

        return override(recipe_named(self.recipe), self.changes)

    def make(self, job: Job) -> Result:
        from annotated.experiments.training import train_and_test

        try:
            return train_and_test(self, job)
        except ImportError as error:  # such as of num2words, which spells numbers
            raise Unavailable(str(error)) from None


def results_folder() -> Path:
    """Where records go: the package's own results in a clone, else `results` here."""
    package = Path(records.__file__).parent
    clone = package.parent.name == "src" and (package.parents[1] / "pyproject.toml").exists()
    return package / "results" if clone else Path("results")
