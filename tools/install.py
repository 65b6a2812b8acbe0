"""Installs into .venv what a `make` target needs, at the versions of requirements.lock, once.

    install.py site    what builds the book: no PyTorch, and not the package itself
    install.py all     the package, editable, with all that runs and tests the pages
"""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT, LOCK = ROOT / "pyproject.toml", ROOT / "requirements.lock"
SAID = {
    "site": "the documentation stack (once, under a minute)",
    "all": "the package, PyTorch and the tools (once, some minutes)",
}
SYSTEMS = {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"), ("Windows", "AMD64")}


def has_torch() -> bool:
    """Whether PyTorch 2.11 or later has a build for this system, or is there already."""
    macos = platform.mac_ver()[0].split(".")[0]
    built = (platform.system(), platform.machine()) in SYSTEMS and int(macos or 14) >= 14
    return built or find_spec("torch") is not None


def mend() -> None:
    """Forget packages that an interrupted installation left half made: pip installs them anew.

    pip writes RECORD last. Of a package without it, or without a version, it would stop in a
    traceback, or take what is there for the whole.
    """
    folder = Path(sysconfig.get_path("purelib", vars={"base": sys.prefix}))
    for info in folder.glob("*.dist-info"):
        metadata = info / "METADATA"
        known = metadata.is_file() and re.search(rb"^Version: \S", metadata.read_bytes(), re.M)
        if not known or not (info / "RECORD").is_file():
            print(f"Mending {info.name.split('-')[0]}, which was installed in part", flush=True)
            shutil.rmtree(info)


def main(what: str) -> None:
    # A stamp holds the state of both files, so that a second call costs nothing until one changes.
    state = hashlib.sha256(PROJECT.read_bytes() + LOCK.read_bytes()).hexdigest()
    stamps = [Path(sys.prefix, f"installed-{name}") for name in (what, "all")]  # all holds site
    if any(stamp.is_file() and stamp.read_text() == state for stamp in stamps):
        return
    if what == "site":
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
        wanted = project["optional-dependencies"]["site"]
    elif has_torch():
        wanted = ["-e", f"{ROOT}[book,peers,test]"]
    else:
        sys.exit(
            f"PyTorch has no build for {platform.platform()}: it has for Linux, macOS 14 and later"
            " on Apple's chips, and Windows on x86-64. `make book` needs none."
        )
    mend()
    print(f"Installing {SAID[what]} ...", flush=True)
    # --no-compile: Python compiles what is imported, when it is; most of what comes along never is.
    options = ["--quiet", "--quiet", "--no-compile", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *options, "-c", LOCK, *wanted]
    done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        # Without a network pip ends in words about conflicting dependencies.
        unreachable = re.search(r"Retry\(total=0\b", done.stdout)
        reason = "no network, or no package index on it" if unreachable else "in pip's words"
        sys.exit(f"pip could not install {what!r}: {reason}\n{done.stdout}")
    stamps[0].write_text(state)


if __name__ == "__main__":
    if sys.argv[1:] not in (["site"], ["all"]):
        sys.exit(__doc__)
    main(sys.argv[1])
