"""How small a model can be, by size; and what a model of one size needs of its parts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    DEEP,
    GREY,
    LINE,
    MARKERS,
    VIOLET,
    figure,
    name_line,
    number,
    style,
)


class Point(NamedTuple):
    """Runs of one size: a number of parameters, and a share for each seed."""

    parameters: int
    shares: Sequence[float]


def by_parameters(
    groups: Mapping[str, Sequence[Point]], title: str, ylabel: str,
    bar: float | None = None, marked: tuple[int, str] | None = None,
) -> Figure:
    """A share against the number of parameters: a mark for each seed, a line from least to most.

    `groups` is label → sizes, each with its colour and marker; `title` says what was found,
    `ylabel` of what the share is. `bar` is drawn across; `marked` are the parameters of one size,
    and what is written there.
    """
    with style():
        fig, ax = figure(4.2)
        for place, (label, points) in enumerate(groups.items()):
            color, marker = COLORS[place % 4], MARKERS[place % 4]
            aside = 1.03 ** (place - (len(groups) - 1) / 2)  # sizes of equal numbers, side by side
            for point in points:
                x = point.parameters * aside
                ax.plot(2 * [x], [min(point.shares), max(point.shares)], color=color, linewidth=1)
                ax.plot(
                    len(point.shares) * [x], point.shares, marker, color=color, markersize=6,
                    fillstyle="none", label=label if point is points[0] else None,
                )
            last = max(points, key=lambda point: point.parameters)
            name_line(ax, last.parameters * aside, min(last.shares), label, color, xytext=(9, 0))
        if bar is not None:
            ax.axhline(bar, color=GREY, linestyle="--", linewidth=1)
            ax.annotate(
                f"the bar, {bar:.0%}", (0.62, bar), xycoords=("axes fraction", "data"),
                xytext=(0, -5), textcoords="offset points", color=GREY, va="top",
            )
        if marked is not None:
            ax.axvline(marked[0], color=GREY, linestyle=":", linewidth=1)
            ax.annotate(
                marked[1], (marked[0], 0), xycoords=("data", "axes fraction"),
                xytext=(6, 8), textcoords="offset points", color=GREY,
            )
        ax.set_xscale("log")
        ticks = [50_000, 100_000, 200_000, 500_000, 1_000_000]
        ax.set_xticks(ticks, [number(tick) for tick in ticks])
        ax.minorticks_off()
        ax.margins(x=0.08)
        ax.yaxis.set_major_formatter("{x:.1%}" if bar else "{x:.0%}")
        ax.set_xlabel("parameters")
        ax.set_ylabel(ylabel)
        ax.set_title(title)
    return fig


def heads_sorted(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[int]]]], above: str
) -> Figure:
    """What each head is worth, the most first: a panel for each number of heads.

    `panels` is title → label → runs, a run being the translations that each head's cut changes,
    sorted. A label has its colour in all panels; thin lines are its runs, the thick one their mean,
    named at the head where the lines lie furthest apart. `above` is the title of all.
    """
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    with style():
        fig, axes = figure(1.4 + 2.0 * len(panels), len(panels), sharey=True, squeeze=False)
        for ax, (title, lines) in zip(axes.flat, panels.items(), strict=True):
            for label, runs in lines.items():
                color = COLORS[labels.index(label) % 4]
                ranks = range(len(runs[0]))
                for run in runs:
                    ax.plot(ranks, run, color=color, linewidth=0.7, alpha=0.6)
                mean = [sum(column) / len(column) for column in zip(*runs, strict=True)]
                dash = DASHES[labels.index(label) % 4]
                ax.plot(ranks, mean, dash, color=color, linewidth=2.5, label=label)
            ax.set_title(title, weight="normal")
            ax.set_ylim(bottom=0)
            ax.set_xticks(range(0, len(ranks), 1 if len(ranks) < 13 else 4))
            ax.legend(handlelength=2.6)
        axes[-1, 0].set_xlabel("head, the most needed first")
        axes[0, 0].set_ylabel("translations changed")
        fig.suptitle(above, x=0.01, ha="left")
    return fig


def shares_by_choice(
    shares: Mapping[str, Sequence[float]], title: str, enough: float, score: str
) -> Figure:
    """A row for each choice taken away, the costliest on top: a dot a seed.

    `shares` is what was taken away → the share right of each seed, 0 to 1. Rows whose worst seed
    has less than `enough` are orange, the others violet. `score` names the axis; `title` is above.
    """
    rows = sorted(shares, key=lambda name: sorted(shares[name])[len(shares[name]) // 2])
    with style():
        fig, ax = figure(1.2 + 0.34 * len(rows))
        for place, name in enumerate(rows):
            values = shares[name]
            color = VIOLET if min(values) >= enough else DEEP
            ax.axhline(place, color=LINE, linewidth=0.8, zorder=0)
            ax.plot(values, [place] * len(values), "o", color=color, markersize=8, alpha=0.75)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        ax.tick_params("y", length=0)
        ax.set_xlabel(score)
        fig.suptitle(title, x=0.01, ha="left")
    return fig
