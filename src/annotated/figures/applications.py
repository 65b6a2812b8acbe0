"""§3.2.3: the three uses of attention in one picture, by who asks and who answers."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.figures.style import (
    FAINT,
    GREY,
    WEIGHTS,
    figure,
    name_columns,
    name_rows,
    says_beside,
    spoken,
    style,
)
from annotated.model import causal_mask


def three_uses(
    encoder: Tensor, decoder: Tensor, cross: Tensor,
    source: Sequence[str], target: Sequence[str], says: Sequence[str],
) -> Figure:
    """Maps of one head of each use: rows ask, columns answer.

    `encoder` is (m, m), `decoder` (n, n), `cross` (n, m), as
    record_attention gives them; `source` names the m pieces read, `target`
    the n pieces that the decoder reads, `says` what it must say at each.
    Cells that the causal mask hides are hatched. Raises ValueError for maps
    that do not fit the names, and for weight where the mask allows none.
    """
    m, n = len(source), len(target)
    for name, x, shape in (
        ("encoder", encoder, (m, m)), ("decoder", decoder, (n, n)), ("cross", cross, (n, m)),
        ("says", says, (n,)),
    ):
        found = tuple(x.shape) if isinstance(x, Tensor) else (len(x),)
        if found != shape:
            raise ValueError(f"{name} is {found}; the names are for {shape}")
    hidden = ~causal_mask(n)
    if decoder[hidden].any():
        raise ValueError("decoder has weight above its diagonal, which the causal mask hides")
    with style():
        fig, axes = figure(
            0.3 * (m + n) + 2.6, 2, 2, sharex="col", sharey="row",
            width_ratios=[m, n], height_ratios=[m, n],
        )
        (upper, empty), (lower, right) = axes
        for ax, weights, title in (
            (upper, encoder, "encoder self-attention"),
            (lower, cross, "cross-attention"),
            (right, decoder, "masked\nself-attention"),
        ):
            ax.imshow(weights.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            ax.set_title(title, fontsize=13)
        for row, column in hidden.nonzero().tolist():
            right.add_patch(Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor=FAINT, edgecolor=GREY,
                hatch="///", linewidth=0,
            ))
        name_columns(lower, spoken(source))
        name_columns(right, target)
        upper.set_yticks(range(m), spoken(source))
        lower.set_yticks(range(n), target)
        says_beside(right, range(n), says)
        empty.axis("off")
        empty.text(
            0.5, 0.5, "no such use:\nthe encoder\nasks only\nits own pieces", ha="center",
            va="center", color=GREY, transform=empty.transAxes,
        )
        for ax in (upper, lower):
            name_rows(ax, "who asks")
        for ax in (lower, right):
            ax.set_xlabel("who answers")
    return fig
