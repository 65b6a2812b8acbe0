"""Each bar is as high as its vector moved; the piece that changed is the orange one."""

import pytest
from matplotlib.colors import same_color

from annotated.figures.memory import moved_vectors
from annotated.figures.style import ORANGE, VIOLET


def test_bars_are_the_shares_and_one_is_orange():
    (ax,) = moved_vectors(["one", "-", "EOS"], [0.004, 0.125, 1.5], 1, "Found").axes
    assert [bar.get_height() for bar in ax.patches] == [0.004, 0.125, 1.5]
    assert [same_color(bar.get_facecolor(), ORANGE) for bar in ax.patches] == [False, True, False]
    assert same_color(ax.patches[0].get_facecolor(), VIOLET)
    assert [text.get_text() for text in ax.texts] == ["0.4 %", "12 %", "150 %"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["one", "hyphen", "end"]
    assert ax.get_title("left") == "Found"


def test_a_share_for_each_piece():
    with pytest.raises(ValueError, match="2 shares for 3 pieces"):
        moved_vectors(["a", "b", "c"], [0.1, 0.2], 0, "Found")
