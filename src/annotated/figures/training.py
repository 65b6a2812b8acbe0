"""How training runs went: the loss, and what the models can do, by then and in the end."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    DEEP,
    GREY,
    VIOLET,
    figure,
    name_ends,
    name_line,
    number,
    style,
)

Curve = Sequence[Mapping[str, int | float | None]]  # the curve of a record


def training_curves(
    losses: Mapping[int, float], accuracy: Mapping[int, Mapping[int, float]], groups: str,
    title: str, marks: Mapping[int, str] | None = None,
) -> Figure:
    """Above the loss by update, below exact match by group, the last group in orange.

    `losses` is step → nats per token, `accuracy` step → group → share right, 0 to 1; each group
    is one line, and `groups` says what they count. `title` is above all. `marks` has words for
    steps at which something happened.
    """
    with style():
        fig, (above, below) = figure(6.0, 2, 1, sharex=True)
        above.plot(*zip(*losses.items(), strict=True), color=VIOLET)
        above.set_ylim(bottom=0)
        above.set_title("smoothed loss, nats per token", weight="normal")
        for step, words in (marks or {}).items():
            for ax in (above, below):
                ax.axvline(step, color=GREY, linestyle=":", linewidth=1)
            above.annotate(
                words, (step, 0.95), xycoords=("data", "axes fraction"), xytext=(6, 0),
                textcoords="offset points", va="top", color=GREY,
            )
        names = sorted({group for share in accuracy.values() for group in share})
        below.set_ylim(-0.03, 1.03)
        for i, group in enumerate(names):
            points = [(step, share[group]) for step, share in accuracy.items() if group in share]
            last = i == len(names) - 1
            below.plot(
                *zip(*points), color=DEEP if last else GREY, linewidth=2.5 if last else 1.3,
                linestyle="-" if last else "--", label=str(group), zorder=3 if last else 2,
            )
            if last or i == 0:  # at the height where the lines lie apart
                x, y = next((x, y) for x, y in points if y >= 0.5 or (x, y) == points[-1])
                others = "" if i else f" to {names[-2]}" if len(names) > 2 else ""
                place = dict(xytext=(9, -3)) if last else dict(xytext=(-9, 0), ha="right")
                name_line(below, x, y, f"{group}{others} {groups}", DEEP if last else GREY, **place)
        below.set_yticks([0, 0.5, 1])
        below.set_xlabel("updates")
        below.set_title("share of unseen numbers exactly right", weight="normal")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def perplexity_curves(curves: Mapping[str, Mapping[int, float]], title: str) -> Figure:
    """How sure a model is of sentences it was not trained on, as it learns.

    `curves` is name → step → perplexity; each is one line, on a
    logarithmic scale, with its last value beside it. `title` is above all.
    """
    with style():
        fig, ax = figure(3.9)
        ends = []
        for (name, points), color, dash in zip(curves.items(), cycle(COLORS), cycle(DASHES)):
            steps, values = zip(*points.items(), strict=True)
            ax.plot(steps, values, dash, color=color, label=name)
            ends.append((steps[-1], values[-1], f"{name}: {values[-1]:.1f}", color))
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        ax.yaxis.set_minor_formatter("")
        ax.xaxis.set_major_formatter(lambda x, _: number(x))
        ax.set_xlabel("updates")
        ax.set_ylabel("perplexity")
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


def compared_runs(
    runs: Mapping[str, Sequence[Curve]], title: str, column: str = "accuracy"
) -> Figure:
    """Share exactly right, or another `column`, by update: a colour per setting, a line per seed.

    `runs` is label → the curves of its records, with the columns step and `column`; a label stands
    beside the last point of its mean. `title` is above all.
    """
    with style():
        fig, ax = figure(4.2)
        ends = []
        for (label, curves), color, dash in zip(runs.items(), cycle(COLORS), cycle(DASHES)):
            lasts = []
            for place, curve in enumerate(curves):
                points = [(p["step"], p[column]) for p in curve if p[column] is not None]
                ax.plot(*zip(*points, strict=True), color=color, linestyle=dash, linewidth=1.6,
                        label=None if place else label)
                lasts.append(points[-1])
            x, y = (sum(values) / len(lasts) for values in zip(*lasts, strict=True))
            ends.append((x, y, label, color))
        if column == "accuracy":
            ax.set_ylim(-0.03, 1.03)
            ax.set_yticks([0, 0.5, 1])
        ax.set_xlabel("updates")
        ax.set_ylabel({"accuracy": "share exactly right"}.get(column, column))
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


def by_seed(
    settings: Mapping[str, Sequence[float]], score: str, title: str, low: float = 0.0
) -> Figure:
    """A dot a seed in the row of its setting, a line at their mean.

    `settings` is setting → the `score` of each seed, a share; the axis reaches from `low` to 1, and
    `title` is above all. Raises ValueError for a share outside it.
    """
    for name, values in settings.items():
        if not all(low <= value <= 1 for value in values):
            raise ValueError(f"{name} has shares {values}; the axis is {low} to 1")
    with style():
        fig, ax = figure(1.3 + 0.7 * len(settings))
        for place, (values, color) in enumerate(zip(settings.values(), cycle((VIOLET, DEEP)))):
            mean = sum(values) / len(values)
            ax.plot([mean, mean], [place - 0.25, place + 0.25], color=color, linewidth=1.5)
            rows = [place + 0.14 * (i - (len(values) - 1) / 2) for i in range(len(values))]
            ax.plot(values, rows, "o", color=color, markersize=9, alpha=0.8)
        ax.set_yticks(range(len(settings)), settings)
        ax.set_ylim(len(settings) - 0.4, -0.6)
        ax.set_xlim(low, 1)
        ax.tick_params("y", length=0)
        ax.set_xlabel(score)
        ax.set_title(title)
    return fig


def slopes(
    settings: Mapping[str, Sequence[tuple[float, float]]], left: str, right: str, title: str
) -> Figure:
    """From one score to another: a line per seed, a colour per setting, named at its right end.

    `settings` is setting → (score `left`, score `right`) of each seed, shares from 0 to 1; `title`
    is above all.
    """
    with style():
        fig, ax = figure(3.6)
        ends = []
        for (name, pairs), color, dash in zip(settings.items(), COLORS, DASHES, strict=False):
            for pair in pairs:
                ax.plot([0, 1], pair, dash, color=color, marker="o", label=name)
            ends.append((1.0, sum(after for _, after in pairs) / len(pairs), name, color))
        ax.set(xlim=(-0.05, 1.02), ylim=(-0.05, 1.05), yticks=[0, 0.5, 1])
        ax.set_xticks([0, 1], [left, right])
        for label, side in zip(ax.get_xticklabels(), ("left", "right"), strict=True):
            label.set_ha(side)
        ax.set_ylabel("share right")
        ax.set_title(title)
        name_ends(ax, ends)
    return fig
