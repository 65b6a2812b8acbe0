"""Writes requirements.lock: one version of every package for Python 3.11 and later on every system.

The lock serves as constraints (`pip install -c requirements.lock …`), so it may name more than a
machine needs. The CUDA packages that PyTorch's Linux build asks for are left out: they follow from
torch's own version, and a reader with PyTorch's CPU build has none of them.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The PyTorch whose numbers the stored outputs show, and the last Jupyter Book 1.x.
PINS = "torch==2.13.0\njupyter-book==1.0.4.post1\n"
LEFT_OUT = ("nvidia-", "cuda-", "triton")
COMMAND = (
    "uv pip compile pyproject.toml --constraint - --universal --python-version 3.11 --all-extras "
    "--no-emit-package annotated-attention --no-header --no-annotate --quiet"
)
HEADER = (
    "# Constraints for every install: pip install -c requirements.lock -e '.[book,peers,test]'\n"
    "# Made by `make lock` (tools/lock.py). No CUDA packages and no local versions, on purpose.\n"
)


def main() -> None:
    command = [sys.executable, "-m", *COMMAND.split()]
    run = subprocess.run(command, input=PINS, capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        sys.exit(f"uv could not resolve pyproject.toml:\n{run.stderr}")
    lines = [line for line in run.stdout.splitlines() if not line.startswith(LEFT_OUT)]
    lock = HEADER + "\n".join(lines) + "\n"
    (ROOT / "requirements.lock").write_text(lock, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
