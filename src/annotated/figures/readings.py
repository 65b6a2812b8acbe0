"""§3.4: a decoder's vectors read with the embedding matrix, after each of its sub-layers."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from annotated.figures.style import DEEP, GREY, PALE, VIOLET, figure, name_line, style


def readings(
    named: Mapping[str, Sequence[str]], read: Sequence[str], says: Sequence[str], title: str
) -> Figure:
    """Which piece each vector names, from the input at the bottom to the top.

    `named` maps a place in the decoder to the likeliest piece for each vector there, from below;
    `read` are the pieces that were read, `says` the right next ones. Violet: the vector still
    names what was read; orange: it names what comes next; grey: neither. `title` is above all.
    Raises ValueError for rows of another length.
    """
    for name, row in named.items():
        if not len(row) == len(read) == len(says):
            lengths = f"{len(row)} pieces, {len(read)} read, {len(says)} said"
            raise ValueError(f"{name} names {lengths}")
    with style():
        fig, ax = figure(1.4 + 0.44 * len(named))
        for y, row in enumerate(named.values()):
            for x, piece in enumerate(row):
                color = VIOLET if piece == read[x] else DEEP if piece == says[x] else GREY
                ax.add_patch(Rectangle((x + 0.03, y + 0.06), 0.94, 0.88, color=PALE[color]))
                ax.text(x + 0.5, y + 0.5, piece, ha="center", va="center", color=color,
                        fontsize=12.5)
        ax.set(xlim=(0, len(read)), ylim=(0, len(named)))
        ax.set_yticks([0.5 + y for y in range(len(named))], list(named))
        middle = [0.5 + x for x in range(len(read))]
        ax.set_xticks(middle, read, color=VIOLET)
        above = ax.secondary_xaxis("top")
        above.set_xticks(middle, [f"→ {piece}" for piece in says], color=DEEP)
        for side in (ax, above):
            side.tick_params(length=0)
            side.spines[:].set_visible(False)
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def shares_on_the_way(
    current: Mapping[str, float], following: Mapping[str, float], title: str
) -> Figure:
    """How many vectors name what was read, and how many what comes next, place by place.

    Both map a place in the decoder, from below, to a share between 0 and 1. Raises ValueError if
    they are not of the same places.
    """
    if [*current] != [*following]:
        raise ValueError(f"places are {[*current]} and {[*following]}; expected the same")
    with style():
        fig, ax = figure(3.6)
        for shares, color, dash, name in (
            (current, VIOLET, "-", "the piece read"), (following, DEEP, "--", "the piece to say"),
        ):
            ax.plot([*shares.values()], dash, marker="o", color=color, linewidth=2.5, label=name)
            values = [*shares.values()]
            falls = values[0] > values[-1]  # named where its line leaves room
            at = next((i for i, x in enumerate(values) if (x < 0.8) == falls), 0)
            place = dict(xytext=(12, 4)) if falls else dict(xytext=(-12, 0), ha="right")
            name_line(ax, at, values[at], name, color, **place)
        ax.set_xticks(range(len(current)), [name.replace(" ", "\n", 1) for name in current])
        ax.set(ylim=(-0.04, 1.04), yticks=[0, 0.5, 1], ylabel="share of vectors")
        ax.set_title(title)
    return fig
