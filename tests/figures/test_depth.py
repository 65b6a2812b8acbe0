"""Every layer of every seed is drawn, at its length, on one scale."""

import pytest
import torch

from annotated.figures.depth import gradients_by_layer

PANELS = {
    "up": {2: torch.tensor([[0.5, 1.0], [0.25, 2.0]]), 5: torch.logspace(-3, 0, 5)[None]},
    "flat": {2: torch.ones(2, 2), 5: torch.ones(1, 5)},
    "last": {2: torch.tensor([[1.0, 7.0]]), 5: torch.arange(1.0, 6.0)[None]},
}


@pytest.fixture
def drawn():
    return gradients_by_layer(PANELS, "flat", "Found")


def test_a_line_per_seed_from_layer_zero_on(drawn):
    for ax, name in zip(drawn.axes, ["flat", "up", "last"], strict=True):
        lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
        assert lines == [
            (list(range(depth)), line)
            for depth, lengths in PANELS[name].items() for line in lengths.tolist()
        ]


def test_depths_differ_in_colour_and_in_dashes_and_seeds_do_not(drawn):
    one, same, other = drawn.axes[0].lines
    assert (one.get_color(), one.get_linestyle()) == (same.get_color(), same.get_linestyle())
    assert one.get_color() != other.get_color()
    assert one.get_linestyle() != other.get_linestyle()


def test_all_panels_share_one_logarithmic_scale(drawn):
    panels = drawn.axes
    assert {ax.get_yscale() for ax in panels} == {"log"}
    assert len({ax.get_ylim() for ax in panels}) == len({ax.get_xlim() for ax in panels}) == 1
    assert {tuple(ax.get_xticks()) for ax in panels} == {(0, 1, 4)}  # lowest, and highest of each
    low, high = panels[0].get_ylim()
    assert low < 1e-3 and high > 7


def test_the_main_panel_is_large_and_names_its_lines(drawn):
    large, *small = drawn.axes
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["flat", "up", "last"]
    assert [text.get_text() for text in large.texts] == ["2 layers", "5 layers"]
    assert large.get_xlabel() == "layer, 0 the lowest"
    assert large.get_ylabel() == "length of gradient"
    drawn.canvas.draw()
    sizes = [ax.get_position().width * ax.get_position().height for ax in drawn.axes]
    assert sizes[0] > 3 * max(sizes[1:])
    assert drawn.get_suptitle() == "Found"


def test_there_is_a_main_panel_and_others():
    with pytest.raises(ValueError, match="expected 'flat' and others"):
        gradients_by_layer({"up": PANELS["up"]}, "flat", "Found")


def test_as_many_lengths_as_layers():
    with pytest.raises(ValueError, match="odd: 5 lengths for 7 layers"):
        gradients_by_layer({"odd": {7: torch.ones(1, 5)}}, "odd", "Found")


def test_panels_of_other_depths_would_need_another_legend():
    with pytest.raises(ValueError, match=r"have \[\(2,\), \(2, 5\)\] layers; expected the same"):
        gradients_by_layer({**PANELS, "odd": {2: torch.ones(1, 2)}}, "up", "Found")
