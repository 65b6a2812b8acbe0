"""§4: the same models in training and in generation."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from annotated.figures.style import COLORS, DASHES, LINE, MARKERS, Number, figure, number, style


def ranking(
    left: Mapping[str, Number], right: Mapping[str, Number], heads: tuple[str, str], title: str
) -> Figure:
    """A line for each model from one time to another, both as multiples of the first model's.

    left, right: model -> a time, the same models in both, at most four; the smaller the higher.
    heads: what the left and the right times are of. `title` is above all.
    Raises ValueError if the models are not the same.
    """
    if list(left) != list(right):
        raise ValueError(f"the models are {', '.join(left)} and {', '.join(right)}")
    ratios = [{name: times[name] / times[first] for name in times}
              for times in (left, right) for first in [next(iter(times))]]
    drawn = [ratio for side in ratios for ratio in side.values()]
    span = math.log(max(drawn) / min(drawn)) or 1.0
    with style():
        fig, ax = figure(1.5 + 0.7 * len(left))
        for place, name in enumerate(left):
            ax.plot([0, 1], [side[name] for side in ratios], DASHES[place % 4],
                    color=COLORS[place % 4], marker=MARKERS[place % 4], markersize=9)
        for x, side in enumerate(ratios):
            for name, y in apart(side, 0.36 / (0.7 * len(left)) * span).items():
                times = f"{side[name]:.1f} ×" if side[name] < 10 else f"{number(side[name])} ×"
                ax.text(
                    1.04 if x else -0.04, y, f"{times}  {name}" if x else times,
                    ha="left" if x else "right", va="center",
                    color=COLORS[list(left).index(name) % 4],
                )
        ax.set(yscale="log", xlim=(-0.35, 2.3))
        ax.set_ylim(max(drawn) * math.exp(0.1 * span), min(drawn) / math.exp(0.1 * span))
        ax.yaxis.set_visible(False)
        ax.set_xticks([0, 1], heads)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        for x in (0, 1):
            ax.axvline(x, color=LINE, linewidth=1, zorder=0)
        ax.set_title(title)
    return fig


def apart(values: Mapping[str, Number], least: Number) -> dict[str, float]:
    """Where labels of these values stand on a logarithmic axis, `least` apart in the logarithm."""
    order = sorted(values, key=lambda name: values[name])
    places = [math.log(values[name]) for name in order]
    for _ in range(200):  # neighbours that are too close give way, half each
        for i in range(len(places) - 1):
            if (lack := least - (places[i + 1] - places[i])) > 0:
                places[i], places[i + 1] = places[i] - lack / 2, places[i + 1] + lack / 2
    return {name: math.exp(place) for name, place in zip(order, places, strict=True)}
