"""One look for all figures: two widths, letters for a phone, sharp on fine screens, any ground.

Violet is what the model holds, and minus; orange what was changed, what is said next, and plus.
Red is only what a mask forbids, green only what is right.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation
from PIL import Image

VIOLET, ORANGE, RED, GREEN = "#5b3a98", "#d9680a", "#b2182b", "#2f8f5b"
DEEP = "#b84a00"  # orange for words and thin lines, which need more contrast
INK, GREY, LINE, FAINT = "#1c2430", "#5f6b7a", "#c9ced6", "#eef0f3"
PALE = {VIOLET: "#e4dcf3", ORANGE: "#fbe3cf", DEEP: "#fbe3cf", GREY: FAINT, RED: "#f6dcdc"}
# Runs that are compared: told apart without their colour too, and named directly.
COLORS = (VIOLET, DEEP, GREY, INK)
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["white", "#b9a8da", VIOLET])
SIGNED = LinearSegmentedColormap.from_list("signed", [VIOLET, "#f6f4f0", ORANGE])
CHANGED = LinearSegmentedColormap.from_list("changed", ["white", "#f2b98a", ORANGE])

WIDE, NARROW = 6.8, 5.0  # inches, at 100 px each: a page has figures of two widths
PHONE, READABLE = 358, 9.0  # px: the column of a phone of 390 px, and the smallest letters there
DPI, SHARP = 100, 2  # pixels to an inch, and how many times as many are stored for fine screens

_RC: dict[Any, Any] = {
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2.0,
    "font.family": "DejaVu Sans",  # ships with Matplotlib: the same letters everywhere
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.titlesize": 14,
    "figure.titleweight": "bold",
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    "figure.constrained_layout.use": True,
}
Number = int | float  # the checks in tests take no int for a float
_begun: list[Figure] = []  # figures of the block that is being drawn


class BookFigure(Figure):
    """A figure that notebooks show at twice its pixels, on whatever ground the page has."""


def _tell_notebook() -> None:
    """Where IPython runs us, it asks `_shown` for our figures, whatever it does with others."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.display_formatter.formatters["image/png"].for_type(BookFigure, _shown)


def _shown(fig: BookFigure) -> tuple[bytes, dict[str, int | str]]:
    """The PNG and, for who lays out the page, the width and height in px that it is shown at.

    And that a dark JupyterLab must put something light behind it; the book turns light and dark.
    """
    width, height = (round(DPI * float(inches)) for inches in fig.get_size_inches())
    return png(fig), dict(width=width, height=height, needs_background="light")


def png(fig: Figure, ground: str = "none") -> bytes:
    """The figure on a `ground`: a PNG of twice its pixels and at most 256 colours, to be light."""
    full, small = io.BytesIO(), io.BytesIO()
    fig.savefig(full, format="png", dpi=DPI * SHARP, facecolor=ground)
    _of_few_colors(Image.open(full).convert("RGBA")).save(small, "PNG", optimize=True)
    return small.getvalue()


def _of_few_colors(image: Image.Image) -> Image.Image:
    """The frequent colours as they are, others as the nearest of these or of an octree's."""
    pixels = np.asarray(image).reshape(-1, 4)
    packed, places, counts = np.unique(pixels.view(np.uint32), return_inverse=True,
                                       return_counts=True)
    few = image.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    octree = np.unique(np.asarray(few.convert("RGBA")).reshape(-1, 4), axis=0)
    often = packed[np.argsort(-counts, kind="stable")[: 256 - len(octree)]]
    palette = np.concatenate([often.view(np.uint8).reshape(-1, 4), octree])
    colors, kept = (_seen(x) for x in (packed.view(np.uint8).reshape(-1, 4), palette))
    apart = (colors**2).sum(1)[:, None] - 2 * colors @ kept.T + (kept**2).sum(1)
    indices = apart.argmin(1).astype(np.uint8)[places.reshape(-1)]
    made = Image.fromarray(indices.reshape(image.height, image.width), mode="P")
    made.putpalette(palette.tobytes(), rawmode="RGBA")
    return made


def _seen(pixels: np.ndarray) -> np.ndarray:
    """Colours as they look: what is clear looks alike, whatever colour it has."""
    alpha = pixels[:, 3:].astype(float)
    return np.concatenate([pixels[:, :3] * alpha / 255, alpha], axis=1)


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this block to get the book's look; the caller's settings come back.

    Raises ValueError if a figure of the block has another width than the two, or letters that
    nobody can read on a phone: sizes of letters are the functions' own, never the data's.

    Only ours come back: rc_context would put back everything, and with it that Jupyter's backend,
    which starts with the first figure, made pyplot interactive. No later figure would be shown.
    """
    before = {name: plt.rcParams[name] for name in _RC}
    plt.rcParams.update(_RC)
    _begun.clear()
    try:
        yield
        for fig in _begun:
            _upright(fig)
            if (width := round(float(fig.get_size_inches()[0]), 2)) not in (WIDE, NARROW):
                raise ValueError(f"a figure is {width} inches wide; expected {WIDE} or {NARROW}")
            if (smallest := letters(fig)) < READABLE:
                raise ValueError(f"letters of {smallest:.1f} px on a phone; at least {READABLE}")
    finally:
        _begun.clear()
        plt.rcParams.update(before)


def figure(height: Number, rows: int = 1, cols: int = 1, width: Number = WIDE, **options):
    """A figure with `rows` × `cols` axes; draw inside `style()`.

    `width` and `height` are inches, the width one of two; `options` are those of pyplot.subplots.
    """
    _tell_notebook()
    fig, axes = plt.subplots(rows, cols, figsize=(width, height), FigureClass=BookFigure, **options)
    _begun.append(fig)
    return fig, axes


def _upright(fig: Figure) -> None:
    """What a vertical axis shows stands above it, level, under the panel's title: as one reads."""
    for ax in fig.axes:
        label = ax.yaxis.label
        if not label.get_text() or not label.get_visible():
            continue
        label.set_visible(False)  # `get_ylabel` still tells it
        ax.set_title(label.get_text(), loc="center", x=0, ha="left", pad=5,
                     fontsize=label.get_fontsize(), fontweight="normal")
        lift = (5 + 1.35 * float(label.get_fontsize())) / 72
        ax._left_title.set_transform(  # type: ignore[attr-defined]
            ax.transAxes + ScaledTranslation(0, lift, fig.dpi_scale_trans))


def letters(fig: Figure) -> float:
    """The size in px of the smallest letters, where the figure is as wide as a phone's column."""
    shown = min(1.0, PHONE / (DPI * fig.get_size_inches()[0]))
    texts = [text for text in fig.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return min((shown * DPI / 72 * _points(text) for text in texts), default=float("inf"))


def _points(text: Text) -> float:
    """Points of the smallest letters; those above and below a line in $…$ are smaller."""
    words = text.get_text()
    raised = words.count("$") > 1 and any(mark in words for mark in "^_")
    return float(text.get_fontsize()) * (0.7 if raised else 1.0)


def spoken(pieces: Sequence[str], ends: bool = False) -> list[str]:
    """Pieces as one says them: "-" is the hyphen; and, if `ends`, BOS the start, EOS the end."""
    words = {"-": "hyphen"} | ({"BOS": "start", "EOS": "end"} if ends else {})
    return [words.get(piece, piece) for piece in pieces]


def number(value: Number) -> str:
    """A count with a thin space between thousands, as the pages write it."""
    return f"{value:,.0f}".replace(",", " ")


def name_columns(ax, pieces: Sequence[str], places: Sequence | None = None) -> None:
    """Names under the columns of a map: slanted as little as long words allow."""
    ax.set_xticks(range(len(pieces)) if places is None else places, pieces, rotation=45,
                  ha="right", rotation_mode="anchor")


def name_line(ax, x: Number, y: Number, words: str, color: str, **place) -> None:
    """On `ax`, `words` beside the point (`x`, `y`) of a line, in its `color`, as its name.

    `place` goes to annotate: xytext, ha and va.
    """
    color = DEEP if to_rgba(color) == to_rgba(ORANGE) else color
    look: dict[str, Any] = dict(xytext=(7, 0), ha="left", va="center") | place
    ax.annotate(words, (x, y), textcoords="offset points", color=color, annotation_clip=False,
                **look)


def name_rows(ax, words: str) -> None:
    """What the rows of a map are, in `words` above their names."""
    ax.annotate(words, (0, 1), xycoords="axes fraction", xytext=(-6, 5), ha="right", va="bottom",
                textcoords="offset points", color=GREY)


def says_beside(ax, places: Sequence, says: Sequence[str]) -> None:
    """At the right of a decoder's rows, which are named by what is read, what it says there."""
    right = ax.secondary_yaxis("right")
    right.set_yticks(places, [f"→ {piece}" for piece in says])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)


def name_ends(ax, ends: Sequence[tuple[Number, Number, str, str]]) -> None:
    """The names of lines at the right of a panel, led to their ends, apart where these are close.

    Each of `ends` is (x, y, words, colour). Limits and scales of `ax` must be set before.
    """
    fraction = (ax.transScale + ax.transLimits).transform
    rows = ax.get_subplotspec().get_gridspec().nrows
    line = 1.3 * plt.rcParams["font.size"] / 72 / (0.72 * ax.figure.get_size_inches()[1] / rows)
    named = sorted((float(fraction((x, y))[1]), x, y, words, color) for x, y, words, color in ends)
    half = [line * (1 + words.count("\n")) / 2 for _, _, _, words, _ in named]
    places: list[float] = []
    for at, (y, *_) in enumerate(named):
        least = places[-1] + half[at - 1] + half[at] if places else half[0] - 0.06
        places.append(max(y, least))
    most = 1.0 + line / 4
    for at in reversed(range(len(places))):  # what went too high comes down again
        places[at] = min(places[at], most - half[at])
        most = places[at] - half[at]
    for place, (_, x, y, words, color) in zip(places, named, strict=True):
        color = DEEP if to_rgba(color) == to_rgba(ORANGE) else color
        ax.annotate(
            words, (x, y), xytext=(1.05, place), textcoords="axes fraction", color=color,
            va="center", ha="left", annotation_clip=False, arrowprops=dict(
                arrowstyle="-", color=color, linewidth=0.8, shrinkA=2, shrinkB=3,
                relpos=(0, 0.5)),
        )
