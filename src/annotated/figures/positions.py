"""§3.5: the sinusoids as a map, their dot products, and what a model does if places are shifted."""

from collections.abc import Mapping

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import DEEP, SIGNED, VIOLET, figure, name_line, style


def positions_map(encoding: Float[Tensor, "n d_model"], title: str) -> Figure:
    """A row for each position, a column for each channel: violet -1, white 0, orange +1."""
    n, d_model = encoding.shape
    with style():
        fig, ax = figure(4.2)
        ax.imshow(
            encoding.numpy(), cmap=SIGNED, vmin=-1, vmax=1, aspect="auto",
            interpolation="nearest",
        )
        ax.set(xlabel=f"channel, 0 to {d_model - 1}", ylabel="position")
        ax.set_yticks(range(0, n, 5))
        ax.set_title(title)
    return fig


def products_by_offset(
    products: Mapping[int, Float[Tensor, " offsets"]], title: str
) -> Figure:
    """The dot product with the encoding k places on, from several positions.

    `products` maps a position to its products at offsets 0, 1, 2 …: its own dots on one line.
    """
    with style():
        fig, ax = figure(3.6)
        marks = ("o", "x", "+", "s")
        for place, ((start, line), mark) in enumerate(zip(products.items(), marks, strict=False)):
            color = VIOLET if mark == "o" else DEEP
            ax.plot(line.tolist(), mark, color=color, markersize=8, markeredgewidth=1.8,
                    fillstyle="none", label=f"from position {start}")
            ax.plot([0.42], [0.93 - 0.12 * place], mark, color=color, transform=ax.transAxes,
                    markersize=8, markeredgewidth=1.8, fillstyle="none")
            ax.text(0.45, 0.93 - 0.12 * place, f"from position {start}", color=color,
                    transform=ax.transAxes, va="center")
        ax.set(xlabel="k places further on", ylabel="dot product")
        ax.set_ylim(0)
        ax.set_title(title)
    return fig


def changed_by_shift(
    changed: Mapping[str, Mapping[int, int]], total: int, title: str
) -> Figure:
    """How many of `total` translations change when a side's positions begin later.

    `changed` maps a side to shift → translations changed; two sides.
    """
    with style():
        fig, ax = figure(3.6)
        looks = zip(changed.items(), ((DEEP, "-"), (VIOLET, "--")), strict=True)
        for (side, counts), (color, dash) in looks:
            ax.plot([*counts], [*counts.values()], dash, marker="o", color=color, linewidth=2.5)
            name_line(ax, [*counts][-1], [*counts.values()][-1], side, color)
        ax.set(xlabel="first position, in place of 0", ylabel=f"changed of {total}",
               ylim=(-0.04 * total, 1.12 * total))
        ax.set_title(title)
    return fig
