"""§5.3: the rate of each update, and runs that differ in how they begin."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import BLUE, GREEN, ORANGE, RED, figure, style

COLORS = (BLUE, RED, GREEN, ORANGE)
DASHES = ("-", "--", "-.", ":")  # lines must differ without their colour too

Curve = Sequence[Mapping[str, int | float | None]]  # the curve of a record


def schedules(rates: Mapping[str, Mapping[int, float]]) -> Figure:
    """The learning rate by step, one line a model, each with its peak marked.

    ``rates`` is label → step → rate; the rate is drawn in ten-thousandths.
    """
    with style():
        fig, ax = figure(6.4, 3.4)
        for (label, line), color, dash in zip(rates.items(), cycle(COLORS), cycle(DASHES)):
            scaled = {step: 1e4 * rate for step, rate in line.items()}
            peak = max(scaled, key=scaled.get)
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


def beginnings(runs: Mapping[str, Sequence[Curve]]) -> Figure:
    """Loss and share exactly right by update; one colour a setting, one line a seed.

    ``runs`` is label → the curves of its records, with the columns step, loss
    and accuracy.
    """
    with style():
        fig, (above, below) = figure(6.4, 6.2, 2, 1, sharex=True)
        for (label, curves), color, dash in zip(runs.items(), cycle(COLORS), cycle(DASHES)):
            for number, curve in enumerate(curves):
                for ax, column in ((above, "loss"), (below, "accuracy")):
                    points = [(p["step"], p[column]) for p in curve if p[column] is not None]
                    ax.plot(
                        *zip(*points, strict=True), color=color, linestyle=dash, linewidth=1.5,
                        label=None if number else label,
                    )
        above.set_ylim(bottom=0)
        above.set_ylabel("loss (nats a token)")
        above.set_title("Smoothed loss")
        below.set_ylim(-0.03, 1.03)
        below.set_xlabel("updates")
        below.set_ylabel("share exactly right")
        below.set_title("Unseen numbers translated exactly")
        fig.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig
