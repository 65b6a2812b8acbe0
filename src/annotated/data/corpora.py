"""§5.1, corpora of sentences in files: what is in them, whose they are, how to read them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from annotated.data.files import DataFile, Folder, find
from annotated.data.text import Pairs, TextPair


class Split(NamedTuple):
    """Its number of pairs, where it is known, and its parts: two files, or one of two columns."""

    pairs: int | None
    parts: tuple[tuple[DataFile, ...], ...]


@dataclass(frozen=True)
class TextCorpus:
    """Sentences with their translations, in files that are not ours."""

    # name, in commands
    name: str
    # target language, such as "de"
    target: str
    # name → number of pairs and files
    splits: Mapping[str, Split]
    # split to choose by
    dev: str
    # split to report on
    test: str
    # under which the files may be used
    licence: str = ""
    # where they are from
    home: str = ""
    # whom to cite
    citation: str = ""
    # the split of a source sentence, where all splits share one file
    split_of: Callable[[str], str] | None = None
    # source language
    source: str = "en"
    # where `find` looks for the files first
    data_dir: Folder = None
    # take others of their names, such as a newer pack, whose scores don't compare
    any_version: bool = False

    @classmethod
    def of_files(
        cls, train: Sequence[Folder], dev: Sequence[Folder], test: Sequence[Folder],
        source: str = "", target: str = "", data_dir: Folder = None,
    ) -> "TextCorpus":
        """A reader's own files, here or in a data folder.

        train, dev, test: two files each, source and target, of which line n
            is the same sentence, or one with both in tab-separated columns;
            plain, .gz or .zip.
        source, target: the languages, such as "en" and "de".
        data_dir: where else to look for the files.
        """
        splits = {}
        for name, files in {"train": train, "dev": dev, "test": test}.items():
            if isinstance(files, str) or len(files) not in (1, 2):
                raise ValueError(
                    f"{name} is {files!r}; expected two files, source and target, or one TSV"
                )
            part = tuple(DataFile(str(file), own=True) for file in files)
            splits[name] = Split(None, (part,))
        return cls("own files", target, splits, "dev", "test", source=source, data_dir=data_dir)

    def pairs(self, split: str) -> Pairs:
        """Read anew in each iteration; hashes are checked once, here."""
        parts = [self._found(part) for part in self._parts(split)]
        split_of = self.split_of
        if split_of is None:
            return Pairs(*parts)
        return Pairs(*parts, keep=lambda text: split_of(text) == split)

    def references(self, split: str) -> list[tuple[str, list[str]]]:
        """Each sentence to translate, with every right answer known.

        Where `split_of` is set, lines of one English sentence are one
        with several answers; else each line has its own.
        """
        if self.split_of is not None:
            return answers(self.pairs(split))
        return [(source, [target]) for source, target in self.pairs(split)]

    def tested_on(self, split: str) -> "TextCorpus":
        """The same corpus, to report on another split, by its name or that of its files."""
        if split not in self.splits:
            stems = {
                name: {Path(file.name).name.split(".")[0] for part in parts for file in part}
                for name, (_, parts) in self.splits.items()
            }
            of_file = [name for name, found in stems.items() if found == {split}]
            split = of_file[0] if len(of_file) == 1 else split
        self._parts(split)  # refuses one that there is not
        return replace(self, test=split)

    def _parts(self, split: str) -> tuple[tuple[DataFile, ...], ...]:
        if split not in self.splits:
            raise ValueError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return self.splits[split].parts

    def _found(self, part: tuple[DataFile, ...]) -> Path | tuple[Path, Path]:
        paths = [find(file, self.data_dir, self.any_version) for file in part]
        return (paths[0], paths[1]) if len(paths) == 2 else paths[0]


def answers(pairs: Iterable[TextPair]) -> list[tuple[str, list[str]]]:
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


# SHA-256 of the texts, by name. The .gz and .zip files around them may differ.
SHA256 = dict(
    row.split()
    for row in """\
multi30k/train.en 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
multi30k/train.de 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
multi30k/train.fr 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
multi30k/val.en 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
multi30k/val.de 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
multi30k/val.fr 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
multi30k/test_2016_flickr.en 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
multi30k/test_2016_flickr.de 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
multi30k/test_2016_flickr.fr cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
multi30k/test_2017_flickr.en ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98
multi30k/test_2017_flickr.de c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081
multi30k/test_2017_flickr.fr 6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6
multi30k/test_2017_mscoco.en 43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2
multi30k/test_2017_mscoco.de 58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22
multi30k/test_2017_mscoco.fr 39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0
newstest/newstest2008.en 8d59671da8f5f9de57e23815667b63cc12f2214ffe19c5b83468f0d9dcae3f0b
newstest/newstest2008.de dcfa33f2b619290c409892cc1b386fde3961b04cdf0ba72d5683f4f32e58eac6
newstest/newstest2008.fr 4b1341ff21cf3d8c3066c6fc28e59d1b1b32bf43cc9bcb85a08c4e4b287f5659
newstest/newstest2009.en c74a4862decfe87f88fb10eacdcb6ac972a648f0dd6deeb25ac2dbc6128dc0b6
newstest/newstest2009.de 41f7d4a766a99f78646474dbd21af0dd0285a5dad5c48d1b627334c11a1771d9
newstest/newstest2009.fr 0ca4995d1dff341488287e1f9d4230073a20bc6e43e268ebf5e7b476f526c07d
newstest/newstest2010.en 1ebece77e333965cbc66fde735a6f17e026b4d6690f4f7fdaba839b7bdadac3b
newstest/newstest2010.de 4f4b02d3abe150ca47a745d138d90f688edb20dd2d2fedca16aa05fd1e2018b1
newstest/newstest2010.fr 131ee7deb0ea517bdd6a85ca5f6f5ca3136c5f76daba426ef4dde3d60b9e66a9
newstest/newstest2011.en d387569743c0fa9097df4d4e2c1dd9e6ba9ef3cee6e0f473da3204c887dcf8fd
newstest/newstest2011.de 033bc05659f61c5e51170973267d21e23a9a968557b866f3842c92e416a60e1b
newstest/newstest2011.fr 9631ea545acf4b921add6baba856b03efae9f0de4c330a314091b3f925506c7f
newstest/newstest2012.en f9e51f85c4948033fc7d77ef427f4d88908a8dd3f778970f62d0baafac3ff97e
newstest/newstest2012.de 946b9587b79271b0f3ce9cc8c0e5b310e3021ef598e1ba5dc2a24fef8960de30
newstest/newstest2012.fr 29aa5aff172127f6adf5625cc2f8e44f579d524700e84f1ec0eb14f4f19719e4
newstest/newstest2013.en ace268a1d9724ca76f6d8e5c720ffdc08f01bdce45630ed8b269dc7918e1c16e
newstest/newstest2013.de d7ea35ab91ff3709e03ad9cb6bf5b4f2cc775cd2d72efd5254c4aec5e69663ca
newstest/newstest2013.fr 909b63be5df3eb8c13e1d5967bf3f0adfdb9f6ed5e638c5bffff563ee2ff7f41
newstest/en-de/newstest2014.en 7294bccf2879a97b3706b95c9595f1459617a8ee7130d5d8581c910e69736971
newstest/en-de/newstest2014.de ae5d110486bc33d7175e9e28c7d0051eb3e5fcd2166dd93371089852c091a20e
newstest/en-fr/newstest2014.en 9a12cb6e8efb3509ebede627e4a9c83ee64935509d561ff70f4b7bd5f93f6096
newstest/en-fr/newstest2014.fr 2bd07dc204f965bf88e90adb6223a8cb850f9bf9840df6af1f4945195936656e
tatoeba/deu-eng.zip a79c90b3cd3102decffa49cc00fb6f20023974f2ae5c4782515bebe133fcc07b
tatoeba/fra-eng.zip 2546838ae46e0eac4c02ab7032ea0a02a006074a5340077a36a9444f41e02888
""".splitlines()
)


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
    name: str, data_dir: Folder = None, *, any_version: bool = False
) -> TextCorpus:
    """The corpus; ValueError with the names there are for an unknown one."""
    if name not in TEXT_CORPORA:
        raise ValueError(f"no corpus {name!r}; there are {', '.join(TEXT_CORPORA)}")
    return replace(TEXT_CORPORA[name], data_dir=data_dir, any_version=any_version)
