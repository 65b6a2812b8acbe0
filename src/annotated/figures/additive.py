"""§3.2.1: additive against dot-product attention, as a record has it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annotated.figures.style import COLORS, DASHES, LINE, figure, name_ends, number, style
from annotated.records import Record

NAMES = {"additive": "additive", "dot": "dot product", "fused": "dot product,\none kernel"}


def additive_costs(record: Record, title: str) -> Figure:
    """Time of a forward and backward pass, and what it keeps, against length; both axes log.

    Points are medians, bands reach from the first to the third quartile; `title` is above all.
    """
    lengths = sorted(set(record.column("length", "times")))
    with style():
        fig, (time, space) = figure(6.4, 2, 1, sharex=True)
        for name in NAMES:
            rows = [row for row in record.table("times") if row["backward"]]
            low, middle, high = (
                [row[column] for row in rows if row["function"] == name]
                for column in ("ms_quartile_1", "ms", "ms_quartile_3")
            )
            line = _line(time, lengths, middle, name)
            time.fill_between(lengths, low, high, color=line.get_color(), alpha=0.25, linewidth=0)
            kept = [r["kept_bytes"] for r in record.table("memory") if r["function"] == name]
            _line(space, lengths, [x / 1e6 for x in kept], name)
        time.set_title("milliseconds, forward and backward", weight="normal")
        space.set_title("megabytes kept for the backward pass", weight="normal")
        space.set_xlabel("length n = m")
        space.set_xticks(lengths, lengths)
        space.minorticks_off()
        for ax in (time, space):
            ends = [line.get_xydata()[-1] for line in ax.lines]
            name_ends(ax, [(*end, NAMES[name], line.get_color())
                           for end, name, line in zip(ends, NAMES, ax.lines, strict=True)])
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def _line(ax: Axes, lengths, values, name: str):
    place = list(NAMES).index(name)
    (line,) = ax.plot(lengths, values, DASHES[place], color=COLORS[place], marker="o",
                      markersize=4, label=NAMES[name])
    ax.set(xscale="log", yscale="log")
    ax.yaxis.set_major_formatter(lambda y, _: number(y) if y >= 1 else f"{y:g}")
    ax.xaxis.set_minor_formatter("")
    ax.yaxis.set_minor_formatter("")
    ax.grid(axis="y", color=LINE, linewidth=0.8)
    return line
