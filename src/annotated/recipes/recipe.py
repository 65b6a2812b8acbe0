"""The named experiments, and how to change one from the command line."""

import ast
import difflib
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from annotated import paper
from annotated.data.tokenizer import SMALLEST
from annotated.model import TransformerConfig
from annotated.recipes.corpus import Corpus
from annotated.recipes.exact import Copying, Numbers
from annotated.recipes.text import Text
from annotated.training import TrainingConfig


@dataclass(frozen=True)
class Recipe:
    """Everything that a run needs but a seed.

    The model's vocab_size is the tokenizer's, whatever `model` says.
    """

    name: str
    about: str
    corpus: Corpus
    model: TransformerConfig = field(default_factory=TransformerConfig.tiny)
    training: TrainingConfig = field(default_factory=TrainingConfig)


NUMBERS = TrainingConfig(
    steps=500, batch_tokens=1000, length_noise=6.0, warmup_steps=200, factor=0.5, average_every=20
)
# Thousands parts held out whole: of one, two and three digits, with and without
# the words that German reverses.
FAMILIES = (7, 20, 42, 85, 204, 342, 519, 960)

# The settings published for models this small on captions. A GPU does them in minutes.
CAPTIONS = TrainingConfig(
    steps=8000, batch_tokens=4096, length_noise=0.5, warmup_steps=2000, factor=2.5,
    average=10, average_every=100,
)
# Half an hour to an hour on one core: smaller steps, so that they are settled by then.
SHORT = replace(
    CAPTIONS, steps=4000, batch_tokens=2048, length_noise=2.0, warmup_steps=1000, factor=0.7
)

# §5.1-5.4, §6.1, to the letter. Eight micro-batches: the paper's eight GPUs, or one after another.
WMT = TrainingConfig(
    steps=paper.TRAINING.base_steps, batch_tokens=paper.TRAINING.source_tokens,
    micro_batches=paper.TRAINING.gpus, warmup_steps=paper.TRAINING.warmup_steps,
    label_smoothing=paper.TRAINING.label_smoothing, average=paper.DECODING.base_averaged,
    average_every=round(60 * paper.DECODING.checkpoint_minutes / paper.TRAINING.base_step_seconds),
)
WMT_BIG = replace(
    WMT, steps=paper.TRAINING.big_steps, average=paper.DECODING.big_averaged,
    average_every=round(60 * paper.DECODING.checkpoint_minutes / paper.TRAINING.big_step_seconds),
)


def wmt(target: str, vocabulary: int) -> Text:
    """The paper's corpus with a vocabulary of the paper's size, special ids included."""
    return Text(f"wmt14-en-{target}", merges=vocabulary - SMALLEST)


EN_DE = wmt("de", paper.STATED["5.1"]["vocabulary_en_de"].value)
EN_FR = wmt("fr", paper.STATED["5.1"]["vocabulary_en_fr"].value)

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
            "numbers-en-de-five-digits", "the same up to five digits, to see what becomes of six",
            Numbers(digits=5), training=NUMBERS,
        ),
        Recipe(
            "copy", "letters to repeat, a check that everything works",
            Copying(), TransformerConfig.tiny(dropout=0.0), replace(NUMBERS, steps=1000),
        ),
        Recipe(
            "multi30k-en-de", "captions of pictures, English to German (29 000 pairs), for a GPU",
            Text("multi30k-en-de", merges=4000),
            TransformerConfig.tiny(d_ff=256, layers=4, dropout=0.3), CAPTIONS,
        ),
        Recipe(
            "multi30k-en-de-short", "the same in half an hour on one core",
            Text("multi30k-en-de", merges=4000),
            TransformerConfig.tiny(d_ff=256, layers=4, dropout=0.15), SHORT,
        ),
        Recipe(
            "tatoeba-en-de", "everyday sentences, English to German (166 000 pairs), on one core",
            Text("tatoeba-en-de", merges=6000), TransformerConfig.tiny(layers=4),
            replace(SHORT, steps=3000),
        ),
        Recipe(
            "wmt14-en-de-base", "the paper's base model, English to German (4.5 million pairs)",
            EN_DE, TransformerConfig.base(), WMT,
        ),
        Recipe(
            "wmt14-en-de-big", "the paper's big model, English to German",
            EN_DE, TransformerConfig.big(), WMT_BIG,
        ),
        Recipe(
            "wmt14-en-fr-base", "the paper's base model, English to French (36 million pairs)",
            EN_FR, TransformerConfig.base(), WMT,
        ),
        Recipe(
            "wmt14-en-fr-big", "the paper's big model, English to French",
            EN_FR,
            TransformerConfig.big(dropout=paper.STATED["6.1"]["big_dropout_en_fr"].value),
            WMT_BIG,
        ),
    )
}


def recipe_named(name: str) -> Recipe:
    """The recipe; ValueError with the names there are for an unknown one."""
    if name not in RECIPES:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]


def settings(recipe: Recipe) -> dict[str, Any]:
    """All that can be set of a recipe: "training.steps" → 500."""
    return {
        name: value
        for part in ("corpus", "model", "training")
        for name, value in _flat(getattr(recipe, part), part)
        if name != "model.vocab_size"  # the tokenizer's
    }


def override(recipe: Recipe, assignments: Iterable[str]) -> Recipe:
    """The recipe with settings changed: override(recipe, ["training.steps=100"]).

    All are changed at once, since some must agree. Raises ValueError for what
    is no setting of it, and for a value of another type. Text needs no
    quotes; true, false and none may be small.
    """
    known, texts = settings(recipe), {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes name=value, such as training.steps=100, not {name!r}")
        if name not in known:
            last = f".{name.rpartition('.')[2]}"
            close = [other for other in known if other.endswith(last)]
            close = close or difflib.get_close_matches(name, known, 3) or known
            raise ValueError(f"{recipe.name} has no setting {name!r}; there is {', '.join(close)}")
        texts[name] = text
    return _changed(recipe, texts)


def _flat(thing: Any, name: str) -> Iterator[tuple[str, Any]]:
    for entry in fields(thing):
        value, path = getattr(thing, entry.name), f"{name}.{entry.name}"
        if is_dataclass(value):
            yield from _flat(value, path)
        else:
            yield path, value


def _changed(thing: Any, texts: Mapping[str, str], within: str = "") -> Any:
    """A copy of nested frozen dataclasses with other values, by path."""
    hints, new = typing.get_type_hints(type(thing)), {}
    for entry in fields(thing):
        value, path = getattr(thing, entry.name), within + entry.name
        if is_dataclass(value):
            new[entry.name] = _changed(value, texts, f"{path}.")
        elif path in texts:
            new[entry.name] = _parsed(hints[entry.name], path, texts[path])
    return replace(thing, **new)


def _parsed(hint: Any, name: str, text: str) -> Any:
    """Text as a value of the type a field has."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    word = text.strip().lower()
    if word == "none" and type(None) in kinds:
        return None
    if str in kinds:
        return text
    try:
        value = {"true": True, "false": False}.get(word)
        value = ast.literal_eval(text) if value is None else value
        return _as(kinds[0], value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
        expected = hint.__name__ if isinstance(hint, type) else hint
        raise ValueError(f"{name} is {text!r}; expected a value of type {expected}") from None


def _as(kind: Any, value: Any) -> Any:
    """The value as one of that type; ValueError if it is of another."""
    if typing.get_origin(kind) is tuple and type(value) is tuple:
        each = typing.get_args(kind)
        each = each[:1] * len(value) if each[-1] is ... else each
        return tuple(_as(*both) for both in zip(each, value, strict=True))
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or kind is float and not math.isfinite(value):
        raise ValueError
    return value
