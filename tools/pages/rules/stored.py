"""Rules about what is stored: outputs, counts, metadata."""

import re

from pages.book import Book
from pages.page import Cell, Page
from pages.rules.registry import Found, cell_rule, rule
from pages.storage import dumps, load, normalise


@rule()
def normal_form(page: Page, book: Book) -> Found:
    """A run that changes nothing changes no byte: one kernel spec, no version of Python, nothing in
    the metadata that differs from run to run, streams in one piece, folding as the tags say."""
    if dumps(normalise(load(page.path))) != page.raw:
        yield None, "not as `tools/notebooks.py run` writes it: run it"


@rule()
def execution_counts(page: Page, book: Book) -> Found:
    """Counts from 1 without a gap show that the stored outputs are those of one run in order."""
    for expected, cell in enumerate((c for c in page.cells if c.is_code), start=1):
        results = (out for out in cell.outputs if out["output_type"] == "execute_result")
        for count in {cell.count, *(out["execution_count"] for out in results)} - {expected}:
            yield cell, f"execution count {count}, expected {expected}: not run in one go"


@cell_rule("cells")
def no_empty_cells(cell: Cell):
    """An empty cell is a gap in the page, and perhaps a check that somebody took out."""
    if not cell.source.strip():
        yield "an empty cell"


@cell_rule("cells")
def no_errors(cell: Cell):
    """A page runs from top to bottom; an error is caught and printed where it is the point."""
    for output in cell.outputs:
        if output["output_type"] == "error":
            yield f"a stored error: {output['ename']}: {output['evalue']}"


@cell_rule("cells")
def no_stderr(cell: Cell):
    """Warnings differ between versions of libraries, and readers can't act on them."""
    for output in cell.outputs:
        if output.get("name") == "stderr":
            yield f"output on stderr: {output['text'].strip().splitlines()[0][:80]!r}"


@cell_rule("cells")
def output_types(cell: Cell):
    """Pages store plain text, Markdown, HTML, JSON and PNG. Of other pictures nobody compares the
    pixels, widgets need a kernel, and in LaTeX nbval can't blank measured numbers."""
    kept = r"text/(?:plain|html|markdown)|application/json|image/png"
    for mime, _ in cell.data:
        if not re.fullmatch(kept, mime):
            yield f"an output of type {mime}"


ABSOLUTE = re.compile(
    r"(?<![\w.~<:/-])/(?:home|root|work|workspace|tmp|usr|var|opt|etc|mnt|srv|Users|content|private)"
    r"/[^\s'\"<>)]*|\bfile://\S+|\b[A-Z]:\\+Users\\\S*"
)


@cell_rule("cells", texts=True)
def no_absolute_paths(cell: Cell):
    """A path of the author's machine is on no other, and says who the author is."""
    for text in [cell.source, *cell.texts]:
        for path in sorted(set(ABSOLUTE.findall(text))):
            yield f"an absolute path: {path}"


@rule()
def file_size(page: Page, book: Book) -> Found:
    """A notebook opens on a slow line, and its history stays small: 600 KB."""
    size = len(page.raw.encode())
    if size > 600_000:
        yield None, f"{size / 1000:.0f} KB, at most 600"
