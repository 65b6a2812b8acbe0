"""Curves of a training run go through the points that they are given."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.style import DEEP, GREY
from annotated.figures.training import (
    by_seed,
    compared_runs,
    perplexity_curves,
    slopes,
    training_curves,
)

LOSSES = {1: 5.5, 2: 4.25, 3: 3.0, 5: 2.5, 7: 1.75}
ACCURACY = {2: {3: 0.0, 2: 0.1}, 5: {2: 0.4, 3: 0.2}, 7: {2: 1.0, 3: 0.9, 6: 0.5}}


@pytest.fixture
def figure():
    made = training_curves(LOSSES, ACCURACY, "digits", "Found")
    made.canvas.draw()
    yield made
    plt.close(made)


def points(line):
    return list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))


def test_above_is_the_loss_by_update(figure):
    (line,) = figure.axes[0].lines
    assert points(line) == list(LOSSES.items())
    assert figure.axes[0].get_ylim()[0] == 0
    assert "nats" in figure.axes[0].get_title("left")
    assert figure.get_suptitle() == "Found"


def test_below_is_one_line_a_group_through_the_steps_at_which_it_was_tested(figure):
    lines = {line.get_label(): points(line) for line in figure.axes[1].lines}
    assert lines == {
        "2": [(2, 0.1), (5, 0.4), (7, 1.0)],
        "3": [(2, 0.0), (5, 0.2), (7, 0.9)],
        "6": [(7, 0.5)],
    }
    low, high = figure.axes[1].get_ylim()
    assert low < 0 and high > 1, "0 and 1 must not lie on the frame"


def test_the_last_group_is_the_one_in_colour_and_lines_are_named(figure):
    *others, last = figure.axes[1].lines
    assert {line.get_color() for line in others} == {GREY} and last.get_color() == DEEP
    assert last.get_linestyle() != others[0].get_linestyle()
    assert [text.get_text() for text in figure.axes[1].texts] == ["2 to 3 digits", "6 digits"]


def test_a_mark_stands_at_its_step_in_both_panels():
    made = training_curves(LOSSES, ACCURACY, "digits", "Found", marks={3: "the peak"})
    for ax in made.axes:
        assert any(set(line.get_xdata()) == {3} for line in ax.lines)
    assert [text.get_text() for text in made.axes[0].texts] == ["the peak"]
    plt.close(made)


def test_both_panels_count_the_same_updates(figure):
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim()
    assert below.get_xlabel() == "updates"


def test_many_groups_can_be_drawn():
    shares = {group: group / 11 for group in range(11)}
    made = training_curves({1: 1.0}, {1: shares}, "letters", "Found")
    assert len(made.axes[1].lines) == 11
    plt.close(made)


class TestPerplexityCurves:
    CURVES = {"one": {10: 900.0, 20: 30.5, 30: 11.25}, "other": {7: 400.0, 14: 21.04}}

    def test_each_run_is_a_line_of_its_points(self):
        (ax,) = perplexity_curves(self.CURVES, "Found").axes
        lines = {line.get_label(): line for line in ax.get_lines()}
        for name, points in self.CURVES.items():
            assert dict(zip(*lines[name].get_data(), strict=True)) == points
        assert ax.get_yscale() == "log"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("updates", "perplexity")

    def test_the_last_value_stands_beside_its_point(self):
        (ax,) = perplexity_curves(self.CURVES, "Found").axes
        said = {note.xy: note.get_text() for note in ax.texts}
        assert said == {(30, 11.25): "one: 11.2", (14, 21.04): "other: 21.0"}


RUNS = {
    "post, warm-up": [
        [{"step": 5, "loss": 4.0, "accuracy": 0.0}, {"step": 11, "loss": 1.5, "accuracy": 1.0}],
        [{"step": 5, "loss": 3.5, "accuracy": None}, {"step": 11, "loss": 1.0, "accuracy": 0.7}],
    ],
    "post, none": [[{"step": 5, "loss": 5.0, "accuracy": 0.0}]],
    "pre, warm-up": [[{"step": 7, "loss": 2.0, "accuracy": 0.5}]],
}


@pytest.fixture
def runs():
    return compared_runs(RUNS, "Found")


class TestComparedRuns:
    def test_every_run_is_a_line(self, runs):
        (ax,) = runs.axes
        # a point that did not measure the share is left out, not drawn as 0
        assert [points(line) for line in ax.lines] == [
            [(5, 0.0), (11, 1.0)], [(11, 0.7)], [(5, 0.0)], [(7, 0.5)],
        ]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("updates", "share exactly right")
        assert ax.get_title("left") == "Found"

    def test_each_setting_is_named_once_beside_the_mean_of_its_last_points(self, runs):
        (ax,) = runs.axes
        assert {text.get_text(): text.xy for text in ax.texts} == {
            "post, warm-up": (11, pytest.approx(0.85)), "post, none": (5, 0.0),
            "pre, warm-up": (7, 0.5),
        }

    def test_settings_differ_in_colour_and_in_dashes_and_seeds_do_not(self, runs):
        looks = [(line.get_color(), line.get_linestyle()) for line in runs.axes[0].lines]
        assert looks[0] == looks[1]
        assert len({color for color, _ in looks}) == 3
        assert len({dash for _, dash in looks}) == 3

    def test_zero_and_one_do_not_lie_on_the_frame(self, runs):
        low, high = runs.axes[0].get_ylim()
        assert low < 0 and high > 1

    def test_another_column_has_its_own_scale(self):
        (ax,) = compared_runs(RUNS, "Found", "loss").axes
        assert points(ax.lines[0]) == [(5, 4.0), (11, 1.5)]
        assert ax.get_ylim()[1] > 4 and ax.get_ylabel() == "loss"


SETTINGS = {"0": [0.5, 0.6, 0.7], "0.1": [0.75, 0.85]}


class TestBySeed:
    def test_a_dot_a_seed_in_the_row_of_its_setting_and_a_line_at_their_mean(self):
        (ax,) = by_seed(SETTINGS, "share right", "Found", low=0.4).axes
        means, marks = ax.lines[::2], ax.lines[1::2]
        for place, (values, mean, mark) in enumerate(
            zip(SETTINGS.values(), means, marks, strict=True)
        ):
            assert list(mark.get_xdata()) == values
            assert all(abs(y - place) < 0.3 for y in mark.get_ydata())
            assert len(set(mark.get_ydata())) == len(values), "dots must not lie on each other"
            assert list(mean.get_xdata()) == pytest.approx([sum(values) / len(values)] * 2)
        assert [tick.get_text() for tick in ax.get_yticklabels()] == list(SETTINGS)
        assert ax.get_xlim() == (0.4, 1) and ax.get_xlabel() == "share right"

    def test_no_dot_beyond_the_axis(self):
        with pytest.raises(ValueError, match="0 has shares .*; the axis is 0.6 to 1"):
            by_seed(SETTINGS, "share right", "Found", low=0.6)


def test_slopes_lead_from_one_score_to_the_other():
    pairs = {"masked": [(0.5, 0.75), (0.625, 0.75)], "open": [(1.0, 0.0)]}
    (ax,) = slopes(pairs, "known", "free", "Found").axes
    assert [list(line.get_ydata()) for line in ax.lines] == [[0.5, 0.75], [0.625, 0.75], [1.0, 0.0]]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["known", "free"]
    assert {text.get_text(): text.xy for text in ax.texts} == {
        "masked": (1.0, 0.75), "open": (1.0, 0.0),
    }
