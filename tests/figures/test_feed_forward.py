"""What is drawn of feed-forward networks are the units and the work that were given."""

import pytest
import torch

from annotated.figures.feed_forward import awake_units, work_by_length

HIDDEN = torch.tensor([[0.0, 2.0, 0.0, 0.5, 1.0], [0.0, 1.0, 3.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0, 1]])


def test_units_that_more_pieces_wake_stand_further_left():
    ax = awake_units(HIDDEN, ["a", "b", "c"], "found").axes[0]
    (mesh,) = ax.collections[:1]
    drawn = torch.tensor(mesh.get_array().reshape(3, 5))
    assert drawn.tolist() == [[1, 1, 0, 1, 0], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]]
    assert ax.get_title(loc="left") == "found"


def test_each_row_has_its_piece_and_its_count():
    ax = awake_units(HIDDEN, ["a", "b", "c"], "found").axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    (right,) = ax.child_axes
    assert [t.get_text() for t in right.get_yticklabels()] == ["3", "2", "2"]
    assert ax.yaxis_inverted()


def test_as_many_pieces_as_rows():
    with pytest.raises(ValueError, match="2 pieces for 3 rows"):
        awake_units(HIDDEN, ["a", "b"], "found")


def test_lines_are_the_formula_and_dots_what_was_counted():
    formula = {"one": torch.tensor([1.0, 10.0]), "two": torch.tensor([3.0, 5.0])}
    counted = {"one": {7: 2, 11: 3}, "two": {7: 4}}
    (ax,) = work_by_length(formula, counted, [3, 13], 5, "cross").axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines[:4]]
    assert lines == [([3, 13], [1, 10]), ([7, 11], [2, 3]), ([3, 13], [3, 5]), ([7], [4])]
    assert list(ax.lines[4].get_xdata()) == [5, 5]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.lines[0].get_linestyle() != ax.lines[2].get_linestyle()
    assert [t.get_text() for t in ax.texts] == ["n = 5", "two", "one"]
