"""§5.1: batches as packed rectangles, and what grouping by length does to learning."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from annotated.data.batches import IdPair, pair_lengths
from annotated.figures.style import BLUE, GREEN, ORANGE, RED, figure, style

GAP = 2  # empty columns between two rectangles
LINES = ((BLUE, "o", "-"), (GREEN, "s", "--"), (ORANGE, "^", ":"))


def packed_batches(
    ways: Mapping[str, Sequence[Sequence[IdPair]]], side: int = 0
) -> Figure:
    """One panel a way of making batches; one rectangle a batch, drawn to one scale.

    A row is a sentence, a column a place: blue holds a token, red padding.
    Within a rectangle the longest sentence is at the bottom. `side` is 0 for
    sources, 1 for targets.
    """
    pictures = {title: packed(batches, side) for title, batches in ways.items()}
    height = max(picture.shape[0] for picture in pictures.values())
    width = max(picture.shape[1] for picture in pictures.values())
    with style():
        fig, axes = figure(6.4, 0.6 + 1.5 * len(ways), len(ways), 1, squeeze=False)
        for ax, (title, picture) in zip(axes[:, 0], pictures.items(), strict=True):
            rows, columns = picture.shape[:2]
            ax.imshow(
                picture, origin="lower", extent=(0, columns, 0, rows), aspect="auto",
                interpolation="nearest",
            )
            ax.set(xlim=(0, width), ylim=(0, 1.05 * height), title=title, ylabel="sentences")
        axes[-1, 0].set_xlabel("places, one rectangle a batch")
    return fig


def packed(batches: Sequence[Sequence[IdPair]], side: int) -> Float[np.ndarray, "rows columns 3"]:
    """The rectangles side by side, as colours, the first row at the bottom."""
    lengths = [np.sort(1 + pair_lengths(batch)[:, side])[::-1] for batch in batches]
    height, width = max(map(len, lengths)), sum(GAP + int(rows[0]) for rows in lengths) - GAP
    picture = np.ones((height, width, 3))
    left = 0
    for rows in lengths:
        right = left + int(rows[0])
        token = np.arange(rows[0]) < rows[:, None]
        picture[: len(rows), left:right] = np.where(token[..., None], to_rgb(BLUE), to_rgb(RED))
        left = right + GAP
    return picture


def learning_by_batches(
    curves: Mapping[str, Sequence[Mapping[int, float]]]
) -> Figure:
    """Exact match against updates: for each way its seeds thin, their mean thick.

    A curve is step → share right, 0 to 1; those of one way have the same steps.
    """
    with style():
        fig, ax = figure(6.4, 3.6)
        for (name, seeds), (color, marker, dash) in zip(curves.items(), LINES, strict=False):
            for seed in seeds:
                ax.plot(list(seed), list(seed.values()), color=color, linewidth=0.7, alpha=0.45)
            mean = {step: sum(s[step] for s in seeds) / len(seeds) for step in seeds[0]}
            ax.plot(
                list(mean), list(mean.values()), color=color, marker=marker, markersize=4,
                linewidth=2, linestyle=dash, label=name,
            )
        ax.set(xlabel="updates", ylabel="share exactly right", ylim=(-0.03, 1.03))
        ax.set_title("Unseen numbers translated exactly")
        ax.legend(loc="lower right")
    return fig
