"""Pictures of Table 1, measured: what is drawn are the numbers of the record."""

import matplotlib.pyplot as plt
import pytest

from annotated.figures.style import COLORS, DEEP, VIOLET
from annotated.figures.table_1 import crossings, exponents, meeting, over_length

LINES = {
    "attention": [{"n": n, "ms": n * n / 100} for n in (10, 100, 1000)],
    "recurrent": [
        {"n": n, "ms": 0.5 * n, "ms_quartile_1": 0.4 * n, "ms_quartile_3": 0.7 * n}
        for n in (1000, 10, 100)
    ],
}
MET = {"way": "a", "other": "GRU", "d": 64, "backward": 0, "predicted": 65, "measured": 700.5,
       "longest": 4096}
CROSSINGS = [
    MET, MET | {"d": 128, "predicted": 129, "measured": 900.0},
    MET | {"other": "LSTM", "predicted": 257, "measured": None, "longest": 1024},
]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class TestOverLength:
    def test_lines_are_the_rows_in_order_of_their_size(self):
        (ax,) = over_length(LINES, "n", "ms", "Found", "vectors", "milliseconds").axes
        drawn = {line.get_label(): list(zip(*line.get_data())) for line in ax.lines}
        assert drawn["attention"] == [(10, 1.0), (100, 100.0), (1000, 10_000.0)]
        assert drawn["recurrent"] == [(10, 5.0), (100, 50.0), (1000, 500.0)]
        assert ax.get_xscale() == ax.get_yscale() == "log"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("vectors", "milliseconds")
        assert [text.get_text() for text in ax.texts] == ["recurrent", "attention"]

    def test_a_band_reaches_from_quartile_to_quartile(self):
        (ax,) = over_length(LINES, "n", "ms", "Found", "x", "y").axes
        (band,) = ax.collections  # of the one that has them
        ys = {round(float(y), 6) for y in band.get_paths()[0].vertices[:, 1]}
        assert {4.0, 7.0, 40.0, 70.0} <= ys

    def test_a_predicted_meeting_is_dotted_and_the_real_one_ringed(self):
        fig = over_length(LINES, "n", "ms", "Found", "x", "y", {"recurrent": 20.0})
        (ax,) = fig.axes
        (dotted,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert set(dotted.get_xdata()) == {20.0} and dotted.get_color() == COLORS[1]
        (ring,) = [line for line in ax.lines if line.get_fillstyle() == "none"]
        assert ring.get_xydata()[0] == pytest.approx([50.0, 25.0])

    def test_lines_that_do_not_meet_have_no_ring(self):
        assert meeting({1: 1.0, 10: 2.0}, {1: 3.0, 10: 4.0}) is None
        assert meeting({1: 4.0, 10: 2.0}, {1: 3.0, 10: 4.0}) is None  # it gets cheaper


class TestCrossings:
    def test_a_mark_for_each_that_was_met_and_an_arrow_for_the_others(self):
        (ax,) = crossings(CROSSINGS, "Found").axes
        marked = [line for line in ax.lines if line.get_marker() in ("o", "s")]
        assert marked[0].get_xydata().tolist() == [[65, 700.5], [129, 900.0]]
        assert marked[1].get_xydata().tolist() == []
        (arrow,) = [a for a in ax.texts if a.arrow_patch is not None and not a.get_text()]
        assert arrow.xy[1] == 1.45 * 1024 and arrow.get_position()[1] == 1024
        assert arrow.xy[0] == arrow.get_position()[0] == pytest.approx(257, rel=0.03)

    def test_the_diagonal_is_where_both_are_equal(self):
        (ax,) = crossings(CROSSINGS, "Found").axes
        diagonal = ax.lines[0].get_xydata()
        assert (diagonal[:, 0] == diagonal[:, 1]).all()
        assert ax.get_xlim() == ax.get_ylim() == tuple(diagonal[:, 0])
        assert {t.get_text() for t in ax.texts} >= {"as counted", "GRU", "LSTM"}


def test_exponents_stand_with_their_intervals_beside_the_tables():
    one = {"way": "GRU", "backward": 0, "size": "n", "table": 1, "exponent": 1.1, "low": 0.9,
           "high": 1.3, "counted": 1.0, "points": 8}
    rows = [one, one | {"backward": 1, "exponent": 1.4}, one | {"size": "d", "table": 2},
            one | {"way": "other"}]
    of_n, of_d = exponents(rows, ["LSTM", "GRU"], "Found").axes
    assert [t.get_text() for t in of_n.get_yticklabels()] == ["LSTM", "GRU"]
    dots = [x for x in of_n.lines if x.get_marker() in ("o", "s") and len(x.get_xdata())]
    assert [(dot.get_xdata()[0], dot.get_color()) for dot in dots] == [(1.1, VIOLET), (1.4, DEEP)]
    assert all(0.5 < line.get_ydata()[0] < 1.5 for line in dots)
    assert [0.9, 1.3] in [list(line.get_xdata()) for line in of_n.lines]
    assert [2, 2] in [list(line.get_xdata()) for line in of_d.lines]
    assert of_n.yaxis_inverted()
