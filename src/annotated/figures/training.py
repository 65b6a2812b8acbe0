"""How training runs went: the loss, and what the models can do, by then and in the end."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import (
    BLUE,
    COLORS,
    DASHES,
    GREEN,
    GREY,
    ORANGE,
    RED,
    THREE,
    figure,
    style,
)

SIX = ("#56b4e9", BLUE, GREEN, "#cc9a06", ORANGE, RED)
MARKERS = "osD^vP"

Curve = Sequence[Mapping[str, int | float | None]]  # the curve of a record


def training_curves(
    losses: Mapping[int, float], accuracy: Mapping[int, Mapping[int, float]], groups: str,
    marks: Mapping[int, str] | None = None,
) -> Figure:
    """Above the loss by update, below exact match by group.

    `losses` is step → nats per token, `accuracy` step → group → share right, 0 to 1; each group
    is one line, and `groups` says what they count. `marks` has words for steps at which something
    happened.
    """
    with style():
        fig, (above, below) = figure(6.4, 5.4, 2, 1, sharex=True)
        above.plot(*zip(*losses.items(), strict=True), color=GREY, linewidth=1.6)
        above.set_ylabel("loss (nats per token)")
        above.set_ylim(bottom=0)
        above.set_title("Smoothed loss")
        for step, words in (marks or {}).items():
            for ax in (above, below):
                ax.axvline(step, color=GREY, linestyle=":", linewidth=1)
            above.annotate(
                words, (step, 0.95), xycoords=("data", "axes fraction"), xytext=(6, 0),
                textcoords="offset points", va="top", color=GREY,
            )
        for i, group in enumerate(sorted({g for share in accuracy.values() for g in share})):
            points = [(step, share[group]) for step, share in accuracy.items() if group in share]
            below.plot(
                *zip(*points), color=SIX[i % 6], marker=MARKERS[i % 6], markersize=4,
                linewidth=1.6, label=str(group),
            )
        below.set_ylim(-0.03, 1.03)
        below.set_xlabel("updates")
        below.set_ylabel("share exactly right")
        below.set_title("Unseen numbers translated exactly")
        below.legend(title=groups, loc="lower right", ncols=2)
    return fig


def perplexity_curves(curves: Mapping[str, Mapping[int, float]]) -> Figure:
    """How sure a model is of sentences it was not trained on, as it learns.

    `curves` is name → step → perplexity; each is one line, on a
    logarithmic scale, with its last value beside it.
    """
    with style():
        fig, ax = figure(6.4, 3.6)
        for i, (name, points) in enumerate(curves.items()):
            steps, values = zip(*points.items(), strict=True)
            color, marker = THREE[i % 3], MARKERS[i % 6]
            ax.plot(steps, values, color=color, marker=marker, markersize=4, label=name)
            ax.annotate(
                f"{values[-1]:.1f}", (steps[-1], values[-1]), color=color,
                xytext=(6, 0), textcoords="offset points", va="center",
            )
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.margins(x=0.08)
        ax.set_xlabel("updates")
        ax.set_ylabel("perplexity")
        ax.set_title("Development set, no dropout, no smoothing")
        ax.legend()
    return fig


def compared_runs(runs: Mapping[str, Sequence[Curve]]) -> Figure:
    """Loss and share exactly right by update; one colour a setting, one line a seed.

    `runs` is label → the curves of its records, with the columns step, loss
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
        above.set_ylabel("loss (nats per token)")
        above.set_title("Smoothed loss")
        below.set_ylim(-0.03, 1.03)
        below.set_xlabel("updates")
        below.set_ylabel("share exactly right")
        below.set_title("Unseen numbers translated exactly")
        fig.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def by_seed(panels: Mapping[str, Mapping[str, Sequence[float]]], score: str) -> Figure:
    """One panel each, side by side: a dot a seed above its setting, a line at their mean.

    `panels` is title → setting → the score of each seed, a share from 0 to 1.
    """
    with style():
        fig, axes = figure(6.4, 3.4, 1, len(panels), sharey=True, squeeze=False)
        for ax, (title, settings) in zip(axes.flat, panels.items()):
            for place, (values, color, marker) in enumerate(
                zip(settings.values(), cycle(THREE), cycle(MARKERS))
            ):
                mean = sum(values) / len(values)
                ax.plot([place - 0.25, place + 0.25], [mean, mean], color=GREY)
                spread = [place + 0.1 * (i - (len(values) - 1) / 2) for i in range(len(values))]
                ax.plot(spread, values, marker, color=color, markersize=6)
            ax.set_xticks(range(len(settings)), settings)
            ax.set_xlim(-0.5, len(settings) - 0.5)
            ax.set_title(title)
        axes[0, 0].set_ylim(-0.03, 1.03)
        axes[0, 0].set_ylabel(score)
    return fig
