"""§3.1: who may see whom, as grids of filled and empty cells."""

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import (
    GREY,
    NARROW,
    VIOLET,
    WIDE,
    figure,
    name_columns,
    name_rows,
    says_beside,
    spoken,
    style,
)

CELL = {WIDE: 0.3, NARROW: 0.23}  # inches, by the figure's width
SEEN = ListedColormap(["white", VIOLET])


class Grid(NamedTuple):
    """What annotated.analysis.visibility measured, and the names of its two sides.

    A decoder's rows are named by what it reads there, its inputs; `says`, what
    it must say, then stands at the right as "→ zwei".
    """

    title: str
    seen: Tensor
    outputs: Sequence[str]
    inputs: Sequence[str]
    output: str = "output"
    input: str = "input"
    says: Sequence[str] = ()


def visibility_grids(grids: Sequence[Grid], title: str = "", columns: int = 2) -> Figure:
    """One grid each: a row an output, a column an input, filled where it is seen.

    A cell is empty only where `seen` is exactly 0, however faint the others
    are. All cells of the figure have one size; `title` is above all. Without `says` the figure is
    narrow, so that a phone shows it larger. Raises ValueError if the names
    of a grid are not as many as its rows and columns.
    """
    for grid in grids:
        named = len(grid.outputs), len(grid.inputs)
        if grid.seen.shape != named:
            raise ValueError(f"{grid.title} is {tuple(grid.seen.shape)}; the names are for {named}")
        if len(grid.says) not in (0, len(grid.outputs)):
            raise ValueError(f"{grid.title} says {len(grid.says)}; expected {len(grid.outputs)}")
    rows = -(-len(grids) // columns)
    wide = max(len(grid.inputs) for grid in grids)
    high = [max(len(grid.outputs) for grid in grids[row * columns:][:columns])
            for row in range(rows)]
    width = WIDE if any(grid.says for grid in grids) else NARROW
    with style():
        fig, axes = figure(
            sum(CELL[width] * n + 1.75 for n in high) + 0.3 * bool(title), rows, columns,
            width, squeeze=False, height_ratios=high,
        )
        for ax in axes.flat[len(grids):]:
            ax.axis("off")
        for number, grid in enumerate(grids):
            ax = axes.flat[number]
            draw(ax, grid)
            ax.set_xlim(0, wide)  # so that a smaller grid has cells as large
            ax.set_ylim(high[number // columns], 0)
            if grid.says:
                says_beside(ax, [0.5 + i for i in range(len(grid.says))], grid.says)
        if title:
            fig.suptitle(title, x=0.01, ha="left")
    return fig


def draw(ax, grid: Grid) -> None:
    """One grid in the upper left of its axes, with lines between the cells."""
    ax.pcolormesh(
        (grid.seen != 0).numpy(), cmap=SEEN, vmin=0, vmax=1, edgecolors="#8a94a3", linewidth=0.8,
    )
    ax.set_aspect("equal", anchor="NW")
    middle = [0.5 + i for i in range(max(grid.seen.shape))]
    name_columns(ax, spoken(grid.inputs), middle[: len(grid.inputs)])
    ax.set_yticks(middle[: len(grid.outputs)], spoken(grid.outputs))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(grid.input, loc="left", color=GREY)
    name_rows(ax, "\n".join(wrap(grid.output, 11)))
    ax.set_title(grid.title)
