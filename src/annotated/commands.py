"""What the commands share that leave something behind: a seed, and where to write."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

MAX_SEED = 2**32 - 1  # all generators take it


def check_writable(folder: Path) -> None:
    """Make the folder, and raise OSError now if nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


class RecordParser(argparse.ArgumentParser):
    """A command that makes one record: --seed and --record, refused before anything runs."""

    def __init__(self, program: str, about: str):
        super().__init__(program, description=about)
        self.add_argument("--seed", type=int, default=0)
        self.add_argument("--record", type=Path, default=Path("results"), metavar="FOLDER")

    def parse_args(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        given = super().parse_args(arguments)
        if not 0 <= given.seed <= MAX_SEED:
            self.error(f"--seed is {given.seed}; expected a number from 0 to {MAX_SEED}")
        try:
            check_writable(given.record)
        except OSError as error:
            self.error(f"--record: {error}")
        return given
