"""What a record says of where it was made: processor, versions, commit and date."""

import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

KINDS = ("cpu", "cuda")


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
