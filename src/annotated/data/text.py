"""§5.1, sentence pairs: read from files line by line, and cleaned with every loss counted."""

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from lzma import LZMAError
from os import PathLike
from pathlib import Path, PureWindowsPath
from typing import Any, cast
from unicodedata import normalize

TextPair = tuple[str, str]
File = str | PathLike[str]

# A line is all that is ever held of a file; one of this many bytes is no sentence.
LONGEST_LINE = 1 << 24

_STARTS = {".gz": b"\x1f\x8b", ".zip": b"PK"}
# What the modules for packed files raise: the last two for odd methods and places.
_DAMAGE = (EOFError, zlib.error, LZMAError, zipfile.BadZipFile, OSError, RuntimeError)
# A page may begin with a byte-order mark, XHTML's declaration or a comment; no sentence does.
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<(!--|(!doctype\s+)?html\b)", re.IGNORECASE
)


@contextmanager
def open_text(path: File) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """The bytes of a text: a plain file, a .gz, a .zip with one .txt in it.

    Raises ValueError that names the file if it is empty, an HTML page (what a
    failed download leaves), not of the kind its name says, or damaged. Damage
    further on shows when it is reached.
    """
    path = Path(path)
    kind = path.suffix.lower()
    try:
        with open(path, "rb") as raw:
            _check(path, raw.peek(), _STARTS.get(kind, b""))
            file: io.BufferedReader | gzip.GzipFile = raw
            if kind == ".gz":
                file = gzip.GzipFile(fileobj=raw)
            elif kind == ".zip":
                archive = zipfile.ZipFile(raw)
                member = archive.open(_only_text(path, archive))
                file = io.BufferedReader(cast(zipfile.ZipExtFile, member))
            with file:
                _check(path, file.peek(64), b"")
                yield file
    except _DAMAGE as error:
        if getattr(error, "filename", None):  # it can't be opened
            raise
        raise ValueError(f"{path} is damaged: {error}") from None


def _check(path: Path, start: bytes, wanted: bytes) -> None:
    if not start:
        raise ValueError(f"{path} is empty; expected one sentence a line")
    if _HTML.match(start):
        raise ValueError(f"{path} is an HTML page; expected text (is it a failed download?)")
    if not start.startswith(wanted):
        kind = path.suffix.lower()
        raise ValueError(f"{path} is no {kind} file: it begins with {start[:12]!r}")


def _only_text(path: Path, archive: zipfile.ZipFile) -> str:
    """The name of the one text, in a folder or not; "_about.txt" and "._deu.txt" are about it."""
    # PureWindowsPath: some programs write other separators than "/"
    names = [
        name for name in archive.namelist()
        if name.endswith(".txt") and PureWindowsPath(name).name[0] not in "_."
    ]
    if len(names) != 1:
        raise ValueError(f"{path} must hold one .txt file, not {', '.join(names) or 'none'}")
    return names[0]


def lines(path: File) -> Iterator[str]:
    """The lines of a UTF-8 text, without ends and without a byte-order mark.

    Only "\\n" ends a line: str.splitlines() would also cut at characters that
    occur inside sentences, such as U+0085 and U+2028, and shift one side of a
    corpus against the other. Raises what `open_text` raises, and ValueError
    for bytes that are not UTF-8, for an endless line, and for a file of many
    lines that carriage returns alone end.
    """
    with open_text(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise ValueError(f"{path}, line {number} fills {len(line)} bytes")
            if number == 1 and b"\r" in line.strip(b"\r\n") and not file.peek(1):
                raise ValueError(
                    f"{path} ends its lines with carriage returns; expected line feeds"
                )
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                place, byte = error.start + 1, line[error.start]
                raise ValueError(
                    f"{path}, line {number} is not UTF-8: byte 0x{byte:02x}"
                    f" at place {place}"
                ) from None
            yield text.removesuffix("\n")


class Pairs:
    """Sentence pairs in files, read anew, line by line, in each iteration.

    A part is two files, (source, target), where line n is the same sentence;
    or one file with both in tab-separated columns, the first two of a line.
    Parts follow one another. `keep` is asked about each source sentence.
    `list(pairs)` has all or raises; in a loop, ValueError comes where a fault
    is reached: a file shorter than the other, a line without two columns.
    """

    def __init__(
        self,
        *parts: File | tuple[File, File],
        keep: Callable[[str], bool] = lambda source: True,
    ) -> None:
        self.parts, self.keep = parts, keep

    def __iter__(self) -> Iterator[TextPair]:
        for part in self.parts:
            rows = _two_files(*part) if isinstance(part, tuple) else _two_columns(part)
            yield from (pair for pair in rows if self.keep(pair[0]))


def _two_files(source: File, target: File) -> Iterator[TextPair]:
    both = zip_longest(lines(source), lines(target))
    for number, (here, there) in enumerate(both):
        if here is None or there is None:
            names = (source, target) if here is None else (target, source)
            raise ValueError(
                f"{names[0]} ends after line {number} but {names[1]} goes on;"
                " line n of both must be the same sentence"
            )
        yield here, there


def _two_columns(path: File) -> Iterator[TextPair]:
    for number, line in enumerate(lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise ValueError(f"{path}, line {number} has no tab")
        yield columns[0], columns[1]


def texts(pairs: Iterable[TextPair]) -> Iterator[str]:
    """Both sides of each pair: what a shared vocabulary is learned from."""
    for pair in pairs:
        yield from pair


# Soft hyphen, zero-width space, byte-order mark. Not the joiners: they change what is written.
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\ufeff"))


def tidy(text: str) -> str:
    """One blank for each run of white space, none at the edges; in NFC.

    White space is Unicode's: no-break and thin spaces, tabs, a stray "\\r".
    Soft hyphens and other characters without width go, but for joiners. In
    Unicode's normal form C a letter and its accent are one character: the
    same word is always the same pieces.
    """
    return " ".join(normalize("NFC", text.translate(_INVISIBLE)).split())


def count_words(text: str) -> int:
    """How many words white space makes of a text."""
    return len(text.split())


@dataclass
class Counts:
    """What became of the pairs: read = kept + empty + too_long + uneven.

    `tidied` counts pairs that `tidy` changed, kept or not.
    """

    read: int = 0
    kept: int = 0
    empty: int = 0
    too_long: int = 0
    uneven: int = 0
    tidied: int = 0


@dataclass(frozen=True)
class Cleaning:
    """Which pairs are trained on. Test sets are never cleaned.

    A pair with an empty side is always dropped: it has nothing to learn from.
    """

    # Not in the paper: white space and accents in one form (`tidy`)
    tidy: bool = True
    # Not in the paper: drop a pair with more words on a side
    max_words: int | None = None
    # Not in the paper: drop a pair with so many times the other side's words
    max_ratio: float | None = None
    # drop a pair with more pieces on a side; 256 in the paper's code
    max_pieces: int | None = None

    def of_texts(self, pairs: Iterable[TextPair]) -> "Cleaned":
        """Sentence pairs that keep the rules about words."""
        rules = self.max_words, self.max_ratio, tidy if self.tidy else None
        return Cleaned(pairs, count_words, *rules)

    def of_ids(self, pairs: Iterable[tuple[list, list]]) -> "Cleaned":
        """Pairs of ids, none special, that keep the rule about pieces."""
        return Cleaned(pairs, len, self.max_pieces)


class Cleaned:
    """The pairs that pass, anew in each iteration.

    `length` measures a side; pairs with a side longer than `longest`, or more than `ratio` times
    as long as the other, are dropped (None: no limit). `change` is applied to both sides first.
    `counts` tells of the latest iteration, also while it runs.
    """

    def __init__(
        self,
        pairs: Iterable[tuple],
        length: Callable[[Any], int],
        longest: int | None = None,
        ratio: float | None = None,
        change: Callable[[str], str] | None = None,
    ) -> None:
        self.pairs, self.length = pairs, length
        self.longest, self.ratio, self.change = longest, ratio, change
        self.counts = Counts()

    def __iter__(self) -> Iterator[tuple]:
        counts = self.counts = Counts()
        for pair in self.pairs:
            counts.read += 1
            if self.change:
                before, pair = pair, tuple(map(self.change, pair))
                counts.tidied += pair != before
            short, long = sorted(map(self.length, pair))
            if short == 0:
                counts.empty += 1
            elif self.longest is not None and long > self.longest:
                counts.too_long += 1
            elif self.ratio is not None and long > self.ratio * short:
                counts.uneven += 1
            else:
                counts.kept += 1
                yield pair
