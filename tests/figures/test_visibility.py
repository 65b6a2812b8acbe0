"""Each grid is filled where an output depends on an input, and only there."""

from math import nan

import pytest
import torch
from matplotlib.colors import to_rgba

from annotated.figures.style import VIOLET
from annotated.figures.visibility import Grid, visibility_grids

GRIDS = [
    Grid("square", torch.tensor([[1.0, 0, 1e-300], [0, 0, 7], [nan, 3, 0]]).double(), "xyz", "abc"),
    Grid("wide", torch.tensor([[0.0, 0, 0, 0, 5], [1, 0, 0, 0, 0]]), "pq", "abcde", "reads", "is"),
    Grid("alone", torch.tensor([[1.0]]), "u", "v"),
]


@pytest.fixture
def drawn():
    return visibility_grids(GRIDS)


def texts(labels):
    return [label.get_text() for label in labels]


def test_a_cell_is_filled_where_it_is_not_exactly_zero(drawn):
    """Even where the dependence is 1e-300, or no number."""
    for ax, grid in zip(drawn.axes, GRIDS, strict=False):
        (mesh,) = ax.collections
        assert mesh.get_array().reshape(grid.seen.shape).tolist() == (grid.seen != 0).tolist()
        drawn.canvas.draw()
        colors = {tuple(color) for color in mesh.get_facecolor()}
        assert colors <= {to_rgba("white"), to_rgba(VIOLET)}
        assert tuple(mesh.get_facecolor()[0]) == to_rgba(VIOLET if grid.seen[0, 0] else "white")


def test_rows_are_outputs_from_the_top_and_columns_inputs_from_the_left(drawn):
    for ax, grid in zip(drawn.axes, GRIDS, strict=False):
        assert texts(ax.get_yticklabels()) == list(grid.outputs)
        assert texts(ax.get_xticklabels()) == list(grid.inputs)
        assert ax.get_yticks().tolist() == [0.5 + i for i in range(len(grid.outputs))]
        assert ax.yaxis_inverted() and not ax.xaxis_inverted()


def test_every_grid_says_what_its_sides_are(drawn):
    assert [ax.get_title(loc="left") for ax in drawn.axes[:3]] == ["square", "wide", "alone"]
    assert [texts(ax.texts) for ax in drawn.axes[:3]] == [["output"], ["reads"], ["output"]]
    assert [ax.get_xlabel() for ax in drawn.axes[:3]] == ["input", "is", "input"]


def test_cells_are_squares_of_one_size_and_the_place_left_over_is_empty(drawn):
    drawn.canvas.draw()
    sizes = set()
    for ax, grid in zip(drawn.axes, GRIDS, strict=False):
        corner, opposite = ax.transData.transform([(0, 0), grid.seen.T.shape])
        sides = abs(opposite - corner) / grid.seen.T.shape  # of a cell, in pixels
        sizes |= {round(float(side), 2) for side in sides}
    assert max(sizes) - min(sizes) < 0.05 and min(sizes) > 15
    assert len(drawn.axes) == 4 and not drawn.axes[3].axison


@pytest.mark.parametrize("outputs, inputs", [("xy", "abc"), ("xyz", "abcd")])
def test_names_must_fit(outputs, inputs):
    with pytest.raises(ValueError, match=r"odd is \(3, 3\); the names are for"):
        visibility_grids([Grid("odd", torch.ones(3, 3), outputs, inputs)])


def test_what_a_decoder_says_stands_at_the_right_of_its_rows():
    seen = torch.ones(2, 2)
    ax, plain = visibility_grids([
        Grid("decoder", seen, "ab", "ab", says="bc"), Grid("other", seen, "ab", "ab")
    ]).axes[:2]
    (right,) = ax.child_axes
    assert texts(right.get_yticklabels()) == ["→ b", "→ c"]
    assert right.get_yticks().tolist() == ax.get_yticks().tolist()
    assert not plain.child_axes


def test_as_many_must_be_said_as_there_are_rows():
    with pytest.raises(ValueError, match="odd says 3; expected 2"):
        visibility_grids([Grid("odd", torch.ones(2, 2), "ab", "ab", says="bcd")])
