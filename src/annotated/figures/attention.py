"""Maps of attention weights, as in Figures 3-5: who listens to whom."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import (
    INK,
    NARROW,
    WEIGHTS,
    WIDE,
    figure,
    name_columns,
    says_beside,
    spoken,
    style,
)

WRITTEN = 0.05  # the smallest weight whose number is written, where there is room


def attention_maps(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str],
    titles: Sequence[str], columns: int = 2, title: str = "",
    says: Sequence[str] | None = None,
) -> Figure:
    """One map per head: rows are queries, columns keys, from white, 0, to violet, 1.

    `weights` is (heads, queries, keys), as record_attention gives it for
    one sentence; each row sums to 1. `queries`, `keys` and `titles` (one per
    head) are their names, `columns` the maps side by side, `title` that of the
    whole. A single map has its numbers in the cells. A decoder's queries are
    named by what it reads; `says`, what it must say at each, then stands as
    "→ zwei" at the right of the last map of a row. Raises ValueError if the
    names are not as many.
    """
    named = len(titles), len(queries), len(keys)
    if weights.shape != named:
        raise ValueError(f"weights are {tuple(weights.shape)}; the names are for {named}")
    if says is not None and len(says) != len(queries):
        raise ValueError(f"says are {len(says)} for {len(queries)} queries; expected one each")
    columns = min(columns, len(weights))
    rows = -(-len(weights) // columns)
    with style():
        fig, axes = figure(
            (0.34 * len(queries) + 0.5) * rows + 1.0 + 0.3 * bool(title), rows, columns,
            width=NARROW if columns == 1 else WIDE, squeeze=False, sharex=True, sharey=True,
        )
        for ax in axes.flat[len(weights):]:
            ax.axis("off")
        for place, (head, name) in enumerate(zip(weights, titles, strict=True)):
            ax = axes.flat[place]
            ax.imshow(head.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            name_columns(ax, spoken(keys))
            ax.tick_params("x", labelbottom=place + columns >= len(weights))
            ax.set_yticks(range(len(queries)), spoken(queries))
            ax.set_title(name, weight="normal" if title else "bold")
            if columns == 1:
                _numbers(ax, head)
        if says is not None:
            for row in axes:
                says_beside([ax for ax in row if ax.axison][-1], range(len(queries)), says)
        if title:
            fig.suptitle(title, x=0.01, ha="left")
    return fig


def _numbers(ax, head: Tensor) -> None:
    """The weights that count, in their cells."""
    for row, column in (head >= WRITTEN).nonzero().tolist():
        weight = float(head[row, column])
        ax.text(column, row, f"{weight:.2f}"[weight < 0.995:], ha="center", va="center",
                color="white" if weight > 0.6 else INK)
