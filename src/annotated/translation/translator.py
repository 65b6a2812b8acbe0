"""Sentences in, sentences out: one path for pages, tests and commands."""

from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from annotated.data.batches import pad
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer
from annotated.training.checkpoints import load_checkpoint
from annotated.translation.search import greedy_search


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(
        folder.name for folder in files("annotated").joinpath("weights").iterdir()
        if folder.joinpath("config.json").is_file()
    )


class Translator:
    """A trained model with its tokenizer, and what its maker noted."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, notes: dict | None = None):
        self.model, self.tokenizer, self.notes = model, tokenizer, notes or {}

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

    def translate(self, sentences: Sequence[str], batch_size: int = 256) -> list[str]:
        """One translation a sentence, in order, by greedy search.

        Raises ValueError for a sentence with nothing in it.
        """
        for number, sentence in enumerate(sentences, 1):
            if not sentence.strip():
                raise ValueError(f"sentence {number} is empty; expected at least one word")
        eos, pad_id = self.model.config.eos_id, self.model.config.pad_id
        ids = [row + [eos] for row in self.tokenizer.encode_batch(list(sentences))]
        out = []
        for start in range(0, len(ids), batch_size):
            source = pad(ids[start : start + batch_size], pad_id)
            source = source.to(next(self.model.parameters()).device)
            out += [self.tokenizer.decode(h.tokens) for h in greedy_search(self.model, source)]
        return out
