"""The gate: everything that CI runs, in order, until the first stage that fails.

gate.py            all stages
gate.py NAME …     only these, by the names that it prints
gate.py weekly …   what takes too long for every commit (WEEKLY); it has names of its own
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]

STAGES = {
    "lint": [BIN / "ruff", "check", "."],
    "types": [sys.executable, "-m", "mypy"],
    "unit": [*PYTEST, "tests", "--ignore=tests/site", "-m", "not canary and not weekly", "-n", "2"],
    "static": [sys.executable, "tools/notebooks.py", "check"],
    "nbval": [sys.executable, "tools/notebooks.py", "nbval"],
    # --all: pages that are not read again do not repeat their warnings, and -W would let them pass.
    "book": [BIN / "jb", "build", ".", "-W", "-n", "--keep-going", "--all", "-q"],
    "site": [*PYTEST, "tests/site", "-n", "2"],
    "canaries": [*PYTEST, "tests/book", "-m", "canary", "-n", "2"],
}
WEEKLY = {
    "slow": [*PYTEST, "tests", "--ignore=tests/site", "-m", "weekly", "-n", "2"],
    # Sets and dictionaries of texts in another order: no page may hang on it.
    "hash-seed": [sys.executable, "tools/notebooks.py", "nbval", "--hash-seed", "1"],
}


def main(names: list[str]) -> None:
    stages = STAGES
    if names[:1] == ["weekly"]:
        stages, names = WEEKLY, names[1:]
    if unknown := [name for name in names if name not in stages]:
        sys.exit(f"no stage {unknown[0]!r}; the stages are {', '.join(stages)}")
    started = time.monotonic()
    for name in names or stages:
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        code = subprocess.run(stages[name], cwd=ROOT).returncode
        seconds = time.monotonic() - begun
        if code:
            sys.exit(f"== {name} failed after {seconds:.0f} s (exit status {code})")
        print(f"== {name} passed in {seconds:.0f} s", flush=True)
    if not names:
        print(f"== all {len(stages)} stages passed in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
