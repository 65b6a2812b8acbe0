"""The book's notebooks: execute, compare, check.

    python tools/notebooks.py run [PAGES…]      execute and write back in normal form
    python tools/notebooks.py check [PAGES…]    every rule of a page's form; lists all findings
    python tools/notebooks.py nbval [PAGES…]    execute again and compare with what is stored
    python tools/notebooks.py environment       the settings notebooks run under, KEY=VALUE a line

Without PAGES: all of `book/`. Exit status 0: all well; 1: findings; 2: bad arguments.

How a page is written (each point is a rule of tools/pages/rules):
- First cell: INSTALL_CELL (tools/pages/__init__.py) byte for byte, tag `remove-cell`.
- Second: `# 3.2.1 Title of the paper` and under it one question in italics.
- A hidden cell is a code cell tagged `remove-cell`. It follows a figure or a measured number
  (`≈ 0.98`) at once and asserts: the facts of the figure's alt text (`mystnb.image.alt` in the
  cell's metadata), a bound of the number.
- `**Predict.** …?` begins a line of text; the next cell answers visibly; that cell or the hidden
  one after it asserts.
- `### Exercise 1: …`, then at once its solution: code cells tagged `solution` and `hide-cell`, with
  an assertion. The book folds them under "Show the solution" and JupyterLab folds them too; no
  directive is needed, so Colab shows no raw markup.
- Exceptions stand in tools/exceptions.toml, each with its reason.
"""

import argparse
import os
import sys
from pathlib import Path

from pages.book import Book
from pages.execution import CELL_TIMEOUT, ENVIRONMENT, CellFailed, run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/notebooks.py", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {
        "run": "execute notebooks and write them back in normal form",
        "check": "check every rule of a page's form",
        "nbval": "execute notebooks and compare with what they store",
    }.items():
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "pages", nargs="*", type=Path, metavar="PAGE", help="default: all of book/"
        )
        if name != "check":
            command.add_argument(
                "--cell-timeout", type=int, default=CELL_TIMEOUT, metavar="SECONDS"
            )
    commands.add_parser("environment", help="print the settings notebooks run under")
    options = parser.parse_args(arguments)
    if options.command == "environment":
        print("\n".join(f"{key}={value}" for key, value in ENVIRONMENT.items()))
        return 0
    for path in options.pages:
        if not path.is_file() or path.suffix not in (".ipynb", ".md"):
            parser.error(f"{path}: expected an existing .ipynb or .md file")
    return {"run": run_pages, "check": check_pages, "nbval": compare_pages}[options.command](
        options
    )


def chosen(options: argparse.Namespace) -> list[Path]:
    return options.pages or [Path(os.path.relpath(path)) for path in Book().pages]


def run_pages(options: argparse.Namespace) -> int:
    failed = False
    for path in chosen(options):
        if path.suffix != ".ipynb":
            continue
        try:
            changed = run(path, options.cell_timeout)
        except (CellFailed, ValueError) as error:
            failed = True
            print(f"{path}: {error}\n{path}: left as it was", file=sys.stderr)
        else:
            print(f"{path}: {'written' if changed else 'unchanged'}")
    return int(failed)


def check_pages(options: argparse.Namespace) -> int:
    from pages.rules import check

    paths = chosen(options)
    findings = check(paths, Book(), whole=not options.pages)
    for finding in findings:
        print(finding)
    print(f"{len(paths)} pages, {len(findings)} findings", file=sys.stderr)
    return int(bool(findings))


def compare_pages(options: argparse.Namespace) -> int:
    from pages.gate import nbval

    return nbval(chosen(options), options.cell_timeout)


if __name__ == "__main__":
    sys.exit(main())
