"""What an experiment leaves behind: one JSON document a run.

A record says what ran, on what machine, how long, and what came out. Records
are package data, in `annotated/results/<experiment>/<device>-seed<k>.json`;
pages and the ledger read them and hold no number of their own. Everything is
checked on writing and on reading, so that a page never meets half a record.
"""

import json
import os
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib import resources
from importlib.resources.abc import Traversable
from math import isfinite
from pathlib import Path
from typing import Any

from annotated.files import write_atomically

SCHEMA = 1  # rises when a reader of today would misread tomorrow's records

Number = int | float


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run of one experiment.

    `curve` is a list of points that all have the same columns; None where a
    point did not measure one. `metrics` is name -> {"value": …}, with the
    tool's "signature" too where the name has "bleu" in it. `recipe` and
    `tokens_per_update` are None for a run that trains nothing.
    """

    experiment: str
    command: str
    recipe: str | None
    seed: int
    commit: str
    device: str
    kind: str
    threads: int
    versions: dict[str, str]
    precision: str
    seconds: Number
    tokens_per_update: Number | None
    curve: list[dict[str, Number | None]]
    metrics: dict[str, dict[str, Any]]
    date: str
    schema: int = SCHEMA

    @property
    def filename(self) -> str:
        """`<device>-seed<k>.json`, the device in small letters and hyphens."""
        return f"{_slug(str(self.device))}-seed{self.seed}.json"

    def column(self, name: str) -> list[Number | None]:
        """One column of the curve."""
        columns = list(self.curve[0]) if self.curve else []
        if name not in columns:
            raise ValueError(f"the curve has no column {name!r}; it has: {', '.join(columns)}")
        return [point[name] for point in self.curve]


def write(record: Record, folder: str | os.PathLike[str]) -> Path:
    """Write `folder/<experiment>/<device>-seed<k>.json`, whole or not at all.

    A record of the same experiment, device and seed is replaced. Raises
    ValueError, and leaves everything as it was, if a field is not valid.
    """
    path = Path(folder) / str(record.experiment) / record.filename
    data = asdict(record)
    _validate(data, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _document(data).encode())
    return path


def read(path: str | os.PathLike[str] | Traversable) -> Record:
    """The record in a file; ValueError names the file and the field at fault."""
    file = path if isinstance(path, Traversable) else Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # bad JSON and bad UTF-8 both are
        raise ValueError(f"{file}: not a JSON document ({error})") from None
    _validate(data, file)
    return Record(**data)


def find(
    experiment: str,
    *,
    recipe: str | None = None,
    kind: str | None = None,
    seed: int | None = None,
    root: str | os.PathLike[str] | Traversable | None = None,
) -> list[Record]:
    """The records of an experiment, by file name, filtered by what is given.

    `root` is the installed package's results by default. Raises ValueError
    for an experiment without a folder, and for a record in a wrong place.
    """
    if root is None:
        root = resources.files("annotated") / "results"
    elif not isinstance(root, Traversable):
        root = Path(root)
    folders = {f.name: f for f in root.iterdir() if f.is_dir()} if root.is_dir() else {}
    if experiment not in folders:
        known = ", ".join(sorted(folders)) or "none"
        raise ValueError(f"no records of {experiment!r}; experiments with records: {known}")
    files = [f for f in folders[experiment].iterdir() if f.name.endswith(".json")]
    wanted = {"recipe": recipe, "kind": kind, "seed": seed}
    found = []
    for file in sorted(files, key=lambda f: f.name):
        record = read(file)
        place = f"{record.experiment}/{record.filename}"
        if place != f"{experiment}/{file.name}":
            raise ValueError(f"{file}: its experiment, device and seed belong in {place}")
        if all(value in (None, getattr(record, name)) for name, value in wanted.items()):
            found.append(record)
    return found


def as_metrics(found: Mapping[str, Number]) -> dict[str, dict[str, Number]]:
    """Numbers as the `metrics` of a Record."""
    return {name: {"value": value} for name, value in found.items()}


def _slug(text: str) -> str:
    """ "Intel(R) Xeon(R) CPU @ 2.70GHz" -> "intel-xeon-cpu-2-70ghz"."""
    plain = re.sub(r"\((?:R|TM|C)\)", " ", text, flags=re.IGNORECASE).lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


# ------------------------------------------------------------ what is valid


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Number):
        return False
    return isinstance(value, int) or isfinite(value)


def _is_date(value: Any) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except (TypeError, ValueError):
        return False


_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_COMMIT = r"[0-9a-f]{7,40}(-dirty)?|unknown"
_PRECISIONS = ("float64", "float32", "tf32", "bfloat16", "float16")


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


# field -> (is it valid?, what is expected)
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "experiment": (_matches(_NAME), "small letters, digits and single hyphens"),
    "command": (_is_text, "the command line as text"),
    "recipe": (lambda v: v is None or _is_text(v), "a recipe's name or null"),
    "seed": (_is_count, "an integer from 0"),
    "commit": (_matches(_COMMIT), "7 to 40 hexadecimal digits, perhaps with -dirty, or 'unknown'"),
    "device": (lambda v: isinstance(v, str) and bool(_slug(v)), "the CPU's or GPU's name"),
    "kind": (lambda v: v in ("cpu", "cuda"), "'cpu' or 'cuda'"),
    "threads": (lambda v: _is_count(v, 1), "an integer from 1"),
    "versions": (
        lambda v: isinstance(v, dict) and bool(v) and all(map(_is_text, [*v, *v.values()])),
        "library -> version, at least one",
    ),
    "precision": (lambda v: v in _PRECISIONS, f"one of {', '.join(_PRECISIONS)}"),
    "seconds": (lambda v: _is_number(v) and v >= 0, "a finite number of seconds, from 0"),
    "tokens_per_update": (
        lambda v: v is None or (_is_number(v) and v > 0),
        "a finite number above 0 or null",
    ),
    "curve": (lambda v: isinstance(v, list), "a list of points"),
    "metrics": (
        lambda v: isinstance(v, dict) and all(map(_is_text, v)),
        "name -> {'value': number}",
    ),
    "date": (_is_date, "a date as YYYY-MM-DD"),
    "schema": (lambda v: _is_count(v) and v == SCHEMA, f"{SCHEMA}, the schema of this package"),
}


def _fail(file: object, field: str, value: Any, expected: str) -> None:
    raise ValueError(f"{file}: {field} is {reprlib.repr(value)}, expected {expected}")


def check(file: object, field: str, value: Any) -> None:
    """Raise ValueError if a record's field can't have that value; `file` begins the message."""
    valid, expected = _RULES[field]
    if not valid(value):
        _fail(file, field, value, expected)


def _validate(data: Any, file: object) -> None:
    """Raise ValueError for the first field that is missing, unknown or not valid."""
    if not isinstance(data, dict):
        _fail(file, "the document", data, "one JSON object")
    # Another schema may have other fields: say so before complaining of them.
    check(file, "schema", data.get("schema"))
    names = {field.name for field in fields(Record)}
    if missing := sorted(names - set(data)):
        raise ValueError(f"{file}: {missing[0]} is missing")
    if unknown := sorted(set(data) - names):
        raise ValueError(f"{file}: {unknown[0]!r} is not a field of a record")
    for field in _RULES:
        check(file, field, data[field])
    _validate_curve(data["curve"], file)
    for name, metric in data["metrics"].items():
        _validate_metric(name, metric, file)


def _validate_curve(curve: list[Any], file: object) -> None:
    for index, point in enumerate(curve):
        here = f"curve[{index}]"
        named = isinstance(point, dict) and bool(point) and all(map(_is_text, point))
        if not named or set(point) != set(curve[0]):
            _fail(file, here, point, "the same named columns in every point")
        for column, value in point.items():
            if value is not None and not _is_number(value):
                _fail(file, f"{here}.{column}", value, "a finite number or null")


def _validate_metric(name: str, metric: Any, file: object) -> None:
    here = f"metrics.{name}"
    if not isinstance(metric, dict) or not {"value"} <= set(metric) <= {"value", "signature"}:
        _fail(file, here, metric, "{'value': number, 'signature': text where there is one}")
    if not _is_number(metric["value"]):
        _fail(file, f"{here}.value", metric["value"], "a finite number")
    # A BLEU without its signature can't be compared with any other.
    if ("signature" in metric or "bleu" in name.lower()) and not _is_text(metric.get("signature")):
        _fail(file, f"{here}.signature", metric.get("signature"), "the scoring tool's signature")


def _document(data: dict[str, Any]) -> str:
    """JSON with one field a line and one point of the curve a line, for small diffs."""

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    points = ",\n    ".join(map(dump, data["curve"]))
    texts = {name: dump(value) for name, value in data.items()}
    if points:
        texts["curve"] = f"[\n    {points}\n  ]"
    return "{\n" + ",\n".join(f"  {dump(n)}: {text}" for n, text in texts.items()) + "\n}\n"
