"""Where a corpus's files are: a folder that the reader names, the user's cache, or the network."""

import os
import sys
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from annotated.data.text import open_text

VARIABLE = "ANNOTATED_DATA"
Folder = str | PathLike[str] | None


@dataclass(frozen=True)
class DataFile:
    """A file of a corpus: its place in a data folder, how to know and get it.

    A plain file may lie there compressed, with ".gz" added to its name.

    sha256: of its text, so compressed or not it is the same; none where the
        reader's own download is taken as it is.
    addresses: where it is downloaded, the first that answers.
    archive: what the reader has to download and unpack instead.
    own: whether it is the reader's own, and may lie outside all data folders.
    """

    name: str
    sha256: str = ""
    addresses: tuple[str, ...] = ()
    archive: str = ""
    own: bool = False


def find(
    file: DataFile, data_dir: Folder = None, any_version: bool = False
) -> Path:
    """In `data_dir`, in $ANNOTATED_DATA, in the cache, or else downloaded.

    Raises ValueError for another text than expected (unless `any_version`),
    FileNotFoundError that says where to put the file if it is nowhere.
    """
    folders = data_folders(data_dir)
    for folder in [Path()] * file.own + folders:
        for path in (folder / file.name, folder / f"{file.name}.gz"):
            if path.is_file():
                if not any_version:
                    check(path, file)
                return path
    cache = cache_folder()
    if cache is not None and file.addresses:
        return download(file, cache)
    places = ", ".join(map(str, folders)) or "none named"
    if file.own:
        raise FileNotFoundError(f"{file.name} is no file here, nor in a data folder ({places})")
    if file.archive:
        advice = f"download {file.archive} and unpack it there"
    else:
        advice = "`pip install pooch` to have it downloaded, or put it there"
    raise FileNotFoundError(
        f"{file.name} is in no data folder ({places}); {advice};"
        f" data_dir and ${VARIABLE} name data folders"
    )


def data_folders(data_dir: Folder = None) -> list[Path]:
    """Where to look, in order; ValueError for what is no folder."""
    named = {"data_dir": data_dir, f"${VARIABLE}": os.environ.get(VARIABLE)}
    for name, folder in named.items():
        if folder and not Path(folder).is_dir():
            raise ValueError(f"{name} must be a folder, not {str(folder)!r}")
    folders = [*named.values(), cache_folder()]
    return [Path(folder) for folder in folders if folder]


def cache_folder() -> Path | None:
    """Where downloads are kept; None on a machine without pooch."""
    try:
        from pooch import os_cache
    except ModuleNotFoundError:
        return None
    return Path(os_cache("annotated")) / "data"


def check(path: Path, file: DataFile) -> None:
    """Raises ValueError if the text at `path` is not that of `file`."""
    if not file.sha256:
        return
    found = sha256()
    with open_text(path) as text:
        while block := text.read(1 << 16):
            found.update(block)
    if found.hexdigest() != file.sha256:
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) holds another text: its"
            f" SHA-256 is {found.hexdigest()}, expected {file.sha256}"
        )


def download(file: DataFile, cache: Path) -> Path:
    """Into the cache, where a file appears whole and checked or not at all.

    Raises ValueError for an answer that is not the file, FileNotFoundError if
    no address answers.
    """
    failures = []
    for address in file.addresses:
        packed = address.endswith(".gz")
        path = cache / (file.name + ".gz" * packed)
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            fetched = Path(folder, path.name)
            try:
                fetch(address, fetched)
            except OSError as error:
                failures.append(f"{address}: {_reason(error)}")
                continue
            try:
                check(fetched, file)
            except ValueError as error:  # names a file that goes now
                message = str(error).replace(str(fetched), address)
                raise ValueError(message) from None
            os.replace(fetched, path)  # on one disk: all or nothing
            return path
    raise FileNotFoundError(
        f"{file.name} can't be downloaded ({'; '.join(failures)}); put it in"
        f" {cache}, or in a folder that data_dir or ${VARIABLE} names"
    )


def fetch(address: str, path: Path) -> None:
    """One file from the network; requests' errors are all OSErrors."""
    from pooch import HTTPDownloader

    bar, headers = sys.stderr.isatty(), {"User-Agent": "annotated-attention"}
    HTTPDownloader(progressbar=bar, headers=headers)(address, str(path), None)


def _reason(error: OSError) -> str:
    """In one short line: what requests says of a refused connection fills five."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"status {status}" if status else error.strerror or type(error).__name__
