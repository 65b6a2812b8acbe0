"""Curves of a training run go through the points that they are given."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.training import (
    by_seed,
    compared_runs,
    perplexity_curves,
    training_curves,
)

LOSSES = {1: 5.5, 2: 4.25, 3: 3.0, 5: 2.5, 7: 1.75}
ACCURACY = {2: {3: 0.0, 2: 0.1}, 5: {2: 0.4, 3: 0.2}, 7: {2: 1.0, 3: 0.9, 6: 0.5}}


@pytest.fixture
def figure():
    made = training_curves(LOSSES, ACCURACY, "digits")
    made.canvas.draw()
    yield made
    plt.close(made)


def points(line):
    return list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))


def test_above_is_the_loss_by_update(figure):
    (line,) = figure.axes[0].lines
    assert points(line) == list(LOSSES.items())
    assert figure.axes[0].get_ylim()[0] == 0
    assert "nats" in figure.axes[0].get_ylabel()


def test_below_is_one_line_a_group_through_the_steps_at_which_it_was_tested(figure):
    lines = {line.get_label(): points(line) for line in figure.axes[1].lines}
    assert lines == {
        "2": [(2, 0.1), (5, 0.4), (7, 1.0)],
        "3": [(2, 0.0), (5, 0.2), (7, 0.9)],
        "6": [(7, 0.5)],
    }
    low, high = figure.axes[1].get_ylim()
    assert low < 0 and high > 1, "0 and 1 must not lie on the frame"


def test_the_legend_names_the_groups_in_order(figure):
    legend = figure.axes[1].get_legend()
    assert legend.get_title().get_text() == "digits"
    assert [text.get_text() for text in legend.get_texts()] == ["2", "3", "6"]


def test_groups_differ_in_colour_and_in_marker(figure):
    lines = figure.axes[1].lines
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_marker() for line in lines}) == 3


def test_a_mark_stands_at_its_step_in_both_panels():
    made = training_curves(LOSSES, ACCURACY, "digits", marks={3: "the peak"})
    for ax in made.axes:
        assert any(set(line.get_xdata()) == {3} for line in ax.lines)
    assert [text.get_text() for text in made.axes[0].texts] == ["the peak"]
    plt.close(made)


def test_both_panels_count_the_same_updates(figure):
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim()
    assert below.get_xlabel() == "updates"


def test_more_groups_than_colours_can_be_drawn():
    made = training_curves({1: 1.0}, {1: {group: group / 11 for group in range(11)}}, "letters")
    assert len(made.axes[1].lines) == 11
    plt.close(made)


class TestPerplexityCurves:
    CURVES = {"one": {10: 900.0, 20: 30.5, 30: 11.25}, "other": {7: 400.0, 14: 21.04}}

    def test_each_run_is_a_line_of_its_points(self):
        (ax,) = perplexity_curves(self.CURVES).axes
        lines = {line.get_label(): line for line in ax.get_lines()}
        for name, points in self.CURVES.items():
            assert dict(zip(*lines[name].get_data(), strict=True)) == points
        assert ax.get_yscale() == "log"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("updates", "perplexity")

    def test_the_last_value_stands_beside_its_point(self):
        (ax,) = perplexity_curves(self.CURVES).axes
        said = {note.xy: note.get_text() for note in ax.texts}
        assert said == {(30, 11.25): "11.2", (14, 21.04): "21.0"}


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
    return compared_runs(RUNS)


def texts(artists):
    return [artist.get_text() for artist in artists]


class TestComparedRuns:
    def test_every_run_is_a_line_in_both_pictures(self, runs):
        above, below = runs.axes
        assert [points(line) for line in above.lines] == [
            [(5, 4.0), (11, 1.5)], [(5, 3.5), (11, 1.0)], [(5, 5.0)], [(7, 2.0)],
        ]
        # a point that did not measure the share is left out, not drawn as 0
        assert [points(line) for line in below.lines] == [
            [(5, 0.0), (11, 1.0)], [(11, 0.7)], [(5, 0.0)], [(7, 0.5)],
        ]

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
        assert (below.get_xlabel(), above.get_ylabel()) == ("updates", "loss (nats per token)")

    def test_it_fits_a_phone_and_stands_on_white(self, runs):
        assert runs.get_size_inches()[0] <= 7
        assert runs.dpi == 100
        assert runs.get_facecolor() == (1, 1, 1, 1)


PANELS = {
    "few pairs": {"0": [0.1, 0.2, 0.3], "0.1": [0.5, 0.7], "0.3": [0.9]},
    "many": {"0": [1.0], "0.1": [0.95]},
}


@pytest.fixture
def dots():
    return by_seed(PANELS, "share exactly right")


class TestBySeed:
    def test_a_dot_a_seed_above_its_setting_and_a_line_at_their_mean(self, dots):
        for ax, settings in zip(dots.axes, PANELS.values(), strict=True):
            means, marks = ax.lines[::2], ax.lines[1::2]
            for place, (values, mean, mark) in enumerate(
                zip(settings.values(), means, marks, strict=True)
            ):
                assert list(mark.get_ydata()) == values
                assert all(abs(x - place) < 0.3 for x in mark.get_xdata())
                assert len(set(mark.get_xdata())) == len(values), "dots must not lie on each other"
                assert list(mean.get_ydata()) == pytest.approx([sum(values) / len(values)] * 2)
            assert [tick.get_text() for tick in ax.get_xticklabels()] == list(settings)
            assert len({line.get_marker() for line in marks}) == len(settings)

    def test_panels_are_named_and_share_their_scale(self, dots):
        few, many = dots.axes
        assert [few.get_title(loc="left"), many.get_title(loc="left")] == list(PANELS)
        assert few.get_ylim() == many.get_ylim()
        assert few.get_ylabel() == "share exactly right"
        low, high = few.get_ylim()
        assert low < 0 and high > 1

    def test_it_fits_a_phone_and_stands_on_white(self, dots):
        assert dots.get_size_inches()[0] <= 7
        assert dots.dpi == 100
        assert dots.get_facecolor() == (1, 1, 1, 1)
