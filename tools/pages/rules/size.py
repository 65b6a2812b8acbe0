"""Rules about how long a page and its cells are."""

import statistics

from pages import EXERCISE, HEAD, LESSON, LOOKUP, OVERVIEW, STUDY
from pages.book import Book
from pages.page import FENCE, Cell, Page
from pages.reading import calls_only, words
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
        texts = [str(content) for mime, content in cell.data if mime == "text/markdown"]
        for lines in (listing["body"].splitlines() for t in texts for listing in FENCE.finditer(t)):
            if len(lines) > longest:
                yield cell, f"shows {len(lines)} lines of source at once, at most {longest}"
            if (widest := max(map(len, lines), default=0)) > 78:
                yield cell, f"shows a line of {widest} columns, at most 78"


@rule(LESSON, STUDY, OVERVIEW)
def median_length(page: Page, book: Book) -> Found:
    """Code comes in steps small enough to be understood before the next."""
    median = statistics.median([cell.lines for cell in page.visible] or [0])
    if median > 8:
        yield None, f"the median cell has {median:g} lines, at most 8"


@rule(LESSON, STUDY, OVERVIEW)
def cell_count(page: Page, book: Book) -> Found:
    """A page is read in one go."""
    count = len(page.visible)
    if not 12 <= count <= 25:
        yield None, f"{count} code cells (install and hidden ones not counted), expected 12 to 25"


WORDS = {  # an overview takes ten minutes; an exercise is work, not reading
    LESSON: (1200, 2500), HEAD: (0, 600), OVERVIEW: (0, 1500), EXERCISE: (0, 900),
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
    """Something of the idea is seen before 250 words are read; the strip and source don't count."""
    before = 0
    for cell in page.cells:
        if cell.kind == "markdown":
            before += words(cell.source)
        elif not cell.hidden and cell.outputs and not calls_only(cell, "where", "show"):
            break
    if before > 250:
        yield None, f"{before} words before the first real output, at most 250"
