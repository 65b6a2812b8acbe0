"""The rate and the runs are drawn as they are given; every setting can be told from the others."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.optimizer import beginnings, schedules

RATES = {
    "small": {1: 1e-4, 7: 7e-4, 101: 2e-4},
    "large": {1: 5e-5, 1013: 4e-4, 2003: 3e-4},
}
RUNS = {
    "post, warm-up": [
        [{"step": 5, "loss": 4.0, "accuracy": 0.0}, {"step": 11, "loss": 1.5, "accuracy": 1.0}],
        [{"step": 5, "loss": 3.5, "accuracy": None}, {"step": 11, "loss": 1.0, "accuracy": 0.7}],
    ],
    "post, none": [[{"step": 5, "loss": 5.0, "accuracy": 0.0}]],
    "pre, warm-up": [[{"step": 7, "loss": 2.0, "accuracy": 0.5}]],
}


@pytest.fixture
def rate():
    yield schedules(RATES)
    plt.close("all")


@pytest.fixture
def runs():
    yield beginnings(RUNS)
    plt.close("all")


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
        assert texts(ax.texts) == ["step 7: 7.00", "step 1 013: 4.00"]

    def test_both_axes_begin_at_zero(self, rate):
        assert rate.axes[0].get_xlim()[0] == 0
        assert rate.axes[0].get_ylim()[0] == 0

    def test_lines_differ_in_colour_and_in_dashes(self, rate):
        drawn = [line for line in rate.axes[0].lines if line.get_marker() != "o"]
        assert len({line.get_color() for line in drawn}) == 2
        assert len({line.get_linestyle() for line in drawn}) == 2


class TestBeginnings:
    def test_every_run_is_a_line_in_both_pictures(self, runs):
        above, below = runs.axes
        assert [points(line) for line in above.lines] == [
            [(5, 4.0), (11, 1.5)], [(5, 3.5), (11, 1.0)], [(5, 5.0)], [(7, 2.0)],
        ]  # fmt: skip
        # a point that did not measure the share is left out, not drawn as 0
        assert [points(line) for line in below.lines] == [
            [(5, 0.0), (11, 1.0)], [(11, 0.7)], [(5, 0.0)], [(7, 0.5)],
        ]  # fmt: skip

    def test_the_legend_names_each_setting_once(self, runs):
        assert texts(runs.legends[0].get_texts()) == list(RUNS)

    def test_settings_differ_in_colour_and_in_dashes_and_seeds_do_not(self, runs):
        looks = [(line.get_color(), line.get_linestyle()) for line in runs.axes[0].lines]
        assert looks[0] == looks[1]
        assert len({color for color, _ in looks}) == 3
        assert len({dash for _, dash in looks}) == 3
        assert looks == [(line.get_color(), line.get_linestyle()) for line in runs.axes[1].lines]

    def test_zero_and_one_do_not_lie_on_the_frame(self, runs):
        low, high = runs.axes[1].get_ylim()
        assert low < 0 and high > 1
        assert runs.axes[0].get_ylim()[0] == 0

    def test_axes_are_named_and_count_the_same_updates(self, runs):
        above, below = runs.axes
        assert above.get_xlim() == below.get_xlim()
        assert (below.get_xlabel(), above.get_ylabel()) == ("updates", "loss (nats a token)")


def test_both_fit_a_phone_and_stand_on_white(rate, runs):
    for fig in (rate, runs):
        assert fig.get_size_inches()[0] <= 7
        assert fig.dpi == 100
        assert fig.get_facecolor() == (1, 1, 1, 1)
