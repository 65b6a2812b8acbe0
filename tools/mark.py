"""Draw the book's mark from the shipped weights: what stands in its sidebar, its tab, its card.

    python tools/mark.py    writes tools/templates/mark.svg and book/_static/favicon.svg, card.png

The mark is the memory of 342, seven vectors as bars of eight cells (means of neighbours, darker the
farther from zero); the sixth, that of *two*, is exchanged.
"""

from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch, Rectangle

from annotated.analysis.swaps import memory_of, swap_case
from annotated.data.numbers import spell
from annotated.translation import Translator

ROOT = Path(__file__).resolve().parents[1]
MARK = ROOT / "tools" / "templates" / "mark.svg"
FAVICON = ROOT / "book" / "_static" / "favicon.svg"
CARD = ROOT / "book" / "_static" / "card.png"

VIOLET, ORANGE, PAPER = (0x5B, 0x3A, 0x98), (0xD9, 0x68, 0x0A), (0xF6, 0xF4, 0xF0)
INK, MUTED = "#1c2430", "#48566b"
EXCHANGED, CELLS, SHADES = 5, 8, 6


def shade(color: tuple[int, int, int], strength: float) -> str:
    """A colour of the mark, from nearly paper (0) to full (1)."""
    mixed = (round(p + (c - p) * (0.2 + 0.8 * strength)) for p, c in zip(PAPER, color))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def strengths(translator: Translator) -> list[list[float]]:
    """For each vector of the memory of 342 its cells, 0 to 1 of its strongest, in a few steps."""
    cells = memory_of(translator, spell(342, "en")).unflatten(1, (CELLS, -1)).mean(-1).abs()
    steps = (cells / cells.amax(1, keepdim=True) * (SHADES - 1)).round() / (SHADES - 1)
    return steps.tolist()


def mark(bars: list[list[float]]) -> str:
    """The bars as an SVG of 68 × 52."""
    rects = []
    for place, bar in enumerate(bars):
        color, top = (ORANGE, 0) if place == EXCHANGED else (VIOLET, 8)
        rects += [
            f'<rect x="{10 * place}" y="{top + 5.5 * row:g}" width="8" height="5.6"'
            f' fill="{shade(color, cell)}"/>' for row, cell in enumerate(bar)
        ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 68 52" aria-hidden="true">\n'
        + "\n".join(rects) + "\n</svg>\n"
    )


def favicon() -> str:
    """Three bars, the middle one orange and raised: what is left of the mark at 16 px."""
    bars = [(3, 8, "#5b3a98"), (12.5, 3, "#d9680a"), (22, 8, "#5b3a98")]
    rects = [f'<rect x="{x}" y="{y}" width="7" height="20" rx="1.5" fill="{color}"/>'
             for x, y, color in bars]
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
            + "".join(rects) + "</svg>\n")


def card(translator: Translator, bars: list[list[float]]) -> plt.Figure:
    """1200 × 630: the strips, what was exchanged, and the book's name."""
    case = swap_case(translator, 342, 346)
    pieces = translator.tokenizer.pieces
    before, after = (pieces(text) for text in (case.swap.before, case.swap.after))
    words = ["hyphen" if piece == "-" else piece for piece in pieces(spell(342, "en"))] + ["end"]
    fig = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 1200), ylim=(630, 0))
    ax.axis("off")
    renderer = fig.canvas.get_renderer()
    name = ax.text(70, 85, "Attention Is All You Need,", fontsize=30, weight="bold", color=INK)
    end = 85 + name.get_window_extent(renderer).width
    ax.text(end, 85, "executed", fontsize=30, weight="bold", style="italic", color="#b84a00")
    for place, (bar, word) in enumerate(zip(bars, words, strict=True)):
        here = place == EXCHANGED
        left, top, color = 70 + 153 * place, 145 if here else 180, ORANGE if here else VIOLET
        for row, cell in enumerate(bar):
            ax.add_patch(Rectangle((left, top + 25 * row), 130, 25.4, color=shade(color, cell),
                                   linewidth=0))
        ax.text(left + 65, 412, "two → six" if here else word, ha="center", fontsize=17,
                color="#b84a00" if here else MUTED, weight="bold" if here else "normal")
    x = 70.0
    for old, new in zip(before, after, strict=True):
        for piece in [old] if old == new else [old, new]:
            struck, orange = piece != new, old != new and piece == new
            text = ax.text(x, 510, piece.strip(), fontsize=33, weight="bold",
                           color="#b84a00" if orange else MUTED if struck else INK)
            box = text.get_window_extent(renderer)
            if struck:
                ax.add_patch(FancyBboxPatch((x, 495), box.width, 3, boxstyle="square,pad=0",
                                            color=MUTED))
            x += box.width + (8 if struck or orange else 2)
    said = "One vector of a trained Transformer exchanged: one word of its German changes."
    ax.text(70, 580, said, fontsize=19, color=MUTED)
    return fig


def main() -> None:
    translator = Translator.load("numbers-en-de")
    bars = strengths(translator)
    MARK.write_text(mark(bars), encoding="utf-8")
    FAVICON.write_text(favicon(), encoding="utf-8")
    card(translator, bars).savefig(CARD, dpi=100, metadata={"Software": None})
    for path in (MARK, FAVICON, CARD):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
