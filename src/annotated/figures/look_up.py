"""§3.2: a dictionary look-up that turns soft, while its query slides from one key to another."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from annotated.figures.style import INK, LINE, ORANGE, VIOLET, figure, style

COLOURS = ("#8f78bd", "#eba368", "#c4b6e0", "#f6d3b4", VIOLET, ORANGE, "#9aa3b0")
SEEN = 0.15  # a key that never gets as much is drawn among the others


def soft_look_up(
    weights: Mapping[str, Float[Tensor, "n m"]], keys: Sequence[str],
    start: str, end: str, above: str,
) -> Figure:
    """One panel for each set of weights: whose share of one is how large, as the query slides.

    `weights` maps a title to the weights of the same n queries, in their order; `keys` names
    the m keys, `start` and `end` the first query and the last; `above` is the title of all. Keys
    that get little in every panel are drawn together. Raises ValueError if there is not one name
    for each key, or a row is no shares of 1.
    """
    for title, rows in weights.items():
        if rows.shape[1] != len(keys):
            raise ValueError(f"{len(keys)} keys for weights of {rows.shape[1]} in {title!r}")
        if (rows < 0).any() or not ((rows.sum(1) - 1).abs() < 1e-4).all():
            raise ValueError(f"rows of {title!r} must be weights that sum to 1")
    most = torch.stack([rows.amax(0) for rows in weights.values()]).amax(0)
    named = [i for i in range(len(keys)) if most[i] >= SEEN]
    others = [i for i in range(len(keys)) if most[i] < SEEN]
    with style():
        fig, axes = figure(0.9 + 1.9 * len(weights), len(weights), 1, sharex=True)
        for ax, (title, rows) in zip(np.atleast_1d(axes), weights.items()):
            parts = [rows[:, i] for i in named]
            labels = [keys[i] for i in named]
            if others:
                parts, labels = [*parts, rows[:, others].sum(1)], [*labels, "others"]
            _areas(ax, torch.stack(parts), labels)
            ax.set_title(title, weight="normal")
        fig.axes[0].set_ylabel("weight")
        fig.suptitle(above, x=0.01, ha="left")
        ax.set_xticks([0, 0.5, 1], [start, "half way", end])
        ax.set_xlabel("the query slides")
        for label, side in zip(ax.get_xticklabels(), ("left", "center", "right")):
            label.set_ha(side)
    return fig


def _areas(ax: Axes, parts: Float[Tensor, "k n"], labels: Sequence[str]) -> None:
    """Shares stacked up to 1, each with its name where it is widest."""
    along = np.linspace(0, 1, parts.shape[1])
    colours = [LINE if label == "others" else colour
               for label, colour in zip(labels, cycle(COLOURS))]
    ax.stackplot(along, parts.numpy(), labels=labels, colors=colours, edgecolor="white")
    top = parts.cumsum(0)
    for i, label in enumerate(labels):
        share = parts[i]
        place = int((share >= share.max() - 1e-6).nonzero().float().mean().round())
        if share[place] > 0.13:
            x = min(max(along[place], 0.08), 0.92)
            y = float(top[i, place] - share[place] / 2)
            ax.text(x, y, label, ha="center", va="center", color=INK, bbox=dict(
                facecolor="white", edgecolor="none", alpha=0.75, pad=1.5))
    ax.set(xlim=(0, 1), ylim=(0, 1), yticks=[0, 0.5, 1])
