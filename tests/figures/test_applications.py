"""The picture of the three uses shows the maps it was given, each where it belongs."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from annotated.figures.applications import three_uses
from annotated.model import causal_mask
from annotated.model.attention import masked_softmax

SOURCE = ["alpha", "beta", "gamma", "delta", "end"]
TARGET, SAYS = ["BOS", "eins", "zwei"], ["eins", "zwei", "EOS"]


@pytest.fixture
def maps():
    torch.manual_seed(0)
    m, n = len(SOURCE), len(TARGET)
    return {
        "encoder": torch.randn(m, m).softmax(-1),
        "decoder": masked_softmax(torch.randn(n, n), causal_mask(n)),
        "cross": torch.randn(n, m).softmax(-1),
    }


@pytest.fixture
def draw():
    return lambda maps: three_uses(**maps, source=SOURCE, target=TARGET, says=SAYS)


def test_each_map_stands_where_its_rows_and_columns_belong(draw, maps):
    upper, empty, lower, right = draw(maps).axes[:4]
    for ax, name in ((upper, "encoder"), (lower, "cross"), (right, "decoder")):
        (image,) = ax.images
        assert np.array_equal(image.get_array(), maps[name].numpy())
        assert image.get_clim() == (0, 1)
    assert not empty.images
    assert "no such use" in empty.texts[0].get_text()


def test_names_stand_at_rows_and_columns(draw, maps):
    upper, _, lower, right = draw(maps).axes[:4]
    texts = [
        [label.get_text() for label in labels] for labels in (
            upper.get_yticklabels(), lower.get_yticklabels(),
            lower.get_xticklabels(), right.get_xticklabels(),
            right.child_axes[0].get_yticklabels(),
        )
    ]
    assert texts == [SOURCE, TARGET, SOURCE, TARGET, ["→ eins", "→ zwei", "→ EOS"]]


def test_exactly_the_masked_cells_are_hatched(draw, maps):
    upper, _, lower, right = draw(maps).axes[:4]
    cells = {
        (round(p.get_y() + 0.5), round(p.get_x() + 0.5))
        for p in right.patches if isinstance(p, Rectangle) and p.get_hatch()
    }
    assert cells == {(0, 1), (0, 2), (1, 2)}
    assert not upper.patches
    assert not lower.patches


@pytest.mark.parametrize("name", ["encoder", "decoder", "cross"])
def test_a_map_that_does_not_fit_its_names_is_named(draw, maps, name):
    maps[name] = maps[name][:-1]
    with pytest.raises(ValueError, match=rf"{name} is \(\d, \d\)"):
        draw(maps)


def test_weight_that_the_mask_hides_is_refused(draw, maps):
    maps["decoder"] = torch.full((3, 3), 1 / 3)
    with pytest.raises(ValueError, match="above its diagonal"):
        draw(maps)


def test_settings_of_the_caller_come_back(draw, maps):
    before = dict(plt.rcParams)
    draw(maps)
    assert dict(plt.rcParams) == before
