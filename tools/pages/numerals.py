"""Numerals in prose, and whether an output of their page shows them.

A numeral is shown by a printed number that, rounded to the precision of the numeral, is the
numeral. `81 %` may also stand for 0.81, `0.95 million` for 949 888. Short numbers are printed
somewhere on nearly every page, so a line of output answers only for the prose of its own section,
and for numerals that have a word near them which the line has too; and a share in per cent only for
one. Of one digit only those are looked at that are surely
quantities: `0.9`, `6 %`, `1e-9`, `4 heads`; the others are mostly names (head 2, layer 0).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from pages.page import Cell, Page
from pages.reading import calls_only

# What stands between thousands.
GAP = r"(?:[\u00a0\u202f\u2009\u2008 _,]|\\[,; ]|\{,\}|&nbsp;|&thinsp;|&#8239;|&#160;)"
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
SCALES = {"thousand": 3, "k": 3, "K": 3, "million": 6, "M": 6, "billion": 9}

# Where a figure is a name and not a number. Order matters: addresses first, then references.
NOT_NUMBERS = [
    r"^ *(?:`{3,}|~{3,}|:{3,})[^\n]*$",  # the opening line of a fence or directive
    r"^ *:[\w-]+:[^\n]*$",  # an option of a directive
    r"^ *\([\w.-]+\)= *$",  # a target
    r"\{[\w:+-]+\}`[^`]*`",  # a role: citations, references
    r"(?<=\])\([^)\s]*\)",  # the target of a link
    r"<code>.*?</code>|</?[A-Za-z!][^<>]*>|<https?:[^>]*>|https?://\S+",
    r"\{[#.][^}]*\}|\[\^[^\]]*\]|\[@[^\]]*\]",  # attributes, footnotes
    r"^#+ +[\d.]+",  # the number of a section in its heading
    r"(?<=\[)§? ?\d+(?:\.\d+)*(?=[ \]])",  # the same in the text of a link
    r"(?:§§?|\b(?:[Ss]ections?|[Cc]hapters?|[Ff]ig(?:ure)?s?\.?|[Tt]ables?|[Ee]q(?:uation)?s?\.?|[Ee]xercises?"
    r"|[Ff]ootnotes?|[Aa]ppendix|[Pp]arts?|[Pp]ages?))[\s\u00a0\u202f]*\(?\d+(?:\.\d+)*\)?"
    r"(?:(?:[,–-]| and| or| to)\s*\(?\d+(?:\.\d+)*\)?(?![\d%]))*",
    r"\b\d+\.\d+\.\d+(?:\.\d+)*\b",  # a section or a version without its word
    r"\b(?:arXiv:? ?|Python |PyTorch |torch |CUDA |[Vv]ersion |Book |Matplotlib )[\d.]*\d",
    r"\b(?:[Ii]n|[Ss]ince|[Uu]ntil|[Bb]y|[Bb]efore|[Aa]fter|NIPS|WMT|al\.,?)\s\(?(?:19[5-9]\d|20[0-3]\d)\b",
    r"\((?:[^()]*[ ,])?(?:19[5-9]\d|20[0-3]\d)[a-z]?\)",  # (Vaswani et al., 2017)
    r"_\{[^{}]*\}|_\d+|(?<!10)\^\{[^{}]*\}",  # subscripts and powers
    r"\b\d+-bit\b",
]

NUMBER = re.compile(
    rf"(?<![A-Za-z\d])(?<![A-Za-z\d][_.])(?P<whole>\d{{1,3}}(?:{GAP}\d{{3}})+(?!\d)|\d+)(?:\.(?P<part>\d+))?"
    r"(?:[eE](?P<e>[-+−]?\d+)"
    r"|[\s\u00a0\u202f\u2009]*(?:×|·|\\times|\\cdot)[\s\u00a0\u202f\u2009]*10"
    r"(?:\^\{?(?P<power>[-+−]?\d+)\}?|(?P<super>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
    r"|(?P<ten>(?<=\b10)(?:\^\{?(?P<power10>[-+−]?\d+)\}?|(?P<super10>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))))?"
    r"(?P<percent>[\s\u00a0\u202f\u2009]*(?:\\?%|per ?cent\b))?"
    r"(?:[\s\u00a0\u202f\u2009]*(?P<scale>thousand|million|billion|[kKM])\b)?"
)


@dataclass(frozen=True)
class Numeral:
    """A number as typed: its value, the size of its last digit, and how many digits it shows."""

    text: str
    value: Decimal
    step: Decimal
    digits: int
    percent: bool = False
    scale: int = 0

    def readings(self) -> Iterator[tuple[Decimal, Decimal]]:
        """(value, step) of each way to read it: 81 % is 81 or 0.81, 65 million 65 or 65e6."""
        yield self.value, self.step
        shift = -2 if self.percent else self.scale
        if shift:
            yield self.value.scaleb(shift), self.step.scaleb(shift)


def scan(text: str) -> Iterator[list[Numeral]]:
    """Every number in a text as the list of its readings."""
    yield from map(_readings, NUMBER.finditer(text))


def _readings(match: re.Match) -> list[Numeral]:
    """A number as typed; 12 345 is also 12 and 345 apart, as no number starts with 0."""
    parts = re.split(GAP, match["whole"])
    apart = len(parts) > 1 and not any(part.startswith("0") for part in parts)
    return [_numeral(match, "".join(parts)), *(map(_plain, parts) if apart else ())]


def _plain(digits: str) -> Numeral:
    return Numeral(digits, Decimal(digits), Decimal(1), len(digits.lstrip("0")))


def _numeral(match: re.Match, whole: str) -> Numeral:
    part = match["part"] or ""
    shown = (whole + part).lstrip("0")
    power = match["e"] or match["power"] or match["super"] or match["power10"] or match["super10"]
    exponent = int(power.translate(SUPERSCRIPTS)) if power else 0
    if match["ten"]:  # 10^6 is one digit and its exponent
        exponent, shown = exponent - 1, "1"
    # A number from somewhere else may carry any exponent; beyond these no prose numeral can match.
    exponent = max(-300, min(300, exponent))
    return Numeral(
        match[0].strip(),
        Decimal(f"{whole}.{part or 0}").scaleb(exponent),
        Decimal(1).scaleb(exponent - len(part)),
        len(shown),
        bool(match["percent"] or IN_PERCENT.match(match.string, match.end())),
        SCALES.get(match["scale"] or "", 0),
    )


NEAR = 40  # characters on each side of a numeral, in which a word is said of it
IN_PERCENT = re.compile(r"(?: (?:to|and|or) |[–-]|, )[\d.]+\s*\\?(?:%|per ?cent)")  # 87 to 91 %
# `4 heads`, `6 encoder layers`
COUNTED = re.compile(r"[\s\u00a0](?:[a-z]+[- ])?(?!has|was|this|does|means)[a-z]{2,}s\b")
NAMED = re.compile(r"(?:layer|head|step|prediction|call|encoder|decoder|row|seed)s? $", re.I)
# Words that say nothing about what a number is.
COMMON = set(
    "about after again all also and are been before both but can each even every for from had has"
    " have here how into its just less like many may more most much not off one only other our out"
    " over own per same she such than that the their them then there these they this those two"
    " under very was were what when where which while who why with would you your".split()
)


@dataclass(frozen=True)
class Printed:
    """A line of output: its numbers, the words beside and above them, the cell's place."""

    counts: frozenset[Decimal]
    shares: frozenset[Decimal]  # those in per cent, and what may be meant so
    words: frozenset[str]
    place: int


def in_prose(markdown: str) -> Iterator[tuple[list[Numeral], frozenset[str]]]:
    """The numerals of a Markdown text, each with its readings and the words near it."""
    for pattern in NOT_NUMBERS:  # an invisible mark keeps neighbours apart
        markdown = re.sub(pattern, " \u2063 ", markdown, flags=re.M)
    for match in NUMBER.finditer(markdown):
        readings = _readings(match)
        if readings[0].digits > 1 or readings[0].digits and _is_quantity(match, markdown):
            start, end = max(match.start() - NEAR, 0), match.end() + NEAR
            yield readings, words(markdown[start:end])


def _is_quantity(match: re.Match, text: str) -> bool:
    """Does one digit surely say how much or how many?"""
    if any(match[group] for group in ("part", "e", "power", "super", "ten", "percent", "scale")):
        return True
    return bool(COUNTED.match(text, match.end())) and not NAMED.search(text[: match.start()])


def words(text: str) -> frozenset[str]:
    """The words of a text, by their first letters: `heads` and `head` are one."""
    found = (word.lower() for word in re.findall(r"[^\W\d_]{3,}", text))
    return frozenset(word.rstrip("s")[:5] for word in found if word not in COMMON)


def _line(line: str, above: str, place: int) -> Printed:
    found = [numeral for readings in scan(line) for numeral in readings]
    counts = frozenset(n.value for n in found if not n.percent)
    shares = frozenset(n.value for n in found if n.percent or "%" in line + above or n.value < 1)
    return Printed(counts, shares, words(line + " " + above), place)


def in_outputs(page: Page) -> list[Printed]:
    """The lines that readers see printed; source that `show` shows measures nothing."""
    found = []
    for cell in page.visible:
        for text in [] if calls_only(cell, "show") else cell.readable:
            lines = text.splitlines()
            above = " ".join([line for line in lines if not re.search(r"\d", line)])
            found += [_line(line, above, cell.place) for line in lines]
    return found


def unshown(page: Page) -> Iterator[tuple[Cell, Numeral]]:
    """The numerals of prose and alternative texts that no output of the page shows."""
    outputs = in_outputs(page)
    starts = [0, *(cell.place for cell, level, _ in page.headings() if level < 4), len(page.cells)]
    for cell in page.cells:
        opens = cell.source.startswith("#")  # else its first lines end the section before
        first = max(start for start in starts if start < cell.place or start == cell.place * opens)
        end = min((start for start in starts if start > cell.place), default=len(page.cells))
        for readings, near in in_prose(cell.source if cell.kind == "markdown" else cell.alt or ""):
            numbers = (line.shares if readings[0].percent else line.counts for line in outputs
                       if first <= line.place < end or line.words & near)
            if not known(readings, frozenset().union(*numbers)):
                yield cell, readings[0]


def known(readings: list[Numeral], numbers: frozenset[Decimal]) -> bool:
    """Is the numeral, or every piece of it, one of the numbers rounded to its last digit?"""

    def stands(numeral: Numeral) -> bool:
        rounded = numeral.step < 1 or numeral.percent or numeral.scale  # a count is exact
        return any(
            value in numbers or rounded and any(abs(n - value) * 2 <= step for n in numbers)
            for value, step in numeral.readings()
        )

    whole, *pieces = readings
    return stands(whole) or (bool(pieces) and all(stands(piece) for piece in pieces))
