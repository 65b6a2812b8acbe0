"""Files that appear whole or not at all, and documents that are read as what they must be."""

import json
import os
import re
import reprlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from filelock import FileLock, Timeout

T = TypeVar("T")
LARGEST = sys.float_info.max  # as a bound it refuses infinity and NaN, and nothing else
Number = int | Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]


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


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Make the folder, and let no other process have it inside the block.

    Raises ValueError at once if another has it, or for a name that is not UTF-8.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the folder's name {str(folder)!r} is not UTF-8") from None
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"{folder} is in use by another run; wait for its end or choose another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


def write_json(path: Path, value: Any) -> None:
    """A JSON document with a line's end, whole or not at all."""
    write_atomically(path, f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode())


def read_document(path: Path, kind: type[T] | Any) -> T:
    """The JSON document in a file as a `kind`: a dataclass, a msgspec.Struct, list[str], a dict.

    Raises ValueError in one line that names the file and the field at fault: for what is no JSON,
    for a missing field, for a value of another type, for a key that no field has.
    """
    return decoded(Path(path).read_bytes(), kind, path)


def decoded(data: bytes, kind: type[T] | Any, where: object) -> T:
    """As `read_document`, of bytes; `where` begins the message."""
    try:
        document = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # also of msgspec, and for bad UTF-8
        raise ValueError(f"{where} is damaged: {error}") from None
    return converted(document, kind, where)


def checked(value: Any, kind: type[T] | Any) -> T:
    """The value as a `kind`; ValueError names the field, what it is and what was expected."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(_fault(value, kind, str(error))) from None


def converted(value: Any, kind: type[T] | Any, where: object) -> T:
    """As `read_document`, of what a document holds: dicts, lists, numbers, texts."""
    try:
        found = checked(value, kind)
    except (ValueError, RecursionError) as error:
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


def _fault(data: Any, kind: Any, message: str) -> str:
    """msgspec's message with the keys that it leaves out, and with the value at fault.

    The description of a field, where its type has one, says what was expected.
    """
    said, _, path = message.partition(" - at ")
    value, names, rebuild, field = data, "", lambda value: value, None
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        before, outer = value, rebuild
        if index.isdigit():
            step: Any = int(index)
        else:
            # Of many keys msgspec doesn't say which: the one that alone gives the same message.
            same = (k for k in value if _says(kind, rebuild({k: value[k]}), message))
            if (step := name or next(same, None)) is None:
                return message
        field, value = name, before[step]
        names += f"[{step}]" if isinstance(step, int) else f".{step}"

        def rebuild(value: Any, before=before, step=step, outer=outer) -> Any:
            if isinstance(before, list):
                return outer([*before[:step], value, *before[step + 1 :]])
            return outer({**before, step: value})

    names = names.lstrip(".")
    if wrong := re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", said):
        name = f"{names}.{wrong[2]}".lstrip(".")
        unknown = wrong[1] == "contains unknown"
        return f"{name} {'is not one of the fields that are known' if unknown else 'is missing'}"
    if not said.startswith(("Expected ", "Invalid ")):  # what a __post_init__ raises
        return f"{names}: {said}".lstrip(": ")
    expected = _descriptions(kind).get(field or "") or re.sub("^Expected |, got .*", "", said)
    if isinstance(value, float) and not isfinite(value):
        expected = "a finite number"
    if path.startswith("`key`"):
        names, value = f"a name in {names}", ""
    return f"{names or 'the document'} is {reprlib.repr(value)}, expected {expected}"


def _says(kind: Any, data: Any, message: str) -> bool:
    try:
        msgspec.convert(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        return str(error) == message
    return False


def _descriptions(kind: Any) -> dict[str, str]:
    """Field -> the description of its type, in the document and in what it holds."""
    _, parts = msgspec.json.schema_components([kind])
    fields = [field for part in parts.values() for field in part.get("properties", {}).items()]
    return {name: schema["description"] for name, schema in fields if "description" in schema}


def check_writable(folder: Path) -> None:
    """Make the folder, and raise OSError now if nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
