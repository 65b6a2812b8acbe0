"""§3.2.1 for one word: its vector times W^Q; then scores, division by √d_k, weights, mix."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.figures.style import (
    DEEP,
    GREY,
    INK,
    SIGNED,
    VIOLET,
    WEIGHTS,
    figure,
    name_columns,
    spoken,
    style,
)


def projection(
    x: Float[Tensor, "n d_model"], w: Float[Tensor, "d_model d_k"],
    pieces: Sequence[str], piece: str,
) -> Figure:
    """x @ W = Q in three panels, violet minus and orange plus, the row of one piece framed.

    `w` is the matrix. `x` has a row for each of `pieces`; `piece` is the one whose row is
    followed. Each panel has its own scale. Raises ValueError if there is not one name for each row.
    """
    if len(pieces) != len(x):
        raise ValueError(f"{len(pieces)} pieces for {len(x)} vectors; expected one each")
    place = list(pieces).index(piece)
    with style():
        widths = [x.shape[1], *2 * [max(w.shape[1], 0.4 * x.shape[1])]]
        fig, axes = figure(2.9, 1, 3, gridspec_kw={"width_ratios": widths})
        panels = [("x", x), ("@ W", w), ("= Q", x @ w)]
        for ax, (name, numbers) in zip(axes, panels):
            most = numbers.abs().max().item()
            ax.imshow(numbers.numpy(), cmap=SIGNED, vmin=-most, vmax=most, aspect="auto")
            ax.set_title(f"{name}\n{numbers.shape[0]} × {numbers.shape[1]}")
            ax.set(xticks=[], yticks=[])
            if len(numbers) == len(pieces):
                edges = (-0.5, place - 0.5), numbers.shape[1], 1
                ax.add_patch(Rectangle(*edges, fill=False, edgecolor=DEEP, linewidth=2))
        axes[0].set_yticks(range(len(pieces)), spoken(pieces))
        axes[0].tick_params("y", length=0)
        axes[0].get_yticklabels()[place].set(color=DEEP, fontweight="bold")
    return fig


def one_query(
    scores: Float[Tensor, " m"], scaled: Float[Tensor, " m"],
    weights: Float[Tensor, " m"], values: Float[Tensor, "m d_v"],
    pieces: Sequence[str], title: str,
) -> Figure:
    """The four stages of attention for one query, one panel each, under a `title`.

    `scores`, then `scaled` by 1/√d_k, then `weights` from the softmax, one
    for each of `pieces`; at last the `values` (m, d_v) that they mix.
    Panels 1 and 2 share their axis, so that the division shows as shorter
    bars. The last row of panel 4 is the sum of the rows above it.
    """
    if len(pieces) != len(scores):
        raise ValueError(f"{len(pieces)} pieces for {len(scores)} scores; expected one each")
    parts = weights[:, None] * values
    with style():
        fig, axes = figure(7.4, 2, 2)
        fig.suptitle(title, x=0.01, ha="left")
        low, high = min(scores.min().item(), 0.0), max(scores.max().item(), 0.0)
        room = 0.56 * (high - low)  # for the numbers at the ends of the bars
        stages = [
            ("1  query · key", "score", scores, GREY, (low - room, high + room), 1),
            ("2  divided by √d_k", "score", scaled, GREY, (low - room, high + room), 1),
            ("3  softmax", "weight", weights, VIOLET, (0.0, 1.3), 2),
        ]
        for ax, (title, axis, numbers, colour, limits, digits) in zip(axes.flat, stages):
            _bars(ax, numbers, colour, limits, digits)
            _name(ax, title, axis, pieces)
        axes[1, 0].set_xticks([0, 0.5, 1])
        ax = axes[1, 1]
        rows = torch.cat([parts, parts.sum(0, keepdim=True)])
        most = rows.abs().max().item()
        ax.imshow(rows.numpy(), cmap=SIGNED, vmin=-most, vmax=most, aspect="auto")
        ax.axhline(len(parts) - 0.5, color=INK, linewidth=1.5)
        _name(ax, "4  weighted values", "channel of the value", [*pieces, "sum"])
    return fig


def all_queries(
    queries: Float[Tensor, "n d_k"], keys: Float[Tensor, "m d_k"],
    values: Float[Tensor, "m d_v"], pieces: Sequence[str], piece: str, title: str,
) -> Figure:
    """Equation 1 in six panels: Q, K and V above; below scores over √d_k, their softmax, times V.

    `queries`, `keys` and `values` have a row for each of `pieces`; the query of `piece` is framed
    from Q to its answer. Numbers have colours, violet minus and orange plus, each panel its own
    scale; weights go from white to violet. `title` is above all. Raises ValueError if there is
    not one name for each row.
    """
    if not len(pieces) == len(queries) == len(keys) == len(values):
        raise ValueError(f"{len(pieces)} pieces for {len(queries)} queries and {len(keys)} keys")
    scores = queries @ keys.mT / queries.shape[1] ** 0.5
    weights = scores.softmax(-1)
    place = list(pieces).index(piece)
    panels = [
        ("Q", queries, True), ("K", keys, False), ("V", values, False),
        ("Q Kᵀ / √d_k", scores, True), ("softmax", weights, True),
        ("times V", weights @ values, True),
    ]
    with style():
        fig, axes = figure(5.6, 2, 3)
        for ax, (name, numbers, asks) in zip(axes.flat, panels):
            most = 1.0 if numbers is weights else numbers.abs().max().item()
            least, colors = (0.0, WEIGHTS) if numbers is weights else (-most, SIGNED)
            ax.imshow(numbers.numpy(), cmap=colors, vmin=least, vmax=most, aspect="auto")
            ax.set_title(f"{name}\n{numbers.shape[0]} × {numbers.shape[1]}", weight="normal")
            ax.set(xticks=[], yticks=[])
            if asks:
                edges = (-0.5, place - 0.5), numbers.shape[1], 1
                ax.add_patch(Rectangle(*edges, fill=False, edgecolor=DEEP, linewidth=2))
            if numbers.shape[1] == len(pieces):  # a column for each piece that answers
                name_columns(ax, spoken(pieces))
        for ax in axes[:, 0]:
            ax.set_yticks(range(len(pieces)), spoken(pieces))
            ax.tick_params("y", length=0)
            ax.get_yticklabels()[place].set(color=DEEP, fontweight="bold")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def _bars(ax: Axes, numbers: Tensor, colour: str, limits: tuple[float, float], digits: int):
    bars = ax.barh(range(len(numbers)), numbers.tolist(), color=colour)
    labels = [f"{x:.{digits}f}".replace("-", "−") for x in numbers.tolist()]
    ax.bar_label(bars, labels, padding=3)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xlim(limits)
    ax.set_ylim(len(numbers) - 0.5, -0.5)


def _name(ax: Axes, title: str, axis: str, rows: Sequence[str]):
    ax.set_title(title, weight="normal")
    ax.set_xlabel(axis)
    ax.set_yticks(range(len(rows)), spoken(rows))
    ax.tick_params("y", length=0)
