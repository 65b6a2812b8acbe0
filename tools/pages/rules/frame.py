"""Rules about the parts of a page: title, question, predictions, exercises, where it lives."""

import re

from pages import SOLUTION
from pages.book import CONCEPT, EVIDENCE, LOOKUP, OVERVIEW, Book
from pages.page import Cell, Page
from pages.rules.reading import assertions, calls
from pages.rules.registry import Found, rule


@rule("title", notebooks_only=False)
def title(page: Page, book: Book) -> Found:
    heads = [(cell, text) for cell, level, text in page.headings() if level == 1]
    if len(heads) != 1:
        yield (
            heads[1][0] if heads else None,
            f"{len(heads)} headings of the first level, expected one: the title",
        )
        return
    cell, text = heads[0]
    if cell is not next((c for c in page.prose), None):
        yield cell, "the title is not in the first text of the page"
    number, paper_title = book.sections.get(page.stem, ("", None))
    if paper_title and text not in (paper_title, f"{number} {paper_title}".strip()):
        yield (
            cell,
            f"the title is {text!r}, the paper's is {paper_title!r} (perhaps after its number)",
        )


@rule("place")
def place(page: Page, book: Book) -> Found:
    number = book.sections.get(page.stem, ("", None))[0]
    if number:
        first = page.prose[0] if page.prose else None
        opening = first.source if first else ""
        if not re.search(
            rf"(?:^# +|§ ?|[Ss]ection ){re.escape(number)}(?![\d.]*\d)", opening, re.M
        ):
            yield first, f"the opening does not say its place in the paper (§{number})"


@rule("question")
def question(page: Page, book: Book) -> Found:
    if page.stem not in book.sections:
        return
    text = "\n".join(cell.source for cell in page.prose[:2])
    match = re.search(r"^# [^\n]*\n(?:\s*(?:\([\w.-]+\)=)?\n)*([^\n]+)", text, re.M)
    if not match or not re.fullmatch(r"([*_])(?![*_ ]).{8,}\?\1", match[1].strip()):
        yield (
            page.prose[0] if page.prose else None,
            "under the title stands no question: one line in italics, *…?*",
        )


@rule("paper-and-measured")
def paper_and_measured(page: Page, book: Book) -> Found:
    if book.kind(page.stem) in (OVERVIEW, LOOKUP):
        return  # they introduce or list; what the paper claims is on the pages of its sections
    if page.stem in book.sections and not page.section(r"paper says\b.*\bwe measured"):
        yield None, 'no section "The paper says, we measured", or an empty one'


@rule("where-it-lives")
def where_it_lives(page: Page, book: Book) -> Found:
    if page.stem not in book.sections:
        return
    text = page.section(r"where (?:it|this|they) lives?")
    if text is None:
        yield None, 'no section "Where it lives"'
        return
    modules = re.findall(r"\bannotated(?:\.\w+)+", text)
    modules += [
        m.removesuffix("/__init__").replace("/", ".")
        for m in re.findall(r"\bsrc/(annotated/[\w/]+)\.py", text)
    ]
    tests = re.findall(r"\btests/[\w/]+\.py(?:::\w+)*", text)
    if not modules:
        yield None, '"Where it lives" names no module of the package'
    if not tests:
        yield None, '"Where it lives" names no test (tests/….py)'
    for name in modules:
        if not book.has_module(name):
            yield None, f'"Where it lives" names {name}, which does not exist'
    for name in tests:
        if not book.has_test(name):
            yield None, f'"Where it lives" names {name}, which does not exist'


@rule("book-model")
def book_model(page: Page, book: Book) -> Found:
    number = book.sections.get(page.stem, ("", None))[0]
    concerned = number == "6.1" or number[:1] in ("3", "5") or book.kind(page.stem) == OVERVIEW
    if (
        concerned
        and page.stem != "05-speed"
        and "book_model" not in "".join(c.source for c in page.code)
    ):
        yield None, "the page does not use notebook.book_model(): the book's sentence and weights"


@rule("strip-first")
def strip_first(page: Page, book: Book) -> Found:
    for place, cell in enumerate(page.visible):
        if place and any(name in ("where", "notebook.where") for _, name in calls(cell)):
            yield (
                cell,
                "the strip (where) opens the page: it belongs into the first visible code cell",
            )


@rule("shows-package", CONCEPT)
def shows_package(page: Page, book: Book) -> Found:
    if not page.stem.startswith("03-"):
        return  # sections 1 and 2 have no part of the package
    names = [name.split(".")[-1] for cell in page.visible for _, name in calls(cell)]
    if "show" not in names:
        yield None, "no show(…) of the package's object"
    agree = {"allclose", "equal", "array_equal", "assert_close", "assert_allclose", "isclose"}
    if not any(
        name.split(".")[-1] in agree
        for cell in page.code
        if assertions(cell)
        for _, name in calls(cell)
    ):
        yield (
            None,
            "no assertion that the page's own lines and the package agree (allclose, equal, …)",
        )


@rule("predict", CONCEPT, EVIDENCE, OVERVIEW)
def predict(page: Page, book: Book) -> Found:
    lines = [
        (cell, n)
        for cell in page.prose
        if (n := len(re.findall(r"^\*\*Predict\b", cell.source, re.M)))
    ]
    count = sum(n for _, n in lines)
    low = 1 if book.kind(page.stem) == EVIDENCE else 3
    if not low <= count <= 5:
        yield None, f"{count} lines that start with **Predict**, expected {low} to 5"
    for cell, n in lines:
        if n > 1:
            yield cell, "two predictions in one cell: each is followed by the cell that answers it"
        answer = page.after(cell)
        if answer is None or not answer.is_code or answer.hidden or not answer.outputs:
            yield cell, "after a prediction comes the visible cell that answers it, with an output"
            continue
        following: Cell | None = answer
        while following is not None and following.is_code and not assertions(following):
            following = page.after(following)
        if following is None or not following.is_code:
            yield answer, "nothing asserts the answer to the prediction before the next text"


@rule("exercises", CONCEPT)
def exercises(page: Page, book: Book) -> Found:
    found = [(cell, text) for cell, _, text in page.headings() if re.match(r"Exercise\b", text)]
    if not 2 <= len(found) <= 4:
        yield None, f'{len(found)} headings "Exercise 1: …", expected two to four'
    for expected, (cell, text) in enumerate(found, start=1):
        if not re.match(rf"Exercise {expected}\b", text):
            yield cell, f"{text!r} should be exercise {expected}"
        solution, following = [], page.after(cell)
        while following is not None and following.is_code:
            solution.append(following)
            following = page.after(following)
        folded = [c for c in solution if SOLUTION in c.tags]
        if not folded:
            yield (
                cell,
                f"{text!r} is not followed by its solution: code tagged {SOLUTION}, hide-cell",
            )
        elif not any(assertions(c) for c in solution):
            yield folded[0], "the solution asserts nothing"


@rule("solutions-folded")
def solutions_folded(page: Page, book: Book) -> Found:
    for cell in page.code:
        if SOLUTION in cell.tags and "hide-cell" not in cell.tags:
            yield cell, "a solution has the tag hide-cell too"
