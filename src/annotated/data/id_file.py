"""§5.1, pairs of ids in one file, for a corpus too large to be held in memory."""

import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest, sha256
from os import PathLike
from pathlib import Path
from shutil import copyfileobj

import numpy as np

from annotated.data.batches import IdPair
from annotated.files import replacing

# The file: a header; the ids of each pair, those of its source first, filled up to 8 bytes; an
# index, one entry a pair. The header's hash is that of all that follows it. Little-endian.
_MAGIC, _VERSION = b"annotated ids", 1
_HEADER = struct.Struct("<16s I I Q Q 32s 8x")  # magic, version, bytes an id, pairs, ids, SHA-256
_ENTRY = np.dtype([("start", "<i8"), ("lengths", "<i4", 2)])  # where the first of its ids is
_IDS: dict[int, np.dtype] = {2: np.dtype("<u2"), 4: np.dtype("<i4")}
_BLOCK = 1 << 16  # ids that are held at a time, about


def write_ids(path: str | PathLike[str], pairs: Iterable[IdPair], vocab_size: int = 1 << 16) -> int:
    """Write the pairs as they stream by; returns how many there were.

    An id takes two bytes if `vocab_size` allows it, else four; a pair 16 more. The file appears
    whole or not at all. Raises ValueError for an id outside the vocabulary.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    dtype = _IDS[2 if vocab_size <= 1 << 16 else 4]
    count = total = 0
    with (
        replacing(path) as part,
        open(part, "w+b") as file,
        tempfile.TemporaryFile(dir=path.parent) as index,
    ):
        file.write(bytes(_HEADER.size))
        for block in _blocks(pairs):
            ids = np.array([i for pair in block for side in pair for i in side], np.int64)
            for i in ids[(ids < 0) | (ids >= vocab_size)]:
                raise ValueError(f"ids must be from 0 to {vocab_size - 1}, not {i}")
            entries = np.empty(len(block), _ENTRY)
            entries["lengths"] = [(len(source), len(target)) for source, target in block]
            each = entries["lengths"].sum(1)
            entries["start"] = total + each.cumsum() - each
            file.write(ids.astype(dtype).tobytes())
            index.write(entries.tobytes())
            count, total = count + len(block), total + len(ids)
        file.write(bytes(-file.tell() % 8))
        index.seek(0)
        copyfileobj(index, file, 1 << 20)
        file.seek(_HEADER.size)
        found = file_digest(file, "sha256").digest()
        file.seek(0)
        file.write(_HEADER.pack(_MAGIC, _VERSION, dtype.itemsize, count, total, found))
    return count


def _blocks(pairs: Iterable[IdPair]) -> Iterator[list[IdPair]]:
    """Some pairs at a time: enough to be quick, few enough to be held."""
    block, size = [], 0
    for pair in pairs:
        block.append(pair)
        size += 1 + len(pair[0]) + len(pair[1])
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


class IdPairs(Sequence):
    """The pairs in a file of `write_ids`, each read where it lies when it is asked for.

    `lengths` (pairs, 2) has how many ids each source and target has; it lies on disk too. Raises
    ValueError that names a file that is damaged, cut short or of another version.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"there is no file of ids at {self.path}")
        dtype, count, total, wanted = self._header()
        raw = np.memmap(self.path, np.uint8, mode="r").view(np.ndarray)
        ids_end = _HEADER.size + dtype.itemsize * total
        index = ids_end + -ids_end % 8
        size = index + _ENTRY.itemsize * count
        if len(raw) != size:
            raise ValueError(f"{self.path} is damaged: it has {len(raw)} bytes, expected {size}")
        if sha256(raw[_HEADER.size :].data).digest() != wanted:
            raise ValueError(f"{self.path} is damaged: its SHA-256 is not the one in its header")
        self._ids = raw[_HEADER.size : ids_end].view(dtype)
        entries = raw[index:].view(_ENTRY)
        self._starts, self.lengths = entries["start"], entries["lengths"]

    def _header(self) -> tuple[np.dtype, int, int, bytes]:
        with open(self.path, "rb") as file:
            start = file.read(_HEADER.size)
        if not start.startswith(_MAGIC):
            raise ValueError(f"{self.path} is no file of ids: it begins with {start[:13]!r}")
        if len(start) < _HEADER.size:
            raise ValueError(f"{self.path} is damaged: it has {len(start)} bytes")
        _, version, width, count, total, found = _HEADER.unpack(start)
        if version != _VERSION:
            raise ValueError(f"{self.path} has version {version}, expected {_VERSION}")
        if width not in _IDS:
            raise ValueError(f"{self.path} is damaged: an id has {width} bytes, expected 2 or 4")
        return _IDS[width], count, total, found

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        start = int(self._starts[place])  # its IndexError ends an iteration
        source, target = self.lengths[place].tolist()
        ids = self._ids[start : start + source + target].tolist()
        return ids[:source], ids[source:]
