"""Sentences in, sentences out: one path for pages, tests and commands."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from annotated.data.batches import pad
from annotated.data.text import tidy
from annotated.data.tokenizer import Tokenizer
from annotated.files import converted
from annotated.model.contract import Seq2Seq
from annotated.translation.checkpoints import load_checkpoint
from annotated.translation.search import Hypothesis, beam_search, greedy_search
from annotated.translation.sentences import parts


@dataclass(frozen=True)
class Search:
    """§6.1: how a model translates where nothing else is asked for."""

    # hypotheses kept at each step (§6.1: 4); 1 is greedy search
    beam: int = 1
    # α of the length penalty (§6.1)
    alpha: float = 0.6
    # Not in the paper: a text of more pieces is cut by sentence
    longest: int = 256

    def __post_init__(self):
        for name, least in (("beam", 1), ("alpha", 0), ("longest", 8)):
            value = getattr(self, name)
            if not (isfinite(value) and value >= least):
                raise ValueError(f"{name} is {value}; expected a number from {least}")


class Translation(NamedTuple):
    """One of several translations: its text, and the score that ranks it (§6.1)."""

    text: str
    score: float


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(
        folder.name for folder in files("annotated").joinpath("weights").iterdir()
        if folder.joinpath("config.json").is_file()
    )


class Translator:
    """A trained `model` with its `tokenizer`, and what its maker noted.

    `search` is how it translates, by default what the recipe in `notes` says.
    """

    def __init__(
        self, model: Seq2Seq, tokenizer: Tokenizer, notes: dict | None = None,
        search: Search | None = None,
    ):
        self.model, self.tokenizer, self.notes = model, tokenizer, notes or {}
        self.search = search or noted_search(self.notes)

    def __repr__(self) -> str:
        kind, words = type(self.model).__name__, self.tokenizer.vocab_size
        size = sum(parameter.numel() for parameter in self.model.parameters())
        return f"Translator({kind}, {size:,} parameters, vocab_size={words})"

    @classmethod
    def load(cls, name_or_path: str | Path) -> "Translator":
        """A shipped model by name, or a checkpoint by folder.

        Raises ValueError where neither is there, or it is damaged.
        """
        if str(name_or_path) in shipped():
            with as_file(files("annotated") / "weights" / str(name_or_path)) as folder:
                return cls(*load_checkpoint(folder))
        if not Path(name_or_path).is_dir():
            raise ValueError(
                f"no model {str(name_or_path)!r}: neither a folder nor a shipped model "
                f"({', '.join(shipped())})"
            )
        return cls(*load_checkpoint(name_or_path))

    def translate(
        self, sentences: Iterable[str], batch_tokens: int = 8192, *,
        beam: int | None = None, alpha: float | None = None,
    ) -> list[str]:
        """One translation for each of `sentences`, in order; nothing is that of nothing.

        White space is tidied as in training. A text of more pieces than
        `search.longest` is translated in `parts`, set together again. Those of
        about equal length share a batch of at most `batch_tokens`, padding
        included. `beam` and `alpha` as in `beam_search`, by default those of
        `search`; a beam of 1 is greedy search. Raises ValueError for a lone
        surrogate, which is no character.
        """
        search = self.asked(beam, alpha)
        cut = [parts(text, search.longest, self.count) for text in tidied(sentences)]
        ids = self.tokenizer.encode_batch([part for some in cut for part in some])
        found = (best.tokens for best, *_ in self.best(ids, search, 1, batch_tokens))
        said = map(self.tokenizer.decode, found)
        return [" ".join(filter(None, (next(said) for _ in some))) for some in cut]

    def n_best(
        self, sentences: Iterable[str], count: int, batch_tokens: int = 8192, *,
        beam: int | None = None, alpha: float | None = None,
    ) -> list[list[Translation]]:
        """The `count` best translations of each text, the best first; of nothing, none.

        `sentences`, `batch_tokens`, `beam` and `alpha` as in `translate`.
        Raises ValueError for a text so long that it would be cut: a whole is
        not ranked by its parts.
        """
        search, texts = self.asked(beam, alpha), tidied(sentences)
        ids = self.tokenizer.encode_batch(texts)
        for number, row in enumerate(ids, 1):
            if len(row) > search.longest:
                raise ValueError(
                    f"sentence {number} has {len(row)} pieces; expected at most {search.longest} "
                    "where several translations are asked for"
                )
        found = iter(self.best([row for row in ids if row], search, count, batch_tokens))
        decode = self.tokenizer.decode
        return [
            [Translation(decode(each.tokens), each.score) for each in next(found)] if row else []
            for row in ids
        ]

    def asked(self, beam: int | None, alpha: float | None) -> Search:
        """The model's own search, but for what is given."""
        own = self.search
        return Search(
            own.beam if beam is None else beam, own.alpha if alpha is None else alpha, own.longest
        )

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many pieces each text has."""
        return list(map(len, self.tokenizer.encode_batch(texts)))

    def best(
        self, ids: Sequence[list[int]], search: Search, n_best: int, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses for each row of `ids`, none of them special.

        `search` says how; `batch_tokens` are shared by all of a beam.
        """
        config, device = self.model.config, next(self.model.parameters()).device
        ids = [row + [config.eos_id] for row in ids]
        result: list[list[Hypothesis]] = [[] for _ in ids]
        for rows in group_by_length(ids, batch_tokens // search.beam):
            source = pad([ids[row] for row in rows], config.pad_id).to(device)
            if search.beam == n_best == 1:
                found = [[greedy] for greedy in greedy_search(self.model, source)]
            else:
                found = beam_search(
                    self.model, source, beam=search.beam, alpha=search.alpha, n_best=n_best
                )
            for row, hypotheses in zip(rows, found):
                result[row] = hypotheses
        return result


def tidied(sentences: Iterable[str]) -> list[str]:
    """Texts as in training; ValueError for one text in place of several."""
    if isinstance(sentences, str):
        raise ValueError("sentences is one text; expected a list of texts")
    return [tidy(sentence) for sentence in sentences]


def noted_search(notes: dict) -> Search:
    """What the recipe in a checkpoint's notes says of the search; greedy if it says nothing."""
    recipe = notes.get("recipe")
    kept = recipe.get("search", {}) if isinstance(recipe, dict) else {}
    found: Search = converted(kept, Search, "the recipe's search")
    return found


def group_by_length(ids: Sequence[list[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of rows of about equal length, each group within the budget."""
    rows: list[int] = []
    for row in sorted(range(len(ids)), key=lambda row: len(ids[row])):
        if rows and (len(rows) + 1) * len(ids[row]) > batch_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
