"""§6.2 and before it: recipes with something changed, all measured the same way."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from annotated import records
from annotated.records import Record
from annotated.training.checkpoints import check_writable


def run_from_command_line(
    program: str, names: Iterable[str], run: Callable[[str, int], Record],
    arguments: Sequence[str] | None, about: str,
) -> None:
    """One of the named runs, with --seed, and its record in --record."""
    parser = argparse.ArgumentParser(program, description=about)
    parser.add_argument("name", choices=names)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, default=Path("results"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    if given.seed < 0:
        parser.error(f"--seed is {given.seed}; expected a number from 0")
    try:
        check_writable(given.record)  # fails now rather than after training
    except OSError as error:
        parser.error(f"--record: {error}")
    print(records.write(run(given.name, given.seed), given.record))
