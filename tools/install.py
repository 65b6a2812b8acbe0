"""Installs into the environment that runs it what a `make` target needs, once.

    install.py site    the documentation stack alone: no torch, and not the package itself
    install.py all     the package, editable, with everything that runs and tests the pages

Every version is held by requirements.lock. A stamp in the environment remembers the files that an
install was made from, so that a second call costs nothing until one of them changes.
"""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAID = {
    "site": "the documentation stack (once, under a minute)",
    "all": "the package, PyTorch and the tools (once, some minutes)",
}
SOURCES = [ROOT / "pyproject.toml", ROOT / "requirements.lock"]


def wanted(what: str) -> list[str]:
    """The arguments that pip gets for `site` or `all`."""
    if what == "site":
        project = tomllib.loads(SOURCES[0].read_text(encoding="utf-8"))["project"]
        return project["optional-dependencies"]["site"]
    return ["-e", f"{ROOT}[book,peers,test]"]


def main(what: str) -> None:
    state = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
    stamp = Path(sys.prefix) / f"installed-{what}"
    # `all` holds `site` too.
    for made in {stamp, stamp.with_name("installed-all")}:
        if made.is_file() and made.read_text() == state:
            return
    print(f"Installing {SAID[what]} ...", flush=True)
    # --no-compile: Python compiles what is imported, when it is; most of what comes along never is.
    options = ["--quiet", "--quiet", "--no-compile", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *options, "-c", SOURCES[1]]
    done = subprocess.run([*pip, *wanted(what)])
    if done.returncode:
        sys.exit(f"pip could not install {what!r}; its own message stands above")
    stamp.write_text(state)


if __name__ == "__main__":
    if sys.argv[1:] not in (["site"], ["all"]):
        sys.exit(__doc__)
    main(sys.argv[1])
