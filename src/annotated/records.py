"""What an experiment leaves behind: one JSON document a run.

A record says what ran, on what machine, how long, and what came out. Records
are package data, in `annotated/results/<experiment>/<device>-seed<k>.json`;
pages and the ledger read them and hold no number of their own. Everything is
checked on writing and on reading, so that a page never meets half a record.
"""

import datetime
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from annotated.files import LARGEST, Number, checked, write_atomically

SCHEMA = 2  # rises when a reader of today would misread tomorrow's records

Text = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
Name = Annotated[str, Meta(
    pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z", description="small letters, digits and single hyphens",
)]
Commit = Annotated[str, Meta(
    pattern=r"\A([0-9a-f]{7,40}(-dirty)?|unknown)\Z",
    description="7 to 40 hexadecimal digits, perhaps with -dirty, or 'unknown'",
)]
Cell = Number | str | None
Row = dict[str, Any]  # a Cell each; each column has its own type
Rows = Annotated[list[dict[str, Cell]], Meta(min_length=1)]


class NoRecords(ValueError):
    """There is no folder of that experiment."""


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A number that was measured."""

    value: Annotated[Number, Meta(description="a number")]
    # Where the name doesn't tell it.
    unit: Text | None = None
    # Of the tool that scored: a BLEU without it can't be compared with any other.
    signature: Text | None = None
    # First and third quartile, where the value is a median.
    spread: tuple[Number, Number] | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a document before all else."""

    schema: Annotated[int, Meta(
        ge=SCHEMA, le=SCHEMA, description=f"{SCHEMA}, the schema of this package",
    )] = SCHEMA


class Record(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of one experiment."""

    experiment: Name
    command: Text
    # Of the model; None for a run without one. Without training `tokens_per_update` is None.
    recipe: Text | None
    seed: Annotated[int, Meta(ge=0, description="an integer from 0")]
    commit: Commit
    device: Annotated[str, Meta(
        pattern="[a-zA-Z0-9]", description="the CPU's or GPU's name",
    )]
    kind: Annotated[str, Meta(pattern=r"\A(cpu|cuda)\Z", description="'cpu' or 'cuda'")]
    threads: Annotated[int, Meta(ge=1, description="an integer from 1")]
    versions: Annotated[dict[Text, Text], Meta(
        min_length=1, description="library -> version, at least one",
    )]
    precision: Annotated[str, Meta(
        pattern=r"\A(float64|float32|tf32|bfloat16|float16)\Z",
        description="one of float64, float32, tf32, bfloat16, float16",
    )]
    seconds: Annotated[
        Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0, le=LARGEST)],
        Meta(description="a number of seconds, from 0"),
    ]
    # The mean number of target tokens, padding aside.
    tokens_per_update: Annotated[
        Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="a number above 0 or null"),
    ]
    metrics: dict[Text, Metric]
    # Rows of a table have the same columns; None where one was not measured. "curve" is that of
    # a training: a row for each update at which the model was looked at.
    tables: dict[Text, Rows]
    date: Annotated[datetime.date, Meta(description="a date as YYYY-MM-DD")]

    @property
    def filename(self) -> str:
        """`<device>-seed<k>.json`, the device in small letters and hyphens."""
        return f"{_slug(str(self.device))}-seed{self.seed}.json"

    def value(self, name: str) -> Number:
        """The value of a metric; ValueError if there is none of that name."""
        return _named(self.metrics, name, "record", "metric").value

    def table(self, name: str) -> list[Row]:
        """The rows of a table, each column -> value; ValueError if there is none of that name."""
        return _named(self.tables, name, "record", "table")

    def column(self, name: str, table: str = "curve") -> list[Any]:
        """One column of a table, from its first row to its last."""
        return [_named(row, name, f"table {table!r}", "column") for row in self.table(table)]

    @property
    def curve(self) -> list[Row]:
        """The table "curve"."""
        return self.table("curve")


def _named(there: Mapping[str, Any], name: str, whole: str, part: str) -> Any:
    if name not in there:
        known = ", ".join(there) or "none"
        raise ValueError(f"the {whole} has no {part} {name!r}; it has: {known}")
    return there[name]


def write(record: Record, folder: str | os.PathLike[str]) -> Path:
    """Write `folder/<experiment>/<device>-seed<k>.json`, whole or not at all.

    A record of the same experiment, device and seed is replaced. Raises
    ValueError, and leaves everything as it was, if a field is not valid.
    """
    path = Path(folder) / str(record.experiment) / record.filename
    data = msgspec.to_builtins(record)
    _check(data, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _document(data).encode())
    return path


def read(path: str | os.PathLike[str] | Traversable) -> Record:
    """The record in a file; ValueError names the file and the field at fault."""
    file = path if isinstance(path, Traversable) else Path(path)
    try:
        data = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, brackets without end
        raise ValueError(f"{file}: not a JSON document ({error})") from None
    return _check(data, file)


def find(
    experiment: str,
    *,
    kind: str | None = None,
    seed: int | None = None,
    root: str | os.PathLike[str] | Traversable | None = None,
) -> list[Record]:
    """The records of an experiment, by file name, filtered by what is given.

    `seed` is the random seed, `kind` is "cpu" or "cuda"; `root` the folder of results, the
    installed package's by default. Raises `NoRecords`, a ValueError, for an experiment without
    a folder, and ValueError for a record in a wrong place.
    """
    if root is None:
        root = resources.files("annotated") / "results"
    elif not isinstance(root, Traversable):
        root = Path(root)
    there = sorted(root.iterdir() if root.is_dir() else [], key=lambda f: f.name)
    folders = {folder.name: folder for folder in there if folder.is_dir()}
    try:
        files = _named(folders, experiment, "folder of results", "experiment")
    except ValueError as error:
        raise NoRecords(str(error)) from None
    found = []
    for file in sorted(files.iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".json"):
            continue
        record = read(file)
        place = f"{record.experiment}/{record.filename}"
        if place != f"{experiment}/{file.name}":
            raise ValueError(f"{file}: its experiment, device and seed belong in {place}")
        if kind in (None, record.kind) and seed in (None, record.seed):
            found.append(record)
    return found


def as_metrics(found: Mapping[str, Number]) -> dict[str, Metric]:
    """Numbers as the `metrics` of a Record."""
    return {name: Metric(value) for name, value in found.items()}


def rounded(value: Any) -> Any:
    """Five digits of what was measured; counts, and None, stay as they are."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def check(where: object, field: str, value: Any) -> None:
    """Raise ValueError that begins with `where` if a record's field can't have that value."""
    kind = get_type_hints(Record, include_extras=True)[field]
    try:
        checked({field: value}, msgspec.defstruct("Only", [(field, kind)]))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def name_of(*words: str) -> str:
    """A name for an experiment: "on", "test_2016_flickr" -> "on-test-2016-flickr"."""
    return _slug("-".join(words))


def _slug(text: str) -> str:
    """ "Intel(R) Xeon(R) CPU @ 2.70GHz" -> "intel-xeon-cpu-2-70ghz"."""
    plain = re.sub(r"\((?:R|TM|C)\)", " ", text, flags=re.IGNORECASE).lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _check(data: Any, file: object) -> Record:
    """The document as a record; ValueError for the first thing that is not valid."""
    try:
        # Another schema may have other fields: say so before complaining of them.
        checked({"schema": checked(data, dict).get("schema")}, Document)
        record: Record = checked(data, Record)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    for name, metric in record.metrics.items():
        if "bleu" in name.lower() and metric.signature is None:
            raise ValueError(f"{file}: metrics.{name} has no signature of the tool that scored")
    for name, rows in record.tables.items():
        for index, row in enumerate(rows):
            if not row or set(row) != set(rows[0]):
                raise ValueError(
                    f"{file}: tables.{name}[{index}] has the columns {', '.join(row) or 'none'}, "
                    f"expected those of every row, {', '.join(rows[0]) or 'at least one'}"
                )
    return record


def _document(data: dict[str, Any]) -> str:
    """JSON with a line for each field, metric and row of a table, for small diffs."""

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    def lines(texts: Mapping[str, str], indent: str) -> str:
        inner = ",\n".join(f"{indent}  {dump(name)}: {text}" for name, text in texts.items())
        return f"{{\n{inner}\n{indent}}}" if texts else "{}"

    def rows(table: list[Row]) -> str:
        return "[\n" + ",\n".join(f"      {dump(row)}" for row in table) + "\n    ]"

    texts = {name: dump(value) for name, value in data.items()}
    texts["metrics"] = lines({n: dump(value) for n, value in data["metrics"].items()}, "  ")
    texts["tables"] = lines({n: rows(table) for n, table in data["tables"].items()}, "  ")
    return lines(texts, "") + "\n"
