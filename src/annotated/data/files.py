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
    """

    name: str
    sha256: str = ""
    addresses: tuple[str, ...] = ()
    archive: str = ""


def find(
    file: DataFile, data_dir: Folder = None, any_version: bool = False
) -> Path:
    """In `data_dir`, in $ANNOTATED_DATA, in the cache, or else downloaded.

    Raises ValueError for another text than expected (unless `any_version`),
    FileNotFoundError that says where to put the file if it is nowhere.
    """
    folders = data_folders(data_dir)
    for folder in folders:
        for path in (folder / file.name, folder / f"{file.name}.gz"):
            if path.is_file():
                if not any_version:
                    check(path, file)
                return path
    cache = cache_folder()
    if cache is not None and file.addresses:
        return download(file, cache)
    places = ", ".join(map(str, folders)) or "none named"
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


# SHA-256 of the texts, by name. The .gz and .zip files around them may differ.
SHA256 = dict(
    row.split()
    for row in """\
multi30k/train.en 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
multi30k/train.de 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
multi30k/train.fr 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
multi30k/val.en 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
multi30k/val.de 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
multi30k/val.fr 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
multi30k/test_2016_flickr.en 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
multi30k/test_2016_flickr.de 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
multi30k/test_2016_flickr.fr cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
multi30k/test_2017_flickr.en ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98
multi30k/test_2017_flickr.de c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081
multi30k/test_2017_flickr.fr 6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6
multi30k/test_2017_mscoco.en 43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2
multi30k/test_2017_mscoco.de 58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22
multi30k/test_2017_mscoco.fr 39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0
newstest/newstest2008.en 8d59671da8f5f9de57e23815667b63cc12f2214ffe19c5b83468f0d9dcae3f0b
newstest/newstest2008.de dcfa33f2b619290c409892cc1b386fde3961b04cdf0ba72d5683f4f32e58eac6
newstest/newstest2008.fr 4b1341ff21cf3d8c3066c6fc28e59d1b1b32bf43cc9bcb85a08c4e4b287f5659
newstest/newstest2009.en c74a4862decfe87f88fb10eacdcb6ac972a648f0dd6deeb25ac2dbc6128dc0b6
newstest/newstest2009.de 41f7d4a766a99f78646474dbd21af0dd0285a5dad5c48d1b627334c11a1771d9
newstest/newstest2009.fr 0ca4995d1dff341488287e1f9d4230073a20bc6e43e268ebf5e7b476f526c07d
newstest/newstest2010.en 1ebece77e333965cbc66fde735a6f17e026b4d6690f4f7fdaba839b7bdadac3b
newstest/newstest2010.de 4f4b02d3abe150ca47a745d138d90f688edb20dd2d2fedca16aa05fd1e2018b1
newstest/newstest2010.fr 131ee7deb0ea517bdd6a85ca5f6f5ca3136c5f76daba426ef4dde3d60b9e66a9
newstest/newstest2011.en d387569743c0fa9097df4d4e2c1dd9e6ba9ef3cee6e0f473da3204c887dcf8fd
newstest/newstest2011.de 033bc05659f61c5e51170973267d21e23a9a968557b866f3842c92e416a60e1b
newstest/newstest2011.fr 9631ea545acf4b921add6baba856b03efae9f0de4c330a314091b3f925506c7f
newstest/newstest2012.en f9e51f85c4948033fc7d77ef427f4d88908a8dd3f778970f62d0baafac3ff97e
newstest/newstest2012.de 946b9587b79271b0f3ce9cc8c0e5b310e3021ef598e1ba5dc2a24fef8960de30
newstest/newstest2012.fr 29aa5aff172127f6adf5625cc2f8e44f579d524700e84f1ec0eb14f4f19719e4
newstest/newstest2013.en ace268a1d9724ca76f6d8e5c720ffdc08f01bdce45630ed8b269dc7918e1c16e
newstest/newstest2013.de d7ea35ab91ff3709e03ad9cb6bf5b4f2cc775cd2d72efd5254c4aec5e69663ca
newstest/newstest2013.fr 909b63be5df3eb8c13e1d5967bf3f0adfdb9f6ed5e638c5bffff563ee2ff7f41
newstest/en-de/newstest2014.en 7294bccf2879a97b3706b95c9595f1459617a8ee7130d5d8581c910e69736971
newstest/en-de/newstest2014.de ae5d110486bc33d7175e9e28c7d0051eb3e5fcd2166dd93371089852c091a20e
newstest/en-fr/newstest2014.en 9a12cb6e8efb3509ebede627e4a9c83ee64935509d561ff70f4b7bd5f93f6096
newstest/en-fr/newstest2014.fr 2bd07dc204f965bf88e90adb6223a8cb850f9bf9840df6af1f4945195936656e
tatoeba/deu-eng.zip a79c90b3cd3102decffa49cc00fb6f20023974f2ae5c4782515bebe133fcc07b
tatoeba/fra-eng.zip 2546838ae46e0eac4c02ab7032ea0a02a006074a5340077a36a9444f41e02888
""".splitlines()
)
