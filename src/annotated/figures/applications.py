"""§3.2.3: the three uses of attention in one picture, by who asks and who answers."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.figures.style import GREY, WEIGHTS, figure, says_beside, style
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
            0.32 * (m + n) + 2.2, 0.32 * (m + n) + 1.9, 2, 2, sharex="col", sharey="row",
            width_ratios=[m, n], height_ratios=[m, n],
        )
        (upper, empty), (lower, right) = axes
        for ax, weights, title in (
            (upper, encoder, "encoder self-attention"),
            (lower, cross, "cross-attention"),
            (right, decoder, "masked self-attention"),
        ):
            image = ax.imshow(weights.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            ax.set_title(title, fontsize=11)
        for row, column in hidden.nonzero().tolist():
            right.add_patch(Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor="#eeeeee", edgecolor=GREY,
                hatch="///", linewidth=0,
            ))
        slanted = dict(rotation=60, ha="right", rotation_mode="anchor")
        lower.set_xticks(range(m), source, **slanted)
        right.set_xticks(range(n), target, **slanted)
        upper.set_yticks(range(m), source)
        lower.set_yticks(range(n), target)
        says_beside(right, range(n), says)
        empty.axis("off")
        empty.text(
            0.5, 0.72, "no such use:\nthe encoder\nasks only\nits own pieces", ha="center",
            va="center", color=GREY, transform=empty.transAxes,
        )
        bar = empty.inset_axes((0.08, 0.3, 0.84, 0.05))
        fig.colorbar(image, cax=bar, orientation="horizontal", label="weight", ticks=[0, 1])
        fig.supylabel("who asks", fontsize=11)
        fig.supxlabel("who answers", fontsize=11)
    return fig
