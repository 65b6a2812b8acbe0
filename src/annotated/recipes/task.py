"""What a recipe needs of a task, whatever its sentences are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import to_builtins

from annotated.data.batches import Batch, IdPair, collate, token_batches
from annotated.data.files import Folder
from annotated.data.tokenizer import Tokenizer
from annotated.records import Metric, Row
from annotated.translation import Translator

AT_ONCE = 1000  # pairs encoded together: what is ever in memory of a corpus


@dataclass(frozen=True)
class Report:
    """What a test of a trained model found; the same for every task.

    metrics, tables: what a `Record` keeps.
    translations: of the test set, in its order, for scores that are computed later.
    notes: what could not be measured, and why.
    """

    metrics: dict[str, Metric]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    translations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """One line per metric, one per row of a table, then the notes."""
        width = max(map(len, self.metrics), default=0)
        lines = [
            f"{name:{width}}  {metric.value:.6g}  {metric.signature or ''}".rstrip()
            for name, metric in self.metrics.items()
        ]
        for name, rows in self.tables.items():
            lines += [f"{name}: " + ", ".join(f"{k} {v}" for k, v in row.items()) for row in rows]
        return lines + self.notes

    def document(self) -> dict[str, Any]:
        """The same for scripts."""
        parts = {"metrics": self.metrics, "tables": self.tables, "notes": self.notes}
        return to_builtins(parts)


@runtime_checkable
class TaskData(Protocol):
    """The sentences of a task, found and ready to be read."""

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, learned from training text only."""

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[Sequence[IdPair], list[str]]:
        """Pairs of ids to train on, and what cleaning left out, in words.

        With a `folder` they may lie in a file there, to be found again.
        """

    def held_out_ids(self, tokenizer: Tokenizer, count: int | None = None) -> list[IdPair]:
        """The first `count` pairs of ids to measure on, never trained on."""

    def watch(self, translator: Translator) -> dict[str, float]:
        """A few quick measures of a model in training, by name."""

    def test(self, translator: Translator) -> Report:
        """All that is measured of a trained model."""


@runtime_checkable
class Task(Protocol):
    """Sentences to train on, and others that are never trained on: a frozen description."""

    @property
    def vocab_size(self) -> int:
        """The size of the tokenizer's vocabulary."""

    def open(self, data_dir: Folder = None, training: bool = True) -> TaskData:
        """The sentences themselves; files are looked for in `data_dir` first.

        Raises FileNotFoundError or ValueError for a file that is missing or damaged; without
        `training` those of the training set are not needed.
        """


def as_text(measures: Mapping[str, float]) -> str:
    """Measures in words: "perplexity 5.32"."""
    return ", ".join(f"{name} {value:.4g}" for name, value in measures.items())


def as_ids(pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> Iterator[IdPair]:
    """Sentence pairs as ids, a bounded number at a time."""
    rest = iter(pairs)
    while some := list(islice(rest, AT_ONCE)):
        yield from zip(*map(tokenizer.encode_batch, zip(*some, strict=True)), strict=True)


def batches_of(
    pairs: Sequence[IdPair], tokenizer: Tokenizer, budget: int = 4096
) -> list[Batch]:
    """Pairs of ids as batches to measure on: their order has no say.

    A pair beyond the budget has a batch of its own.
    """
    longest = max((1 + max(map(len, pair)) for pair in pairs), default=1)
    special = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    cut = token_batches(pairs, max(budget, longest), seed=0)
    return [collate(batch, *special) for batch in cut]


def check_range(task: Any, name: str, least: int, most: int, kind: str = "") -> None:
    """Raise ValueError for a field of a task that is not within its limits.

    The field `name` must be from `least` to `most`; `kind` says what of, after the limits.
    """
    value = getattr(task, name)
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; expected {least} to {most}{kind}")
