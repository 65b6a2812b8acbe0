"""The ranking of models: drawn are the ratios of the times that were given."""

import math

import matplotlib.pyplot as plt
import pytest

from annotated.figures.generation import apart, ranking

LEFT = {"Transformer": 2.0, "LSTM": 3.0, "LSTM, attention": 30.0}
RIGHT = {"Transformer": 0.5, "LSTM": 0.1, "LSTM, attention": 0.11}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_lines_lead_from_one_ratio_to_the_other():
    (ax,) = ranking(LEFT, RIGHT, ("training", "writing"), "Flips").axes
    lines = [list(line.get_ydata()) for line in ax.lines if line.get_marker() != "None"]
    assert lines == [[1.0, 1.0], [1.5, pytest.approx(0.2)], [15.0, pytest.approx(0.22)]]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["training", "writing"]
    assert {t.get_text() for t in ax.texts} == {
        "1.0 ×", "1.5 ×", "15 ×", "1.0 ×  Transformer", "0.2 ×  LSTM", "0.2 ×  LSTM, attention",
    }
    assert ax.yaxis_inverted()  # the faster the higher


def test_the_same_models_on_both_sides():
    with pytest.raises(ValueError, match="the models are Transformer, LSTM, LSTM, attention and"):
        ranking(LEFT, {"Transformer": 1.0}, ("a", "b"), "Flips")


def test_labels_of_close_values_stand_apart():
    places = apart({"a": 1.0, "b": 1.01, "c": 9.0}, 0.5)
    assert math.log(places["b"] / places["a"]) == pytest.approx(0.5, abs=0.01)
    assert places["c"] == pytest.approx(9.0) and places["a"] < 1.0
