"""§5.3: the rate of each update, and the way of one parameter through Adam."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from annotated.figures.style import (
    COLORS,
    DASHES,
    GREY,
    VIOLET,
    figure,
    name_ends,
    number,
    style,
)


def schedules(rates: Mapping[str, Mapping[int, float]], title: str) -> Figure:
    """The learning rate by step, one line a model, each with its peak marked and said.

    `rates` is label → step → rate; the rate is drawn in ten-thousandths. `title` is above all.
    """
    with style():
        fig, ax = figure(4.0)
        ends = []
        for (label, line), color, dash in zip(rates.items(), cycle(COLORS), cycle(DASHES)):
            scaled = {step: 1e4 * rate for step, rate in line.items()}
            peak = max(scaled, key=scaled.__getitem__)
            ax.plot(scaled.keys(), scaled.values(), color=color, linestyle=dash, label=label)
            ax.plot([peak], [scaled[peak]], "o", color=color)
            last = max(scaled)
            words = f"{label}:\n{scaled[peak]:.2f} at step {number(peak)}"
            ends.append((last, scaled[last], words, color))
        ax.set_ylim(0, 1.05e4 * max(max(line.values()) for line in rates.values()))
        ax.set_xlim(left=0, right=max(x for x, *_ in ends))
        ax.xaxis.set_major_formatter(lambda step, _: number(step))
        ax.set_xlabel("step")
        ax.set_ylabel("learning rate, in 10⁻⁴")
        ax.set_title(title)
        name_ends(ax, ends)
    return fig


def adams_moves(
    gradients: Sequence[float], moves: Sequence[float], rate: float, title: str
) -> Figure:
    """Above the gradients of one parameter, one a step; below the move that Adam makes of each.

    Gradients are drawn as shares of the largest, `moves` in rates, between dotted lines at one
    `rate` to either side. `title` is above all. Raises ValueError if they are not as many.
    """
    if len(gradients) != len(moves):
        raise ValueError(f"{len(moves)} moves for {len(gradients)} gradients; expected one each")
    steps, most = range(1, 1 + len(moves)), max(map(abs, gradients))
    with style():
        fig, (above, below) = figure(4.6, 2, 1, sharex=True)
        above.bar(steps, [gradient / most for gradient in gradients], 0.6, color=GREY)
        above.set_title("gradient, as a share of the largest", weight="normal")
        below.bar(steps, [move / rate for move in moves], 0.6, color=VIOLET)
        below.set_title("Adam's move, in rates", weight="normal")
        for sign in (-1, 1):
            below.axhline(sign, color=GREY, linestyle=":", linewidth=1.5)
        for ax in (above, below):
            ax.axhline(0, color=GREY, linewidth=1)
            ax.set(ylim=(-1.15, 1.15), yticks=[-1, 0, 1])
            ax.spines["bottom"].set_visible(False)
            ax.tick_params("x", length=0)
        below.set_xticks(steps)
        below.set_xlabel("step")
        fig.suptitle(title, x=0.01, ha="left")
    return fig
