"""The histogram shows the shares that it is given."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.regularization import probability_of_right, rewarded

SHARES = {"smoothed": [0.0, 0.1, 0.2, 0.3, 0.4], "plain": [0.02, 0.0, 0.0, 0.0, 0.98]}


@pytest.fixture
def sure():
    yield probability_of_right(SHARES, {"smoothed": 0.93}, "Found")
    plt.close("all")


def test_bars_are_the_shares_of_equal_bins_from_0_to_1(sure):
    for ax, heights in zip(sure.axes, SHARES.values(), strict=True):
        assert [bar.get_height() for bar in ax.patches] == heights
        edges = [bar.get_x() for bar in ax.patches]
        assert edges == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
        assert all(bar.get_width() == pytest.approx(0.2) for bar in ax.patches)
        assert ax.get_ylim()[0] == 0
    assert sure.axes[-1].get_xlim() == (0, 1)


def test_the_picture_can_begin_further_right():
    fig = probability_of_right(SHARES, {}, "Found", start=0.6)
    assert fig.axes[-1].get_xlim() == (0.6, 1)
    plt.close(fig)


def test_the_ceiling_stands_where_it_is_said_and_only_there(sure):
    smoothed, plain = sure.axes
    assert [list(line.get_xdata()) for line in smoothed.lines] == [[0.93, 0.93]]
    assert [text.get_text() for text in smoothed.texts] == ["ceiling 0.930"]
    assert not plain.lines and not plain.texts


def test_each_histogram_is_named(sure):
    assert [ax.get_title(loc="left") for ax in sure.axes] == list(SHARES)
    assert sure.axes[-1].get_xlabel() == "probability of the right piece"
    assert sure.axes[0].get_ylabel() == "share" and sure.get_suptitle() == "Found"
    assert len({ax.get_ylim() for ax in sure.axes}) == 1, "one scale"


def test_shares_that_are_not_shares_are_refused():
    with pytest.raises(ValueError, match="plain add up to 0.900, expected 1"):
        probability_of_right({"plain": [0.5, 0.4]}, {}, "Found")
    plt.close("all")


def test_the_last_loss_has_its_lowest_point_marked():
    losses = {"plain": {0.5: 0.7, 0.75: 0.3, 1.0: 0.0}, "smoothed": {0.5: 1.3, 0.75: 0.9, 1.0: 1.5}}
    (ax,) = rewarded(losses, 0.75, "Found").axes
    first, last, dot = ax.lines
    assert [dict(zip(*line.get_data())) for line in (first, last)] == [*losses.values()]
    assert dot.get_xydata().tolist() == [[0.75, 0.9]]
    assert first.get_color() != last.get_color() and first.get_linestyle() != last.get_linestyle()
    assert [text.get_text() for text in ax.texts] == ["plain", "smoothed", "lowest at 0.7500"]
