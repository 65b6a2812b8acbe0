"""Rules about the parts of a page, from its kind and title to its exercises."""

import ast
import re

from pages import EXERCISE, HEAD, KINDS, LESSON, LOOKUP, OVERVIEW, PREDICTED, SOLUTION, STUDY
from pages.book import Book
from pages.page import Cell, Page, read
from pages.reading import assertions, calls, calls_only
from pages.rules.registry import PLACED, Found, cell_rule, rule


@rule(texts=True)
def kind(page: Page, book: Book) -> Found:
    """What a page must have follows from `book = {"kind": …, "section": …}` in its metadata (front
    matter of a text). Lessons, studies and chapter heads stand at a section of the paper."""
    if page.kind not in KINDS or page.about.keys() - {"kind", "section"}:
        yield None, f"metadata book is {page.about}: a kind ({', '.join(KINDS)}), perhaps a section"
    elif page.section not in book.sections and (page.section or page.kind in (LESSON, STUDY, HEAD)):
        yield None, f"the section is {page.section!r}, expected one of annotated.paper.SECTIONS"


@rule(texts=True)
def file_name(page: Page, book: Book) -> Found:
    """Addresses of pages stay as they are, so they are plain, and say which section it is. A
    section may have more lessons than its page, `<section>-<subject>`."""
    section = book.sections.get(page.section)
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", page.stem) or page.stem == "search":
        yield None, f"{page.stem!r}: lower-case words joined by hyphens, and never `search`"
    elif section is None:
        if page.stem[0].isdigit():
            yield None, f"{page.stem!r} begins with a number, but the page has no section"
    elif page.stem != section.stem:
        number = section.stem.removesuffix(section.slug)
        study = page.stem.startswith(f"{number}study-")
        lesson = further_lesson(section).match(page.stem)
        if page.kind == HEAD or not (lesson if page.kind == LESSON else study):
            yield None, (
                f"{page.stem!r} stands at section {page.section}: {section.stem}, {number}study-…"
                f" for a study beside it, or {number}… for one more lesson"
            )


@rule(STUDY, texts=True)
def study_beside(page: Page, book: Book) -> Found:
    """A study is found from its section's page, or another lesson of the section: there a sentence
    with the finding links to it, and in _toc.yml it stands under that page, in its `sections`."""
    section = book.sections.get(page.section)
    if section is None or page.stem == section.stem:
        return
    more = further_lesson(section)
    pages = {p.stem: p for p in book.pages if p.stem == section.stem or more.match(p.stem)}
    names = sorted({section.stem, *pages})
    above = [name for name in names if page.stem in book.children.get(name, ())]
    if not above:
        expected = " or ".join(f"book/{name}" for name in names)
        yield None, f"not among the sections of {expected} in _toc.yml"
    link = re.compile(rf"\]\({page.stem}\.(?:ipynb|md)[)#]")
    lessons = [pages[name] for name in above or names if name in pages]
    if not any(link.search(read(lesson).text) for lesson in lessons):
        beside = " or ".join(above or names)
        yield None, f"no link to it on the page of its section, {beside}"


def further_lesson(section) -> re.Pattern[str]:
    """The names of lessons beside the page of a section; "03-2-…" is none of section 3."""
    return re.compile(rf"{section.stem.removesuffix(section.slug)}(?!study-)[a-z]")


@rule(texts=True)
def title(page: Page, book: Book) -> Found:
    """One title, at the top; the page of a section has the paper's, so that it is found by it."""
    heads = [(cell, text) for cell, level, text in page.headings() if level == 1]
    if len(heads) != 1:
        yield heads[1][0] if heads else None, f"{len(heads)} headings of the first level, not one"
        return
    cell, text = heads[0]
    if cell is not page.prose[0]:
        yield cell, "the title is not in the first text of the page"
    section = book.sections.get(page.section)
    if section and page.stem == section.stem:
        number = f"{page.section} " if page.section[0].isdigit() else ""
        if text not in (section.title, number + section.title):
            yield cell, f"the title is {text!r}, the paper's {number + section.title!r}"


@rule(PLACED)
def place(page: Page, book: Book) -> Found:
    """A reader who comes by a link sees where in the paper this is (`# 3.2.1 …` or §3.2.1)."""
    number = re.escape(page.section)
    opening = page.prose[0].source if page.prose else ""
    if page.section[0].isdigit() and not re.search(
        rf"(?:^# +|§ ?|[Ss]ection ){number}(?![\d.]*\d)", opening, re.M
    ):
        yield None, f"the opening does not say its place in the paper (§{page.section})"


@rule(PLACED, OVERVIEW, LOOKUP, EXERCISE)
def question(page: Page, book: Book) -> Found:
    """A page answers one question, which stands under its title in italics: *…?*"""
    text = "\n".join(cell.source for cell in page.prose[:2])
    match = re.search(r"^# [^\n]*\n(?:\s*(?:\([\w.-]+\)=)?\n)*([^\n]+)", text, re.M)
    if not match or not re.fullmatch(r"([*_])(?![*_ ]).{8,}\?\1", match[1].strip()):
        yield None, "under the title stands no question: one line in italics, *…?*"


@rule(PLACED)
def paper_and_measured(page: Page, book: Book) -> Found:
    """At every section the paper's claims stand beside what was measured here."""
    if not page.under(r"paper says\b.*\bwe measured"):
        yield None, 'no section "The paper says, we measured", or an empty one'


SILENT = re.compile(r"–$|nothing\b", re.I)


@rule(PLACED)
def verdict(page: Page, book: Book) -> Found:
    """Beside each claim of the paper a mark says how it fared: "✓ …" reproduced, "≠ …" differs,
    "○ …" left open; and "+ …" where the paper says nothing ("–"). The book has their words."""
    text = page.under(r"paper says\b.*\bwe measured") or ""
    for claim, found in re.findall(r"^\| *(.*?) *(?<!\\)\| *(.*?) *\|$", text, re.M)[2:]:
        marks = "+" if SILENT.match(claim) else "✓≠○"
        if not re.match(rf"[{marks}] \S", found):
            yield None, f"the row {claim!r} needs one of the marks {' '.join(marks)}: {found!r}"


@rule(PLACED, OVERVIEW, LOOKUP, EXERCISE)
def where_it_lives(page: Page, book: Book) -> Found:
    """From each page a way leads to the module and the test that hold what it says."""
    text = page.under(r"where (?:it|this|they) lives?") or ""
    modules = re.findall(r"\bannotated(?:\.\w+)+", text)
    files = re.findall(r"\bsrc/(annotated/[\w/]+)\.py", text)
    modules += [name.removesuffix("/__init__").replace("/", ".") for name in files]
    tests = re.findall(r"\btests/[\w/]+\.py(?:::\w+)*", text)
    if not modules or not tests:
        yield None, 'a section "Where it lives" names a module and a test (tests/….py)'
    missing = [name for name in modules if not book.has_object(name)]
    for name in missing + [name for name in tests if not book.has_test(name)]:
        yield None, f'"Where it lives" names {name}, which does not exist'


@rule(PLACED, OVERVIEW, EXERCISE)
def book_model(page: Page, book: Book) -> Found:
    """One sentence and one trained model run through the book (notebook.book_model())."""
    section = book.sections.get(page.section)
    concerned = page.kind in (OVERVIEW, EXERCISE) or re.match(r"[35]|6\.1$", page.section)
    own = section and page.stem != section.stem  # beside the section: a study with its own models
    if concerned and not own and not any("book_model" in cell.source for cell in page.code):
        yield None, "the page does not use notebook.book_model(): the book's sentence and weights"


@rule()
def strip_first(page: Page, book: Book) -> Found:
    """The strip of stations (where) says where on the way from text to text a page is: first. Where
    it moves on with the text, it stands alone in a cell whose source the book leaves out."""
    for cell in page.visible[1:]:
        moves_on = calls_only(cell, "where") and "remove-input" in cell.tags
        if {"where", "notebook.where"} & set(calls(cell)) and not moves_on:
            yield cell, "the strip (where) belongs into the first visible code cell"


@rule(LESSON)
def shows_package(page: Page, book: Book) -> Found:
    """A lesson of section 3 computes the formula, shows the package's object, and asserts that both
    agree: so readers may trust either. Sections 1 and 2 have no part of the package."""
    if not page.section.startswith("3"):
        return
    if not any(name.split(".")[-1] == "show" for cell in page.visible for name in calls(cell)):
        yield None, "no show(…) of the package's object"
    agree = {"allclose", "equal", "array_equal", "assert_close", "assert_allclose", "isclose"}
    asserted = [name for cell in page.code if assertions(cell) for name in calls(cell)]
    if agree.isdisjoint(name.split(".")[-1] for name in asserted):
        yield None, "no assertion that own lines and package agree (allclose, equal, …)"


PREDICTIONS = {LESSON: (2, 4), OVERVIEW: (2, 4), STUDY: (1, 4)}


@rule()
def predict(page: Page, book: Book) -> Found:
    """Who has guessed remembers the answer. `**Predict.** …?` begins a line of text; the next cell
    answers, its output folded in the book (tag hide-output) until the reader opens it; a hidden
    cell after it asserts, where it gives nothing away."""
    lines = [len(re.findall(r"^\*\*Predict\b", cell.source, re.M)) for cell in page.prose]
    low, high = PREDICTIONS.get(page.kind, (0, 4))
    if not low <= sum(lines) <= high:
        yield None, f"{sum(lines)} lines that start with **Predict**, expected {low} to {high}"
    answers = []
    for cell, count in zip(page.prose, lines, strict=True):
        if count == 0:
            continue
        if count > 1:
            yield cell, "two predictions in one cell: each is followed by the cell that answers it"
        answer = page.after(cell)
        answers.append(answer)
        if answer is None or not answer.is_code or answer.hidden or not answer.outputs:
            yield cell, "after a prediction comes the visible cell that answers it, with an output"
        elif PREDICTED not in answer.tags:
            yield answer, f"answers a prediction, so its output is folded: the tag {PREDICTED}"
        elif assertions(answer):
            yield answer, "an assertion in sight gives the answer away: into a hidden cell after it"
        elif not any(c.hidden and assertions(c) for c in page.code_from(answer)):
            yield answer, "no hidden cell asserts the answer to the prediction before the next text"
    for cell in page.code:
        if PREDICTED in cell.tags and cell not in answers:
            yield cell, f"the tag {PREDICTED} is for the cell right after a prediction"


@rule(LESSON)
def exercises(page: Page, book: Book) -> Found:
    """Two to four exercises, each with a solution that runs: `### Exercise 1: …`, then at once code
    cells tagged `solution` and `hide-cell`, with an assertion. The book folds them under "Show the
    solution", JupyterLab folds them too; no directive is needed, so Colab shows no raw markup."""
    found = [(cell, text) for cell, _, text in page.headings() if re.match(r"Exercise\b", text)]
    if not 2 <= len(found) <= 4:
        yield None, f'{len(found)} headings "Exercise 1: …", expected two to four'
    for expected, (cell, text) in enumerate(found, start=1):
        if not re.match(rf"Exercise {expected}\b", text):
            yield cell, f"{text!r} should be exercise {expected}"
        solution: list[Cell] = page.code_from(page.after(cell))
        if not any(SOLUTION in c.tags for c in solution):
            yield cell, f"{text!r} has no solution next: code tagged {SOLUTION}, hide-cell"
        elif not any(assertions(c) for c in solution):
            yield solution[0], "the solution asserts nothing"


@rule(EXERCISE)
def stubs(page: Page, book: Book) -> Found:
    """The reader writes these pages: a function whose body is `...`, then, before the next text, a
    visible check of it, and a solution that asserts the same check."""
    empty = [(cell, node.name) for cell in page.visible for node in cell.nodes
             if isinstance(node, ast.FunctionDef) and ast.unparse(node.body[-1]) == "..."]
    if not empty:
        yield None, "no empty function (its body a docstring and `...`) for the reader to write"
    for cell, name in empty:
        following = page.code_from(page.after(cell))
        solved = [c for c in following if SOLUTION in c.tags]
        if not any(re.search(rf"\bcheck\b.*\b{name}\b", c.source)
                   for c in following if not c.hidden and c not in solved):
            yield cell, f"no check of {name} next"
        if not any("check" in calls(c) and assertions(c) for c in solved):
            yield cell, f"no solution of {name} that asserts its check (tags {SOLUTION}, hide-cell)"


@cell_rule("code")
def solutions_folded(cell: Cell):
    """A solution in sight would give the exercise away."""
    if SOLUTION in cell.tags and "hide-cell" not in cell.tags:
        yield "a solution has the tag hide-cell too"
