"""§5.4: how sure models are of the right piece."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import RED, THREE, figure, style


def probability_of_right(
    shares: Mapping[str, Sequence[float]], ceilings: Mapping[str, float], start: float = 0.0
) -> Figure:
    """One histogram a model: share of predictions by probability of the right piece.

    `shares` are those of equal bins from 0 to 1 and add up to 1. A model in
    `ceilings` has a line at the most that its training rewards. Probabilities
    below `start` are not drawn.
    """
    with style():
        fig, axes = figure(6.4, 1.2 + 1.7 * len(shares), len(shares), 1, sharex=True, squeeze=False)
        for ax, (label, heights), color in zip(axes.flat, shares.items(), cycle(THREE)):
            if abs(sum(heights) - 1) > 1e-3:
                raise ValueError(f"the shares of {label} add up to {sum(heights):.3f}, expected 1")
            width = 1 / len(heights)
            left = [width * i for i in range(len(heights))]
            ax.bar(left, heights, width, align="edge", color=color, edgecolor="white",
                   linewidth=0.5)
            ax.set_title(label)
            if label in ceilings:
                ax.axvline(ceilings[label], color=RED, linestyle="--")
                ax.annotate(
                    f"ceiling {ceilings[label]:.3f}", (ceilings[label], 0.9), xytext=(-6, 0),
                    xycoords=("data", "axes fraction"), textcoords="offset points",
                    ha="right", va="center", color=RED,
                )
        axes[-1, 0].set_xlim(start, 1)
        axes[-1, 0].set_xlabel("probability of the right piece")
        fig.supylabel("share of predictions", fontsize=11)
    return fig
