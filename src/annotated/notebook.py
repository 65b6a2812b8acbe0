"""Helpers that only the book's pages use; the one module that needs Jupyter."""

import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import cast

from IPython.display import HTML, Markdown, display
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annotated import paper
from annotated.analysis.effects import Effect
from annotated.analysis.interventions import hide
from annotated.analysis.look_up import attention_inputs, queries_keys_values
from annotated.analysis.scores import wrong_tokens
from annotated.data.batches import Batch, IdPair, collate
from annotated.data.numbers import different, held_out, pairs, spell
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, padding_mask
from annotated.translation import Translator, greedy_search

BOOK_MODEL = "numbers-en-de"
SENTENCE = 342  # never trained on; 204 and 402 are its friends

Ids = Int[Tensor, "batch m"]
Logits = Float[Tensor, "batch n vocab"]


def show(*objects) -> None:
    """Display the source of functions, classes or methods of the package.

    The page stores what is displayed, and the notebook check compares it:
    the code on a page can't fall behind the package.
    """
    for thing in objects:
        thing = inspect.unwrap(thing)
        source = textwrap.dedent(inspect.getsource(thing)).rstrip()
        place = f"`{thing.__module__}.{thing.__qualname__}`"
        display(Markdown(f"{place}\n\n```python\n{source}\n```"))


@dataclass(frozen=True)
class BookModel:
    """The trained model that the book follows, and its running sentence.

    Its methods spare pages the special ids, which `model.config` has. A
    number is a sentence pair: its English to be read, its German to be said.
    """

    model: Transformer = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    source: str
    target: str

    @property
    def translator(self) -> Translator:
        """The model as a translator of sentences."""
        return Translator(self.model, self.tokenizer)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a sentence as shown on pages, its end included."""
        return [*self.tokenizer.pieces(text), "EOS"]

    def shifted(self, text: str) -> list[str]:
        """The pieces that the decoder reads: BOS first, the end not yet."""
        return ["BOS", *self.tokenizer.pieces(text)]

    def ids(self, text: str) -> Ids:
        """Any source sentence as the ids that the encoder reads, a batch of one."""
        return self.collate([(self.tokenizer.encode(text), [])]).source

    def batch(self) -> Batch:
        """The running sentence as a batch of one: source, target, labels."""
        encode = self.tokenizer.encode
        return self.collate([(encode(self.source), encode(self.target))])

    def batch_of(self, numbers: Iterable[int]) -> Batch:
        """These numbers, English to German, as one batch in their order."""
        return self.collate(self.encode(numbers))

    def encode(self, numbers: Iterable[int]) -> list[IdPair]:
        """These numbers as pairs of ids, English and German, none special."""
        encode = self.tokenizer.encode
        return [(encode(en), encode(de)) for en, de in pairs(numbers, "en", "de")]

    def collate(self, encoded: Sequence[IdPair]) -> Batch:
        """Pairs of ids as one batch, with the model's special ids."""
        config = self.model.config
        return collate(encoded, config.pad_id, config.bos_id, config.eos_id)

    @staticmethod
    def unseen(
        count: int, seed: int = 0, keep: Callable[[int], bool] = lambda number: True
    ) -> list[int]:
        """The first `count` different numbers drawn of those held out of training.

        `keep` says which of them to take: all, if it is not given.
        Raises ValueError if there are not as many.
        """
        found = different(count, seed, lambda n: held_out(n) and keep(n))
        if count < 1 or len(found) < count:
            raise ValueError(f"count is {count}; expected 1 to {len(found)}")
        return found

    def unseen_batch(
        self, count: int = 300, seed: int = 0, keep: Callable[[int], bool] = lambda number: True
    ) -> tuple[list[int], Batch]:
        """So many unseen numbers, and the same as one batch: what pages measure over."""
        numbers = self.unseen(count, seed, keep)
        return numbers, self.batch_of(numbers)

    def ends_like_ours(self, number: int) -> bool:
        """Whether thousands stand before an end cut like ours: "hundred and tens-unit".

        Nine pieces, so that a batch of such numbers has no padding in its
        source; 5 and 7 are the places of tens and unit. For `unseen`.
        """
        cut = self.pieces(spell(number, "en"))
        return len(cut) == 9 and cut[3:5] == ["hundred", "and"] and cut[6] == "-"

    def vectors(self, attention: str) -> Float[Tensor, "n d_model"]:
        """The vectors of the running sentence that ask in this attention of the model.

        `attention` is named as `record_attention` does: "encoder.layers.0.self_attention".
        """
        batch = self.batch()
        return attention_inputs(self.model, attention, batch.source, batch.target)[0][0]

    def queries_keys_values(self, attention: str, head: int) -> tuple[Tensor, Tensor, Tensor]:
        """Q (n, d_k), K (m, d_k) and V (m, d_v) of the running sentence in one head.

        `attention` is as for `vectors`; heads count from 0.
        """
        batch = self.batch()
        made = queries_keys_values(self.model, attention, batch.source, batch.target)
        q, k, v = (x[0, head] for x in made)
        return q, k, v

    def mask(self, ids: Ids) -> Bool[Tensor, "batch 1 1 m"]:
        """Which keys are real, True, and which padding: the model's own mask."""
        return padding_mask(ids, self.model.config.pad_id)

    def hide(self, ids: Ids, places: Iterable[int]) -> Ids:
        """The ids with padding at these places, counted from 0: nobody looks there."""
        return hide(ids, places, self.model.config.pad_id)

    def wrong_tokens(self, batch: Batch, logits: Logits) -> Bool[Tensor, "batch n"]:
        """Where the likeliest token is not the label; False at padding."""
        return wrong_tokens(logits, batch.labels, self.model.config.pad_id)

    def wrong(self, batch: Batch, logits: Logits) -> Effect:
        """In how many sentences any token is wrong, those before it given right."""
        return Effect.of(self.wrong_tokens(batch, logits).any(1))

    def translations(
        self, source: Ids, memory: Float[Tensor, "batch m d_model"] | None = None
    ) -> list[str]:
        """A translation for each row, by greedy search; `memory` replaces the encoder's."""
        found = greedy_search(self.model, source, memory=memory)
        return [self.tokenizer.decode(hypothesis.tokens) for hypothesis in found]


@cache
def loaded() -> Translator:
    """The shipped weights and their tokenizer, read once; nobody may change them."""
    return Translator.load(BOOK_MODEL)


def book_model() -> BookModel:
    """The shipped weights, their tokenizer and the running sentence: a copy of one's own."""
    return BookModel(
        cast(Transformer, deepcopy(loaded().model)), loaded().tokenizer,
        source=spell(SENTENCE, "en"), target=spell(SENTENCE, "de"),
    )


def stations(book: BookModel) -> dict[str, tuple[str, str]]:
    """The way through the model: station → our shape, the base model's."""
    config, base = book.model.config, paper.BASE
    m, n = len(book.pieces(book.source)), len(book.pieces(book.target))
    d, big = config.d_model, base.d_model
    words = f"{paper.STATED['5.1']['vocabulary_en_de'].value:,}".replace(",", " ")
    return {
        "text": ("1 sentence", "1 sentence"),
        "pieces": (f"{m}", "m"),
        "ids": (f"{m}", "m"),
        "vectors": (f"{m} × {d}", f"m × {big}"),
        "+ positions": (f"{m} × {d}", f"m × {big}"),
        "encoder": (f"{m} × {d}", f"m × {big}"),
        "memory": (f"{m} × {d}", f"m × {big}"),
        "decoder": (f"{n} × {d}", f"n × {big}"),
        "distribution": (f"{n} × {config.vocab_size}", f"n × {words}"),
        "word": (f"{n}", "n"),
    }


TRAINING_STATIONS = {  # the way of one update: station → what stands there, in any training
    "batch": "sentences", "loss": "1 number", "gradient": "1 per parameter",
    "step": "every parameter",
}
# The page that explains a station; one-sentence has a strip of its own before each section.
EXPLAINED = {
    "text": "one-sentence.ipynb#at-text",
    "pieces": "one-sentence.ipynb#at-pieces",
    "ids": "one-sentence.ipynb#at-ids",
    "vectors": "03-4-embeddings-and-softmax.ipynb",
    "+ positions": "03-5-positional-encoding.ipynb",
    "encoder": "03-1-encoder-and-decoder-stacks.ipynb",
    "memory": "03-2-3-applications-of-attention.ipynb",
    "decoder": "03-1-encoder-and-decoder-stacks.ipynb",
    "distribution": "03-4-embeddings-and-softmax.ipynb",
    "word": "one-sentence.ipynb#at-word",
    "batch": "05-1-training-data-and-batching.ipynb",
    "loss": "05-4-regularization.ipynb",
    "gradient": "05-training.ipynb",
    "step": "05-3-optimizer.ipynb",
}
STACKS = {"encoder", "decoder"}  # drawn longer: all the layers stand there


def where(*here: str) -> None:
    """Display the way through the model, or of one update in training: a line of stations.

    Those named are lit, with what leaves them; the way there is behind us,
    the rest ahead. Without a name the whole way through the model is lit.
    Each station leads to the page that explains it. Raises ValueError if a
    name is no station, or if the names are not all of one way.
    """
    book = book_model()
    model = {name: ours for name, (ours, _) in stations(book).items()}
    known = model | TRAINING_STATIONS
    for name in here:
        if name not in known:
            raise ValueError(f"no station {name!r}; expected one of {', '.join(known)}")
    way, title = model, "The way through the model"
    if set(here) & set(TRAINING_STATIONS):
        way, title = TRAINING_STATIONS, "The way of one update"
    if not set(here) <= set(way):
        raise ValueError(f"stations {', '.join(here)} are not all of one way")
    lit = set(here or way)
    names = list(way)
    first = min(map(names.index, lit))
    stops = []
    for place, (name, shape) in enumerate(way.items()):
        kinds = ["here" if name in lit else "done" if place < first else "ahead"]
        kinds += ["stack"] if name in STACKS else []
        # A place to lead to, where a page lights some of the stations and not all.
        anchor = f' id="at-{name.strip("+ ")}"' if name in here else ""
        text = f'<a href="{EXPLAINED[name]}">{escape(name)}</a>'
        if name in lit:
            text = f"<strong>{text}</strong> <small>{shape}</small>"
        current = ' aria-current="step"' if name in here else ""
        stops.append(f'<li class="{" ".join(kinds)}"{anchor}{current}>{text}</li>')
    # The book has its own style for the line (book.css); this is enough for JupyterLab.
    line = "display:flex;flex-wrap:wrap;gap:0 1rem;list-style:none;padding:0"
    display(HTML(f'<ol class="way" aria-label="{title}" style="{line}">{"".join(stops)}</ol>'))


CELL = "text-align:left;vertical-align:top;white-space:nowrap;font-size:0.8rem;"
STAYS = (
    "position:sticky;left:0;"
    "background:var(--pst-color-background,var(--jp-layout-color0,inherit));"
)


NUMBER = re.compile(r"(≈ ?)?[-+−]?\d[\d\u202f ]*(\.\d+)?(e[-+]?\d+)?( ?%)?")


def is_number(value: object) -> bool:
    """Whether a cell holds a number alone, or a text that is one, such as "≈ 1.5 %"."""
    return isinstance(value, int | float) or bool(NUMBER.fullmatch(str(value)))


def table(title: str, rows: Sequence[Sequence[object]]) -> HTML:
    """Rows as a table for the book and JupyterLab; the first has the headings.

    Texts stand on the left, numbers, and the headings over nothing but them, on
    the right; whole numbers from 10 000 have their thousands apart; a newline in
    a text breaks the line. Where a screen is too narrow the table scrolls in its
    own box, and its first column stays. `title` names it to those who can't see it.
    Raises ValueError if there are no rows, or they are not of one length.
    """
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"rows have {sorted(lengths)} cells; expected as many in each, at least 1")

    def cell(value: object, right: bool, scope: str = "", style: str = "") -> str:
        tag = f'th scope="{scope}"' if scope else "td"
        if right:
            style += "text-align:right;"
        if isinstance(value, int) and abs(value) >= 10_000:
            value = f"{value:,}".replace(",", "\u202f")
        text = escape(str(value)).replace("\n", "<br>")
        return f'<{tag} style="{CELL}{style}">{text}</{tag[:2]}>'

    top, *body = rows
    right = [bool(body) and all(map(is_number, column)) for column in zip(*body)]
    (first, *names), (key, *others) = top, right or [False] * len(top)
    lines = [cell(first, key, "col", STAYS)
             + "".join(cell(name, at, "col") for name, at in zip(names, others))]
    lines += [cell(name, is_number(name), "row", STAYS + "font-weight:400;")
              + "".join(cell(value, is_number(value)) for value in values)
              for name, *values in body]
    joined = "".join(f"<tr>{line}</tr>" for line in lines)
    return HTML(
        f'<div role="region" tabindex="0" aria-label="{escape(title)}"'
        f' style="overflow-x:auto"><table>{joined}</table></div>'
    )


def explorer(name: str, data: object, fallback: HTML | str | None = None) -> None:
    """Display what a reader can move on the page: `book/_static/explorers/NAME.js` brings it alive.

    `data` are what the script needs, as JSON: computed here, so that nothing
    is typed into a script by hand. Tensors become lists. A float was measured:
    it keeps six digits and is written "≈…", which the comparison of pages
    leaves out, as everywhere; the script gets it as a number. `fallback` is
    HTML that tells the finding where no script runs: in JupyterLab, in print.
    Without it the figure of the cell before does that.
    Raises ValueError if `name` is not words joined by hyphens, if a number is
    not finite, or if the fallback is empty; TypeError if `data` are not JSON.
    """
    if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name):
        raise ValueError(f"name is {name!r}; expected small letters joined by hyphens")
    shown = fallback.data if isinstance(fallback, HTML) else fallback
    if shown is not None and not shown.strip():
        raise ValueError(f"explorer {name!r} has an empty fallback; expected what it shows")
    # "<" would let a text in the data end the script.
    text = json.dumps(as_json(data), ensure_ascii=False).replace("<", "\\u003c")
    display(HTML(
        f'<div class="explorer" data-explorer="{name}">{shown or ""}'
        f'<script type="application/json">{text}</script></div>'
    ))


def as_json(data: object) -> object:
    """The same of lists, texts, ints and dicts alone; floats as "≈…", tensors as lists."""
    if data is None or isinstance(data, str | int):
        return data
    if isinstance(data, float):
        if not math.isfinite(data):
            raise ValueError(f"data hold {data}; expected finite numbers")
        return f"≈{data:.6g}"
    if isinstance(data, Tensor):
        return as_json(data.tolist())
    if isinstance(data, Mapping):
        if not all(isinstance(key, str) for key in data):
            raise TypeError(f"data have keys {list(data)}; expected texts")
        return {key: as_json(value) for key, value in data.items()}
    if isinstance(data, Sequence):
        return [as_json(value) for value in data]
    raise TypeError(f"data hold a {type(data).__name__}; expected what JSON has, or tensors")
