"""Rules about the text: headings, links, boxes, numerals; and about the files as a set."""

import re
import unicodedata
from pathlib import Path

from pages import numerals
from pages.book import Book
from pages.page import Page, without_fences
from pages.rules.registry import Found, book_rule, rule

BOXES = (
    "note tip hint important warning caution attention danger error seealso admonition todo margin"
    " sidebar topic card epigraph".split()
)


@rule("boxes", notebooks_only=False)
def boxes(page: Page, book: Book) -> Found:
    found = []
    for cell in page.prose:
        pattern = r"^ *(?:`{3,}|~{3,}|:{3,})\{([\w-]+)\}[^\n]*\n((?: *:[\w-]+:[^\n]*\n)*)"
        for name, options in re.findall(pattern, cell.source + "\n", re.M):
            if name in BOXES and "dropdown" not in options:
                found.append((cell, name))
        found += [(cell, name) for name in re.findall(r"^> ?\[!(\w+)\]", cell.source, re.M)]
    for cell, name in found[2:]:
        yield cell, f"{len(found)} boxes on the page ({name} here), at most two"


@rule("headings", notebooks_only=False)
def headings(page: Page, book: Book) -> Found:
    for cell, _, text in page.headings():
        odd = [c for c in text if not c.isascii() and unicodedata.category(c) in ("So", "Sm", "Cn")]
        if odd:
            yield cell, f"the heading {text!r} has emoji or symbols: {' '.join(odd)}"
        if "$" in text or "\\" in text or "{math}" in text:
            yield cell, f"the heading {text!r} has maths"


@rule("links", notebooks_only=False)
def links(page: Page, book: Book) -> Found:
    for cell in page.prose:
        text = without_fences(cell.source)
        targets = [(m[1], False) for m in re.finditer(r"\]\(<?([^)\s>]+)", text)]
        targets += [(m[1], True) for m in re.finditer(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text)]
        for target, document in targets:
            name = target.split("#")[0]
            if not name or re.match(r"[a-z][a-z0-9+.-]*:", name):
                continue
            fault = _link_fault((page.path.parent / name).resolve(), document, book)
            if fault:
                yield cell, f"links to {target}, {fault}"


def _link_fault(target: Path, document: bool, book: Book) -> str | None:
    root = book.root.resolve()
    if not target.is_relative_to(root):
        return "which is outside the repository"
    if target.suffix not in (".ipynb", ".md") and not document:
        return None if target.is_file() else "which does not exist"
    files = (
        [target]
        if target.suffix in (".ipynb", ".md")
        else [target.with_name(target.name + s) for s in (".ipynb", ".md")]
    )
    existing = [file for file in files if file.is_file()]
    if not existing:
        return "which does not exist"
    inside = existing[0].relative_to(root).with_suffix("").as_posix()
    return None if inside in book.toc else "which is not a page of _toc.yml"


@rule("in-toc", notebooks_only=False)
def in_toc(page: Page, book: Book) -> Found:
    if page.path.resolve().is_relative_to(book.folder.resolve()):
        name = page.path.resolve().relative_to(book.root.resolve()).with_suffix("").as_posix()
        if name not in book.toc:
            yield None, "not in _toc.yml, so the book would leave it out without a word"


@rule("one-source", notebooks_only=False)
def one_source(page: Page, book: Book) -> Found:
    twins = [
        p
        for p in page.path.parent.glob(f"{page.stem}.*")
        if p != page.path and p.suffix in (".ipynb", ".md", ".py", ".rst")
    ]
    for twin in sorted(twins):
        yield None, f"{twin.name} has the same stem: one source a page"


@rule("file-name", notebooks_only=False)
def file_name(page: Page, book: Book) -> Found:
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", page.stem) or page.stem == "search":
        yield (
            None,
            f"{page.stem!r}: names are lower-case words joined by hyphens, and never `search`",
        )
    elif page.stem[0].isdigit() and page.stem not in book.sections:
        yield (
            None,
            f"{page.stem!r} is no section of annotated.paper.SECTIONS, nor a page beside one",
        )


@rule("numerals", notebooks_only=False)
def check_numerals(page: Page, book: Book) -> Found:
    numbers = set(numerals.in_values(book.paper))
    for cell in page.visible:
        numbers |= numerals.in_text(cell.readable)
    named = "\n".join(c.source for c in (page.code if page.is_notebook else page.prose))
    for record in book.records(named):
        numbers |= numerals.in_record(record)
    for cell in page.cells:
        text = cell.source if cell.kind == "markdown" else cell.alt or ""
        for readings in numerals.in_prose(text):
            value = f"{readings[0].value.normalize():f}"  # as in exceptions.toml: 37000, 0.81
            if not numerals.known(readings, numbers) and not book.allows(
                "numeral", page.stem, value
            ):
                where = "no output or record of this page, and not in annotated.paper"
                yield cell, f"{readings[0].text!r} is in {where}"


@book_rule("tree-size")
def tree_size(book: Book):
    size = sum(path.stat().st_size for path in book.folder.glob("*.ipynb"))
    if size > 10_000_000:
        yield book.folder, f"the notebooks take {size / 1e6:.1f} MB, at most 10"


@book_rule("unused-exception")
def unused_exception(book: Book):
    for entry in book.allowed:
        if entry not in book.used and entry.page != "*":
            yield book.exceptions, f"no page needs {entry}: take it out"
