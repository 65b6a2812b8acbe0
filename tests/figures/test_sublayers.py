"""Each sub-layer has two bars, as long as its two counts."""

import pytest

from annotated.figures.sublayers import DEEP, VIOLET, summands_left_out

WRONG = {"low": (3, 17), "middle": (0, 5), "high": (11, 2)}


def test_two_bars_per_sublayer_the_lowest_at_the_bottom():
    ax = summands_left_out(WRONG, 19, "Found").axes[0]
    bars = [(round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in ax.patches]
    assert bars == [(i, count) for i, pair in enumerate(WRONG.values()) for count in pair]
    assert [t.get_text() for t in ax.get_yticklabels()] == list(WRONG)


def test_every_count_is_written_and_both_colours_are_named():
    ax = summands_left_out(WRONG, 19, "Found").axes[0]
    said = [text.get_text() for text in ax.texts]
    assert said[:6] == [str(count) for pair in WRONG.values() for count in pair]
    named = {text.get_text(): text.get_color() for text in ax.texts[6:]}
    assert named == {"x left out": VIOLET, "box left out": DEEP}
    assert ax.get_xlabel() == "wrong translations, of 19"


def test_no_count_beyond_the_total():
    with pytest.raises(ValueError, match="counts outside 0 to 7"):
        summands_left_out(WRONG, 7, "Found")
