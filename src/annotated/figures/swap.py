"""The book's first picture: one memory vector changed, one word changed."""

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.analysis.interventions import swap_vectors
from annotated.analysis.swaps import memory_of, swap_case
from annotated.data import numbers
from annotated.figures.style import GREY, ORANGE, figure, style
from annotated.translation import Translator

CELLS = 16  # of a strip


def swap_picture(translator: Translator, number: int, other: int) -> Figure:
    """Two memories as strips, alike but for one vector, and what each says.

    A column is one memory vector, neighbours of its d_model numbers averaged
    so that 16 are left to be seen: purple is negative, orange positive. Raises
    ValueError for numbers that are not one piece apart.
    """
    case = swap_case(translator, number, other)
    if case is None:
        raise ValueError(f"{number} and {other} are not exactly one English piece apart")
    sentence, donor = numbers.spell(number, "en"), numbers.spell(other, "en")
    memory, given = memory_of(translator, sentence), memory_of(translator, donor)
    pieces = [*translator.tokenizer.pieces(sentence), "EOS"]
    (place,) = case.swap.places
    swapped = swap_vectors(memory, given, [place])
    new = translator.tokenizer.pieces(donor)[place]
    with style():
        fig, (above, below) = figure(5.4, 5.6, 2, 1)
        said = [translator.tokenizer.pieces(text) for text in (case.swap.before, case.swap.after)]
        draw_memory(above, memory, pieces, None)
        above.set_title(f"The memory of {number}: {len(pieces)} vectors", weight="bold")
        draw_words(above, said[0], said[1], GREY)
        pieces[place] = f"{pieces[place]} → {new}"
        draw_memory(below, swapped, pieces, place)
        below.set_title(f"The same, with one vector from {other}", weight="bold")
        draw_words(below, said[1], said[0], ORANGE)
    return fig


def draw_memory(ax: Axes, memory: Tensor, pieces: Sequence[str], place: int | None) -> None:
    """Draw `memory` (m, d_model) on `ax`: a strip per vector, its piece above it.

    The strip at `place` is framed; `pieces` are m words.
    """
    cells = memory.unflatten(1, (CELLS, -1)).mean(-1)
    limit = float(cells.abs().max())
    for i, (row, piece) in enumerate(zip(cells, pieces, strict=True)):
        here = i == place
        color = ORANGE if here else GREY
        left, right = i - 0.36, i + 0.36
        ax.imshow(
            row[:, None].numpy(), cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto",
            extent=(left, right, 0, 1), interpolation="nearest",
        )
        ax.add_patch(Rectangle(
            (left, 0), 0.72, 1, fill=False, edgecolor=color, linewidth=3 if here else 0.8,
        ))
        ax.text(i, 1.04, piece, ha="center", va="bottom", color=color if here else "black",
                weight="bold" if here else "normal", fontsize=10)
    ax.set_xlim(-0.6, len(pieces) - 0.4)
    ax.set_ylim(-0.45, 1.2)
    ax.axis("off")


def draw_words(ax: Axes, pieces: Sequence[str], others: Sequence[str], color: str) -> None:
    """Write a translation's `pieces` under the strips of `ax`.

    Those that differ from `others` are in `color`.
    """
    texts: list[Artist] = [TextArea("says: ", textprops=dict(color=GREY, fontsize=11))]
    for piece, other in zip(pieces, others, strict=True):
        changed = piece != other
        style = dict(color=color if changed else "black", weight="bold" if changed else "normal")
        texts.append(TextArea(piece, textprops=dict(fontsize=13, **style)))
    middle = sum(ax.get_xlim()) / 2
    line = HPacker(children=texts, pad=0, sep=1, align="baseline")
    ax.add_artist(AnnotationBbox(line, (middle, -0.25), frameon=False))
