"""§5.3: the rate of each update, and the way of one parameter through Adam."""

from collections.abc import Mapping
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    figure,
    name_ends,
    number,
    style,
)


def schedules(rates: Mapping[str, Mapping[int, float]], title: str) -> Figure:
    """The learning rate by step, one line a model, each with its peak marked and said.

    `rates` is label → step → rate; the rate is drawn in ten-thousandths. `title` is above all.
    """
    with style():
        fig, ax = figure(4.0)
        ends = []
        for (label, line), color, dash in zip(rates.items(), cycle(COLORS), cycle(DASHES)):
            scaled = {step: 1e4 * rate for step, rate in line.items()}
            peak = max(scaled, key=scaled.__getitem__)
            ax.plot(scaled.keys(), scaled.values(), color=color, linestyle=dash, label=label)
            ax.plot([peak], [scaled[peak]], "o", color=color)
            last = max(scaled)
            words = f"{label}:\n{scaled[peak]:.2f} at step {number(peak)}"
            ends.append((last, scaled[last], words, color))
        ax.set_ylim(0, 1.05e4 * max(max(line.values()) for line in rates.values()))
        ax.set_xlim(left=0, right=max(x for x, *_ in ends))
        ax.xaxis.set_major_formatter(lambda step, _: number(step))
        ax.set_xlabel("step")
        ax.set_ylabel("learning rate, in 10⁻⁴")
        ax.set_title(title)
        name_ends(ax, ends)
    return fig
