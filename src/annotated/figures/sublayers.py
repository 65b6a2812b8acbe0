"""§3.1: what a trained model loses when a sub-layer keeps only one of its two summands."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from annotated.figures.style import DEEP, ORANGE, VIOLET, figure, style


def summands_left_out(
    wrong: Mapping[str, Sequence[int]], total: int, title: str
) -> Figure:
    """Two bars per sub-layer: wrong translations of `total` without its box, and without x.

    `wrong` is sub-layer → (without the box, without x), the lowest sub-layer
    first, drawn at the bottom. `title` is above all. Raises ValueError for a count beyond `total`.
    """
    if not all(0 <= count <= total for pair in wrong.values() for count in pair):
        raise ValueError(f"wrong holds counts outside 0 to {total}: {dict(wrong)}")
    with style():
        fig, ax = figure(1.3 + 0.6 * len(wrong))
        for place, counts in enumerate(wrong.values()):
            for count, color, up in zip(counts, (ORANGE, VIOLET), (-0.19, 0.19), strict=True):
                ax.barh(place + up, count, 0.36, color=color)
                ax.text(count + total / 100, place + up, str(count), va="center", fontsize=12.5)
        top = len(wrong) - 1
        ax.text(0.62 * total, top + 0.62, "x left out", color=VIOLET, va="bottom", weight="bold")
        ax.text(0.62 * total, top + 0.62, "box left out", color=DEEP, va="top", weight="bold")
        ax.set_yticks(range(len(wrong)), list(wrong))
        ax.set_ylim(-0.6, top + 1.1)
        ax.set_xlim(0, 1.08 * total)
        ax.set_xlabel(f"wrong translations, of {total}")
        fig.suptitle(title, x=0.01, ha="left")
    return fig
