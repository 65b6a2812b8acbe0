"""What an experiment is given, and what it gives back."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotated.machine import here_and_now
from annotated.records import Record


class Unavailable(ValueError):
    """Something that the experiment needs is not here: files, a package, a fast enough machine."""


@dataclass(frozen=True)
class Job:
    """One run of an experiment.

    experiment: its name.
    seed: the random seed.
    device: "cpu" or "cuda".
    data_dir: where corpora lie, if not where they are looked for.
    folder: where a training that can be resumed keeps its states; None keeps none.
    left: the seconds until the run has to end.
    interrupted: whether nothing more is to be begun, since a signal came.
    say: takes a line about how far the run is.
    """

    experiment: str
    seed: int = 0
    device: str = "cpu"
    data_dir: Path | None = None
    folder: Path | None = None
    left: Callable[[], float] = lambda: math.inf
    interrupted: Callable[[], bool] = lambda: False
    say: Callable[[str], object] = print

    @property
    def command(self) -> str:
        """The command line that makes the record."""
        on = "" if self.device == "cpu" else f" --device {self.device}"
        return f"annotated record {self.experiment} --seed {self.seed}{on}"

    def record(self, **measured: Any) -> Record:
        """A record of this run: `measured` are the fields that say what came out."""
        return Record(
            experiment=self.experiment, command=self.command, seed=self.seed,
            **here_and_now(self.device), **measured,
        )


@dataclass(frozen=True)
class Result:
    """What a run of an experiment leaves.

    record: what was measured; None for a run that ended before that.
    note: how it ended, in one line.
    finished: False if there is more to do. `record` is then of an unfinished model.
    translations: of the test set, for scores that are computed later.
    save: writes the trained model into a folder; None if there is none.
    """

    record: Record | None
    note: str
    finished: bool = True
    translations: Sequence[str] = ()
    save: Callable[[Path], None] | None = None
