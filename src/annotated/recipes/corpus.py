"""What a recipe needs of a corpus, whatever is in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from annotated.data.batches import Batch, Pair, collate, token_batches
from annotated.data.tokenizer import Tokenizer
from annotated.records import Metric, Row
from annotated.translation import Translator

AT_ONCE = 1000  # pairs encoded together: what is ever in memory of a corpus


@dataclass(frozen=True)
class Report:
    """What a test found.

    `metrics` and `tables` are what a `Record` keeps, `lines` says it in words,
    `facts` in JSON. `translations` has the answers in the order of the
    test set, for scores that are computed later.
    """

    metrics: dict[str, Metric]
    lines: list[str]
    facts: dict[str, Any]
    translations: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)


@runtime_checkable
class Corpus(Protocol):
    """Sentences to train on, and others that are never trained on."""

    def tokenizer(self) -> Tokenizer:
        """The vocabulary, from training text only."""

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[Sequence[Pair], list[str]]:
        """Pairs of ids to train on, and what was left out, in words.

        With a `folder` they may lie in a file there, to be found again.
        """

    def watch(self, translator: Translator) -> dict[str, float]:
        """A quick look at a model that is in training."""

    def say(self, watched: dict[str, float]) -> str:
        """What `watch` found, in words."""

    def test(self, translator: Translator) -> Report:
        """All that is measured of a trained model."""


def as_ids(pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> Iterator[Pair]:
    """Sentence pairs as ids, a bounded number at a time."""
    rest = iter(pairs)
    while some := list(islice(rest, AT_ONCE)):
        yield from zip(*map(tokenizer.encode_batch, zip(*some, strict=True)), strict=True)


def batches_of(
    pairs: Sequence[Pair], tokenizer: Tokenizer, budget: int = 4096
) -> list[Batch]:
    """Pairs of ids as batches to measure on: their order has no say.

    A pair beyond the budget has a batch of its own.
    """
    longest = max((1 + max(map(len, pair)) for pair in pairs), default=1)
    special = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    cut = token_batches(pairs, max(budget, longest), seed=0)
    return [collate(batch, *special) for batch in cut]
