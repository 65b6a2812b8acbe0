"""§3.5: the sinusoids as a map, their dot products, and what a model does if places are shifted."""

from collections.abc import Mapping

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import ORANGE, SIGNED, VIOLET, figure, style


def positions_map(encoding: Float[Tensor, "n d_model"], title: str) -> Figure:
    """A row for each position, a column for each channel: violet -1, white 0, orange +1."""
    n, d_model = encoding.shape
    with style():
        fig, ax = figure(6.0, 4.2)
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
        fig, ax = figure(6.0, 3.3)
        marks = ("o", "x", "+", "s")
        for (place, line), mark in zip(products.items(), marks, strict=False):
            ax.plot(line.tolist(), mark, color=VIOLET if mark == "o" else ORANGE,
                    fillstyle="none", label=f"from position {place}")
        ax.set(xlabel="k places further on", ylabel="dot product")
        ax.set_ylim(0)
        ax.set_title(title)
        ax.legend()
    return fig


def changed_by_shift(
    changed: Mapping[str, Mapping[int, int]], total: int, title: str
) -> Figure:
    """How many of `total` translations change when a side's positions begin later.

    `changed` maps a side to shift → translations changed; two sides.
    """
    with style():
        fig, ax = figure(6.0, 3.3)
        looks = zip(changed.items(), ((ORANGE, "-"), (VIOLET, "--")), strict=True)
        for (side, counts), (color, dash) in looks:
            ax.plot([*counts], [*counts.values()], dash, marker="o", color=color, linewidth=2.5)
            ax.annotate(
                side, ([*counts][-1], [*counts.values()][-1]), color=color, xytext=(-4, 8),
                textcoords="offset points", ha="right",
            )
        ax.set(xlabel="first position, in place of 0", ylabel=f"changed of {total}",
               ylim=(-0.04 * total, 1.12 * total))
        ax.set_title(title)
    return fig
