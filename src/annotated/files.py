"""Files that appear whole or not at all."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
