"""The gate: nbval over the pages, with pictures compared and nothing excused."""

import os
import sys
from pathlib import Path

import pytest

from pages.execution import CELL_TIMEOUT, kernel_environment
from pages.page import read

SANITISER = Path(__file__).resolve().parent.parent / "nbval.cfg"
HELP = """
Cell numbers count code cells from 0. Where the new output is the right one, run
`python tools/notebooks.py run PAGE`, read the difference, and commit it."""


class Ledger:
    """Counts what happened to each cell. Lives in the process that collects the reports."""

    def __init__(self):
        self.passed: set[str] = set()
        self.excused: list[str] = []

    def pytest_runtest_logreport(self, report):
        # After a timeout nbval marks the rest of the page as expected to fail: that is no pass.
        if report.skipped or hasattr(report, "wasxfail"):
            kind = f"x{report.outcome}" if hasattr(report, "wasxfail") else "skipped"
            self.excused.append(f"{report.nodeid} {kind}")
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def nbval(
    paths: list[Path], cell_timeout: int = CELL_TIMEOUT, hash_seed: int | None = None
) -> int:
    """Run the gate; 0 only if every code cell of every page ran, was compared, and agreed."""
    paths = [path for path in paths if path.suffix == ".ipynb"]
    if not paths:
        print("nbval: no notebook given, nothing was compared", file=sys.stderr)
        return 1
    cells = 0
    for path in paths:
        try:
            cells += sum(cell.is_code for cell in read(path).cells)
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    ledger = Ledger()
    # Cells of one page share a kernel: loadscope keeps them together. One page needs no workers.
    workers = ["-p", "xdist.plugin", "-n2", "--dist=loadscope"] if len(paths) > 1 else []
    arguments = [
        "-p", "nbval.plugin", "--nbval", "--nbval-current-env",
        f"--nbval-sanitize-with={SANITISER}", f"--nbval-cell-timeout={cell_timeout}", *workers,
        "-p", "no:cacheprovider", "-p", "pages.nbval_plugin", "-o", "addopts=", "-q",
        *map(str, paths),
    ]
    with kernel_environment(hash_seed) as environment:
        before = dict(os.environ)
        os.environ.clear()
        # Only the plugins named above: what else is installed may not change what the gate does.
        os.environ.update(environment, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="")
        try:
            status = int(pytest.main(arguments, plugins=[ledger]))
        finally:
            os.environ.clear()
            os.environ.update(before)
    for line in ledger.excused:
        print(f"counts as a failure: {line}", file=sys.stderr)
    if len(ledger.passed) != cells:
        print(f"nbval: {len(ledger.passed)} of {cells} code cells passed", file=sys.stderr)
    if status or ledger.excused or len(ledger.passed) != cells:
        print(HELP, file=sys.stderr)
        return status or 1
    return 0
