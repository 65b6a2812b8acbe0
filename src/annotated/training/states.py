"""Where a run stands: to go on from after a stop, and to average at the end.

A state is tensors only: the model's, and Adam's two moments of each. All that
is random follows from the seed and the place in the stream of batches, so no
generator has to be kept. Nothing here is pickled.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from annotated.files import read_document, replacing, write_json

VERSION = 1
KEPT = 2  # newest states to go on from: should one be damaged, there is another
MODEL, MOMENTS = "model", "adam"
State = dict[str, dict[str, Tensor]]  # part ("model", "adam") → name → tensor


@runtime_checkable
class States(Protocol):
    """The states of one run, by the number of updates behind each."""

    def write(self, step: int, state: State, needed: Collection[int]) -> None: ...
    def steps(self) -> list[int]: ...
    def read(self, step: int, part: str) -> dict[str, Tensor]: ...


class InMemory:
    """For as long as the process lives: the models to average, no more."""

    def __init__(self) -> None:
        self.models: dict[int, dict[str, Tensor]] = {}

    def write(self, step: int, state: State, needed: Collection[int]) -> None:
        """Keep a copy of the model, if it is one of those to average."""
        if step in needed:
            model = state[MODEL].items()
            self.models[step] = {name: t.detach().clone() for name, t in model}

    def steps(self) -> list[int]:
        """There is nothing to go on from in a new process."""
        return []

    def read(self, step: int, part: str) -> dict[str, Tensor]:
        """The model after that update; ValueError if it was not kept."""
        if part != MODEL or step not in self.models:
            raise ValueError(f"no {part} of update {step} was kept")
        return self.models[step]


class InFolder:
    """As files: for each state two of tensors, and a manifest in JSON.

    The manifest is written last. It holds the SHA-256 of the tensors and
    `run`, what must agree for a run to go on: recipe, seed, settings. The
    newest states are kept, and of the others the models that are `needed`.
    Of several processes the first writes; the others only look.
    """

    def __init__(self, folder: str | Path, run: Mapping[str, Any], writes: bool = True):
        self.folder, self.writes = Path(folder), writes
        self.run = json.loads(json.dumps(run))  # tuples become lists, as in the file
        self.folder.mkdir(parents=True, exist_ok=True)
        if writes:
            self.sweep()

    def sweep(self) -> None:
        """Delete what a process left that was killed while it wrote."""
        finished = set(self.steps())
        for path in self.folder.iterdir():
            name = FILE_OR_PART.match(path.name)
            if name and (name[1] is None or int(name[1]) not in finished):
                path.unlink()

    def write(self, step: int, state: State, needed: Collection[int]) -> None:
        """Write a state whole or not at all, then drop what nothing needs."""
        if not self.writes:
            return
        digests = {}
        for part, tensors in state.items():
            digests[part] = save(tensors, self.path(step, part))
        write_json(self.manifest_path(step), asdict(Manifest(VERSION, step, self.run, digests)))
        for old in self.steps()[:-KEPT]:
            self.drop(old, keep_model=old in needed)

    def drop(self, step: int, keep_model: bool) -> None:
        """Delete a state, the manifest first: it vouches for the rest."""
        if not keep_model:
            self.manifest_path(step).unlink(missing_ok=True)
            self.path(step, MODEL).unlink(missing_ok=True)
        self.path(step, MOMENTS).unlink(missing_ok=True)

    def path(self, step: int, part: str) -> Path:
        return self.folder / f"step-{step:08d}.{part}.safetensors"

    def manifest_path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.json"

    def steps(self) -> list[int]:
        """Updates behind each state that was finished, oldest first."""
        names = (re.fullmatch(r"step-(\d+)\.json", p.name) for p in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def read(self, step: int, part: str) -> dict[str, Tensor]:
        """One part of a state.

        Raises ValueError that names the file that is missing, damaged, of
        another version or of another run.
        """
        path, name = self.path(step, part), self.manifest_path(step).name
        digest = self.manifest(step).sha256.get(part)
        if not path.is_file():
            raise ValueError(f"{path} is missing, but {name} lists it; {BACK}")
        if sha256_of(path) != digest:
            raise ValueError(
                f"{path} ({path.stat().st_size} bytes) is truncated or damaged: "
                f"its SHA-256 is not the one in {name}; {BACK}"
            )
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} can't be read: {error}; {BACK}") from None

    def manifest(self, step: int) -> "Manifest":
        """The manifest of a state, if it is one of this run."""
        path = self.manifest_path(step)
        try:
            manifest: Manifest = read_document(path, Manifest)
        except FileNotFoundError:
            raise ValueError(f"{path} is missing: no state of that update was kept") from None
        except ValueError as error:
            raise ValueError(f"{error}; {BACK}") from None
        if manifest.version != VERSION:
            raise ValueError(
                f"{path} has version {manifest.version}; this package reads version {VERSION}"
            )
        if manifest.run != self.run:
            raise ValueError(f"{path} is of another run: {differences(manifest.run, self.run)}")
        return manifest

    def check_same_run(self) -> None:
        """ValueError if the newest state is of another run, or its manifest damaged."""
        for step in self.steps()[-1:]:
            self.manifest(step)


@dataclass(frozen=True)
class Manifest:
    """What vouches for a state: the run it is of, and its files' SHA-256 by part."""

    version: int
    step: int
    run: dict[str, Any]
    sha256: dict[str, str]


BACK = "delete that update's files to go on from the state before"
# A file of a state, or one that is not whole yet: under our name for it, or safetensors' own.
FILE_OR_PART = re.compile(r"step-(\d+)\.|\.step-|\.tmp\w+$")


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs, as a line: "seed is 1 there, 2 here".

    A setting that one version of this package has and the other lacks is "unknown".
    """
    told = {
        name: [repr(run[name]) if name in run else "unknown" for run in (there, here)]
        for name in {**there, **here}
    }
    return "; ".join(f"{n} is {a} there, {b} here" for n, (a, b) in told.items() if a != b)


def save(tensors: Mapping[str, Tensor], path: Path) -> str:
    """Tensors to a file, whole or not at all; returns its SHA-256."""
    try:
        with replacing(path) as beside:
            save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, beside)
            return sha256_of(beside)
    except (OSError, SafetensorError) as error:  # a full disk may be either
        raise OSError(f"{path} can't be written: {error}") from None


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


