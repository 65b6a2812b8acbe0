"""Rules about the text: headings, links, boxes, numerals; and about the files as a set."""

import re
import unicodedata
from pathlib import Path

from pages.book import Book
from pages.learn import LONGEST, minutes
from pages.numerals import unshown
from pages.page import Page, without_fences
from pages.reading import said, spelled
from pages.rules.registry import Found, book_rule, rule

BOXES = (
    "note tip hint important warning caution attention danger error seealso admonition todo margin"
    " sidebar topic card epigraph".split()
)


@rule(texts=True)
def boxes(page: Page, book: Book) -> Found:
    """Where everything is in a box, nothing stands out: two, folded ones not counted."""
    found = []
    for cell in page.prose:
        pattern = r"^ *(?:`{3,}|~{3,}|:{3,})\{([\w-]+)\}[^\n]*\n((?: *:[\w-]+:[^\n]*\n)*)"
        for name, options in re.findall(pattern, cell.source + "\n", re.M):
            if name in BOXES and "dropdown" not in options:
                found.append((cell, name))
        found += [(cell, name) for name in re.findall(r"^> ?\[!(\w+)\]", cell.source, re.M)]
    for cell, name in found[2:]:
        yield cell, f"{len(found)} boxes on the page ({name} here), at most two"


@rule(texts=True)
def headings(page: Page, book: Book) -> Found:
    """Headings stand in tables of contents and addresses, where symbols and maths break."""
    for cell, _, text in page.headings():
        odd = [c for c in text if not c.isascii() and unicodedata.category(c) in ("So", "Sm", "Cn")]
        if odd or re.search(r"[$\\]|\{math\}", text):
            yield cell, f"the heading {text!r} has maths or symbols: {' '.join(odd)}"


@rule(texts=True)
def links(page: Page, book: Book) -> Found:
    """A page links only to pages of the book and to files of the repository that exist."""
    for cell in page.prose:
        text = without_fences(cell.source)
        targets = [(m[1], False) for m in re.finditer(r"\]\(<?([^)\s>]+)", text)]
        targets += [(m[1], True) for m in re.finditer(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text)]
        for target, document in targets:
            name = target.split("#")[0]
            if name and not re.match(r"[a-z][a-z0-9+.-]*:", name):
                path = (page.path.parent / name).resolve()
                if fault := _link_fault(path, document, book):
                    yield cell, f"links to {target}, {fault}"


def _link_fault(target: Path, document: bool, book: Book) -> str | None:
    root = book.root.resolve()
    if not target.is_relative_to(root):
        return "which is outside the repository"
    is_page = target.suffix in (".ipynb", ".md")
    names = ("", ".ipynb", ".md") if document and not is_page else ("",)
    existing = [p for s in names if (p := target.with_name(target.name + s)).is_file()]
    if not existing:
        return "which does not exist"
    inside = existing[0].relative_to(root).with_suffix("").as_posix()
    listed = inside in book.toc or not (is_page or document)
    return None if listed else "which is not a page of _toc.yml"


@rule(texts=True)
def in_toc(page: Page, book: Book) -> Found:
    """A page that is not in _toc.yml is left out of the book without a word."""
    path = page.path.resolve()
    if path.is_relative_to(book.folder.resolve()):
        if path.relative_to(book.root.resolve()).with_suffix("").as_posix() not in book.toc:
            yield None, "not in _toc.yml"


@rule(texts=True)
def one_source(page: Page, book: Book) -> Found:
    """Of two files with one stem Sphinx builds either, and the other grows old."""
    for twin in sorted(page.path.parent.glob(f"{page.stem}.*")):
        if twin != page.path and twin.suffix in (".ipynb", ".md", ".py", ".rst"):
            yield None, f"{twin.name} has the same stem: one source a page"


@rule(texts=True)
def numerals(page: Page, book: Book) -> Found:
    """No number on a page is typed by hand that no cell of the page prints: in the section of the
    prose, or in a line of output that has a word near the numeral too. (Names: exceptions.toml.)"""
    for cell, numeral in unshown(page):
        value = f"{numeral.value.normalize():f}"  # as in exceptions.toml: 37000, 0.81
        if not book.allows("numeral", page.stem, value):
            where = "neither in its section nor beside a word that stands near it"
            yield cell, f"{numeral.text!r} is printed {where}"


@rule(texts=True)
def terms(page: Page, book: Book) -> Found:
    """No term is used before the page of the Learn path that explains it (book/learn.toml); one
    that is explained beside the path is used where a link leads there."""
    if page.stem not in book.learn:
        return
    here = book.learn.index(page.stem)
    texts = {cell.place: " ".join(said(cell.source).split()) for cell in page.prose}
    for term, home in book.terms.items():
        pattern = spelled(term)
        uses = [cell for cell in page.prose if pattern.search(texts[cell.place])]
        if home == page.stem:
            if not uses:
                yield None, f"{term!r} is explained here (learn.toml), but is not in the text"
        elif home in book.learn:
            if uses and book.learn.index(home) > here:
                yield uses[0], f"uses {term!r}, which {home} explains, later on the path"
        elif uses and not re.search(rf"\]\({home}\.(?:ipynb|md)[)#]", page.text):
            yield uses[0], f"uses {term!r} without a link to {home}, which explains it"


FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?!\d)", re.S)


@rule(texts=True)
def symbols(page: Page, book: Book) -> Found:
    """A reader looks a symbol up on one page: every symbol of a formula stands in
    annotated.notation, of which the page Notation is made."""
    for cell in page.prose:
        text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", " ", without_fences(cell.source), flags=re.S)
        formulas = [long or short for long, short in FORMULA.findall(text)]
        if missing := dict.fromkeys(name for f in formulas for name in book.unknown_symbols(f)):
            yield cell, f"no symbol {', '.join(missing)} in annotated.notation"


COUNTED = (
    "tokens pieces words sentences numbers pairs vectors rows columns weights scores maps lines"
    " steps updates operations multiplications parameters bytes times minutes seconds queries keys"
)
PER = (
    "second minute hour day token piece word sentence number pair vector row column step update"
    " layer head position place page query key sub-layer batch"
)


@rule(texts=True)
def per(page: Page, book: Book) -> Found:
    """A rate is said with "per": "one vector a piece" could be any piece."""
    counted, unit = ("|".join(names.split()) for names in (COUNTED, PER))
    one = "|".join(name.removesuffix("s") for name in COUNTED.split())
    pattern = rf"\b(?:{counted}|(?:one|1) (?:{one}))\s+an?\s+(?:{unit})\b"
    for cell in page.prose:
        for match in re.finditer(pattern, said(cell.source), re.I):
            yield cell, f"{' '.join(match[0].split())!r}: per, not a"


@book_rule
def glossary(book: Book):
    """A term is looked up for a sentence or two, not for a page; what it means is said elsewhere in
    learn.toml only for a term that is there."""
    for term, text in book.definitions.items():
        sentences = len(re.findall(r"[.?!:](?= |$)", text)) - text.count(": ")
        if not 1 <= sentences <= 2 or not text.endswith(".") or len(text.split()) < 4:
            yield book.folder / "learn.toml", f"{term!r} is not defined in one or two sentences"
    for term in book.elsewhere.keys() - book.terms.keys():
        yield book.folder / "learn.toml", f"{term!r} means something elsewhere, but is no term"


@book_rule
def learn_path(book: Book):
    """The Learn path is walked in two hours and leads over pages that are there."""
    there = [page.stem for page in book.learn_pages]
    for stem in book.learn:
        if stem not in there:
            yield book.folder / "learn.toml", f"{stem} is on the path, but not in the book"
    if (total := sum(map(minutes, book.learn_pages))) > LONGEST:
        yield book.folder / "learn.toml", f"the path takes {total} minutes, at most {LONGEST}"


@book_rule
def tree_size(book: Book):
    """The repository is cloned by readers: all notebooks take at most 10 MB."""
    size = sum(path.stat().st_size for path in book.folder.glob("*.ipynb"))
    if size > 10_000_000:
        yield book.folder, f"the notebooks take {size / 1e6:.1f} MB, at most 10"


@book_rule
def unused_exception(book: Book):
    """What no page needs any more would let something else through."""
    for entry in book.allowed:
        if entry not in book.used and entry.page != "*":
            yield book.exceptions, f"no page needs {entry}: take it out"
