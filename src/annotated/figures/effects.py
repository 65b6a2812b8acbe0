"""§3.2.1: what a piece weighs in the maps of attention, against what is lost when it is hidden."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annotated.figures.boxes import inches
from annotated.figures.style import DEEP, VIOLET, figure, spoken, style

SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def weight_against_effect(
    weight: Mapping[str, float], lost: Mapping[str, float], title: str, least: float = 0.5
) -> Figure:
    """A dot for each piece: to the right the weight that it gets, upward the share lost without it.

    `weight` and `lost` have the same pieces; those that cost less than `least` when they are hidden
    are orange. `title` is above all. Raises ValueError for different pieces.
    """
    if [*weight] != [*lost]:
        raise ValueError(f"weights of {[*weight]}, losses of {[*lost]}; expected the same")
    with style():
        fig, ax = figure(4.6)
        for name in weight:
            color = VIOLET if lost[name] >= least else DEEP
            ax.plot([weight[name]], [lost[name]], "o", color=color, markersize=9)
        ax.set(xlim=(0, 1.25 * max(weight.values())), ylim=(-0.12, 1.12), yticks=[0, 0.5, 1])
        ax.set_xlabel("weight: the share of attention that the piece gets")
        ax.set_ylabel("changed when it is hidden")
        ax.set_title(title)
        _names(ax, weight, lost, least)
    return fig


def _names(ax: Axes, weight: Mapping[str, float], lost: Mapping[str, float], least: float) -> None:
    """The name of each dot, on that of eight sides where it is farthest from dots and names."""
    whole, dpi = ax.figure.bbox, ax.figure.dpi
    wide, high = 0.8 * whole.width / dpi, 0.7 * whole.height / dpi  # about, inches
    (left, right), (low, top) = ax.get_xlim(), ax.get_ylim()
    across, up = wide / (right - left), high / (top - low)
    place = {
        name: (across * (weight[name] - left), up * (lost[name] - low)) for name in weight
    }
    taken = [(x - 0.07, x + 0.07, y - 0.07, y + 0.07) for x, y in place.values()]
    for name, (x, y) in place.items():
        words = spoken([name])[0]
        size = inches(words, 13), 0.2

        def box(side, x=x, y=y, size=size):
            across, up = side
            middle = x + across * (0.12 + size[0] / 2), y + up * (0.07 + size[1] / 2 + 0.03)
            return (middle[0] - size[0] / 2, middle[0] + size[0] / 2,
                    middle[1] - size[1] / 2, middle[1] + size[1] / 2)

        side = min(SIDES, key=lambda side: (_overlap(box(side), taken), SIDES.index(side)))
        taken.append(box(side))
        across, up = side
        ax.annotate(
            words, (weight[name], lost[name]), xytext=(9 * across, 8 * up),
            textcoords="offset points", color=VIOLET if lost[name] >= least else DEEP,
            ha={1: "left", 0: "center", -1: "right"}[across],
            va={1: "bottom", 0: "center", -1: "top"}[up],
        )


def _overlap(box: tuple, others: list[tuple]) -> float:
    """The area that a box shares with others, each (left, right, low, top)."""
    areas = (
        max(0.0, min(box[1], other[1]) - max(box[0], other[0]))
        * max(0.0, min(box[3], other[3]) - max(box[2], other[2]))
        for other in others
    )
    return sum(areas)
