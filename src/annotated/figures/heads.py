"""§3.2.2: heads side by side, and what a model loses with each of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.figures.style import (
    CHANGED,
    GREY,
    INK,
    LINE,
    NARROW,
    SIGNED,
    VIOLET,
    WEIGHTS,
    WIDE,
    figure,
    name_columns,
    name_rows,
    spoken,
    style,
)


def side_by_side(
    weights: Float[Tensor, "h n m"], joined: Float[Tensor, "n width"],
    output: Float[Tensor, "n d_model"], queries: Sequence[str], keys: Sequence[str],
    title: str,
) -> Figure:
    """One attention from top to bottom: a map for each head, its mixes below it, the output.

    The mixes, `joined` from left to right, are h pieces of equal width; `output` is what W^O makes
    of a whole row. `queries` and `keys` name rows and columns of the `weights`. Mixes share a
    scale, the output has its own: violet minus, orange plus. `title` is above all. Raises
    ValueError if the names are not as many, or the mixes can't be split among the heads.
    """
    heads, n, m = weights.shape
    if (n, m) != (len(queries), len(keys)):
        raise ValueError(f"{len(queries)} and {len(keys)} names for {n} queries and {m} keys")
    if joined.shape[1] % heads:
        raise ValueError(f"joined is {joined.shape[1]} wide; expected a multiple of {heads} heads")
    mixes = joined.chunk(heads, 1)
    with style():
        fig, empty = figure(1.2 + 0.85 * n)
        empty.remove()
        grid = fig.add_gridspec(3, heads)
        for head in range(heads):
            ax = fig.add_subplot(grid[0, head])
            ax.imshow(weights[head].numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
            ax.set_title(f"head {head}: weights, {n} × {m}", weight="normal")
            name_columns(ax, spoken(keys))
            below = fig.add_subplot(grid[1, head])
            draw_vectors(below, mixes[head], joined.abs().max().item())
            below.set_title(f"its mixes, {n} × {mixes[head].shape[1]}", weight="normal")
            for each in (ax, below):
                each.set_yticks(range(n), spoken(queries) if head == 0 else [])
        last = fig.add_subplot(grid[2, :])
        draw_vectors(last, output, output.abs().max().item())
        last.set_title(f"joined, {n} × {joined.shape[1]}, times the output matrix: "
                       f"{n} × {output.shape[1]}", weight="normal")
        last.set_yticks(range(n), spoken(queries))
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def draw_vectors(ax, rows: Tensor, most: float) -> None:
    """Vectors as rows of coloured cells, from minus `most` to plus."""
    ax.imshow(rows.numpy(), cmap=SIGNED, vmin=-most, vmax=most, aspect="auto")
    ax.set_xticks([])


def head_losses(losses: Mapping[str, Sequence[int]], total: int, title: str) -> Figure:
    """One row an attention: what each head costs when it is cut alone, then all of them.

    `losses` maps an attention's name, as record_attention gives it, to counts among `total`
    sentences: one per head, and last the one with all its heads cut. Cells show the counts, so 0 is
    none; the costliest single head is framed. `title` is above all. Raises ValueError for rows of
    unequal length or counts outside 0 to `total`.
    """
    if len({len(row) for row in losses.values()}) != 1:
        lengths = ", ".join(f"{name} {len(row)}" for name, row in losses.items()) or "no rows"
        raise ValueError(f"losses must have rows of one length, not {lengths}")
    counts = np.array([*losses.values()])
    if not ((counts >= 0) & (counts <= total)).all():
        raise ValueError(
            f"losses must lie between 0 and {total}, not {counts.min()} to {counts.max()}"
        )
    alone, together = counts[:, :-1], counts[:, -1:]
    heads = alone.shape[1]
    with style():
        fig, (left, right) = figure(
            1.5 + 0.5 * len(counts), 1, 2, width_ratios=[heads, 1], sharey=True,
            width=NARROW if heads < 3 else WIDE,
        )
        draw_losses(left, alone, total, range(heads))
        draw_losses(right, together, total, [f"0-{heads - 1}"])
        left.set_yticks(range(len(counts)), [label(name) for name in losses])
        left.set_xlabel(f"one head cut: wrong of {total}")
        right.set_xlabel(f"all {heads} cut")
        row, head = np.unravel_index(alone.argmax(), alone.shape)
        left.add_patch(Rectangle(
            (head - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=VIOLET, linewidth=2.5,
        ))
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def draw_losses(ax, counts: np.ndarray, total: int, columns: Sequence) -> None:
    """Draw `counts` of `total` on `ax` as coloured cells, the numbers in them; zeros step back.

    `columns` are the names under the columns.
    """
    ax.imshow(counts, cmap=CHANGED, vmin=0, vmax=total, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        ax.text(
            column, row, f"{count}", ha="center", va="center",
            color=GREY if not count else "black" if count > total / 2 else INK,
            weight="bold" if count > total / 3 else "normal",
        )
    ax.set_xticks(range(counts.shape[1]), columns)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def mistaken_digits(
    became: Mapping[str, Mapping[tuple[str, str], int]], title: str
) -> Figure:
    """A grid for each cut: which digit (row) became which (column), and how often.

    `became` is the name of a cut → (digit, what was said) → count. All grids have one scale, and
    counts above a fifth of the largest stand in their cells. `title` is above all.
    """
    most = max(count for counts in became.values() for count in counts.values())
    with style():
        fig, axes = figure(4.4, 1, len(became), sharey=True, squeeze=False)
        for ax, (name, counts) in zip(axes.flat, became.items(), strict=True):
            grid = np.zeros((10, 10), dtype=int)
            for (digit, said), count in counts.items():
                grid[int(digit), int(said)] = count
            ax.imshow(grid, cmap=CHANGED, vmin=0, vmax=most)
            ax.plot([-0.5, 9.5], [-0.5, 9.5], color=LINE, linewidth=1)  # what is right
            for (row, column), count in np.ndenumerate(grid):
                if count > most / 5:
                    ax.text(column, row, f"{count}", ha="center", va="center", color="black",
                            fontsize=12.5)
            ax.set_xticks(range(10))
            ax.set_yticks(range(10))
            ax.tick_params(length=0)
            ax.set_title(name, weight="normal")
            ax.set_xlabel("became")
        name_rows(axes[0, 0], "the\ndigit")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def label(name: str) -> str:
    """decoder.layers.1.cross_attention → decoder 1, cross."""
    stack, _, layer, kind = name.split(".")
    return f"{stack} {layer}, {kind.removesuffix('_attention')}"
