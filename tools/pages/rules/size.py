"""Rules about how long a page and its cells are."""

import statistics

from pages import EXERCISE, HEAD, LESSON, LOOKUP, OVERVIEW, PREDICTED, STUDY
from pages.book import Book
from pages.page import Cell, Page
from pages.reading import calls_only, listings, words
from pages.rules.registry import Found, cell_rule, rule


@cell_rule("code")
def cell_length(cell: Cell):
    """What takes more than 25 lines belongs into the package, tested, and is shown."""
    if cell.lines > 25:
        yield f"{cell.lines} lines of code, at most 25"


@cell_rule("visible")
def code_width(cell: Cell):
    """78 columns fit the page; a longer line would have to be scrolled."""
    widest = max(map(len, cell.source.splitlines()), default=0)
    if widest > 78:
        yield f"a line of {widest} columns, at most 78"


@rule()
def shown_size(page: Page, book: Book) -> Found:
    """35 lines are read at one sitting. Of a larger class a page shows the methods that matter, one
    by one; a look-up page all."""
    longest = 100 if page.kind == LOOKUP else 35
    for cell in page.code:
        for lines in listings(cell):
            if len(lines) > longest:
                yield cell, f"shows {len(lines)} lines of source at once, at most {longest}"
            if (widest := max(map(len, lines), default=0)) > 78:
                yield cell, f"shows a line of {widest} columns, at most 78"


LONGEST = {LESSON: 20, OVERVIEW: 20}  # lines of one cell in sight
LINES = 80  # of all cells in sight


@rule(*LONGEST)
def code_lines(page: Page, book: Book) -> Found:
    """Code takes longer to read than prose: 80 lines in sight on a lesson, 20 in a cell. What is
    shown of the package and what is folded doesn't count."""
    for cell in page.in_sight:
        if cell.lines > LONGEST[page.kind]:
            yield cell, f"{cell.lines} lines in sight, at most {LONGEST[page.kind]}"
    count = sum(cell.lines for cell in page.in_sight)
    if count > LINES:
        yield None, f"{count} lines of code in sight, at most {LINES}"


@rule(LESSON, STUDY, OVERVIEW)
def median_length(page: Page, book: Book) -> Found:
    """Code comes in steps small enough to be understood before the next."""
    median = statistics.median([cell.lines for cell in page.in_sight] or [0])
    if median > 8:
        yield None, f"the median cell in sight has {median:g} lines, at most 8"


@rule(LESSON, OVERVIEW)
def cell_count(page: Page, book: Book) -> Found:
    """A lesson is read in one go."""
    count = len(page.in_sight)
    if not 6 <= count <= 14:
        yield None, f"{count} code cells in sight (hidden and folded ones not counted), 6 to 14"


WORDS = {
    LESSON: (600, 1200),
    OVERVIEW: (600, 1200),
    STUDY: (0, 2500),
    HEAD: (0, 600),
    EXERCISE: (0, 900),  # work, not reading
}


@rule(*WORDS)
def word_count(page: Page, book: Book) -> Found:
    """Words that explain an idea, and no more than one sitting takes."""
    count = sum(words(cell.source) for cell in page.prose)
    low, high = WORDS[page.kind]
    if not low <= count <= high:
        yield None, f"{count} words of prose, expected {low} to {high}"


@rule(LESSON, OVERVIEW)
def early_output(page: Page, book: Book) -> Found:
    """Something of the idea is seen before 150 words are read; the strip, source and what is folded
    don't count."""
    before = 0
    for cell in page.cells:
        folded = {"hide-cell", PREDICTED} & set(cell.tags)
        if cell.kind == "markdown":
            before += words(cell.source)
        elif not cell.hidden and not folded and cell.outputs:
            if not calls_only(cell, "where", "show"):
                break
    if before > 150:
        yield None, f"{before} words before the first real output, at most 150"
