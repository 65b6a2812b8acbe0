"""§3.1: what reaches each layer of a deep stack, on the way back from the loss."""

from collections.abc import Mapping
from itertools import cycle

from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import BLUE, GREEN, ORANGE, figure, style

COLORS = (GREEN, ORANGE, BLUE)
DASHES = (":", "--", "-")  # depths must differ without their colour too


def gradients_by_layer(panels: Mapping[str, Mapping[int, Tensor]], columns: int = 2) -> Figure:
    """The gradient of each layer, on one logarithmic scale; a panel a kind of stack.

    `panels` is title → number of layers → lengths of the gradient (seeds,
    layers), from the lowest layer to the highest; a line a seed. Raises
    ValueError if there are not as many lengths as layers, and for panels of
    different depths: they have one legend.
    """
    numbers = {tuple(depths) for depths in panels.values()}
    if len(numbers) != 1:
        raise ValueError(f"the panels have {sorted(numbers)} layers; expected the same in all")
    for title, depths in panels.items():
        for depth, lengths in depths.items():
            if lengths.shape[-1] != depth:
                raise ValueError(f"{title}: {lengths.shape[-1]} lengths for {depth} layers")
    rows = -(-len(panels) // columns)
    with style():
        fig, axes = figure(
            6.4, 0.6 + 2.5 * rows, rows, columns, squeeze=False, sharex=True, sharey=True,
        )
        for ax in axes.flat[len(panels):]:
            ax.axis("off")
        for ax, (title, depths) in zip(axes.flat, panels.items(), strict=False):
            for (depth, lengths), color, dash in zip(depths.items(), cycle(COLORS), cycle(DASHES)):
                for seed, line in enumerate(lengths.tolist()):
                    ax.plot(
                        range(depth), line, color=color, linestyle=dash, linewidth=1.5,
                        label=None if seed else f"{depth} layers",
                    )
            ax.set_yscale("log")
            ax.set_xticks([0, *(depth - 1 for depth in depths)])
            ax.set_title(title)
        for ax in axes[-1]:
            ax.set_xlabel("layer, 0 the lowest")
        for ax in axes[:, 0]:
            ax.set_ylabel("length of gradient")
        handles = axes[0, 0].get_legend_handles_labels()
        fig.legend(*handles, loc="outside lower center", ncols=len(handles[0]))
    return fig
