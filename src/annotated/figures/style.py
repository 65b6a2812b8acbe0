"""One look for all figures: opaque white, readable on a phone, safe for colour-blind eyes."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt

BLUE, ORANGE, GREEN, GREY, RED = "#0072b2", "#d55e00", "#009e73", "#6b6b6b", "#b2182b"
VIOLET = "#5b3a98"  # what the model holds; what we changed, or says next, is ORANGE
# Settings of a run, or models, told apart as lines: without their colour too.
COLORS = (BLUE, RED, GREEN, ORANGE)
THREE = (BLUE, ORANGE, GREEN)  # where each has its own panel or marker
DASHES = ("-", "--", "-.", ":")
WEIGHTS = "Blues"  # a sequential map, white at weight 0
SIGNED = "PuOr_r"  # violet below zero, orange above

_RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.family": "DejaVu Sans",  # ships with Matplotlib: the same letters everywhere
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def style():
    """Draw inside this block to get the book's look; the caller's settings come back.

    Only ours: rc_context would put back everything, and with it that Jupyter's backend, which
    starts with the first figure, made pyplot interactive. No later figure would be shown.
    """
    before = {name: plt.rcParams[name] for name in _RC}
    plt.rcParams.update(_RC)
    try:
        yield
    finally:
        plt.rcParams.update(before)


def figure(width: float = 7.0, height: float = 3.5, rows: int = 1, cols: int = 1, **options):
    """A figure of `width` by `height` inches with `rows` × `cols` axes; draw inside `style()`."""
    return plt.subplots(rows, cols, figsize=(width, height), **options)


def says_beside(ax, places: Sequence, says: Sequence[str]) -> None:
    """At the right of a decoder's rows, which are named by what is read, what it says there."""
    right = ax.secondary_yaxis("right")
    right.set_yticks(places, [f"→ {piece}" for piece in says])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
