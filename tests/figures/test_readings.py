"""The pieces that vectors name are drawn where they stand, in the colour of what they are."""

import pytest
from matplotlib.colors import to_rgb

from annotated.figures.readings import readings, shares_on_the_way
from annotated.figures.style import DEEP, GREY, VIOLET

NAMED = {"input": ["BOS", "zwei", "elf"], "0 self": ["drei", "BOS", "elf"]}


def test_colour_tells_what_was_read_from_what_is_said():
    ax = readings(NAMED, ["BOS", "zwei", "elf"], ["drei", "elf", "EOS"], "t").axes[0]
    colors = {}
    for text in ax.texts:
        x, y = text.get_position()
        colors[int(y), int(x)] = (text.get_text(), to_rgb(text.get_color()))
    violet, orange, grey = map(to_rgb, (VIOLET, DEEP, GREY))
    assert colors == {
        (0, 0): ("BOS", violet), (0, 1): ("zwei", violet), (0, 2): ("elf", violet),
        (1, 0): ("drei", orange), (1, 1): ("BOS", grey), (1, 2): ("elf", violet),
    }
    assert len(ax.patches) == 6


def test_columns_are_named_by_what_is_read_and_above_by_what_is_said():
    ax = readings(NAMED, ["BOS", "zwei", "elf"], ["drei", "elf", "EOS"], "t").axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["BOS", "zwei", "elf"]
    (above,) = ax.child_axes
    assert [t.get_text() for t in above.get_xticklabels()] == ["→ drei", "→ elf", "→ EOS"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["input", "0 self"]


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError, match="0 self names 1 pieces, 2 read, 2 said"):
        readings({"input": ["a", "b"], "0 self": ["a"]}, ["a", "b"], ["c", "d"], "t")


def test_shares_are_two_lines_over_the_same_places():
    (ax,) = shares_on_the_way({"a b": 1.0, "c": 0.25}, {"a b": 0.0, "c": 0.75}, "t").axes
    assert [list(line.get_ydata()) for line in ax.lines] == [[1.0, 0.25], [0.0, 0.75]]
    assert [t.get_text() for t in ax.texts] == ["the piece read", "the piece to say"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a\nb", "c"]
    with pytest.raises(ValueError, match=r"places are \['a'\] and \['b'\]"):
        shares_on_the_way({"a": 1.0}, {"b": 1.0}, "t")
