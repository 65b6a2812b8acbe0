"""§5.3: the rate of each update."""

from collections.abc import Mapping
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import COLORS, DASHES, figure, style


def schedules(rates: Mapping[str, Mapping[int, float]]) -> Figure:
    """The learning rate by step, one line a model, each with its peak marked.

    `rates` is label → step → rate; the rate is drawn in ten-thousandths.
    """
    with style():
        fig, ax = figure(6.4, 3.4)
        for (label, line), color, dash in zip(rates.items(), cycle(COLORS), cycle(DASHES)):
            scaled = {step: 1e4 * rate for step, rate in line.items()}
            peak = max(scaled, key=scaled.__getitem__)
            ax.plot(scaled.keys(), scaled.values(), color=color, linestyle=dash, label=label)
            ax.plot([peak], [scaled[peak]], "o", color=color)
            ax.annotate(
                f"step {peak:,}: {scaled[peak]:.2f}".replace(",", " "), (peak, scaled[peak]),
                xytext=(8, 0), textcoords="offset points", va="center", color=color,
            )
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
        ax.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}".replace(",", " "))
        ax.set_xlabel("step")
        ax.set_ylabel("learning rate, in 10⁻⁴")
        ax.legend(loc="upper right", bbox_to_anchor=(1, 0.8))
    return fig
