"""Maps of attention weights, as in Figures 3-5: who listens to whom."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import WEIGHTS, figure, says_beside, style


def attention_maps(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str],
    titles: Sequence[str], columns: int = 2, label: str = "weight",
    says: Sequence[str] | None = None,
) -> Figure:
    """One map per head: rows are queries, columns keys, colour from 0 to 1.

    `weights` is (heads, queries, keys), as record_attention gives it for
    one sentence; each row sums to 1. `queries`, `keys` and `titles` (one per
    head) are their names, `columns` the maps side by side, `label` that of
    the colour bar. A decoder's queries are named by what it reads; `says`,
    what it must say at each, then stands as "→ zwei" at the right of the
    last map of a row. Raises ValueError if the names are not as many.
    """
    named = len(titles), len(queries), len(keys)
    if weights.shape != named:
        raise ValueError(f"weights are {tuple(weights.shape)}; the names are for {named}")
    if says is not None and len(says) != len(queries):
        raise ValueError(f"says are {len(says)} for {len(queries)} queries; expected one each")
    rows = -(-len(weights) // columns)
    wide = max(2.4, 0.29 * len(keys) + 1.1)  # two fit a phone and can still be read
    high = max(2.0, 0.29 * len(queries) + 1.1)
    if says is None:
        width, shared = wide * columns, {}
    else:  # names at the left of the first map and at the right of the last are enough
        width, shared = (wide - 0.9) * columns + 2.5, {"sharey": True}
    with style():
        fig, axes = figure(width, high * rows, rows, columns, squeeze=False, **shared)
        for ax in axes.flat[len(weights):]:
            ax.axis("off")
        for ax, head, title in zip(axes.flat, weights, titles, strict=False):
            image = ax.imshow(head.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            ax.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
            ax.set_yticks(range(len(queries)), queries)
            ax.set_title(title)
        if says is not None:
            for row in axes:
                says_beside([ax for ax in row if ax.axison][-1], range(len(queries)), says)
        fig.colorbar(image, ax=axes, label=label, shrink=0.8, aspect=25, ticks=[0, 0.5, 1])
    return fig
