"""The book's first picture: one memory vector exchanged, one word changed."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from annotated.analysis.interventions import swap_vectors
from annotated.analysis.swaps import memory_of, swap_case
from annotated.data import numbers
from annotated.figures.boxes import inches, spread
from annotated.figures.style import DEEP, GREY, INK, LINE, ORANGE, SIGNED, WIDE, figure, spoken
from annotated.figures.style import style as book_style
from annotated.translation import Translator

CELLS = 16  # of a strip
HEIGHT, LOW, HIGH = 3.3, 1.12, 2.36  # inches: of the picture, and where strips begin and end
SIZE = 19  # points of the German words


class Words(NamedTuple):
    """Two translations: what they begin and end with alike, and where they differ."""

    begin: str
    before: str
    after: str
    end: str


def swap_picture(translator: Translator, number: int, other: int) -> Figure:
    """The memory of `number` as strips, one exchanged for that of `other`, and what is said then.

    A column is one memory vector, neighbours of its d_model numbers averaged
    so that 16 are left to be seen: violet is negative, orange positive. Raises
    ValueError for numbers that are not one piece apart.
    """
    case = swap_case(translator, number, other)
    if case is None:
        raise ValueError(f"{number} and {other} are not exactly one English piece apart")
    sentence, donor = numbers.spell(number, "en"), numbers.spell(other, "en")
    memory, given = memory_of(translator, sentence), memory_of(translator, donor)
    pieces = spoken([*translator.tokenizer.pieces(sentence), "EOS"], ends=True)
    (place,) = case.swap.places
    swapped = swap_vectors(memory, given, [place])
    new = translator.tokenizer.pieces(donor)[place]
    said = apart(*(translator.tokenizer.pieces(x) for x in (case.swap.before, case.swap.after)))
    with book_style():
        fig, ax = figure(HEIGHT)
        spread(fig, ax, WIDE, HEIGHT)
        changed = "one word changes" if said.before or said.after else "no word changes"
        ax.text(0.04, HEIGHT - 0.2, f"One vector of {number} is exchanged, {changed}",
                weight="bold", fontsize=14, va="center")
        _strips(ax, memory, swapped, pieces, place, new)
        _translation(ax, said)
        if said.before and said.after:
            ax.text(0.04, 0.2, f"{pieces[place]} = {said.before},  {new} = {said.after}",
                    color=GREY, va="center")
    return fig


def apart(before: Sequence[str], after: Sequence[str]) -> Words:
    """Split two translations, given as pieces, where they are alike at both ends."""
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    rest = min(len(before), len(after)) - first
    last = 0
    while last < rest and before[-1 - last] == after[-1 - last]:
        last += 1
    middles = (pieces[first : len(pieces) - last] for pieces in (before, after))
    end = before[len(before) - last :]
    old, new = map("".join, middles)
    return Words("".join(before[:first]), old, new, "".join(end))


def _strips(
    ax: Axes, memory: Tensor, swapped: Tensor, pieces: Sequence[str], place: int, new: str
) -> None:
    """A strip per vector, its piece above it; at `place` the old one, thin, and the new, raised."""
    old, cells = (x.unflatten(1, (CELLS, -1)).mean(-1) for x in (memory, swapped))
    limit = float(cells.abs().max())
    pitch = (WIDE - 0.08) / len(pieces)
    for i, piece in enumerate(pieces):
        left, right = 0.04 + pitch * i + 0.1, 0.04 + pitch * (i + 1) - 0.1
        if i != place:
            _strip(ax, cells[i], limit, (left, right, LOW, HIGH))
            ax.text((left + right) / 2, HIGH + 0.17, piece, ha="center", va="center")
            continue
        thin = left + 0.18 * pitch
        _strip(ax, old[i], limit, (left - 0.08, thin - 0.03, LOW, HIGH), alpha=0.35)
        _strip(ax, cells[i], limit, (thin + 0.02, right + 0.06, LOW, HIGH + 0.05), ORANGE)
        wide = inches(piece + " → ", 13), inches(new, 13, "bold")
        x = (left + right - sum(wide)) / 2
        ax.text(x, HIGH + 0.2, f"{piece} →", va="center", color=GREY)
        struck = inches(piece, 13)
        ax.plot([x, x + struck], [HIGH + 0.19] * 2, color=GREY, linewidth=1.5)
        ax.text(x + wide[0], HIGH + 0.2, new, va="center", color=DEEP, weight="bold")


def _strip(ax: Axes, vector: Tensor, limit: float, edges: tuple, color: str = LINE, alpha=1.0):
    left, right, low, high = edges
    ax.imshow(
        vector[:, None].numpy(), cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto",
        extent=edges, interpolation="nearest", alpha=alpha,
    )
    ax.add_patch(Rectangle(
        (left, low), right - left, high - low, fill=False, edgecolor=color,
        linewidth=3 if color == ORANGE else 0.8,
    ))


def _translation(ax: Axes, said: Words) -> None:
    """What the model says now; the part that went is struck out, the part that came is orange."""
    ax.text(0.04, 0.87, "the decoder reads the vectors and writes", color=GREY, va="center")
    x, y = 0.04, 0.53
    for words, color in zip(said, (INK, GREY, DEEP, INK), strict=True):
        weight = "normal" if color == GREY else "bold"
        ax.text(x, y, words, fontsize=SIZE, color=color, weight=weight, va="center_baseline")
        wide = inches(words, SIZE, weight)
        if words and color == GREY:
            ax.plot([x, x + wide], [y, y], color=GREY, linewidth=2)
        x += wide + 0.03
    ax.set(xlim=(0, WIDE), ylim=(0, HEIGHT))
