"""How a rule is written and found: a function whose docstring gives the reason.

    @rule(LESSON, STUDY)            these kinds of page; without arguments all
    def my_rule(page, book):        the rule is called my-rule
        '''Why pages keep it.'''
        yield cell or None, "what is wrong, and what was expected"

    @cell_rule("code")              for each cell of `page.code`
    def my_rule(cell):
        '''Why cells keep it.'''
        yield "what is wrong"
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pages.book import Book
from pages.page import Cell, Page, read

Found = Iterator[tuple[Cell | None, str]]
PLACED = "placed"  # beside the kinds: any page at a section of the paper


@dataclass(frozen=True)
class Rule:
    """A check by name. `kinds` empty: every page; else only pages of these kinds."""

    check: Callable[[Page, Book], Found]
    kinds: tuple[str, ...]
    texts: bool  # Markdown files too
    reason: str

    def applies(self, page: Page) -> bool:
        placed = bool(page.section) and PLACED in self.kinds
        kept = not self.kinds or page.kind in self.kinds or placed
        return kept and (self.texts or page.is_notebook)


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


def _name(check: Callable) -> str:
    if not check.__doc__:
        raise ValueError(f"{check.__name__} has no docstring: a rule gives its reason")
    return check.__name__.replace("_", "-")


def rule(*kinds: str, texts: bool = False):
    """A rule about a page as a whole."""

    def register(check):
        RULES[_name(check)] = Rule(check, kinds, texts, check.__doc__)
        return check

    return register


def cell_rule(cells: str, *, texts: bool = False):
    """A rule about each of a page's `cells`, `code`, `visible` or `prose` cells by itself."""

    def register(check):
        def each(page: Page, book: Book) -> Found:
            for cell in getattr(page, cells):
                yield from ((cell, message) for message in check(cell))

        RULES[_name(check)] = Rule(each, (), texts, check.__doc__)
        return check

    return register


def book_rule(check):
    """A rule about the book as one."""
    BOOK_RULES[_name(check)] = check
    return check


def described() -> Iterator[str]:
    """Each rule with the pages it is about and its reason."""
    for name, rule in RULES.items():
        about = f" ({', '.join(rule.kinds)})" if rule.kinds else ""
        yield f"{name}{about}: {' '.join(rule.reason.split())}"
    yield from (f"{name} (book): {' '.join(f.__doc__.split())}" for name, f in BOOK_RULES.items())


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
            Finding(path, cell, name, message)
            for name, rule in RULES.items()
            if rule.applies(page)
            for cell, message in rule.check(page, book)
        ]
    for name, check_book in BOOK_RULES.items() if whole else ():
        findings += [Finding(path, None, name, message) for path, message in check_book(book)]
    return findings
