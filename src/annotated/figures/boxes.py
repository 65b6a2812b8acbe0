"""Drawn diagrams: boxes, words and arrows on a sheet that is measured in units, about inches."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import text_to_path

from annotated.figures.style import GREY, Number


def spread(fig: Figure, ax: Axes, width: Number, height: Number) -> None:
    """Let `ax`, a sheet of `width` by `height` units, fill `fig`, which keeps its own width."""
    fig.set_layout_engine("none")
    own = float(fig.get_size_inches()[0])
    fig.set_size_inches(own, round(height * own / width, 2))
    ax.set_position((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")


def inches(words: str, size: Number, weight: str = "normal") -> float:
    """How wide `words` of `size` points are drawn."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(words, font, False)[0]) / 72


class Ink:
    """What a diagram is drawn with; heads of arrows lie on boxes, and words on both."""

    LINES = 4  # how far up lines lie: behind boxes, which are at 5

    def __init__(self, ax: Axes):
        self.ax = ax

    def rectangle(
        self, left: Number, bottom: Number, right: Number, top: Number, color: str,
        zorder: Number = 5, edge: str = "#7f7f7f", **look,
    ) -> None:
        """A box from (`left`, `bottom`) to (`right`, `top`) in inches.

        `color` fills it, `edge` is its border's, `zorder` how far up it lies.
        """
        self.ax.add_patch(Rectangle(
            (left, bottom), right - left, top - bottom, facecolor=color, edgecolor=edge,
            linewidth=0.8, zorder=zorder, **look,
        ))

    def say(
        self, x: Number, y: Number, text: str, size: Number = 10, ha: str = "center",
        va: str = "center", **look,
    ) -> None:
        """`text` of `size` points at (`x`, `y`), placed by `ha` and `va` as Matplotlib does."""
        self.ax.text(x, y, text, fontsize=size, ha=ha, va=va, zorder=7, **look)

    def line(self, *points, color=GREY, style="-") -> None:
        self.ax.plot(*zip(*points), color=color, linestyle=style, linewidth=1.2, zorder=self.LINES)

    def arrow(self, *points, color=GREY) -> None:
        """A path with a head at its end."""
        self.line(*points, color=color)
        self.ax.add_patch(FancyArrowPatch(
            points[-2], points[-1], arrowstyle="-|>", mutation_scale=8, color=color,
            linewidth=1.2, shrinkA=0, shrinkB=0, zorder=6,
        ))
