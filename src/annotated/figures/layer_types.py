"""§4: where self-attention does less work than other layers, and how far apart positions are."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    GREY,
    INK,
    MARKERS,
    PALE,
    VIOLET,
    figure,
    name_ends,
    number,
    style,
)

LENGTHS, WIDTHS = (1, 600_000), (14, 4096)  # of the plane
AT = (200, 70, 24)  # the widths at which lines have their names


def plane(
    panels: Mapping[str, Mapping[str, float]], dots: Mapping[str, tuple[int, int]], title: str
) -> Figure:
    """The plane of length n and width d, a panel for each way to count.

    `panels` maps a heading to lines, name → ratio: on the line n = ratio · d self-attention and
    the layer of that name do the same work; left of it, on violet ground, self-attention does
    less than all. `dots` maps a name to its (n, d); `title` is above all. Raises ValueError for
    more lines than there is room to name, or ratios that don't rise.
    """
    with style():
        fig, axes = figure(0.7 + 2.85 * len(panels), len(panels), squeeze=False, sharex=True)
        for (heading, lines), ax in zip(panels.items(), axes[:, 0], strict=True):
            ratios = list(lines.values())
            if ratios != sorted(ratios) or not 1 <= len(ratios) <= len(AT):
                raise ValueError(f"ratios are {ratios}; expected 1 to {len(AT)} that rise")
            ax.set(xscale="log", yscale="log", xlim=LENGTHS, ylim=WIDTHS, ylabel="width d")
            ax.fill_betweenx(WIDTHS, LENGTHS[0], [ratios[0] * d for d in WIDTHS],
                             color=PALE[VIOLET], linewidth=0)
            _break_even(ax, lines)
            for name, (n, d) in dots.items():
                ax.plot([n], [d], "o", color=INK, markersize=7)
                ax.annotate(name, (n, d), xytext=(3, 5), textcoords="offset points", color=INK,
                            ha="right" if n > 30 else "center", va="bottom")  # room at the left
            ax.set_yticks([2**e for e in range(4, 13, 2)])
            ax.yaxis.set_major_formatter(lambda d, _: number(float(d)))
            ax.xaxis.set_major_formatter(lambda n, _: number(float(n)))
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_minor_formatter("")
            ax.text(0.02, 0.93, "self-attention does less", transform=ax.transAxes, va="top",
                    color=VIOLET)
            ax.text(0.98, 0.93, "more", transform=ax.transAxes, va="top", ha="right", color=GREY)
            ax.set_title(heading, weight="normal")
        ax.set_xlabel("length n")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def _break_even(ax: Axes, lines: Mapping[str, float]) -> None:
    """Lines n = ratio · d with their names: the first at its left, others right of all lines."""
    last = list(lines.values())[-1]
    looks = zip(lines.items(), COLORS, DASHES, (AT[0], *AT[:0:-1]))
    for place, ((name, ratio), color, dash, at) in enumerate(looks):
        ax.plot([ratio * d for d in WIDTHS], WIDTHS, dash, color=color, linewidth=2.5)
        x, side = (0.75 * ratio, "right") if place == 0 else (2.2 * last, "left")
        ax.annotate(
            name, (ratio * at, at), xytext=(x * at, at), color=color, va="center", ha=side,
            arrowprops=dict(arrowstyle="-", color=color, linewidth=0.8, shrinkA=1, shrinkB=1,
                            relpos=(float(side == "right"), 0.5)),
        )


def path_lengths(
    formula: Mapping[str, Sequence[int]], measured: Mapping[str, Mapping[int, int]],
    lengths: Sequence[int], title: str,
) -> Figure:
    """Layers or steps from one end of a sentence to the other, against its length n.

    `formula` maps a layer type to what its formula gives at `lengths`, a line of steps;
    `measured` maps it to n → layers, dots. `title` is above all.
    """
    with style():
        fig, ax = figure(4.4)
        ends = []
        for place, (name, layers) in enumerate(formula.items()):
            color, dash = COLORS[place % len(COLORS)], DASHES[place % len(DASHES)]
            ax.plot(lengths, layers, dash, color=color, drawstyle="steps-post")
            dots = measured[name]
            ax.plot([*dots], [*dots.values()], MARKERS[place % len(MARKERS)], color=color,
                    markersize=5)
            ends.append((lengths[-1], layers[-1], name, color))
        ax.set(xscale="log", yscale="log", xlabel="positions n", ylabel="layers, or steps")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks([2**e for e in range(7)])
            axis.set_major_formatter(lambda x, _: number(float(x)))
            axis.set_minor_formatter("")
        ax.set(xlim=(0.9 * lengths[0], 1.15 * lengths[-1]),
               ylim=(0.85, 1.2 * max(map(max, formula.values()))))
        ax.set_title(title)
        name_ends(ax, ends)
    return fig
