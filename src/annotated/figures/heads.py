"""§3.2.2: what a model loses with each of its heads."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from annotated.figures.style import BLUE, GREY, figure, style


def head_losses(losses: Mapping[str, Sequence[float]]) -> Figure:
    """One row an attention: what each head costs when it is cut alone, then all of them.

    `losses` maps an attention's name, as record_attention gives it, to shares between 0 and 1:
    one a head, and last the one with all its heads cut. Cells show per cent; the costliest single
    head is framed. Raises ValueError for rows of unequal length or shares outside 0 to 1.
    """
    if len({len(row) for row in losses.values()}) != 1:
        lengths = ", ".join(f"{name} {len(row)}" for name, row in losses.items()) or "no rows"
        raise ValueError(f"losses must have rows of one length, not {lengths}")
    shares = np.array([*losses.values()], dtype=float)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"losses must lie between 0 and 1, not {shares.min()} to {shares.max()}")
    alone, together = shares[:, :-1], shares[:, -1:]
    heads = alone.shape[1]
    with style():
        fig, (left, right) = figure(
            2.1 + 0.72 * (heads + 1), 1.3 + 0.55 * len(shares), 1, 2,
            width_ratios=[heads, 1], sharey=True,
        )
        draw_losses(left, alone, range(heads))
        draw_losses(right, together, [f"0-{heads - 1}"])
        left.set_yticks(range(len(shares)), [label(name) for name in losses], fontsize=10)
        left.set_ylabel("attention")
        left.set_xlabel("one head cut")
        right.set_xlabel(f"all {heads} cut")
        row, head = np.unravel_index(alone.argmax(), alone.shape)
        left.add_patch(Rectangle(
            (head - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=BLUE, linewidth=2.5,
        ))
        fig.suptitle("Wrong translations, per cent", fontsize=12, x=0.02, ha="left")
    return fig


def draw_losses(ax, shares: np.ndarray, columns: Sequence) -> None:
    """Shares as coloured cells with their per cent written in; zeros step back."""
    ax.imshow(shares, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        quiet = GREY if round(100 * share) == 0 else "black"
        ax.text(
            column, row, f"{100 * share:.0f}", ha="center", va="center",
            color="white" if share > 0.77 else quiet,
        )
    ax.set_xticks(range(shares.shape[1]), columns)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def label(name: str) -> str:
    """decoder.layers.1.cross_attention → decoder 1, cross."""
    stack, _, layer, kind = name.split(".")
    return f"{stack} {layer}, {kind.removesuffix('_attention')}"
