"""§5: what one training step asks, and how generation differs."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from annotated.figures.style import (
    FAINT,
    GREY,
    INK,
    LINE,
    ORANGE,
    PALE,
    VIOLET,
    figure,
    style,
)

SEEN, HIDDEN, EDGE = PALE[VIOLET], FAINT, LINE
WORD = 12.5  # points
HEIGHT = 0.8  # of a cell; its width is 1


def training_step(
    pieces: Sequence[str], sees: Bool[Tensor, "n n"],
    before: Float[Tensor, " n"], after: Float[Tensor, " n"], said: Sequence[str],
) -> Figure:
    """Above: one training step. Below: the same sentence, generated.

    Row t of `sees` tells which of BOS, pieces[0], … prediction t depends
    on; pieces[t] is what it must say. `before` and `after` are the
    probabilities of those pieces around an update; bars show them as losses.
    `said` is what another call each gave, fed back until the last.
    """
    if not said or len(pieces) != len(sees):
        raise ValueError(
            f"{len(pieces)} pieces for {len(sees)} predictions, {len(said)} said; "
            "expected one each, and at least one said"
        )
    columns = 1 + max(len(pieces), len(said))
    with style():
        fig, (top, middle, below) = figure(
            3.4 + 0.4 * len(pieces) + 0.62 * len(said), 3, 1,
            height_ratios=[len(pieces) * HEIGHT, 3.6, len(said) * 1.3],
        )
        _training(top, pieces, sees.numpy())
        _losses(middle, before.numpy(), after.numpy())
        _generation(below, said)
        for ax in (top, middle, below):
            ax.set_xlim(-1.05, columns - 0.4)
        marks = [
            Rectangle((0, 0), 1, 1, facecolor=SEEN, edgecolor=EDGE),
            Rectangle((0, 0), 1, 1, facecolor="white", edgecolor=ORANGE, linewidth=2),
            Rectangle((0, 0), 1, 1, facecolor=HIDDEN, edgecolor=EDGE, hatch="///"),
        ]
        fig.legend(marks, ["read", "predicted", "hidden"], loc="outside lower center", ncols=3)
    return fig


def _training(ax: Axes, pieces: Sequence[str], sees: np.ndarray) -> None:
    read, n = ["BOS", *pieces[:-1]], len(pieces)
    for row, seen in enumerate(sees):
        y = -row * HEIGHT
        for column, piece in enumerate(read):
            if seen[column]:
                _cell(ax, column, y, piece, facecolor=SEEN)
            else:
                _cell(ax, column, y, "", facecolor=HIDDEN, hatch="///")
        _say(ax, row + 1, y, pieces[row])
    ax.add_patch(Rectangle(
        (-0.56, -(n - 0.5) * HEIGHT - 0.06), n + 1.12, n * HEIGHT + 0.12,
        fill=False, edgecolor=GREY, linewidth=1.5,
    ))
    ax.text(-0.65, -(n - 1) * HEIGHT / 2, "one\ncall", ha="right", va="center")
    ax.set_title(f"Training: 1 call, {n} predictions")
    ax.set_ylim(-(n - 0.5) * HEIGHT - 0.1, HEIGHT / 2 + 0.1)
    ax.axis("off")


def _losses(ax: Axes, before: np.ndarray, after: np.ndarray) -> None:
    """Under each prediction's piece its loss before and after the update."""
    for side, color, probabilities in ((-0.2, GREY, before), (0.2, VIOLET, after)):
        places = np.arange(1, 1 + len(probabilities)) + side
        bars = ax.bar(places, -np.log(probabilities), 0.36, color=color)
        ax.bar_label(bars, fmt="%.1f", fontsize=WORD, padding=1)
    shares = [
        f"{100 * p:.2g} % →\n{100 * q:.2g} %" for p, q in zip(before, after, strict=True)
    ]
    ax.set_xticks(range(1, 1 + len(before)), shares, fontsize=WORD)
    ax.text(0.45, -0.03, "probability", transform=ax.get_xaxis_transform(), ha="right", va="top")
    mean = [-np.log(p).mean() for p in (before, after)]
    lines = ("mean", INK), (f"{mean[0]:.1f} before", GREY), (f"{mean[1]:.1f} after", VIOLET)
    for y, (line, color) in zip((0.68, 0.5, 0.32), lines, strict=True):
        ax.text(0.45, y, line, color=color, ha="right", va="center",
                transform=ax.get_xaxis_transform())
    ax.set_title("Loss of each, before and after 1 update")
    ax.set_ylim(0, 1.15 * -np.log(np.concatenate([before, after]).min()))
    ax.tick_params(length=0)
    ax.yaxis.set_visible(False)
    ax.spines["left"].set_visible(False)
    ax.spines["bottom"].set_bounds(0.55, len(before) + 0.45)


def _generation(ax: Axes, said: Sequence[str]) -> None:
    read, step = ["BOS", *said], 1.3
    for row, piece in enumerate(said):
        y = -row * step
        for column in range(row + 1):
            _cell(ax, column, y, read[column], facecolor=SEEN)
        _say(ax, row + 1, y, piece)
        ax.add_patch(Rectangle(
            (-0.56, y - HEIGHT / 2 - 0.06), row + 2.12, HEIGHT + 0.12,
            fill=False, edgecolor=GREY, linewidth=1.5,
        ))
        ax.text(-0.66, y, f"call {row + 1}", ha="right", va="center")
        if row:
            ax.add_patch(FancyArrowPatch(
                (row, y + step - HEIGHT / 2), (row, y + HEIGHT / 2 - 0.04),
                arrowstyle="-|>", mutation_scale=14, color=ORANGE, linewidth=2, zorder=3,
            ))
    ax.set_title(f"Generation: {len(said)} calls, each waits for the one before")
    ax.set_ylim(-(len(said) - 1) * step - HEIGHT / 2 - 0.1, HEIGHT / 2 + 0.1)
    ax.axis("off")


def _cell(ax: Axes, x: int, y: float, piece: str, **look) -> None:
    ax.add_patch(Rectangle(
        (x - 0.48, y - HEIGHT / 2 + 0.03), 0.96, HEIGHT - 0.06, edgecolor=EDGE, **look
    ))
    ax.text(x, y, piece, ha="center", va="center", fontsize=WORD)


def _say(ax: Axes, x: int, y: float, piece: str) -> None:
    """What is predicted, not read: framed."""
    ax.add_patch(Rectangle(
        (x - 0.46, y - HEIGHT / 2 + 0.05), 0.92, HEIGHT - 0.1,
        facecolor="white", edgecolor=ORANGE, linewidth=2,
    ))
    ax.text(x, y, piece, ha="center", va="center", fontsize=WORD)
