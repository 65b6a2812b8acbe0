"""§5.1, the named corpora of sentences: what is in them, whose they are, how to read them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from annotated.data.files import SHA256, DataFile, find
from annotated.data.text import Pair, Pairs


class Split(NamedTuple):
    """Its number of pairs, and its parts: two files, or one of two columns."""

    pairs: int
    parts: tuple[tuple[DataFile, ...], ...]


@dataclass(frozen=True)
class TextCorpus:
    """English sentences with their translations, in files that are not ours.

    `dev` and `test` name the splits to choose by and to report on;
    `split_of` tells the split of a sentence where all share one file.
    `find` looks for the files; `any_version` takes others of their names,
    such as a newer pack, whose scores don't compare.
    """

    name: str
    target: str
    splits: Mapping[str, Split]
    dev: str
    test: str
    licence: str
    home: str
    citation: str
    split_of: Callable[[str], str] | None = None
    source: str = "en"
    data_dir: str | PathLike[str] | None = None
    any_version: bool = False

    def pairs(self, split: str) -> Pairs:
        """Read anew in each iteration; hashes are checked once, here."""
        parts = [self._found(part) for part in self._parts(split)]
        if self.split_of is None:
            return Pairs(*parts)
        return Pairs(*parts, keep=lambda text: self.split_of(text) == split)

    def references(self, split: str) -> list[tuple[str, list[str]]]:
        """Each sentence to translate, with every right answer known.

        Where `split_of` is set, lines of one English sentence are one
        with several answers; else each line has its own.
        """
        if self.split_of is not None:
            return answers(self.pairs(split))
        return [(source, [target]) for source, target in self.pairs(split)]

    def _parts(self, split: str) -> tuple[tuple[DataFile, ...], ...]:
        if split not in self.splits:
            raise ValueError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return self.splits[split].parts

    def _found(self, part: tuple[DataFile, ...]) -> Path | tuple[Path, ...]:
        paths = [find(file, self.data_dir, self.any_version) for file in part]
        return tuple(paths) if len(paths) == 2 else paths[0]


def answers(pairs: Iterable[Pair]) -> list[tuple[str, list[str]]]:
    """Each source sentence once, with its different targets, in order."""
    found: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        found.setdefault(source, {})[target] = None
    return [(source, list(targets)) for source, targets in found.items()]


def tatoeba_split(english: str) -> str:
    """The split of an English sentence: 1 % are "test", 1 % are "val".

    By a hash of its words alone: all its translations, both language pairs
    and later packs agree, and no test sentence is trained on with another
    full stop, capital or form of an accent.
    """
    words = " ".join(re.findall(r"\w+", normalize("NFC", english).lower()))
    place = int.from_bytes(sha256(words.encode()).digest(), "big") % 100
    return {0: "test", 1: "val"}.get(place, "train")


def _file(name: str, *addresses: str) -> DataFile:
    return DataFile(name, SHA256[name], addresses)


_RAW = "https://raw.githubusercontent.com"
_MULTI30K = f"{_RAW}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
_NEWSTEST = (
    f"{_RAW}/Helsinki-NLP/OPUS-MT-testsets/ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180"
    "/datasets/statmt/wmt_newstest"
)
# The packer's own address has only the newest pack, whose hash no one can know beforehand.
_TATOEBA = {
    "de": (
        "deu-eng.zip",
        f"{_RAW}/rioyshky/translation/de48b7027f7318d77010a6e08ed928c10748c23d/deu-eng.zip",
    ),
    "fr": (
        "fra-eng.zip",
        f"{_RAW}/genimind/seq2seq/4f3f8eb0adde54fcc8b89394336b002e7961244c/fra-eng.zip",
    ),
}


def _multi30k(target: str) -> TextCorpus:
    def split(pairs: int, name: str) -> Split:
        files = (
            _file(f"multi30k/{name}.{language}", f"{_MULTI30K}/{name}.{language}.gz")
            for language in ("en", target)
        )
        return Split(pairs, (tuple(files),))

    return TextCorpus(
        name=f"multi30k-en-{target}",
        target=target,
        splits={
            "train": split(29_000, "train"),
            "val": split(1_014, "val"),
            "test2016": split(1_000, "test_2016_flickr"),
            "test2017": split(1_000, "test_2017_flickr"),
            "mscoco": split(461, "test_2017_mscoco"),
        },
        dev="val",
        test="test2016",
        licence="non-commercial research and education only (the terms of Flickr30K)",
        home="https://github.com/multi30k/dataset",
        citation="Elliott, Frank, Sima'an and Specia 2016 (W16-3210); Elliott, Frank, Barrault,"
        " Bougares and Specia 2017 (W17-4718)",
    )


def _tatoeba(target: str, train: int, val: int, test: int) -> TextCorpus:
    name, address = _TATOEBA[target]
    parts = ((_file(f"tatoeba/{name}", address),),)
    return TextCorpus(
        name=f"tatoeba-en-{target}",
        target=target,
        splits={
            "train": Split(train, parts),
            "val": Split(val, parts),
            "test": Split(test, parts),
        },
        dev="val",
        test="test",
        licence="CC BY 2.0",
        home="https://www.manythings.org/anki/",
        citation="sentence pairs from tatoeba.org, packed by www.manythings.org/anki, CC BY 2.0",
        split_of=tatoeba_split,
    )


_NEWSTEST_PAIRS = {
    2008: 2051, 2009: 2525, 2010: 2489, 2011: 3003, 2012: 3003, 2013: 3000, 2014: 3003,
}


def _newstest_split(target: str, year: int) -> Split:
    """Until 2013 all languages translate one text; in 2014 each pair has its own."""
    ours = f"en-{target}/" if year == 2014 else ""
    theirs = (f"{target}-en/", f"en-{target}/") if year == 2014 else ("",)
    files = (
        _file(
            f"newstest/{ours}newstest{year}.{language}",
            *(f"{_NEWSTEST}/{year}/{folder}newstest{year}.{language}" for folder in theirs),
        )
        for language in ("en", target)
    )
    return Split(_NEWSTEST_PAIRS[year], (tuple(files),))


def _newstest(target: str) -> TextCorpus:
    return TextCorpus(
        name=f"newstest-en-{target}",
        target=target,
        splits={f"newstest{year}": _newstest_split(target, year) for year in _NEWSTEST_PAIRS},
        dev="newstest2013",
        test="newstest2014",
        licence="for research; none is written with the files",
        home="https://www.statmt.org/wmt14/translation-task.html",
        citation="Bojar et al. 2014 (W14-3302) and the WMT findings of 2008 to 2013",
    )


_STATMT = "https://www.statmt.org"
# Where the files lie when all archives are unpacked in one folder, wmt14/: (stem, archive).
_WMT14 = {
    "de": (
        ("training/europarl-v7.de-en", f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz"),
        ("commoncrawl.de-en", f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz"),
        ("training/news-commentary-v9.de-en", f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz"),
    ),
    "fr": (
        ("training/europarl-v7.fr-en", f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz"),
        ("commoncrawl.fr-en", f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz"),
        ("training/news-commentary-v9.fr-en", f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz"),
        ("un/undoc.2000.fr-en", f"{_STATMT}/wmt13/training-parallel-un.tgz"),
        ("giga-fren.release2.fixed", f"{_STATMT}/wmt10/training-giga-fren.tar"),
    ),
}


def _wmt14(target: str, pairs: int) -> TextCorpus:
    """The paper's own corpus; its archives are the reader's to download and unpack.

    No hash is pinned: any files of these names are taken. Of the French ones
    the paper counts 36 million pairs, these archives 40.8 million: it doesn't
    say which it left out.
    """
    parts = tuple(
        tuple(DataFile(f"wmt14/{stem}.{side}", archive=archive) for side in ("en", target))
        for stem, archive in _WMT14[target]
    )
    tests = {f"newstest{year}": _newstest_split(target, year) for year in (2013, 2014)}
    return TextCorpus(
        name=f"wmt14-en-{target}",
        target=target,
        splits={"train": Split(pairs, parts), **tests},
        dev="newstest2013",
        test="newstest2014",
        licence="for research; see the home page for each part",
        home=f"{_STATMT}/wmt14/translation-task.html",
        citation="Bojar et al. 2014, Findings of the 2014 Workshop on Statistical Machine"
        " Translation (W14-3302)",
    )


def _all() -> Iterator[TextCorpus]:
    for target in ("de", "fr"):
        yield _multi30k(target)
    yield _tatoeba("de", train=166_293, val=1_753, test=1_767)
    yield _tatoeba("fr", train=139_842, val=1_462, test=1_483)
    for target in ("de", "fr"):
        yield _newstest(target)
    # 1 920 209 + 2 399 123 + 201 288; 2 007 723 + 3 244 152 + 183 251 + 12 886 831 + 22 520 376,
    # in the order of _WMT14. Empty lines are among them.
    yield _wmt14("de", 4_520_620)
    yield _wmt14("fr", 40_842_333)


TEXT_CORPORA = {corpus.name: corpus for corpus in _all()}


def text_corpus(
    name: str, data_dir: str | PathLike[str] | None = None, *, any_version: bool = False
) -> TextCorpus:
    """The corpus; ValueError with the names there are for an unknown one."""
    if name not in TEXT_CORPORA:
        raise ValueError(f"no corpus {name!r}; there are {', '.join(TEXT_CORPORA)}")
    return replace(TEXT_CORPORA[name], data_dir=data_dir, any_version=any_version)
