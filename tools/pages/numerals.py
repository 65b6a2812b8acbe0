"""Numerals in prose, and whether a known number stands behind each.

A numeral of two or more digits (as typed, leading zeros not counted) is traced to a known number:
the known number, rounded to the precision of the numeral, must be the numeral. `81 %` is also
traced to 0.81, `0.95 million` to 949 888.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import ModuleType

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
    r"</?[A-Za-z!][^<>]*>|<https?:[^>]*>|https?://\S+",
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
    r"_\{[^{}]*\}|_\d+",  # subscripts
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
    """Every number in a text as the list of its readings; 12 345 is also 12 and 345 apart."""
    for match in NUMBER.finditer(text):
        parts = re.split(GAP, match["whole"])
        whole = _numeral(match, "".join(parts))
        # Two numbers side by side look like thousands; but no number starts with 0.
        apart = len(parts) > 1 and not any(part.startswith("0") for part in parts)
        yield [whole, *map(_plain, parts)] if apart else [whole]


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
        bool(match["percent"]),
        SCALES.get(match["scale"] or "", 0),
    )


def in_prose(markdown: str) -> Iterator[list[Numeral]]:
    """The numerals of two or more digits in a Markdown text, each with its readings."""
    for pattern in NOT_NUMBERS:
        markdown = re.sub(
            pattern, " \u2063 ", markdown, flags=re.M
        )  # an invisible mark keeps neighbours apart
    for readings in scan(markdown):
        if readings[0].digits >= 2:
            yield readings


def in_text(text: str) -> set[Decimal]:
    """Every number in an output."""
    return {numeral.value for readings in scan(text) for numeral in readings}


def in_values(root: object) -> set[Decimal]:
    """Every number reachable from a module, data class, mapping, sequence or plain object."""
    found: set[Decimal] = set()
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        if item is None or isinstance(item, bool | str | bytes):
            continue
        if isinstance(item, int | float | Decimal):
            value = Decimal(repr(item)) if isinstance(item, float) else Decimal(item)
            if value.is_finite():
                found.add(abs(value))
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, ModuleType):
            own = (v for k, v in vars(item).items() if not k.startswith("__"))
            stack += [v for v in own if not isinstance(v, ModuleType | type)]
        elif isinstance(item, Mapping):
            stack += [*item.keys(), *item.values()]
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            stack += [getattr(item, f.name) for f in dataclasses.fields(item)]
        elif isinstance(item, Iterable):
            stack += list(item)
    return found


def in_record(path: Path) -> set[Decimal]:
    """Every number in a record but long lists: among the points of a curve anything is found."""

    def trim(item):
        if isinstance(item, dict):
            return {key: trim(value) for key, value in item.items()}
        if isinstance(item, list):
            return [trim(value) for value in item] if len(item) <= 20 else len(item)
        return item

    return in_values(trim(json.loads(path.read_text(encoding="utf-8"))))


def known(readings: list[Numeral], numbers: set[Decimal]) -> bool:
    """Is the numeral, or every piece of it, one of the numbers rounded to its last digit?"""

    def stands(numeral: Numeral) -> bool:
        return any(
            value in numbers or any(abs(number - value) * 2 <= step for number in numbers)
            for value, step in numeral.readings()
        )

    whole, *pieces = readings
    return stands(whole) or (bool(pieces) and all(stands(piece) for piece in pieces))
