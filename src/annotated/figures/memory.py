"""§3: how far each vector of the memory moves when one piece of the sentence changes."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from annotated.figures.style import DEEP, ORANGE, VIOLET, figure, spoken, style


def moved_vectors(
    pieces: Sequence[str], moved: Sequence[float], changed: int, title: str
) -> Figure:
    """A column for each piece: how far its vector moved, as a share of its length.

    `moved` has a share for each of `pieces`; the one at place `changed` is orange. `title` is above
    all. Raises ValueError if there are not as many shares as pieces.
    """
    if len(pieces) != len(moved):
        raise ValueError(f"{len(moved)} shares for {len(pieces)} pieces; expected one each")
    with style():
        fig, ax = figure(3.3)
        for place, share in enumerate(moved):
            here = place == changed
            ax.bar(place, share, 0.72, color=ORANGE if here else VIOLET)
            ax.annotate(
                f"{100 * share:.{int(share < 0.01)}f} %", (place, share), xytext=(0, 4),
                textcoords="offset points", ha="center", color=DEEP if here else VIOLET,
                weight="bold" if here else "normal",
            )
        ax.set_xticks(range(len(pieces)), spoken(pieces, ends=True))
        ax.get_xticklabels()[changed].set(color=DEEP, fontweight="bold")
        ax.tick_params(length=0)
        ax.set_yticks([])
        ax.spines[["left"]].set_visible(False)
        ax.set_ylim(0, 1.15 * max(moved))
        ax.set_title(title)
    return fig
