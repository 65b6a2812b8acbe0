"""Tasks made from a seed, where each sentence has one right translation."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import ClassVar, NamedTuple

from annotated.analysis.scores import perplexity
from annotated.data import copying, numbers
from annotated.data.batches import IdPair
from annotated.data.files import Folder
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.recipes.task import Report, as_ids, batches_of, check_range
from annotated.records import as_metrics
from annotated.translation import Translator

TEST_SEED = 1_000_000  # of the held-out examples that a report rests on


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
    """How many translations are the right one, to the letter."""
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


def encoded(examples: Sequence[Example], tokenizer: Tokenizer) -> list[IdPair]:
    """Examples as pairs of ids, none special."""
    return list(as_ids(((example.source, example.target) for example in examples), tokenizer))


@dataclass(frozen=True, kw_only=True)
class ExactTask(ABC):
    """Training and testing of a task with one right answer a sentence.

    A subclass has a field `count`, and is its own data.
    """

    groups: ClassVar[str]  # what `Example.group` counts
    # held-out examples that a report rests on
    tested: int = 1000
    # held-out examples translated at each look during training
    watched: int = 100

    def __post_init__(self):
        check_range(self, "count", 1, 10**8)
        check_range(self, "tested", 1, 100_000)
        check_range(self, "watched", 1, 100_000)

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, learned from training text only."""

    @abstractmethod
    def training(self, seed: int) -> list[Example]:
        """The examples that a run of that random seed is trained on."""

    @abstractmethod
    def held_out(self, count: int, seed: int) -> list[Example]:
        """So many examples that no run is trained on."""

    def open(self, data_dir: Folder = None, training: bool = True) -> "ExactTask":
        """Nothing has to be found."""
        return self

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[list[IdPair], list[str]]:
        """All in memory; nothing is left out."""
        return encoded(self.training(seed), tokenizer), []

    def held_out_ids(self, tokenizer: Tokenizer, count: int | None = None) -> list[IdPair]:
        """The first examples that a report rests on."""
        return encoded(self.held_out(count or self.tested, TEST_SEED), tokenizer)

    def watch(self, translator: Translator) -> dict[str, float]:
        """The share of some held-out examples that is right."""
        examples = self.held_out(self.watched, TEST_SEED)
        return {"accuracy": score(translator, examples).accuracy}

    def test(self, translator: Translator) -> Report:
        """Exact match, in all and by group, and perplexity, on what is never trained on."""
        examples = self.held_out(self.tested, TEST_SEED)
        result = score(translator, examples)
        pairs = encoded(examples, translator.tokenizer)
        value = perplexity(translator.model, batches_of(pairs, translator.tokenizer))
        metrics = as_metrics({
            "exact": result.accuracy, "tested": result.total, "perplexity": round(value, 4),
        })
        rows = [
            {self.groups: group, "exact": round(right / total, 4)}
            for group, (right, total) in result.by_group.items()
        ]
        return Report(metrics, {f"exact_by_{self.groups}": rows})


@dataclass(frozen=True)
class Numbers(ExactTask):
    """Integers below a million, spelled out in two languages."""

    # language that is translated from: en, de or fr
    source: str = "en"
    # language that is translated to: en, de or fr
    target: str = "de"
    # examples in the training set, drawn from the seed
    count: int = 60_000
    # thousands never trained on, as in 7 for 7 000-7 999; tested alone
    thousands: tuple[int, ...] = ()
    # most digits of a number that is trained on or tested
    digits: int = len(numbers.DIGIT_WEIGHTS)
    # numbers with more digits than any trained on, to be measured on
    longer: int = 200
    groups = "digits"

    def __post_init__(self):
        super().__post_init__()
        for name in ("source", "target"):
            if getattr(self, name) not in numbers.LANGUAGES:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected one of {numbers.LANGUAGES}"
                )
        check_range(self, "digits", 1, len(numbers.DIGIT_WEIGHTS))
        check_range(self, "longer", 1, 10_000)
        for part in self.thousands:
            if not 0 <= part < numbers.LIMIT // 1000:
                raise ValueError(f"thousands is {self.thousands}; expected each from 0 to 999")
        if self.thousands and 1000 * min(self.thousands) >= 10**self.digits:
            raise ValueError(f"digits is {self.digits}; too few for thousands of {self.thousands}")
        if self.thousands and max(self.tested, self.watched) > len(self.families):
            raise ValueError(
                f"tested is {self.tested}, watched {self.watched}; of thousands "
                f"{self.thousands} there are {len(self.families)} numbers"
            )

    @property
    def families(self) -> list[int]:
        """The numbers of `thousands`, none of which is trained on."""
        return [1000 * part + rest for part in self.thousands for rest in range(1000)
                if 1000 * part < 10**self.digits]

    @property
    def vocab_size(self) -> int:
        return SMALLEST + numbers.MERGES

    def tokenizer(self) -> Tokenizer:
        texts = numbers.vocabulary_texts(self.source, self.target, self.trained_on)
        return Tokenizer.train(texts, numbers.MERGES)

    def training(self, seed: int) -> list[Example]:
        return self.examples(numbers.draw(self.count, seed, self.trained_on))

    def held_out(self, count: int, seed: int) -> list[Example]:
        """All different: of one and two digits there are only eleven."""
        if self.thousands:
            return self.examples(random.Random(seed).sample(self.families, count))
        most = 10**self.digits
        drawn = numbers.different(count, seed, lambda n: n < most and numbers.held_out(n))
        return self.examples(drawn)

    def held_out_longer(self) -> list[Example]:
        """`longer` different examples of more digits than any that is trained on."""
        least = 10**self.digits
        longer = lambda n: n >= least and numbers.held_out(n)  # noqa: E731
        return self.examples(numbers.different(self.longer, TEST_SEED, longer))

    def in_family(self, number: int) -> bool:
        return number // 1000 in self.thousands

    def trained_on(self, number: int) -> bool:
        short = number < 10**self.digits
        return short and numbers.training_side(number) and not self.in_family(number)

    def examples(self, drawn: Sequence[int]) -> list[Example]:
        pairs = numbers.pairs(drawn, self.source, self.target)
        return [Example(*pair, len(str(n))) for n, pair in zip(drawn, pairs, strict=True)]


@dataclass(frozen=True)
class Copying(ExactTask):
    """Letters to repeat: a trained model must be exact."""

    # examples in the training set, drawn from the seed
    count: int = 40_000
    # most letters of a sequence
    longest: int = 10
    groups = "letters"

    def __post_init__(self):
        super().__post_init__()
        check_range(self, "longest", 1, 1000)

    @property
    def vocab_size(self) -> int:
        return SMALLEST + len(ascii_lowercase)

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.train([" ".join(ascii_lowercase)] * 2, merges=len(ascii_lowercase))

    def training(self, seed: int) -> list[Example]:
        return self.examples(copying.draw(self.count, seed, longest=self.longest))

    def held_out(self, count: int, seed: int) -> list[Example]:
        unseen = copying.held_out
        return self.examples(copying.draw(count, seed, unseen, longest=self.longest))

    def examples(self, drawn: Sequence[str]) -> list[Example]:
        return [Example(letters, letters, len(letters.split())) for letters in drawn]
