"""What a record says of where it was made: processor, versions, commit, date; and its energy."""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

KINDS = ("cpu", "cuda")
POWERCAP = Path("/sys/class/powercap")  # where Linux counts the energy of processors (RAPL)


def this_machine(kind: str = "cpu") -> dict[str, Any]:
    """The fields of a `Record` that describe this machine: Record(**this_machine(), …)."""
    import torch  # here, because reading records needs no torch

    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("kind is 'cuda', but torch sees no CUDA device here")
    packages = ("annotated-attention", "numpy", "sacrebleu", "tokenizers")
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "device": torch.cuda.get_device_name() if kind == "cuda" else _cpu_name(),
        "kind": kind,
        "threads": torch.get_num_threads(),
        "versions": {name: str(version) for name, version in versions.items()},
    }


def here_and_now(kind: str = "cpu") -> dict[str, Any]:
    """All of a `Record` that doesn't depend on what ran: machine, commit and date."""
    return {
        **this_machine(kind), "commit": this_commit(), "date": date.today(),
    }


def this_commit() -> str:
    """The commit this code is at, "-dirty" added if files differ, else "unknown"."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    try:
        # An installed package may lie inside another project's repository.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def memory_size(device: str = "cpu") -> int:
    """Bytes of memory that the device has in all; as good as endless where nobody tells."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def energy_meter(kind: str = "cpu", root: Path = POWERCAP) -> Callable[[], float] | None:
    """A function that gives the joules used since it was last called, or made; None: nobody tells.

    `kind` "cpu": those of all processor packages, as Linux counts them under `root`, whoever
    used them. "cuda": the GPU's power at the call, which NVML takes over the last second, times
    the time, so that between two calls it should do one thing for longer than that.
    """
    return _gpu_energy() if kind == "cuda" else _cpu_energy(root)


def _cpu_energy(root: Path) -> Callable[[], float] | None:
    def numbers(file: str) -> list[int]:
        return [int((package / file).read_text()) for package in packages]

    try:
        # "intel-rapl:0" is a package, on AMD too; "intel-rapl:0:0" a part of it, and what is
        # called psys holds the packages again.
        packages = [
            zone for zone in sorted(root.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and (zone / "name").read_text().startswith("package")
        ]
        spans, last = numbers("max_energy_range_uj"), numbers("energy_uj")
    except (OSError, ValueError):  # only root may read them on most machines
        return None

    def joules() -> float:
        nonlocal last
        now = numbers("energy_uj")
        # A counter begins again when it is full.
        used = sum((b - a) % (span + 1) for a, b, span in zip(last, now, spans, strict=True))
        last = now
        return used / 1e6

    return joules if packages else None


def _gpu_energy() -> Callable[[], float] | None:
    import torch

    try:
        torch.cuda.power_draw()
    except (ImportError, RuntimeError, AssertionError):  # no NVML here, or no GPU
        return None
    last = time.perf_counter()

    def joules() -> float:
        nonlocal last
        now = time.perf_counter()
        used = torch.cuda.power_draw() / 1000 * (now - last)
        last = now
        return used

    return joules


def disk_size(folder: Path) -> int:
    """Bytes of the disk on which the folder is, or will be."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).total


def _cpu_name() -> str:
    """The processor's name; its architecture where the system tells no name."""
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        facts = ""
    model = re.search(r"^model name\s*:\s*(\S.*)$", facts, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()
