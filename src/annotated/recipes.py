"""Named experiments: corpus + model + training + evaluation, all frozen."""

import datetime
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from annotated.data import copying, numbers
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.records import Record, this_commit, this_machine
from annotated.training import Trainer, TrainingConfig, Update
from annotated.translation import Translator


class Example(NamedTuple):
    """A sentence with its one right translation; scores are kept by group."""

    source: str
    target: str
    group: int


@runtime_checkable
class Corpus(Protocol):
    """Sentences to train on, and others that are never trained on."""

    groups: str  # what Example.group counts

    def tokenizer(self) -> Tokenizer: ...
    def training(self, seed: int) -> list[Example]: ...
    def held_out(self, count: int, seed: int) -> list[Example]: ...


@dataclass(frozen=True)
class Numbers:
    """Integers below a million, spelled out in two languages.

    ``thousands`` names thousands parts (n // 1000) of which not one number is
    trained on; ``held_out`` then draws from these families alone.
    """

    source: str = "en"
    target: str = "de"
    count: int = 60_000
    thousands: tuple[int, ...] = ()
    groups = "digits"

    def tokenizer(self) -> Tokenizer:
        texts = numbers.vocabulary_texts(self.source, self.target, self.trained_on)
        return Tokenizer.train(texts, numbers.MERGES)

    def training(self, seed: int) -> list[Example]:
        return self.examples(numbers.draw(self.count, seed, self.trained_on))

    def held_out(self, count: int, seed: int) -> list[Example]:
        """All different: of one and two digits there are only eleven."""
        if self.thousands:
            families = [1000 * part + rest for part in self.thousands for rest in range(1000)]
            return self.examples(random.Random(seed).sample(families, count))
        drawn = dict.fromkeys(numbers.draw(4 * count, seed, numbers.held_out))
        return self.examples(list(drawn)[:count])

    def in_family(self, number: int) -> bool:
        return number // 1000 in self.thousands

    def trained_on(self, number: int) -> bool:
        return numbers.training_side(number) and not self.in_family(number)

    def examples(self, drawn: Sequence[int]) -> list[Example]:
        pairs = numbers.pairs(drawn, self.source, self.target)
        return [Example(*pair, len(str(n))) for n, pair in zip(drawn, pairs, strict=True)]


@dataclass(frozen=True)
class Copying:
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


@dataclass(frozen=True)
class Recipe:
    """Everything that a run needs but a seed.

    The model's vocab_size is the tokenizer's, whatever ``model`` says.
    """

    name: str
    about: str
    corpus: Corpus
    model: TransformerConfig = field(default_factory=TransformerConfig.tiny)
    training: TrainingConfig = field(default_factory=TrainingConfig)


NUMBERS = TrainingConfig(
    steps=500, batch_tokens=1000, spread=6.0, warmup_steps=200, factor=0.5, average_every=20
)
# Thousands parts held out whole: of one, two and three digits, with and without
# the words that German reverses.
FAMILIES = (7, 20, 42, 85, 204, 342, 519, 960)
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "numbers-en-de", "numbers below a million in words, English to German",
            Numbers(target="de"), training=NUMBERS,
        ),
        Recipe(
            "numbers-en-fr", "numbers below a million in words, English to French",
            Numbers(target="fr"), training=replace(NUMBERS, steps=800),
        ),
        Recipe(
            "numbers-en-de-families",
            "the same without a single number of some thousands, tested on those",
            Numbers(thousands=FAMILIES), training=NUMBERS,
        ),
        Recipe(
            "copy", "letters to repeat, a check that everything works",
            Copying(), TransformerConfig.tiny(dropout=0.0), replace(NUMBERS, steps=1000),
        ),
    )
}


def recipe_named(name: str) -> Recipe:
    """The recipe; ValueError with the names there are for an unknown one."""
    if name not in RECIPES:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]


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


class Run(NamedTuple):
    """What a training run leaves: the model, its way there, and its time."""

    translator: Translator
    updates: list[Update]
    seconds: float


def train(
    recipe: Recipe,
    seed: int,
    after: Callable[[Update, Translator], None] = lambda update, translator: None,
) -> Run:
    """Data, tokenizer, model, updates: all of it from the recipe and a seed.

    ``after`` is called after each update with the model as it then is. The
    seconds include making the data, and what ``after`` takes.
    """
    start, updates = time.perf_counter(), []
    examples = recipe.corpus.training(seed)
    sources, targets, _ = zip(*examples, strict=True)
    tokenizer = recipe.corpus.tokenizer()
    pairs = list(zip(tokenizer.encode_batch(sources), tokenizer.encode_batch(targets), strict=True))
    torch.manual_seed(seed)
    model = Transformer(replace(recipe.model, vocab_size=tokenizer.vocab_size))
    translator = Translator(model, tokenizer)

    def keep(update: Update) -> None:
        updates.append(update)
        after(update, translator)

    Trainer(model, recipe.training).fit(pairs, seed, keep)
    model.eval()
    return Run(translator, updates, time.perf_counter() - start)


def run_record(
    recipe: Recipe, seed: int, run: Run, result: Score, command: str,
    watched: Mapping[int, float],
) -> Record:
    """A training run as a record: its curve, and exact match by group.

    ``watched`` is accuracy by step, measured while training; a point of the
    curve is a step at which it was, with that update's loss and rate.
    """
    machine = this_machine()
    updates = {update.step: update for update in run.updates}
    curve = [
        {"step": step, "loss": round(updates[step].loss, 4),
         "rate": float(f"{updates[step].rate:.4g}"), "accuracy": accuracy}
        for step, accuracy in watched.items()
    ]
    metrics = {"exact": {"value": result.accuracy}, "tested": {"value": result.total}}
    for group, (right, total) in result.by_group.items():
        metrics[f"exact_{recipe.corpus.groups}_{group}"] = {"value": round(right / total, 4)}
    tokens = sum(update.tokens for update in run.updates) / len(run.updates)
    return Record(
        experiment=recipe.name, command=command, recipe=recipe.name, seed=seed,
        commit=this_commit(), precision="float32", seconds=round(run.seconds, 1),
        tokens_per_update=round(tokens), curve=curve, metrics=metrics,
        date=datetime.date.today().isoformat(), **machine,
    )
