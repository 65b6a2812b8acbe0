"""§3: the decoding loop, one distribution per step, and the piece it writes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import Tensor

from annotated.figures.boxes import inches
from annotated.figures.style import GREY, INK, LINE, ORANGE, PALE, VIOLET, WIDE, figure, style

READ, REST = PALE[VIOLET], LINE
BAR = 3.2  # inches of a bar for probability 1
PITCH = 0.3  # inches from line to line
HEAD = 1.3  # inches for "step 0 reads"


def decoding_loop(
    distributions: Float[Tensor, "n vocab"], names: Sequence[str], top: int = 3
) -> Figure:
    """Per step, counted from 0, what the decoder reads and its likeliest pieces, as bars.

    The first call reads BOS; each later one reads also what the calls before
    it found likeliest. Under the `top` pieces of a call one bar holds all
    others together, so that the bars of a call sum to 1. Raises ValueError
    for rows that are no probabilities, a `top` or names that do not fit, and
    pieces that take more than a figure's width.
    """
    _check(distributions, names, top)
    said = {"BOS": "start (BOS)", "EOS": "end (EOS)"}
    names = [said.get(name, name) for name in names]
    most = distributions.topk(top)
    written = [names[ids[0]] for ids in most.indices]
    likely = [names[i] for i in most.indices.flatten()]
    label = max(map(_inches, [*likely, f"{len(names) - top} others"])) + 0.1
    width = HEAD + sum(inches(piece, 13) + 0.26 for piece in [said["BOS"], *written[:-1]])
    width = max(width, label + BAR + 0.85) + 0.45  # the arrows run at the right
    if width > WIDE:
        raise ValueError(f"the pieces take {width:.1f} inches, more than a figure's {WIDE}")
    width = WIDE
    height = len(written) * (top + 2.6) * PITCH - 0.4 * PITCH
    with style():
        fig, ax = figure(height)
        fig.get_layout_engine().set(w_pad=0, h_pad=0)
        ax.set_xlim(-0.05, width)
        ax.set_ylim(-height, 0)
        ax.axis("off")
        for call, (shares, ids) in enumerate(zip(most.values, most.indices, strict=True)):
            y = -(call * (top + 2.6) + 0.55) * PITCH
            end = _reads(ax, call, y, [said["BOS"], *written[:call]])
            if call:
                _back(ax, width - 0.12, end, y + (top + 1.6) * PITCH, y)
            rows = [(names[i], p) for i, p in zip(ids, shares.tolist(), strict=True)]
            if top < len(names):
                rows.append((f"{len(names) - top} others", max(0.0, 1 - sum(shares.tolist()))))
            _bars(ax, label, y - PITCH, rows, top)
    return fig


def _inches(text: str) -> float:
    """Width in the style's size, bold."""
    return inches(text, 13, "bold")


def _check(distributions: Tensor, names: Sequence[str], top: int) -> None:
    calls, vocab = distributions.shape
    if not calls:
        raise ValueError("distributions hold no call; expected at least one")
    if len(names) != vocab:
        raise ValueError(f"{len(names)} names for {vocab} pieces; expected one each")
    if not 1 <= top <= len(names):
        raise ValueError(f"top is {top}; expected 1 to {len(names)}, the number of pieces")
    sums = distributions.sum(1)
    if (distributions < 0).any() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        raise ValueError("distributions hold no probabilities; expected rows that sum to 1")


def _reads(ax: Axes, call: int, y: float, pieces: Sequence[str]) -> float:
    """The line above the bars; gives the right end of its last piece."""
    ax.text(0, y, f"step {call}", va="center", weight="bold")
    ax.text(HEAD, y, "reads", ha="right", va="center", color=GREY)
    x = HEAD + 0.1
    for place, piece in enumerate(pieces):
        wide = inches(piece, 13) + 0.16
        new = place == len(pieces) - 1 and call > 0
        ax.add_patch(FancyBboxPatch(
            (x, y - 0.12), wide, 0.24, boxstyle="round,pad=0,rounding_size=0.05", facecolor=READ,
            edgecolor=ORANGE if new else READ, linewidth=1.5, mutation_aspect=1,
        ))
        ax.text(x + wide / 2, y - 0.005, piece, ha="center", va="center")
        x += wide + 0.1
    return x - 0.1


def _bars(ax: Axes, label: float, y: float, rows: Sequence[tuple[str, float]], top: int) -> None:
    for place, (name, share) in enumerate(rows):
        color = VIOLET if place == 0 else REST if place >= top else GREY
        line = y - place * PITCH
        ax.text(label - 0.08, line, name, ha="right", va="center",
                weight="bold" if place == 0 else "normal", color=INK if place < top else GREY)
        ax.add_patch(Rectangle((label, line - 0.1), BAR * share, 0.2, color=color, linewidth=0))
        ax.text(label + BAR * share + 0.07, line, percent(share), va="center",
                color=INK if place < top else GREY)


def percent(share: float) -> str:
    """A probability in per cent, with the digits that a small one needs."""
    return f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.2f} %"


def _back(ax: Axes, right: float, end: float, above: float, here: float) -> None:
    """From the likeliest piece of a call to the next, which reads it."""
    start = right - 0.4
    ax.plot([start, right, right], [above, above, here], color=ORANGE, linewidth=2,
            solid_joinstyle="round", solid_capstyle="butt")
    ax.add_patch(FancyArrowPatch(
        (right + 0.01, here), (end + 0.03, here), arrowstyle="-|>", mutation_scale=13,
        color=ORANGE, linewidth=2, shrinkA=0, shrinkB=0,
    ))
