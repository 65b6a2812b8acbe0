"""The versions of the paper on a line, and a number that changed on the way."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from annotated.figures.style import DEEP, GREY, INK, LINE, VIOLET, figure, style


def on_a_line(
    versions: Mapping[str, Sequence[float | None]], dates: Sequence[str], places: Sequence[str],
    title: str,
) -> Figure:
    """A column for each version in the order of time, a row for each place that prints the number.

    `versions` is name → the number at each of `places`, None where it was not read; `dates` has a
    line or two for each version. The first number is grey, another one orange; `title` is above
    all. Raises ValueError if a version has not as many numbers as there are places, or no date.
    """
    if len(versions) != len(dates):
        raise ValueError(f"{len(dates)} dates for {len(versions)} versions; expected one each")
    first = next(value for values in versions.values() for value in values if value is not None)
    with style():
        fig, ax = figure(3.4)
        ax.plot([0, len(versions) - 1], [0, 0], color=VIOLET, zorder=1)
        for x, ((name, values), date) in enumerate(zip(versions.items(), dates, strict=True)):
            if len(values) != len(places):
                raise ValueError(f"{name} has {len(values)} numbers for {len(places)} places")
            ax.plot([x], [0], "o", color=VIOLET, markersize=9, zorder=2)
            ax.annotate(name, (x, 0), xytext=(0, 10), textcoords="offset points", ha="center",
                        weight="bold", color=INK)
            ax.annotate(date, (x, 0), xytext=(0, -10), textcoords="offset points", ha="center",
                        va="top", color=GREY, linespacing=1.1)
            for row, value in enumerate(values):
                changed = value not in (None, first)
                ax.annotate(
                    "·" if value is None else f"{value:.1f}", (x, -2.0 - row), ha="center",
                    va="center", color=DEEP if changed else GREY,
                    weight="bold" if changed else "normal",
                )
        for row in range(len(places)):
            ax.axhline(-1.5 - row, color=LINE, linewidth=0.8)
        ax.set_yticks([-2.0 - row for row in range(len(places))], places)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlim(-0.5, len(versions) - 0.5)
        ax.set_ylim(-1.5 - len(places), 0.9)
        fig.suptitle(title, x=0.01, ha="left")
    return fig
