"""§1, §2: who is ready when, and what changes with the distance between two positions."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import log10
from statistics import mean

from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    GREY,
    MARKERS,
    figure,
    name_ends,
    name_line,
    number,
    style,
)

Number = int | float


def readiness(steps: Mapping[str, Sequence[int]], title: str) -> Figure:
    """After how many steps each position is ready: a line for each kind, a tread for each place.

    `steps` is kind → steps, one number for each position, from position 0. `title` is above all.
    """
    with style():
        fig, ax = figure(3.6)
        ends = []
        most = max(len(line) for line in steps.values())
        for (kind, line), color, dash in zip(steps.items(), cycle(COLORS), cycle(DASHES)):
            ax.stairs(line, [place - 0.5 for place in range(len(line) + 1)], baseline=None,
                      color=color, linestyle=dash, linewidth=2.5, label=kind)
            ends.append((len(line) - 0.5, line[-1], kind, color))
        ax.set_xlim(-0.5, most - 0.5)
        ax.set_ylim(0, 1.06 * max(max(line) for line in steps.values()))
        ax.set_xlabel("position")
        ax.set_ylabel("steps until it is ready")
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


def against_distance(
    found: Mapping[str, Mapping[int, Sequence[Number]]], title: str, ylabel: str,
    scale: str = "linear", chance: float | None = None,
) -> Figure:
    """What was found at each distance: a mark for each run, a line through their means.

    `found` is kind → distance → numbers; `ylabel` says what they are. `scale` is "log", or
    "linear" for shares of 1, with a line at `chance` if it is given. `title` is above all.
    """
    distances = sorted({distance for line in found.values() for distance in line})
    with style():
        fig, ax = figure(3.9)
        ends = []
        looks = zip(found.items(), cycle(COLORS), cycle(DASHES), cycle(MARKERS))
        for (kind, line), color, dash, marker in looks:
            means = [mean(runs) for runs in line.values()]
            ax.plot(list(line), means, dash, color=color, label=kind)
            for distance, runs in line.items():
                ax.plot(len(runs) * [distance], runs, marker, color=color, markersize=6,
                        fillstyle="none")
            if max(line) == distances[-1]:
                ends.append((distances[-1], means[-1], kind, color))
            else:  # it ends early, so its name stands there
                name_line(ax, max(line), means[-1], kind, color, xytext=(9, 0))
        ax.set_xscale("log", base=2)
        ax.set_yscale(scale)
        if scale == "log":
            ax.yaxis.set_major_formatter(lambda y, _: power(y))
            ax.yaxis.set_minor_formatter("")
        else:
            ax.set_ylim(0, 1.05)
            ax.yaxis.set_major_formatter("{x:.0%}")
        if chance is not None:
            ax.axhline(chance, color=GREY, linestyle=":", linewidth=1.5)
            ax.annotate("chance", (0, chance), xycoords=("axes fraction", "data"), color=GREY,
                        xytext=(4, 3), textcoords="offset points")
        ax.set_xticks(distances, [number(distance) for distance in distances])
        ax.minorticks_off()
        ax.set_xlabel("distance")
        ax.set_ylabel(ylabel)
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


SMALL = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def power(value: Number) -> str:
    """1, 10, 100, or a power of ten."""
    exponent = round(log10(value))
    if 0 <= exponent < 4:
        return number(10**exponent)
    return "10" + str(exponent).translate(SMALL)
