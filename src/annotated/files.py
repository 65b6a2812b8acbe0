"""Files that appear whole or not at all, and documents that are read as what they must be."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside the target to write to; at the end it takes its place.

    Beside it, because only a rename within one file system is atomic; under a
    name of this process's own, so that two that write do not meet. A full
    disk or a kill leaves what was there. OSError names the target.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        os.chmod(part, 0o644)  # mkstemp lets only its owner read
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write whole or not at all: never half a file under its name."""
    with replacing(path) as part:
        part.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """A JSON document with a line's end, whole or not at all."""
    write_atomically(path, f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode())


def read_document(path: Path, kind: type[T] | Any) -> T:
    """The JSON document in a file as a `kind`: a dataclass, a TypedDict, a msgspec.Struct, a dict.

    Raises ValueError in one line that names the file and the field at fault, for what is no JSON,
    for a missing field and for a value of another type.
    """
    return decoded(Path(path).read_bytes(), kind, path)


def decoded(data: bytes, kind: type[T] | Any, where: object) -> T:
    """As `read_document`, of bytes; `where` begins the message."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: {error}") from None


def converted(value: Any, kind: type[T] | Any, where: object) -> T:
    """As `read_document`, of what a document holds: dicts, lists, numbers, texts.

    Refuses a key that a dataclass has no field for, wherever it is nested.
    """
    try:
        found = msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: {error}") from None
    if unknown := sorted(unknown_keys(value, msgspec.to_builtins(found))):
        raise ValueError(f"{where} has a field {unknown[0]!r} that this version does not know")
    return found


def unknown_keys(value: Any, known: Any, within: str = "") -> Iterator[str]:
    """Paths of keys that are in one nest of dicts and not in the other."""
    if isinstance(value, dict) and isinstance(known, dict):
        for key, inner in value.items():
            path = f"{within}.{key}" if within else key
            if key in known:
                yield from unknown_keys(inner, known[key], path)
            else:
                yield path
