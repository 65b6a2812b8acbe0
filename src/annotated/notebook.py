"""Helpers that only the book's pages use; the one module that needs Jupyter."""

import html
import inspect
import textwrap
from typing import NamedTuple

from IPython.display import HTML, Markdown, display
from jaxtyping import Int
from torch import Tensor

from annotated import paper
from annotated.data import numbers
from annotated.data.batches import Batch, collate
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer
from annotated.translation import Translator

BOOK_MODEL = "numbers-en-de"
SENTENCE = 342  # never trained on; 204 and 402 are its friends


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


class BookModel(NamedTuple):
    """The trained model that the book follows, and its running sentence."""

    model: Transformer
    tokenizer: Tokenizer
    source: str
    target: str

    def batch(self) -> Batch:
        """The running sentence as a batch of one: source, target, labels."""
        config = self.model.config
        pair = self.tokenizer.encode(self.source), self.tokenizer.encode(self.target)
        return collate([pair], config.pad_id, config.bos_id, config.eos_id)

    def ids(self, text: str) -> Int[Tensor, "1 m"]:
        """Any source sentence as the ids that the encoder reads."""
        config = self.model.config
        return collate([(self.tokenizer.encode(text), [])], config.pad_id, config.bos_id,
                       config.eos_id).source

    def pieces(self, text: str) -> list[str]:
        """The pieces of a sentence as shown on pages, its end included."""
        return [*self.tokenizer.pieces(text), "EOS"]


def book_model() -> BookModel:
    """The shipped weights, their tokenizer and the running sentence."""
    translator = Translator.load(BOOK_MODEL)
    return BookModel(
        translator.model, translator.tokenizer,
        numbers.spell(SENTENCE, "en"), numbers.spell(SENTENCE, "de"),
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


def where(station: str) -> None:
    """Display the way through the model with one station lit."""
    shapes = stations(book_model())
    if station not in shapes:
        raise ValueError(f"no station {station!r}; expected one of {', '.join(shapes)}")
    chips = []
    for name, (ours, base) in shapes.items():
        if name == station:
            chips.append(
                f'<span class="station here" aria-current="step">{html.escape(name)}'
                f"<small>here {ours} · base model {base}</small></span>"
            )
        else:
            chips.append(f'<span class="station">{html.escape(name)}</span>')
    display(HTML(f'<div class="where">{"".join(chips)}</div>'))
