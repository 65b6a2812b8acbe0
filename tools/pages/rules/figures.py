"""Rules about figures and measured numbers."""

import re
from collections.abc import Callable

from pages import HIDDEN
from pages.book import Book
from pages.page import Cell, Page
from pages.rules.reading import assertions, bounds, calls, calls_only
from pages.rules.registry import Found, rule


def _alt_fault(alt: object) -> str | None:
    if not isinstance(alt, str) or not alt.strip():
        return "no alt text"
    if len(alt.strip()) < 20:
        return f"the alt text {alt!r} has fewer than 20 characters"
    if re.search(r"\.(?:png|svg|jpe?g|gif)\b", alt) or " " not in alt.strip():
        return f"the alt text {alt!r} is a path"
    return None


@rule("alt-text", notebooks_only=False)
def alt_text(page: Page, book: Book) -> Found:
    for cell in page.cells:
        if cell.has_figure and (fault := _alt_fault(cell.alt)):
            yield cell, f"{fault} (metadata mystnb.image.alt) on a figure"
        if cell.alt and not cell.has_figure:
            yield cell, "alt text (metadata mystnb.image.alt), but no figure is stored"
        html = [str(content) for mime, content in cell.data if mime == "text/html"]
        if cell.kind == "markdown":
            text = cell.source
            html.append(text)
            for match in re.finditer(r"!\[([^\]]*)\]\(", text):
                if fault := _alt_fault(match[1]):
                    yield cell, f"{fault} on a Markdown image"
            for match in re.finditer(
                r"\{(?:image|figure)\}([^\n]*)\n((?: *:[\w-]+:[^\n]*\n)*)", text
            ):
                alt = re.search(r":alt: *([^\n]+)", match[2])
                if fault := _alt_fault(alt and alt[1]):
                    yield cell, f"{fault} on {match[1].strip()}"
        for text in html:
            for tag in re.findall(r"<img\b[^>]*>", text):
                alt = re.search(r"""\balt=(["'])(.*?)\1""", tag, re.S)
                if fault := _alt_fault(alt and alt[2]):
                    yield cell, f"{fault} on an <img>"
            for tag, inside in re.findall(r"(<svg\b[^>]*>)(.*?)</svg>", text, re.S):
                if "aria-hidden" not in tag and "aria-label" not in tag and "<title" not in inside:
                    yield cell, "an <svg> without aria-label, <title> or aria-hidden"


@rule("one-figure")
def one_figure(page: Page, book: Book) -> Found:
    for cell in page.cells:
        pictures = sum(mime == "image/png" for mime, _ in cell.data)
        if pictures > 1:
            yield cell, f"{pictures} figures in one cell, which has one alt text"


def _followed_by_hidden(page: Page, cell: Cell, test: Callable[[Cell | None], object]) -> bool:
    following = page.after(cell)
    return following is not None and following.hidden and bool(test(following))


@rule("figure-asserted")
def figure_asserted(page: Page, book: Book) -> Found:
    for cell in page.visible:
        if cell.has_figure and not _followed_by_hidden(page, cell, assertions):
            yield cell, f"the next cell must be hidden ({HIDDEN}) and assert what the alt text says"


@rule("measured-bound")
def measured_bound(page: Page, book: Book) -> Found:
    for cell in page.visible:
        if re.search(r"≈[ \u00a0\u202f]*[-+−]?\d", cell.readable) and not calls_only(cell, "show"):
            if not _followed_by_hidden(page, cell, bounds):
                yield (
                    cell,
                    f"prints a measured number (≈): next is a {HIDDEN} cell that asserts a bound",
                )


@rule("measured-blanked")
def measured_blanked(page: Page, book: Book) -> Found:
    for cell in page.code:
        for text in () if calls_only(cell, "show") else cell.texts:
            for rest in re.findall(r"≈([^\n]{0,12})", text):
                if not re.match(r"[ \u00a0\u202f]*[-+−]?\d", rest):
                    yield cell, f"no number after ≈ ({rest.strip()!r}): nothing would be blanked"


@rule("no-timed-assertion")
def no_timed_assertion(page: Page, book: Book) -> Found:
    for cell in page.code:
        clock = r"\b(?:perf_counter|timeit|monotonic|process_time)\b|^time\.time$"
        timed = any(re.search(clock, name) for _, name in calls(cell))
        if timed and assertions(cell):
            yield cell, "measures time and asserts: claims about time rest on records"
