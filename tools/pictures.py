"""Draw the picture of the front page and the README from the shipped weights.

    python tools/pictures.py            writes book/_static/swap.png
"""

from pathlib import Path

from annotated.figures.style import png
from annotated.figures.swap import swap_picture
from annotated.translation import Translator

TARGET = Path(__file__).resolve().parents[1] / "book" / "_static" / "swap.png"


def main() -> None:
    """The swap that the front page speaks of: 342 with one vector of 346.

    White, unlike the pages' figures: a README is shown on grounds that we don't know.
    """
    picture = swap_picture(Translator.load("numbers-en-de"), 342, 346)
    TARGET.write_bytes(png(picture, ground="white"))
    print(TARGET.relative_to(TARGET.parents[2]))


if __name__ == "__main__":
    main()
