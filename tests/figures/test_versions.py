"""Each version has its column; what differs from the first number is orange."""

import pytest
from matplotlib.colors import same_color

from annotated.figures.style import DEEP, GREY
from annotated.figures.versions import on_a_line

PLACES = ["abstract", "table"]


def test_numbers_stand_under_their_version_and_the_other_one_is_orange():
    fig = on_a_line({"v1": [41.0, None], "v5": [41.8, 41.0]}, ["June", "May"], PLACES, "Found")
    (ax,) = fig.axes
    numbers = {text.xy: text for text in ax.texts if text.xy[1] < 0}
    assert {place: text.get_text() for place, text in numbers.items()} == {
        (0, -2.0): "41.0", (0, -3.0): "·", (1, -2.0): "41.8", (1, -3.0): "41.0",
    }
    orange = [place for place, text in numbers.items() if same_color(text.get_color(), DEEP)]
    assert orange == [(1, -2.0)]
    assert same_color(numbers[0, -2.0].get_color(), GREY)
    named = [text.get_text() for text in ax.texts if text.xy[1] == 0]
    assert named == ["v1", "June", "v5", "May"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == PLACES


def test_a_number_for_each_place_and_a_date_for_each_version():
    with pytest.raises(ValueError, match="v1 has 1 numbers for 2 places"):
        on_a_line({"v1": [41.0]}, ["June"], PLACES, "Found")
    with pytest.raises(ValueError, match="1 dates for 2 versions"):
        on_a_line({"v1": [41.0, 1.0], "v2": [41.0, 1.0]}, ["June"], PLACES, "Found")
