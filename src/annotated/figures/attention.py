"""Maps of attention weights, as in Figures 3-5: who listens to whom."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import WEIGHTS, figure, style


def attention_maps(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str],
    titles: Sequence[str], columns: int = 2, label: str = "weight",
) -> Figure:
    """One map per head: rows are queries, columns keys, colour from 0 to 1.

    `weights` is (heads, queries, keys), as record_attention gives it for
    one sentence; each row sums to 1. `queries`, `keys` and `titles` (one per
    head) are their names, `columns` the maps side by side, `label` that of
    the colour bar. Raises ValueError if the names are not as many.
    """
    named = len(titles), len(queries), len(keys)
    if weights.shape != named:
        raise ValueError(f"weights are {tuple(weights.shape)}; the names are for {named}")
    rows = -(-len(weights) // columns)
    wide = max(2.4, 0.29 * len(keys) + 1.1)  # two fit a phone and can still be read
    high = max(2.0, 0.29 * len(queries) + 1.1)
    with style():
        fig, axes = figure(wide * columns, high * rows, rows, columns, squeeze=False)
        for ax in axes.flat[len(weights):]:
            ax.axis("off")
        for ax, head, title in zip(axes.flat, weights, titles, strict=False):
            image = ax.imshow(head.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            ax.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
            ax.set_yticks(range(len(queries)), queries)
            ax.set_title(title)
        fig.colorbar(image, ax=axes, label=label, shrink=0.8)
    return fig
