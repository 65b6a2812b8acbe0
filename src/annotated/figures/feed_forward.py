"""§3.3: which hidden units a piece wakes, and what a layer's two parts cost as sentences grow."""

import math
from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import (
    DEEP,
    GREY,
    VIOLET,
    figure,
    name_ends,
    number,
    spoken,
    style,
)

SMALL = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def awake_units(
    hidden: Float[Tensor, "n d_ff"], pieces: Sequence[str], title: str
) -> Figure:
    """A row for each piece, a column for each hidden unit, filled where it is above 0.

    `hidden` is what ReLU gives; units that more pieces wake stand further left. At the right, how
    many are awake. Raises ValueError if the pieces are not as many as the rows.
    """
    if len(pieces) != len(hidden):
        raise ValueError(f"{len(pieces)} pieces for {len(hidden)} rows")
    awake = hidden > 0
    order = awake.sum(0).argsort(descending=True, stable=True)
    with style():
        fig, ax = figure(1.0 + 0.34 * len(pieces))
        ax.pcolormesh(
            awake[:, order].numpy(), cmap=ListedColormap(["white", VIOLET]), vmin=0, vmax=1,
        )
        ax.invert_yaxis()
        middle = [0.5 + row for row in range(len(pieces))]
        ax.set_yticks(middle, spoken(pieces))
        right = ax.secondary_yaxis("right")
        right.set_yticks(middle, [str(count) for count in awake.sum(1).tolist()])
        for side in (ax, right):
            side.tick_params(length=0)
            side.spines[:].set_visible(False)
        ax.hlines(range(1, len(pieces)), 0, awake.shape[1], color="white", linewidth=3)
        ax.set_xticks([])
        ax.set_xlabel(f"{awake.shape[1]} hidden units; at the right, how many are awake")
        ax.set_title(title)
    return fig


def work_by_length(
    formula: Mapping[str, Float[Tensor, " lengths"]], counted: Mapping[str, Mapping[int, int]],
    lengths: Sequence[int], crossing: int, title: str,
) -> Figure:
    """Work of a layer's parts against the sentence's length, on two logarithmic scales.

    `formula` maps a part to what its formula gives at `lengths`, a line; `counted` maps it to
    length → what was counted, dots. A line stands at `crossing`; `title` is above all.
    """
    with style():
        fig, ax = figure(3.9)
        ends = []
        looks = zip(formula.items(), ((VIOLET, "-"), (DEEP, "--")), strict=True)
        for (name, work), (color, dash) in looks:
            ax.plot(lengths, work.tolist(), dash, color=color, linewidth=2.5)
            dots = counted[name]
            ax.plot([*dots], [*dots.values()], "o", color=color, markersize=6)
            ends.append((lengths[-1], float(work[-1]), name, color))
        ax.axvline(crossing, color=GREY, linestyle=":", linewidth=1.5)
        ax.annotate(
            f"n = {number(crossing)}", (crossing, 0.03), xycoords=("data", "axes fraction"),
            color=GREY, xytext=(5, 0), textcoords="offset points",
        )
        ax.set(xscale="log", yscale="log", xlabel="pieces in the sentence, n",
               ylabel="multiplications")
        ax.xaxis.set_major_formatter(lambda x, _: number(x))
        ax.yaxis.set_major_formatter(lambda y, _: f"10{str(round(math.log10(y))).translate(SMALL)}")
        ax.xaxis.set_minor_formatter("")
        ax.yaxis.set_minor_formatter("")
        ax.set_title(title)
        ax.margins(x=0.02)
        name_ends(ax, ends)
    return fig
