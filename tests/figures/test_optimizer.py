"""The rate is drawn as it is given; every model can be told from the others."""

import pytest

from annotated.figures.optimizer import adams_moves, schedules

RATES = {
    "small": {1: 1e-4, 7: 7e-4, 101: 2e-4},
    "large": {1: 5e-5, 1013: 4e-4, 2003: 3e-4},
}


@pytest.fixture
def rate():
    return schedules(RATES, "Found")


def points(line):
    return list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))


def texts(artists):
    return [artist.get_text() for artist in artists]


class TestSchedules:
    def test_a_line_a_model_in_ten_thousandths(self, rate):
        lines = {line.get_label(): points(line) for line in rate.axes[0].lines}
        assert lines["small"] == [(1, 1.0), (7, pytest.approx(7.0)), (101, 2.0)]
        assert lines["large"] == [(1, 0.5), (1013, 4.0), (2003, pytest.approx(3.0))]
        assert "10⁻⁴" in rate.axes[0].get_ylabel()

    def test_the_peak_of_each_is_marked_and_says_its_step(self, rate):
        ax = rate.axes[0]
        marks = [points(line) for line in ax.lines if line.get_marker() == "o"]
        assert marks == [[(7, pytest.approx(7.0))], [(1013, 4.0)]]
        assert texts(ax.texts) == [
            "small:\n7.00 at step 7", "large:\n4.00 at step 1 013",
        ]

    def test_both_axes_begin_at_zero(self, rate):
        assert rate.axes[0].get_xlim()[0] == 0
        assert rate.axes[0].get_ylim()[0] == 0

    def test_lines_differ_in_colour_and_in_dashes(self, rate):
        drawn = [line for line in rate.axes[0].lines if line.get_marker() != "o"]
        assert len({line.get_color() for line in drawn}) == 2
        assert len({line.get_linestyle() for line in drawn}) == 2


class TestAdamsMoves:
    def test_gradients_stand_above_the_moves_that_they_made(self):
        fig = adams_moves([0.5, -2.0, 1.0], [-0.003, 0.0015, 0.0], 0.003, "Found")
        above, below = ([bar.get_height() for bar in ax.patches] for ax in fig.axes)
        assert above == [0.25, -1.0, 0.5] and below == [-1.0, 0.5, 0.0]
        dotted = [line for line in fig.axes[1].lines if line.get_linestyle() == ":"]
        assert {y for line in dotted for y in line.get_ydata()} == {-1, 1}
        assert [bar.get_x() + bar.get_width() / 2 for bar in fig.axes[0].patches] == [1, 2, 3]
        assert fig.get_suptitle() == "Found"

    def test_as_many_moves_as_gradients(self):
        with pytest.raises(ValueError, match="2 moves for 3 gradients"):
            adams_moves([1.0, 2.0, 3.0], [0.1, 0.2], 0.1, "Found")
