"""§3.2.1: additive against dot-product attention, as a record has it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annotated.figures.style import BLUE, GREY, ORANGE, figure, style
from annotated.records import Record

LINES = {"additive": ("additive", ORANGE, "o"), "dot": ("dot product", BLUE, "s"),
         "fused": ("dot product,\none kernel", GREY, "^")}


def additive_costs(record: Record) -> Figure:
    """Time of a forward and backward pass, and what it keeps, against length; both axes log.

    Points are medians, bands reach from the first to the third quartile.
    """
    lengths = sorted(set(record.column("length", "times")))
    with style():
        fig, (time, space) = figure(5.0, 6.4, 2, 1, sharex=True)
        for name, look in LINES.items():
            rows = [row for row in record.table("times") if row["backward"]]
            low, middle, high = (
                [row[column] for row in rows if row["function"] == name]
                for column in ("ms_quartile_1", "ms", "ms_quartile_3")
            )
            _line(time, lengths, middle, look)
            time.fill_between(lengths, low, high, color=look[1], alpha=0.25, linewidth=0)
            kept = [r["kept_bytes"] for r in record.table("memory") if r["function"] == name]
            _line(space, lengths, [x / 1e6 for x in kept], look)
        time.set_title("milliseconds, forward and backward")
        space.set_title("megabytes kept for the backward pass")
        space.set_xlabel("length n = m")
        space.set_xticks(lengths, lengths)
        space.minorticks_off()
        time.legend()
    return fig


def _line(ax: Axes, lengths, values, look: tuple[str, str, str]) -> None:
    label, colour, marker = look
    ax.plot(lengths, values, color=colour, marker=marker, label=label)
    ax.set(xscale="log", yscale="log")
    ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    ax.grid(axis="y", color="#e0e0e0", linewidth=0.8)
