"""§5.1, §6.1: corpora of real sentences, scored by BLEU."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path

from msgspec import to_builtins

from annotated.analysis.scores import perplexity
from annotated.data.batches import Pair
from annotated.data.corpora import TextCorpus, text_corpus
from annotated.data.id_file import IdPairs, write_ids
from annotated.data.text import Cleaning, Counts, texts
from annotated.data.tokenizer import Tokenizer
from annotated.files import write_json
from annotated.recipes.corpus import Report, as_ids, batches_of
from annotated.records import as_metrics
from annotated.translation import Translator
from annotated.translation.bleu import Bleu, bleu_13a, bleu_literature

WATCHED = 1000  # pairs of the development set that a look during training reads


@dataclass(frozen=True)
class Text:
    """A corpus of `annotated.data.corpora`, cleaned and cut into pieces.

    The vocabulary of both languages is one: bytes, special ids and
    `merges`, from the cleaned training text. `pairs` not None: only the
    first so many, for a trial.
    """

    name: str
    merges: int
    cleaning: Cleaning = Cleaning(max_pieces=256)
    pairs: int | None = None
    data_dir: str | None = None
    any_version: bool = False

    def __post_init__(self):
        if self.pairs is not None and self.pairs < 1:
            raise ValueError(f"pairs is {self.pairs}; expected at least 1, or None for all")

    def corpus(self) -> TextCorpus:
        return text_corpus(self.name, self.data_dir, any_version=self.any_version)

    def read(self) -> Iterable[tuple[str, str]]:
        """The training sentences, uncleaned, anew in each iteration."""
        return Limited(self.corpus().pairs("train"), self.pairs)

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.train(texts(self.cleaning.of_texts(self.read())), self.merges)

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[Sequence[Pair], list[str]]:
        """In memory, or in a file of the folder, from which they are mapped.

        A file from an earlier start is taken as it is.
        """
        words = self.cleaning.of_texts(self.read())
        pieces = self.cleaning.of_ids(as_ids(words, tokenizer))
        if folder is None:
            return list(pieces), said(words.counts, pieces.counts)
        path, note = folder / "train.ids", folder / "cleaning.json"
        if not (note.exists() and path.exists()):  # the note is written last
            write_ids(path, pieces, tokenizer.vocab_size)
            counts = {"words": asdict(words.counts), "pieces": asdict(pieces.counts)}
            write_json(note, counts)
        try:
            return IdPairs(path), said(*counted(note))
        except ValueError as error:
            raise ValueError(f"{error}; delete it to have it made again") from None

    def dev(self, tokenizer: Tokenizer, count: int | None = None) -> list[Pair]:
        """The development set as ids, uncleaned but for white space."""
        corpus = self.corpus()
        rules = Cleaning(tidy=self.cleaning.tidy)
        pairs = rules.of_texts(islice(corpus.pairs(corpus.dev), count))
        return list(as_ids(pairs, tokenizer))

    def perplexity(self, translator: Translator, count: int | None = None) -> float:
        pairs = self.dev(translator.tokenizer, count)
        return perplexity(translator.model, batches_of(pairs, translator.tokenizer))

    def watch(self, translator: Translator) -> dict[str, float]:
        """Perplexity on the first sentences of the development set."""
        return {"perplexity": round(self.perplexity(translator, WATCHED), 4)}

    def say(self, watched: dict[str, float]) -> str:
        return f"perplexity {watched['perplexity']:.2f} on {self.corpus().dev}"

    def bleus(
        self, answers: Sequence[str], asked: Sequence[tuple[str, list[str]]]
    ) -> Iterator[Bleu]:
        """§6.1: 13a, then the literature's: ImportError where sacremoses is not."""
        references = list(zip_longest(*(targets for _, targets in asked)))
        yield bleu_13a(answers, references)
        yield bleu_literature(answers, references, self.corpus().target)

    def test(self, translator: Translator) -> Report:
        """Both BLEUs of the test set by greedy search; the dev set's perplexity.

        Without sacremoses there is no BLEU of the literature; the
        translations are there to compute it from.
        """
        corpus = self.corpus()
        asked = corpus.references(corpus.test)
        answers = translator.translate([source for source, _ in asked])
        found, lines = [], []
        try:
            found.extend(self.bleus(answers, asked))
        except ImportError as error:
            lines = [f"no BLEU of the literature: {error}"]
        unsure = round(self.perplexity(translator), 4)
        metrics = {bleu.name: bleu.metric for bleu in found}
        metrics |= as_metrics({"perplexity": unsure, "tested": len(asked)})
        lines = [
            f"{bleu.name} {bleu.value:.2f} on {corpus.test}, {len(asked)} sentences "
            f"({bleu.signature})"
            for bleu in found
        ] + [f"perplexity {unsure:.3f} on {corpus.dev}", *lines]
        facts = {"test": corpus.test, "dev": corpus.dev, "metrics": to_builtins(metrics)}
        return Report(metrics, lines, facts, answers)


@dataclass(frozen=True)
class Limited:
    """The first so many of what can be read again and again."""

    items: Iterable
    count: int | None

    def __iter__(self) -> Iterator:
        return islice(iter(self.items), self.count)


def counted(note: Path) -> tuple[Counts, Counts]:
    """What a note tells of cleaning, by words and by pieces; ValueError if it is damaged."""
    try:
        told = json.loads(note.read_bytes())
        found = Counts(**told["words"]), Counts(**told["pieces"])
    except (ValueError, KeyError, TypeError, RecursionError):
        found = ()
    if not found or any(type(n) is not int for counts in found for n in vars(counts).values()):
        raise ValueError(f"{note} is damaged")
    return found


def said(words: Counts, pieces: Counts) -> list[str]:
    """What cleaning did, in words: never silent."""
    left_out = {
        "empty": words.empty + pieces.empty, "too many words": words.too_long,
        "lengths too far apart": words.uneven, "too many pieces": pieces.too_long,
    }
    reasons = ", ".join(f"{count} {why}" for why, count in left_out.items() if count)
    line = f"{pieces.kept} of {words.read} training pairs kept"
    line += f" ({words.tidied} tidied)" * (words.tidied > 0)
    return [f"{line}; left out: {reasons}" if reasons else line]
