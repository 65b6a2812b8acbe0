"""Each dot stands at its weight and its effect, with its name where there is room."""

import pytest

from annotated.figures.effects import weight_against_effect
from annotated.figures.style import DEEP, VIOLET

WEIGHT = {"digit": 0.08, "unit": 0.09, "and": 0.06, "-": 0.13, "EOS": 0.0601}
LOST = {"digit": 0.9, "unit": 0.91, "and": 0.0, "-": 0.15, "EOS": 0.004}


def test_dots_stand_at_weight_and_effect_in_the_colour_of_what_they_cost():
    (ax,) = weight_against_effect(WEIGHT, LOST, "Found").axes
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[WEIGHT[name], LOST[name]]] for name in WEIGHT
    ]
    assert [line.get_color() for line in ax.lines] == [VIOLET, VIOLET, DEEP, DEEP, DEEP]


def test_names_touch_neither_each_other_nor_dots():
    (ax,) = weight_against_effect(WEIGHT, LOST, "Found").axes
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["digit", "unit", "and", "hyphen", "EOS"]
    boxes = [text.get_window_extent() for text in ax.texts]
    dots = ax.transData.transform([line.get_xydata()[0] for line in ax.lines])
    for one, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:one])
        assert not any(box.contains(x, y) for x, y in dots)


def test_the_same_pieces_on_both_axes():
    with pytest.raises(ValueError, match="expected the same"):
        weight_against_effect({"a": 0.1}, {"b": 0.1}, "Found")
