"""Sentences in, sentences out: one path for pages, tests and commands."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from annotated.data.batches import pad
from annotated.data.text import tidy
from annotated.data.tokenizer import Tokenizer
from annotated.model.contract import Seq2Seq
from annotated.translation.checkpoints import load_checkpoint
from annotated.translation.search import greedy_search

LONGEST = 20_000  # characters of a sentence: time and memory grow faster than its length


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(
        folder.name for folder in files("annotated").joinpath("weights").iterdir()
        if folder.joinpath("config.json").is_file()
    )


class Translator:
    """A trained model with its tokenizer, and what its maker noted."""

    def __init__(self, model: Seq2Seq, tokenizer: Tokenizer, notes: dict | None = None):
        self.model, self.tokenizer, self.notes = model, tokenizer, notes or {}

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

    def translate(self, sentences: Iterable[str], batch_tokens: int = 8192) -> list[str]:
        """One translation a sentence, in order, by greedy search.

        White space is tidied as in training. Sentences of about equal length
        are translated together, at most `batch_tokens` at a time, padding
        included. Raises ValueError for a sentence with nothing in it, and for
        one of more than `LONGEST` characters.
        """
        if isinstance(sentences, str):
            raise ValueError("sentences is one text; expected a list of texts")
        sentences = [tidy(sentence) for sentence in sentences]
        if "" in sentences:
            raise ValueError(
                f"sentence {sentences.index('') + 1} is empty; expected at least one word"
            )
        for number, sentence in enumerate(sentences, 1):
            if len(sentence) > LONGEST:
                raise ValueError(
                    f"sentence {number} has {len(sentence)} characters; "
                    f"expected at most {LONGEST}: give it sentence by sentence"
                )
        config, device = self.model.config, next(self.model.parameters()).device
        ids = [row + [config.eos_id] for row in self.tokenizer.encode_batch(sentences)]
        translations = [""] * len(ids)
        for rows in group_by_length(ids, batch_tokens):
            source = pad([ids[row] for row in rows], config.pad_id).to(device)
            for row, found in zip(rows, greedy_search(self.model, source)):
                translations[row] = self.tokenizer.decode(found.tokens)
        return translations


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
