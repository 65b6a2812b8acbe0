"""§3.5: the sinusoids as a map, their dot products, and what a model does if places are shifted."""

from collections.abc import Mapping

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import DEEP, GREY, SIGNED, VIOLET, figure, name_line, style


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


def turned(
    turn: Float[Tensor, "d_model d_model"], encoding: Float[Tensor, "n d_model"], k: int,
    title: str, shown: int = 16,
) -> Figure:
    """§3.5: a matrix R_k, and how near R_k PE(pos) comes to PE(pos + k), position by position.

    At the left the first channels of `turn`, `shown` of them: violet -1, white 0, orange +1. At
    the right the largest error over all channels of `encoding`, against that of PE(pos) itself.
    `title` is above all.
    """
    before, after = encoding[:-k], encoding[k:]
    errors = {
        f"PE(pos + {k}) − PE(pos)": ((after - before).abs().amax(1), GREY, "--"),
        f"PE(pos + {k}) − R PE(pos)": ((after - before @ turn.mT).abs().amax(1), VIOLET, "-"),
    }
    with style():
        fig, (left, right) = figure(3.8, 1, 2, width_ratios=[1, 1.25])
        left.imshow(turn[:shown, :shown].numpy(), cmap=SIGNED, vmin=-1, vmax=1)
        left.set_title(f"R for k = {k}:\nits first {shown} channels", weight="normal")
        left.set_xticks([0, shown - 1])
        left.set_yticks([0, shown - 1])
        for name, (error, color, dash) in errors.items():
            right.plot(error.clamp(min=1e-18).tolist(), dash, color=color, label=name)
            right.annotate(name, (len(error) - 1, error.max().item()), xytext=(0, 9), ha="right",
                           color=color, textcoords="offset points")
        right.set_yscale("log")
        right.set_title("largest difference", weight="normal")
        right.set_xlabel("position")
        right.margins(y=0.25)
        fig.suptitle(title, x=0.01, ha="left")
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
