"""Rules about figures and measured numbers."""

import base64
import re
import struct
from collections.abc import Callable

from pages import FIGURE_WIDTHS, HIDDEN
from pages.book import Book
from pages.page import Cell, Page
from pages.reading import assertions, bounds, calls, calls_only
from pages.rules.registry import Found, cell_rule, rule

MEASURED = r"[ \u00a0\u202f]*[-+−]?\d"  # what follows ≈


def _alt_fault(alt: object) -> str | None:
    if not isinstance(alt, str) or not alt.strip():
        return "no alt text"
    if len(alt.strip()) < 20:
        return f"the alt text {alt!r} has fewer than 20 characters"
    if re.search(r"\.(?:png|svg|jpe?g|gif)\b", alt) or " " not in alt.strip():
        return f"the alt text {alt!r} is a path"
    return None


@cell_rule("cells", texts=True)
def alt_text(cell: Cell):
    """Who can't see a figure reads its alternative text, a sentence with the fact that it shows
    (of a plot: `mystnb.image.alt` in the cell's metadata)."""
    if cell.has_figure and (fault := _alt_fault(cell.alt)):
        yield f"{fault} (metadata mystnb.image.alt) on a figure"
    if cell.alt and not cell.has_figure:
        yield "alt text (metadata mystnb.image.alt), but no figure is stored"
    alts = []
    if text := cell.source if cell.kind == "markdown" else "":
        alts += [("a Markdown image", alt) for alt in re.findall(r"!\[([^\]]*)\]\(", text)]
        directive = r"\{(?:image|figure)\}([^\n]*)\n((?: *:[\w-]+:[^\n]*\n)*)"
        for name, options in re.findall(directive, text):
            alt = re.search(r":alt: *([^\n]+)", options)
            alts.append((name.strip(), alt and alt[1]))
    for html in [text, *(str(content) for mime, content in cell.data if mime == "text/html")]:
        for tag in re.findall(r"<img\b[^>]*>", html):
            alt = re.search(r"""\balt=(["'])(.*?)\1""", tag, re.S)
            alts.append(("an <img>", alt and alt[2]))
        for tag, inside in re.findall(r"(<svg\b[^>]*>)(.*?)</svg>", html, re.S):
            if not re.search(r"aria-hidden|aria-label", tag) and "<title" not in inside:
                yield "an <svg> without aria-label, <title> or aria-hidden"
    yield from (f"{fault} on {name}" for name, alt in alts if (fault := _alt_fault(alt)))


@cell_rule("cells")
def one_figure(cell: Cell):
    """A cell has one alternative text, so it draws one figure."""
    pictures = sum(mime == "image/png" for mime, _ in cell.data)
    if pictures > 1:
        yield f"{pictures} figures in one cell"


@cell_rule("cells")
def figure_size(cell: Cell):
    """Figures have one of two widths, so that no page jumps and no letters shrink, and twice the
    pixels, so that fine screens show them sharp. `annotated.figures.style` sees to both."""
    for output in cell.outputs:
        if "image/png" in output.get("data", {}):
            size = output.get("metadata", {}).get("image/png", {})
            width, height = size.get("width"), size.get("height")
            pixels = _pixels(output["data"]["image/png"])
            if width not in FIGURE_WIDTHS:
                yield f"a figure {width} px wide (metadata of its output), not one of two widths"
            elif pixels != (2 * width, 2 * height):
                yield "a figure of {} × {} pixels, not twice its size".format(*pixels)


def _pixels(png: str) -> tuple[int, int]:
    """Width and height, as they stand at the beginning of a PNG."""
    width, height = struct.unpack(">II", base64.b64decode("".join(png))[16:24])
    return width, height


def _followed_by_hidden(page: Page, cell: Cell, test: Callable[[Cell | None], object]) -> bool:
    following = page.after(cell)
    return following is not None and following.hidden and bool(test(following))


@rule()
def figure_asserted(page: Page, book: Book) -> Found:
    """Nobody reads a picture in a test: what its alternative text says is asserted of its data."""
    for cell in page.visible:
        if cell.has_figure and not _followed_by_hidden(page, cell, assertions):
            yield cell, f"the next cell must be hidden ({HIDDEN}) and assert what the alt text says"


@rule()
def measured_bound(page: Page, book: Book) -> Found:
    """nbval blanks what follows ≈, as it differs between machines; a bound still holds on all."""
    for cell in page.visible:
        measured = any(re.search(f"≈{MEASURED}", text) for text in cell.readable)
        if measured and not calls_only(cell, "show"):
            if not _followed_by_hidden(page, cell, bounds):
                yield cell, f"prints a measured number: next a {HIDDEN} cell asserts a bound"


@cell_rule("code")
def measured_blanked(cell: Cell):
    """`≈ nan` or a forgotten format string would be compared as text, and pass."""
    for text in () if calls_only(cell, "show") else cell.texts:
        for rest in re.findall(r"≈([^\n]{0,12})", text):
            if not re.match(MEASURED, rest):
                yield f"no number after ≈ ({rest.strip()!r})"


@cell_rule("code")
def no_timed_assertion(cell: Cell):
    """How fast a busy machine is proves nothing: claims about time rest on records."""
    clock = r"\b(?:perf_counter|timeit|monotonic|process_time)\b|^time\.time$"
    if assertions(cell) and any(re.search(clock, name) for name in calls(cell)):
        yield "measures time and asserts"
