"""How a rule is written and found: a function under a name, which yields what it finds."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pages.book import Book
from pages.page import Cell, Page, read

Found = Iterator[tuple[Cell | None, str]]


@dataclass(frozen=True)
class Rule:
    """A check by name. `kinds` empty: every page; else only pages of these kinds."""

    name: str
    check: Callable[[Page, Book], Found]
    notebooks_only: bool
    kinds: frozenset[str]

    def applies(self, page: Page, book: Book) -> bool:
        if self.notebooks_only and not page.is_notebook:
            return False
        return not self.kinds or book.kind(page.stem) in self.kinds


@dataclass(frozen=True)
class Finding:
    file: Path
    cell: Cell | None
    rule: str
    message: str

    def __str__(self) -> str:
        where = f"{self.cell}: " if self.cell else ""
        return f"{self.file}: {where}[{self.rule}] {self.message}"


RULES: dict[str, Rule] = {}
BOOK_RULES: dict[str, Callable[[Book], Iterator[tuple[Path, str]]]] = {}


def rule(name: str, *kinds: str, notebooks_only: bool = True):
    def register(check):
        RULES[name] = Rule(name, check, notebooks_only, frozenset(kinds))
        return check

    return register


def book_rule(name: str):
    def register(check):
        BOOK_RULES[name] = check
        return check

    return register


def check(paths: Iterable[Path], book: Book, whole: bool = False) -> list[Finding]:
    """All findings on these pages; `whole` adds the rules about the book as one."""
    findings = []
    for path in paths:
        try:
            page = read(path)
        except (ValueError, OSError) as error:
            findings.append(Finding(path, None, "readable", str(error)))
            continue
        findings += [
            Finding(path, cell, rule.name, message)
            for rule in RULES.values()
            if rule.applies(page, book)
            for cell, message in rule.check(page, book)
        ]
    if whole:
        findings += [
            Finding(path, None, name, message)
            for name, check_book in BOOK_RULES.items()
            for path, message in check_book(book)
        ]
    return findings
