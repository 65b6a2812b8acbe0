"""Pictures of the sweep of sizes: every seed is drawn, the bar and the chosen size are marked."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.sizes import Point, by_parameters, heads_sorted, shares_by_choice
from annotated.figures.style import DEEP, VIOLET

GROUPS = {
    "two layers": [Point(60_000, [0.98, 0.995, 0.99]), Point(250_000, [0.999, 0.997, 1.0])],
    "one layer": [Point(60_000, [0.91, 0.93])],
}
PANELS = {
    "two heads": {"d_model 32": [[200, 7, 3, 0], [100, 9, 1, 0]], "d_model 64": [[40, 30, 2, 1]]},
    "one head": {"d_model 64": [[290, 40]]},
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class TestByParameters:
    def test_each_seed_of_each_size_has_its_mark(self):
        (ax,) = by_parameters(GROUPS, "Found", "share right").axes
        drawn = [line for line in ax.lines if line.get_marker() in ("o", "s")]
        assert [sorted(line.get_ydata()) for line in drawn] == [
            [0.98, 0.99, 0.995], [0.997, 0.999, 1.0], [0.91, 0.93],
        ]
        for line, parameters in zip(drawn, (60_000, 250_000, 60_000), strict=True):
            assert all(abs(x / parameters - 1) < 0.02 for x in line.get_xdata())
        assert ax.get_xscale() == "log" and ax.get_ylabel() == "share right"
        assert ax.get_title(loc="left") == "Found"
        assert [text.get_text() for text in ax.texts] == [*GROUPS]

    def test_sizes_of_equal_numbers_of_parameters_stand_side_by_side(self):
        (ax,) = by_parameters(GROUPS, "Found", "share right").axes
        first, *_, last = [line for line in ax.lines if line.get_marker() in ("o", "s")]
        assert first.get_xdata()[0] != last.get_xdata()[0]
        assert first.get_color() != last.get_color()

    def test_the_bar_and_the_marked_size_are_named(self):
        (ax,) = by_parameters(GROUPS, "Found", "share", bar=0.99, marked=(60_000, "ours")).axes
        assert [text.get_text() for text in ax.texts] == [
            *GROUPS, "the bar, 99%", "ours",
        ]
        dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
        dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert [set(line.get_ydata()) for line in dashed] == [{0.99}]
        assert [set(line.get_xdata()) for line in dotted] == [{60_000}]


class TestHeadsSorted:
    def test_runs_are_thin_and_their_mean_is_thick(self):
        above, below = heads_sorted(PANELS, "Found").axes
        thick = {line.get_label(): list(line.get_ydata()) for line in above.lines
                 if line.get_linewidth() == 2.5}
        assert thick == {"d_model 32": [150, 8, 2, 0], "d_model 64": [40, 30, 2, 1]}
        thin = [list(line.get_ydata()) for line in above.lines if line.get_linewidth() < 1]
        assert thin == [[200, 7, 3, 0], [100, 9, 1, 0], [40, 30, 2, 1]]
        assert [ax.get_title(loc="left") for ax in (above, below)] == [*PANELS]

    def test_a_size_has_its_colour_in_all_panels(self):
        colors = [
            {line.get_label(): line.get_color() for line in ax.lines if line.get_linewidth() == 2.5}
            for ax in heads_sorted(PANELS, "Found").axes
        ]
        assert colors[0]["d_model 64"] == colors[1]["d_model 64"] != colors[0]["d_model 32"]


def test_choices_stand_in_the_order_of_what_they_cost():
    shares = {"nothing": [1.0, 0.995], "sums": [0.0, 0.01], "scale": [0.95, 0.997]}
    (ax,) = shares_by_choice(shares, "Found", 0.99, "right").axes
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["sums", "scale", "nothing"]
    assert [list(line.get_xdata()) for line in dots] == [[0.0, 0.01], [0.95, 0.997], [1.0, 0.995]]
    assert [set(line.get_ydata()) for line in dots] == [{0}, {1}, {2}]
    assert [line.get_color() for line in dots] == [DEEP, DEEP, VIOLET]
    assert ax.yaxis_inverted() and ax.get_xlabel() == "right"
