"""What the commands share that leave something behind: a seed, and where to write."""

import tempfile
from pathlib import Path

MAX_SEED = 2**32 - 1  # all generators take it


def check_writable(folder: Path) -> None:
    """Make the folder, and raise OSError now if nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
