"""§5.4: how sure models are of the right piece."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from annotated.figures.style import DEEP, GREY, VIOLET, figure, name_line, style


def probability_of_right(
    shares: Mapping[str, Sequence[float]], ceilings: Mapping[str, float], title: str,
    start: float = 0.0,
) -> Figure:
    """One histogram a model: share of predictions by probability of the right piece.

    `shares` are those of equal bins from 0 to 1 and add up to 1. A model in
    `ceilings` has a line at the most that its training rewards. `title` is above
    all; all have one scale. Probabilities below `start` are not drawn.
    """
    with style():
        fig, axes = figure(
            1.4 + 1.5 * len(shares), len(shares), 1, sharex=True, sharey=True, squeeze=False)
        for ax, (label, heights) in zip(axes.flat, shares.items()):
            if abs(sum(heights) - 1) > 1e-3:
                raise ValueError(f"the shares of {label} add up to {sum(heights):.3f}, expected 1")
            width = 1 / len(heights)
            left = [width * i for i in range(len(heights))]
            ax.bar(left, heights, width, align="edge", color=VIOLET, edgecolor="white",
                   linewidth=0.5)
            ax.set_title(label, weight="normal")
            ax.set_ylim(0, 1.05)
            if label in ceilings:
                ax.axvline(ceilings[label], color=DEEP, linestyle="--")
                name_line(ax, ceilings[label], 0.85, f"ceiling {ceilings[label]:.3f}", DEEP,
                          xytext=(-7, 0), ha="right")
        axes[-1, 0].set_xlim(start, 1)
        axes[-1, 0].set_xlabel("probability of the right piece")
        axes[0, 0].set_ylabel("share")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def rewarded(
    losses: Mapping[str, Mapping[float, float]], lowest: float, title: str
) -> Figure:
    """Losses against the probability that the right piece gets; the last line has its minimum.

    `losses` is a name → probability → nats; the first line is grey, the last violet. An orange dot
    stands on the last at `lowest`, one of its probabilities. `title` is above all.
    """
    with style():
        fig, ax = figure(4.0)
        names = [*losses]
        for name, points in losses.items():
            last = name == names[-1]
            ax.plot([*points], [*points.values()], "-" if last else "--",
                    color=VIOLET if last else GREY, linewidth=2.5 if last else 2.0, label=name)
            start = [*points][len(points) // 6]
            name_line(ax, start, points[start], name, VIOLET if last else GREY, xytext=(8, 8),
                      va="bottom")
        bottom = losses[names[-1]][lowest]
        ax.plot([lowest], [bottom], "o", color=DEEP, markersize=9, zorder=4)
        name_line(ax, lowest, bottom, f"lowest at {lowest:.4f}", DEEP, xytext=(0, -12), va="top",
                  ha="center")
        ax.set_ylim(0, 1.1 * max(max(points.values()) for points in losses.values()))
        ax.set_xlabel("probability of the right piece")
        ax.set_ylabel("loss, in nats")
        ax.set_title(title)
    return fig
