"""The mark that is drawn from the weights, and where the source of an object is said to stand."""

import re
import struct
import sys
from pathlib import Path

import pytest

from annotated.training import trainer
from annotated.translation import Translator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import book_source  # noqa: E402
import mark  # noqa: E402


def test_the_mark_is_the_memory_of_342():
    """To one shade: a mean at the edge of two may round the other way on another machine."""
    bars = mark.strengths(Translator.load("numbers-en-de"))
    fills = re.findall(r'fill="(#\w{6})"', mark.MARK.read_text(encoding="utf-8"))
    assert len(fills) == 7 * mark.CELLS == sum(map(len, bars))
    shades = [mark.ORANGE if place == mark.EXCHANGED else mark.VIOLET for place in range(7)]
    scale = [[mark.shade(color, i / (mark.SHADES - 1)) for i in range(mark.SHADES)]
             for color in shades]
    for number, fill in enumerate(fills):
        place, row = divmod(number, mark.CELLS)
        wanted = round(bars[place][row] * (mark.SHADES - 1))
        assert abs(scale[place].index(fill) - wanted) <= 1


def test_what_stands_in_the_tab_and_on_the_card_is_what_the_tool_draws():
    assert mark.FAVICON.read_text(encoding="utf-8") == mark.favicon()
    assert struct.unpack(">II", mark.CARD.read_bytes()[16:24]) == (1200, 630)


@pytest.mark.parametrize("place, module, name", [
    ("annotated.training.trainer.Trainer.update", "annotated.training.trainer", "Trainer.update"),
    ("annotated.model.attention.padding_mask", "annotated.model.attention", "padding_mask"),
    ("annotated.model.Transformer", "annotated.model", "Transformer"),
])
def test_a_place_is_parted_into_module_and_object(place, module, name):
    assert book_source.parted(place) == (module, name)


def test_the_line_is_that_of_the_definition():
    source = Path(trainer.__file__).read_text(encoding="utf-8")
    for name in ("Trainer", "Trainer.update"):
        line = source.splitlines()[book_source.line_of(source, name) - 1]
        assert re.search(rf"(class|def) {name.split('.')[-1]}\b", line)
    assert book_source.line_of(source, "Trainer.nothing") is None
