"""§3.1: what reaches each layer of a deep stack, on the way back from the loss."""

from collections.abc import Mapping
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import DASHES, DEEP, GREY, VIOLET, figure, name_line, style

COLORS = (GREY, VIOLET, DEEP)  # the deepest stack is the story
DASHED = (DASHES[2], DASHES[0], DASHES[1])  # depths must differ without their colour too


def gradients_by_layer(
    panels: Mapping[str, Mapping[int, Tensor]], main: str, title: str
) -> Figure:
    """The gradient of each layer, on one logarithmic scale; a panel a kind of stack.

    `panels` is name → number of layers → lengths of the gradient (seeds,
    layers), from the lowest layer to the highest; a line per seed. The panel
    `main` is large, the others stand small below it; `title` is above all.
    Raises ValueError if there are not as many lengths as layers, for panels of
    different depths, whose lines are named once, and for one panel alone.
    """
    numbers = {tuple(depths) for depths in panels.values()}
    if len(numbers) != 1:
        raise ValueError(f"the panels have {sorted(numbers)} layers; expected the same in all")
    for name, depths in panels.items():
        for depth, lengths in depths.items():
            if lengths.shape[-1] != depth:
                raise ValueError(f"{name}: {lengths.shape[-1]} lengths for {depth} layers")
    others = [name for name in panels if name != main]
    if main not in panels or not others:
        raise ValueError(f"panels are {[*panels]}; expected {main!r} and others")
    with style():
        fig, empty = figure(6.6)
        empty.remove()
        grid = fig.add_gridspec(2, len(others), height_ratios=[2, 1])
        large = fig.add_subplot(grid[0, :])
        _lines(large, panels[main], main)
        large.set_ylabel("length of gradient")
        large.set_xlabel("layer, 0 the lowest")
        for place, name in enumerate(others):
            ax = fig.add_subplot(grid[1, place], sharex=large, sharey=large)
            _lines(ax, panels[name], name.replace(", ", ",\n"))
            ax.tick_params("y", labelleft=place == 0)
        for (depth, lengths), color in zip(panels[main].items(), cycle(COLORS)):
            name_line(large, depth - 1, float(lengths.mean(0)[-1]), f"{depth} layers", color)
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def _lines(ax: Axes, depths: Mapping[int, Tensor], name: str) -> None:
    for (depth, lengths), color, dash in zip(depths.items(), cycle(COLORS), cycle(DASHED)):
        for line in lengths.tolist():
            ax.plot(range(depth), line, color=color, linestyle=dash, linewidth=1.5)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    ax.minorticks_off()
    ax.set_xticks([0, *(depth - 1 for depth in depths)])
    ax.set_title(name, weight="normal")
