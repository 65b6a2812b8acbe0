"""The book's notebooks: execute, compare, check.

    python tools/notebooks.py run [PAGES…]      execute and write back in normal form
    python tools/notebooks.py check [PAGES…]    every rule of a page's form; lists all findings
    python tools/notebooks.py nbval [PAGES…]    execute again and compare with what is stored
    python tools/notebooks.py rules             every rule of a page's form, with its reason
    python tools/notebooks.py environment       the settings notebooks run under, KEY=VALUE a line

Without PAGES: all of `book/`. Exit status 0: all well; 1: findings; 2: bad arguments.
"""

import argparse
import os
import sys
from pathlib import Path
from textwrap import fill

from pages.book import Book
from pages.execution import CELL_TIMEOUT, ENVIRONMENT, CellFailed, run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/notebooks.py", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, text, about_pages) in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if about_pages:
            command.add_argument("pages", nargs="*", type=Path, help="default: all of book/")
        if name in ("run", "nbval"):
            command.add_argument("--cell-timeout", type=int, default=CELL_TIMEOUT)
        if name == "nbval":
            command.add_argument("--hash-seed", type=int, help="another order of sets of texts")
    options = parser.parse_args(arguments)
    for path in vars(options).get("pages", ()):
        if not path.is_file() or path.suffix not in (".ipynb", ".md"):
            parser.error(f"{path}: expected an existing .ipynb or .md file")
    return COMMANDS[options.command][0](options)


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

    return nbval(chosen(options), options.cell_timeout, options.hash_seed)


def print_rules(options: argparse.Namespace) -> int:
    from pages.rules import described

    print("\n\n".join(fill(line, 100, subsequent_indent="    ") for line in described()))
    return 0


def print_environment(options: argparse.Namespace) -> int:
    print("\n".join(f"{key}={value}" for key, value in ENVIRONMENT.items()))
    return 0


COMMANDS = {  # name -> (what does it, its help, is it about pages?)
    "run": (run_pages, "execute notebooks and write them back in normal form", True),
    "check": (check_pages, "check every rule of a page's form", True),
    "nbval": (compare_pages, "execute notebooks and compare with what they store", True),
    "rules": (print_rules, "print every rule of a page's form, with its reason", False),
    "environment": (print_environment, "print the settings notebooks run under", False),
}

if __name__ == "__main__":
    sys.exit(main())
