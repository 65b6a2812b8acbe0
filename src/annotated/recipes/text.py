"""§5.1, §6.1: tasks of real sentences in files, scored by BLEU."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path

from annotated.analysis.scores import perplexity
from annotated.data.batches import IdPair
from annotated.data.corpora import TextCorpus, text_corpus
from annotated.data.files import Folder
from annotated.data.id_file import IdPairs, write_ids
from annotated.data.text import Cleaned, Cleaning, Counts, texts, tidy
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.files import read_document, write_json
from annotated.recipes.task import Report, as_ids, batches_of, check_range
from annotated.records import as_metrics
from annotated.translation import Translator
from annotated.translation.bleu import (
    LANGUAGES,
    CorpusScore,
    bleu_13a,
    bleu_literature,
    chrf,
)


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """Sentences in files, cleaned and cut into pieces; a subclass says which files.

    The vocabulary of both languages is one: bytes, special ids and merges,
    learned from the cleaned training text.
    """

    # merges of byte-pair encoding; the vocabulary has 259 ids more
    merges: int = 6000
    # which training pairs are left out
    cleaning: Cleaning = Cleaning(max_pieces=256)
    # the first so many training pairs, for a trial; None: all
    pairs: int | None = None
    # development pairs that a look during training reads
    watched: int = 1000

    def __post_init__(self):
        check_range(self, "merges", 0, 10**6)
        check_range(self, "watched", 1, 10**6)
        if self.pairs is not None and self.pairs < 1:
            raise ValueError(f"pairs is {self.pairs}; expected at least 1, or None for all")

    @property
    def vocab_size(self) -> int:
        return SMALLEST + self.merges

    def text_corpus(self, data_dir: Folder = None) -> TextCorpus:
        raise NotImplementedError

    def open(self, data_dir: Folder = None, training: bool = True) -> "TextData":
        return TextData(self, self.text_corpus(data_dir), training)


@dataclass(frozen=True)
class CorpusTask(TextTask):
    """A corpus of `annotated.data.corpora`."""

    # name of the corpus
    corpus: str = "tatoeba-en-de"
    # take files of other content, whose scores don't compare
    any_version: bool = False

    def text_corpus(self, data_dir: Folder = None) -> TextCorpus:
        return text_corpus(self.corpus, data_dir, any_version=self.any_version)


@dataclass(frozen=True)
class FilesTask(TextTask):
    """A reader's own files: two (line n of both is one sentence pair), or one TSV; plain or .gz."""

    # training files: source and target, or one of two columns
    train: tuple[str, ...]
    # development files, looked at during training
    dev: tuple[str, ...]
    # test files, that the report is about
    test: tuple[str, ...]
    # source language, such as en
    source: str = ""
    # target language; de, en and fr also have the literature's BLEU
    target: str = ""

    def __post_init__(self):
        super().__post_init__()
        self.text_corpus()  # refuses three files

    def text_corpus(self, data_dir: Folder = None) -> TextCorpus:
        return TextCorpus.of_files(
            self.train, self.dev, self.test, self.source, self.target, data_dir
        )


class TextData:
    """The sentence pairs of a `TextTask`, found, and checked as far as can be beforehand.

    task: how they are cleaned and cut.
    corpus: where they are.
    training: whether the training set is needed.
    """

    def __init__(self, task: TextTask, corpus: TextCorpus, training: bool = True):
        self.task, self.corpus = task, corpus
        self.train = corpus.pairs("train") if training else None
        self.dev, self.references = corpus.pairs(corpus.dev), corpus.references(corpus.test)
        for name, pairs in (("training", self.train), ("development", self.dev)):
            if pairs is not None and next(iter(pairs), None) is None:
                raise ValueError(f"the {name} set of {corpus.name} is empty")
        if not self.references:
            raise ValueError(f"the test set of {corpus.name} is empty")
        for number, (asked, answers) in enumerate(self.references, 1):
            if not all(map(tidy, (asked, *answers))):
                raise ValueError(f"sentence {number} of the test set of {corpus.name} is empty")
        for _ in self.dev:  # a damaged line is found now rather than after training
            pass

    def read(self) -> "Limited":
        """The sentence pairs to train on, before cleaning, anew in each iteration."""
        if self.train is None:
            raise ValueError("the data were opened without the training set")
        return Limited(self.train, self.task.pairs)

    def cleaned(self) -> Cleaned:
        """Those that keep the rules about words."""
        return self.task.cleaning.of_texts(self.read())

    def tokenizer(self) -> Tokenizer:
        """The shared vocabulary, from cleaned training text."""
        return Tokenizer.train(texts(self.cleaned()), self.task.merges)

    def training_ids(
        self, tokenizer: Tokenizer, seed: int, folder: Path | None = None
    ) -> tuple[list[IdPair] | IdPairs, list[str]]:
        """In memory, or in a file of the folder, from which they are mapped.

        A file from an earlier start is taken as it is.
        """
        words = self.cleaned()
        pieces = self.task.cleaning.of_ids(as_ids(words, tokenizer))
        if folder is None:
            return list(pieces), describe(CleaningCounts(words.counts, pieces.counts))
        path, note = folder / "train.ids", folder / "cleaning.json"
        if not (note.exists() and path.exists()):  # the note is written last
            write_ids(path, pieces, tokenizer.vocab_size)
            write_json(note, asdict(CleaningCounts(words.counts, pieces.counts)))
        try:
            return IdPairs(path), describe(read_document(note, CleaningCounts))
        except ValueError as error:
            raise ValueError(f"{error}; delete it to have it made again") from None

    def held_out_ids(self, tokenizer: Tokenizer, count: int | None = None) -> list[IdPair]:
        """The development set as ids, uncleaned but for white space."""
        rules = Cleaning(tidy=self.task.cleaning.tidy)
        return list(as_ids(rules.of_texts(islice(self.dev, count)), tokenizer))

    def perplexity(self, translator: Translator, count: int | None = None) -> float:
        """Of the first `count` pairs of the development set."""
        pairs = self.held_out_ids(translator.tokenizer, count)
        value = perplexity(translator.model, batches_of(pairs, translator.tokenizer))
        return round(value, 4)

    def watch(self, translator: Translator) -> dict[str, float]:
        """Perplexity on the first sentences of the development set."""
        return {"perplexity": self.perplexity(translator, self.task.watched)}

    def scores(self, answers: Sequence[str]) -> tuple[list[CorpusScore], list[str]]:
        """§6.1: of translations of the test set: BLEU (13a), chrF, the literature's BLEU.

        The last is left out, and a note says why, without sacremoses, or
        for a language that it has no rules for.
        """
        references = list(zip_longest(*(targets for _, targets in self.references)))
        scores = [bleu_13a(answers, references), chrf(answers, references)]
        target = self.corpus.target
        if target not in LANGUAGES:
            why = f"the target language is {target or 'not given'}; there are {LANGUAGES}"
            return scores, [f"no BLEU of the literature: {why}"]
        try:
            return [*scores, bleu_literature(answers, references, target)], []
        except ImportError as error:
            return scores, [f"no BLEU of the literature: {error}"]

    def test(self, translator: Translator) -> Report:
        """BLEUs and chrF of the test set by the translator's search; the dev set's perplexity.

        The translations are there to score them again elsewhere.
        """
        answers = translator.translate([source for source, _ in self.references])
        scores, notes = self.scores(answers)
        measured = {"perplexity": self.perplexity(translator), "tested": len(answers)}
        metrics = {score.name: score.metric for score in scores} | as_metrics(measured)
        return Report(metrics, translations=answers, notes=notes)


@dataclass(frozen=True)
class Limited:
    """The first so many of what can be read again and again."""

    items: Iterable
    count: int | None

    def __iter__(self) -> Iterator:
        return islice(iter(self.items), self.count)


@dataclass(frozen=True)
class CleaningCounts:
    """What became of the training pairs: by the rules about words, then by those about pieces."""

    words: Counts
    pieces: Counts


def describe(counts: CleaningCounts) -> list[str]:
    """What cleaning did, in words: never silent."""
    words, pieces = counts.words, counts.pieces
    left_out = {
        "empty": words.empty + pieces.empty, "too many words": words.too_long,
        "lengths too far apart": words.uneven, "too many pieces": pieces.too_long,
    }
    reasons = ", ".join(f"{count} {why}" for why, count in left_out.items() if count)
    line = f"{pieces.kept} of {words.read} training pairs kept"
    line += f" ({words.tidied} tidied)" * (words.tidied > 0)
    return [f"{line}; left out: {reasons}" if reasons else line]
