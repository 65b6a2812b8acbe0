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
    return gradients_by_layer(PANELS)


def test_a_line_per_seed_from_layer_zero_on(drawn):
    for ax, depths in zip(drawn.axes, PANELS.values(), strict=False):
        lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
        assert lines == [
            (list(range(depth)), line)
            for depth, lengths in depths.items() for line in lengths.tolist()
        ]


def test_depths_differ_in_colour_and_in_dashes_and_seeds_do_not(drawn):
    one, same, other = drawn.axes[0].lines
    assert (one.get_color(), one.get_linestyle()) == (same.get_color(), same.get_linestyle())
    assert one.get_color() != other.get_color()
    assert one.get_linestyle() != other.get_linestyle()


def test_all_panels_share_one_logarithmic_scale(drawn):
    panels = drawn.axes[:3]
    assert {ax.get_yscale() for ax in panels} == {"log"}
    assert len({ax.get_ylim() for ax in panels}) == len({ax.get_xlim() for ax in panels}) == 1
    assert {tuple(ax.get_xticks()) for ax in panels} == {(0, 1, 4)}  # lowest, and highest of each
    low, high = panels[0].get_ylim()
    assert low < 1e-3 and high > 7


def test_titles_axes_and_one_legend(drawn):
    assert [ax.get_title(loc="left") for ax in drawn.axes[:3]] == list(PANELS)
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["2 layers", "5 layers"]
    assert drawn.axes[2].get_xlabel() == "layer, 0 the lowest"
    assert drawn.axes[0].get_ylabel() == drawn.axes[2].get_ylabel() == "length of gradient"
    assert not drawn.axes[3].axison


def test_as_many_lengths_as_layers():
    with pytest.raises(ValueError, match="odd: 5 lengths for 7 layers"):
        gradients_by_layer({"odd": {7: torch.ones(1, 5)}})


def test_panels_of_other_depths_would_need_another_legend():
    with pytest.raises(ValueError, match=r"have \[\(2,\), \(2, 5\)\] layers; expected the same"):
        gradients_by_layer({**PANELS, "odd": {2: torch.ones(1, 2)}})


def test_it_fits_a_phone_and_stands_on_white(drawn):
    assert drawn.get_size_inches()[0] <= 7
    assert drawn.dpi == 100
    assert drawn.get_facecolor() == (1, 1, 1, 1)
