"""Rules about how long a page and its cells are."""

import statistics

from pages.book import CONCEPT, EVIDENCE, HEAD, LOOKUP, OVERVIEW, Book
from pages.page import FENCE, Page
from pages.rules.reading import calls_only, words
from pages.rules.registry import Found, rule


@rule("cell-length")
def cell_length(page: Page, book: Book) -> Found:
    for cell in page.code:
        if cell.lines > 25:
            yield (
                cell,
                f"{cell.lines} lines of code, at most 25: move it into the package and show it",
            )


@rule("code-width")
def code_width(page: Page, book: Book) -> Found:
    for cell in page.visible:
        widest = max(map(len, cell.source.splitlines()), default=0)
        if widest > 78:
            yield cell, f"a line of {widest} columns, at most 78 fit the page"


@rule("shown-size")
def shown_size(page: Page, book: Book) -> Found:
    """Of a larger class a page shows the methods that matter, one by one; a look-up page all."""
    longest = 100 if book.kind(page.stem) == LOOKUP else 35
    for cell in page.code:
        for mime, content in cell.data:
            listings = FENCE.finditer(str(content)) if mime == "text/markdown" else ()
            for lines in (listing["body"].splitlines() for listing in listings):
                if len(lines) > longest:
                    yield cell, f"shows {len(lines)} lines of source at once, at most {longest}"
                if (widest := max(map(len, lines), default=0)) > 78:
                    yield cell, f"shows a line of {widest} columns, at most 78"


@rule("median-length", CONCEPT, EVIDENCE, OVERVIEW)
def median_length(page: Page, book: Book) -> Found:
    lines = [cell.lines for cell in page.visible]
    if lines and statistics.median(lines) > 8:
        yield None, f"the median cell has {statistics.median(lines):g} lines, at most 8"


@rule("cell-count", CONCEPT, EVIDENCE, OVERVIEW)
def cell_count(page: Page, book: Book) -> Found:
    count = len(page.visible)
    if not 12 <= count <= 25:
        yield None, f"{count} code cells (install and hidden ones not counted), expected 12 to 25"


WORDS = {CONCEPT: (1200, 2500), HEAD: (0, 600), OVERVIEW: (0, 1500)}  # the last: ten minutes


@rule("word-count", *WORDS)
def word_count(page: Page, book: Book) -> Found:
    count = sum(words(cell.source) for cell in page.prose)
    low, high = WORDS[book.kind(page.stem)]
    if not low <= count <= high:
        yield None, f"{count} words of prose, expected {low} to {high}"


@rule("early-output", CONCEPT, OVERVIEW)
def early_output(page: Page, book: Book) -> Found:
    before = 0
    for cell in page.cells:
        if cell.kind == "markdown":
            before += words(cell.source)
        elif (
            cell.is_code
            and not cell.hidden
            and cell.outputs
            and not calls_only(cell, "where", "show")
        ):
            break
    if before > 250:
        yield None, f"{before} words before the first real output, at most 250"
