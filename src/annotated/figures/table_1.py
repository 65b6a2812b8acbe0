"""§4, Table 1, measured: times over length, where they cross, exponents, and what is kept."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from annotated.figures.style import (
    COLORS,
    DASHES,
    DEEP,
    GREY,
    LINE,
    MARKERS,
    VIOLET,
    Number,
    figure,
    name_ends,
    name_line,
    number,
    style,
)
from annotated.records import Row


def plain(value: Number, _: object = None) -> str:
    """A number of a logarithmic axis without powers of ten: 0.1, 100, 10 000."""
    return number(value) if value >= 1 else f"{value:g}"


def log_axes(ax: Axes, x: str, y: str) -> None:
    """Both axes logarithmic, named, with plain numbers and faint lines across."""
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if limits[1] / limits[0] < 60:  # else powers of ten are enough
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(plain)
        axis.set_minor_formatter("")
    ax.grid(axis="y", color=LINE, linewidth=0.8)


def over_length(
    lines: Mapping[str, Sequence[Row]], size: str, value: str, title: str, xlabel: str,
    ylabel: str, predicted: Mapping[str, Number] | None = None,
) -> Figure:
    """A line for each label over a size, both axes logarithmic, a band between the quartiles.

    lines: label -> rows, each with `size`, the median `value` and perhaps `value`_quartile_1 and
    _3; at most four labels. predicted: label -> the size at which that line was to meet the first:
    a dotted line in its colour, and a ring where the two do meet, if they do. `title`, `xlabel`
    and `ylabel` are written there.
    """
    with style():
        fig, ax = figure(4.4)
        ends, curves = [], {}
        for place, (label, rows) in enumerate(lines.items()):
            color = COLORS[place % 4]
            rows = sorted(rows, key=lambda row: row[size])
            xs, ys = ([row[name] for row in rows] for name in (size, value))
            ax.plot(xs, ys, DASHES[place % 4], color=color, marker=MARKERS[place % 4],
                    markersize=4.5, label=label)
            if f"{value}_quartile_1" in rows[0]:
                low, high = ([row[f"{value}_quartile_{q}"] for row in rows] for q in (1, 3))
                ax.fill_between(xs, low, high, color=color, alpha=0.22, linewidth=0)
            ends.append((xs[-1], ys[-1], label, color))
            curves[label] = dict(zip(xs, ys, strict=True))
        first = next(iter(curves.values()))
        for label, at in (predicted or {}).items():
            color = COLORS[list(curves).index(label) % 4]
            ax.axvline(at, color=color, linestyle=":", linewidth=1.2)
            if (met := meeting(first, curves[label])) is not None:
                ax.plot(*met, "o", color=color, markersize=13, fillstyle="none",
                        markeredgewidth=2)
        log_axes(ax, xlabel, ylabel)
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


def meeting(
    first: Mapping[Number, Number], second: Mapping[Number, Number]
) -> tuple[float, float] | None:
    """Where the first line rises above the second for good, as drawn on logarithmic axes."""
    xs = sorted(set(first) & set(second))
    gaps = [math.log(first[x] / second[x]) for x in xs]
    for i in reversed(range(len(xs) - 1)):
        if gaps[i] <= 0 < gaps[i + 1]:
            share = gaps[i] / (gaps[i] - gaps[i + 1])
            return (
                float(xs[i] ** (1 - share) * xs[i + 1] ** share),
                float(first[xs[i]] ** (1 - share) * first[xs[i + 1]] ** share),
            )
    return None


def crossings(rows: Sequence[Row], title: str) -> Figure:
    """Lengths at which self-attention was to become the slower one, and at which it does.

    A mark for each of `rows` of the table "crossings" of a record; marks of the same other layer
    have one look. On the diagonal both are equal. An arrow up: not before the longest length that
    was measured, where it stands. `title` is above all.
    """
    with style():
        fig, ax = figure(4.6)
        others = list(dict.fromkeys(row["other"] for row in rows))
        places = [
            x for row in rows for x in (row["predicted"], row["measured"] or row["longest"])
        ]
        span = [0.7 * min(places), 1.6 * max(places)]
        ax.plot(span, span, color=GREY, linewidth=1.2, zorder=0)
        for place, other in enumerate(others):
            color, marker = COLORS[place % 4], MARKERS[place % 4]
            aside = 1.05 ** (place - (len(others) - 1) / 2)  # so that no arrow hides another
            mine = sorted((r for r in rows if r["other"] == other), key=lambda r: r["predicted"])
            met = [row for row in mine if row["measured"] is not None]
            ax.plot([r["predicted"] for r in met], [r["measured"] for r in met], marker,
                    linestyle=DASHES[place % 4], linewidth=1, color=color, markersize=8)
            for row in mine:
                if row["measured"] is None:
                    ax.annotate(
                        "", (aside * row["predicted"], 1.45 * row["longest"]),
                        (aside * row["predicted"], row["longest"]),
                        arrowprops=dict(arrowstyle="->", color=color, linewidth=1.6),
                    )
            if met and len(met) < len(mine):  # arrows may stand at the right
                left = met[0]["predicted"] > 2 * span[0] / 0.7
                name_line(ax, met[0]["predicted"], met[0]["measured"], other, color, va="top",
                          xytext=(-9 if left else 0, -16), ha="right" if left else "left")
            else:
                row = met[-1] if met else mine[0]
                name_line(ax, aside * row["predicted"], row["measured"] or 1.2 * row["longest"],
                          other, color, xytext=(10, 0))
        log_axes(ax, "n at which they cost the same, counted", "n at which they take the same time")
        ax.set_xlim(span)
        ax.set_ylim(span)
        ax.annotate("as counted", (0.06, 0.02), xycoords="axes fraction", color=GREY)
        ax.set_title(title)
    return fig


def exponents(rows: Sequence[Row], names: Sequence[str], title: str) -> Figure:
    """Fitted exponents of n and d with their intervals, beside the table's: a row for each name.

    `rows` are those of the table "exponents" of a record, forward pass violet, both passes
    orange; grey bars are the exponents of Table 1. `names` says
    which ways, from top to bottom; `title` is above all.
    """
    with style():
        fig, axes = figure(1.5 + 0.52 * len(names), 1, 2, sharey=True)
        for ax, size in zip(axes, "nd", strict=True):
            for place, name in enumerate(names):
                mine = [r for r in rows if (r["way"], r["size"]) == (name, size)]
                for row in mine:
                    back = row["backward"]
                    y, color = place + (0.16 if back else -0.16), (VIOLET, DEEP)[back]
                    ax.plot([row["low"], row["high"]], [y, y], color=color, linewidth=1.6)
                    ax.plot(row["exponent"], y, MARKERS[back], color=color, markersize=6)
                if mine:
                    ax.plot(2 * [mine[0]["table"]], [place - 0.42, place + 0.42], color=GREY,
                            linewidth=5, alpha=0.35, solid_capstyle="butt", zorder=0)
            ax.set_title(f"exponent of {size}", weight="normal")
            ax.set_xlim(0.4, 3.1)
            ax.set_xticks([0.5, 1, 1.5, 2, 2.5, 3], ["", "1", "", "2", "", "3"])
            ax.grid(axis="x", color=LINE, linewidth=0.8)
            ax.tick_params("y", length=0)
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        fig.legend(
            [axes[0].plot([], [], look, color=color)[0] for look, color in
             (("-o", VIOLET), ("-s", DEEP), ("-", GREY))],
            ["forward", "and backward", "Table 1"], loc="outside lower center", ncols=3,
        )
        fig.suptitle(title, x=0.01, ha="left")
    return fig
