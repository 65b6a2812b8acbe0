"""§5.1: batches as packed rectangles, and what grouping by length does to learning."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from annotated.data.batches import IdPair, pair_lengths
from annotated.figures.style import COLORS, DASHES, LINE, VIOLET, figure, name_ends, style

GAP = 2  # empty columns between two rectangles
TOKEN, PADDING = VIOLET, LINE


def packed_batches(
    ways: Mapping[str, Sequence[Sequence[IdPair]]], title: str, side: int = 0
) -> Figure:
    """One panel per way of making batches; one rectangle per batch, drawn to one scale.

    A row is a sentence, a column a place: violet holds a token, grey padding.
    Within a rectangle the longest sentence is at the bottom. `title` is above
    all; `side` is 0 for sources, 1 for targets.
    """
    pictures = {name: packed(batches, side) for name, batches in ways.items()}
    height = max(picture.shape[0] for picture in pictures.values())
    width = max(picture.shape[1] for picture in pictures.values())
    with style():
        fig, axes = figure(1.0 + 1.35 * len(ways), len(ways), 1, squeeze=False, sharex=True)
        for ax, (name, picture) in zip(axes[:, 0], pictures.items(), strict=True):
            rows, columns = picture.shape[:2]
            ax.imshow(
                picture, origin="lower", extent=(0, columns, 0, rows), aspect="auto",
                interpolation="nearest",
            )
            ax.set(xlim=(0, width), ylim=(0, 1.05 * height), yticks=[0, height])
            ax.set_title(name, weight="normal")
        axes[-1, 0].set_xlabel("places: one rectangle per batch, one row per sentence")
        fig.suptitle(title, x=0.01, ha="left")
        axes[0, 0].annotate(
            "token ", (0.82, 1.0), xycoords="axes fraction", xytext=(0, 7), ha="right",
            textcoords="offset points", color=TOKEN, weight="bold")
        axes[0, 0].annotate(
            "padding", (1.0, 1.0), xycoords="axes fraction", xytext=(0, 7), ha="right",
            textcoords="offset points", color="#8a94a3", weight="bold")
    return fig


def packed(batches: Sequence[Sequence[IdPair]], side: int) -> Float[np.ndarray, "rows columns 4"]:
    """The rectangles side by side, as colours, the first row at the bottom; between them none."""
    lengths = [np.sort(1 + pair_lengths(batch)[:, side])[::-1] for batch in batches]
    height, width = max(map(len, lengths)), sum(GAP + int(rows[0]) for rows in lengths) - GAP
    picture = np.zeros((height, width, 4))
    left = 0
    for rows in lengths:
        right = left + int(rows[0])
        token = np.arange(rows[0]) < rows[:, None]
        colors = np.where(token[..., None], (*to_rgb(TOKEN), 1.0), (*to_rgb(PADDING), 1.0))
        picture[: len(rows), left:right] = colors
        left = right + GAP
    return picture


def packing(pairs: Sequence[IdPair], seed: int) -> dict[str, list]:
    """What a page needs to make the batches of `batch_plan` itself, for any budget and noise.

    "pairs" are the lengths, without special ids; "bits" and "ranks" the chance that epoch 0 of
    that `seed` draws: two numbers below 65 536 for each pair, which order them, and the rank of
    each batch in the order of training, for as many batches as there are pairs.
    """
    rng, count = np.random.PCG64([seed, 0]), len(pairs)
    bits = rng.random_raw((count + 1) // 2).view(np.uint16)[: 2 * count].reshape(2, count)
    ranks = rng.random_raw(count).argsort(kind="stable").argsort()
    return {
        "pairs": pair_lengths(pairs).tolist(), "bits": bits.T.tolist(), "ranks": ranks.tolist(),
    }


def learning_by_batches(
    curves: Mapping[str, Sequence[Mapping[int, float]]], title: str
) -> Figure:
    """Exact match against updates: for each way its seeds thin, their mean thick.

    A curve is step → share right, 0 to 1; those of one way have the same steps. `title` is above.
    """
    with style():
        fig, ax = figure(3.8)
        ends = []
        for (name, seeds), color, dash in zip(curves.items(), COLORS, DASHES, strict=False):
            for seed in seeds:
                ax.plot(list(seed), list(seed.values()), color=color, linewidth=0.7, alpha=0.45)
            mean = {step: sum(s[step] for s in seeds) / len(seeds) for step in seeds[0]}
            ax.plot(list(mean), list(mean.values()), color=color, linewidth=2.5, linestyle=dash,
                    label=name)
            ends.append((max(mean), mean[max(mean)], name, color))
        ax.set(xlabel="updates", ylabel="share exactly right", ylim=(-0.03, 1.03))
        ax.set_yticks([0, 0.5, 1])
        ax.set_title(title)
        name_ends(ax, ends)
    return fig
