"""What the tests of the recipes share: a recipe of a second, and corpora laid out as their own."""

import os
import random
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from annotated import cli
from annotated.data import numbers
from annotated.data.corpora import TEXT_CORPORA
from annotated.recipes import Recipe

Pairs = Sequence[tuple[str, str]]


@pytest.fixture(scope="session")
def miniature(letters) -> Recipe:
    """Three letters at most, five updates."""
    return letters("copy-three", steps=5)


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """No test finds corpora that it was not given, or downloads any."""
    monkeypatch.delenv("ANNOTATED_DATA", raising=False)
    monkeypatch.setattr("annotated.data.files.cache_folder", lambda: None)


def sentences(count: int, seed: int, target: str = "de") -> list[tuple[str, str]]:
    """Different sentence pairs: some numbers in words, two or three in each."""
    drawn = numbers.draw(5 * count, seed, lambda number: True)
    rng, found = random.Random(seed), {}
    while len(found) < count:
        some = [drawn.pop() for _ in range(rng.choice((2, 3)))]
        pairs = numbers.pairs(some, "en", target)
        one, other = (", ".join(side).capitalize() + "." for side in zip(*pairs, strict=True))
        found[one] = other
    return list(found.items())


def write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def lay_out(folder: Path, name: str, train: Pairs, dev: Pairs, test: Pairs) -> list[Path]:
    """Sentences in the files that the corpus of that name is read from.

    The training set is dealt out among its parts; they are read one after the other.
    """
    corpus, written = TEXT_CORPORA[name], []
    for split, pairs in (("train", train), (corpus.dev, dev), (corpus.test, test)):
        parts = corpus.splits[split].parts
        size = -(-len(pairs) // len(parts))
        for place, part in enumerate(parts):
            some = pairs[place * size : (place + 1) * size]
            if len(part) == 1:
                path = folder / part[0].name
                path.parent.mkdir(parents=True, exist_ok=True)
                rows = [f"{one}\t{other}\tCC-BY 2.0" for one, other in (*train, *dev, *test)]
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr("deu.txt", "\n".join(rows) + "\n")
                written.append(path)
                continue
            for file, side in zip(part, zip(*some, strict=True), strict=True):
                write(folder / file.name, side)
                written.append(folder / file.name)
    return written


# Functions handed out as fixtures of the whole session: nothing has to be importable from here.


@pytest.fixture(scope="session")
def made() -> Callable[..., list[tuple[str, str]]]:
    return sentences


@pytest.fixture(scope="session")
def laid_out() -> Callable[..., list[Path]]:
    return lay_out


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The real corpora, where they are: in $ANNOTATED_DATA, or beside this checkout."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("ANNOTATED_DATA") or beside)
    if not (folder / "newstest").is_dir():
        pytest.skip("no real corpora: neither in $ANNOTATED_DATA nor in ../shared/data")
    return folder


@pytest.fixture
def command(monkeypatch, capsys):
    """command("train", …) runs main in this process: (status, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annotated", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    return run
