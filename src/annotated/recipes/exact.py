"""Corpora made from a seed, where each sentence has one right translation."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from annotated.analysis.scores import perplexity
from annotated.data import copying, numbers
from annotated.data.batches import Pair
from annotated.data.tokenizer import Tokenizer
from annotated.recipes.corpus import Report, as_ids, batches_of
from annotated.records import as_metrics
from annotated.translation import Translator

TESTED, TEST_SEED = 1000, 1_000_000  # held-out examples a report rests on, and their seed
WATCHED = 100  # examples translated now and then during training


class Example(NamedTuple):
    """A sentence with its one right translation; scores are kept by group."""

    source: str
    target: str
    group: int


class Score(NamedTuple):
    """Exact matches, in all and by group (digits, letters)."""

    right: int
    total: int
    by_group: dict[int, tuple[int, int]]

    @property
    def accuracy(self) -> float:
        """The share translated exactly, from 0 to 1."""
        return self.right / self.total


def score(translator: Translator, examples: Sequence[Example]) -> Score:
    """How many translations by greedy search are the right one, to the letter."""
    answers = translator.translate([example.source for example in examples])
    by_group: dict[int, tuple[int, int]] = {}
    for example, answer in zip(examples, answers, strict=True):
        right, total = by_group.get(example.group, (0, 0))
        by_group[example.group] = right + (answer == example.target), total + 1
    return Score(
        sum(right for right, _ in by_group.values()),
        len(examples),
        dict(sorted(by_group.items())),
    )


def encoded(examples: Sequence[Example], tokenizer: Tokenizer) -> list[Pair]:
    """Examples as pairs of ids, none special."""
    return list(as_ids(((example.source, example.target) for example in examples), tokenizer))


class Exact:
    """Training and testing of a corpus with one right answer a sentence.

    A subclass has `tokenizer()`, `training(seed)`, `held_out(count,
    seed)` and `groups`, what `Example.group` counts.
    """

    groups: str

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[list[Pair], list[str]]:
        """All in memory; nothing is left out."""
        return encoded(self.training(seed), tokenizer), []

    def watch(self, translator: Translator) -> dict[str, float]:
        """The share of some held-out examples that is right."""
        examples = self.held_out(WATCHED, TEST_SEED)
        return {"accuracy": score(translator, examples).accuracy}

    def say(self, watched: dict[str, float]) -> str:
        return f"{watched['accuracy']:.0%} of {WATCHED} unseen sentences right"

    def test(self, translator: Translator) -> Report:
        """Exact match by group, and perplexity, on what is never trained on."""
        examples = self.held_out(TESTED, TEST_SEED)
        result = score(translator, examples)
        pairs = encoded(examples, translator.tokenizer)
        unsure = perplexity(translator.model, batches_of(pairs, translator.tokenizer))
        metrics = as_metrics({
            "exact": result.accuracy, "tested": result.total, "perplexity": round(unsure, 4),
        })
        rows = []
        lines = [
            f"{result.right} of {result.total} held-out sentences exactly right "
            f"({result.accuracy:.1%})"
        ]
        for group, (right, total) in result.by_group.items():
            rows.append({self.groups: group, "exact": round(right / total, 4)})
            lines.append(f"  {group:2} {self.groups}: {right} of {total}")
        facts = {
            "right": result.right, "total": result.total, "accuracy": result.accuracy,
            f"by_{self.groups}": {
                group: {"right": right, "total": total}
                for group, (right, total) in result.by_group.items()
            },
        }
        return Report(metrics, lines, facts, tables={f"exact_by_{self.groups}": rows})


@dataclass(frozen=True)
class Numbers(Exact):
    """Integers below a million, spelled out in two languages.

    `thousands` names thousands parts (n // 1000) of which not one number is
    trained on; `held_out` then draws from these families alone. Numbers of
    more than `digits` digits are neither trained on nor held out.
    """

    source: str = "en"
    target: str = "de"
    count: int = 60_000
    thousands: tuple[int, ...] = ()
    digits: int = len(numbers.DIGIT_WEIGHTS)
    groups = "digits"

    def __post_init__(self):
        most = len(numbers.DIGIT_WEIGHTS)
        if not 1 <= self.digits <= most:
            raise ValueError(f"digits is {self.digits}; expected 1 to {most}")
        if self.thousands and 1000 * min(self.thousands) >= 10**self.digits:
            raise ValueError(f"digits is {self.digits}; too few for thousands of {self.thousands}")

    def tokenizer(self) -> Tokenizer:
        texts = numbers.vocabulary_texts(self.source, self.target, self.trained_on)
        return Tokenizer.train(texts, numbers.MERGES)

    def training(self, seed: int) -> list[Example]:
        return self.examples(numbers.draw(self.count, seed, self.trained_on))

    def held_out(self, count: int, seed: int) -> list[Example]:
        """All different: of one and two digits there are only eleven."""
        if self.thousands:
            families = [1000 * part + rest for part in self.thousands for rest in range(1000)
                        if 1000 * part < 10**self.digits]
            return self.examples(random.Random(seed).sample(families, count))
        most = 10**self.digits
        drawn = numbers.different(count, seed, lambda n: n < most and numbers.held_out(n))
        return self.examples(drawn)

    def in_family(self, number: int) -> bool:
        return number // 1000 in self.thousands

    def trained_on(self, number: int) -> bool:
        short = number < 10**self.digits
        return short and numbers.training_side(number) and not self.in_family(number)

    def examples(self, drawn: Sequence[int]) -> list[Example]:
        pairs = numbers.pairs(drawn, self.source, self.target)
        return [Example(*pair, len(str(n))) for n, pair in zip(drawn, pairs, strict=True)]


@dataclass(frozen=True)
class Copying(Exact):
    """Letters to repeat: a trained model must be exact."""

    count: int = 40_000
    longest: int = 10
    groups = "letters"

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.train([" ".join(ascii_lowercase)] * 2, merges=len(ascii_lowercase))

    def training(self, seed: int) -> list[Example]:
        return self.examples(copying.draw(self.count, seed, longest=self.longest))

    def held_out(self, count: int, seed: int) -> list[Example]:
        unseen = copying.held_out
        return self.examples(copying.draw(count, seed, unseen, longest=self.longest))

    def examples(self, drawn: Sequence[str]) -> list[Example]:
        return [Example(*pair, len(pair[0].split())) for pair in copying.pairs(drawn)]
