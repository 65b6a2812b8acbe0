"""Pictures of heads: side by side, and cut; what is drawn are the numbers that were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from annotated.figures.heads import head_losses, mistaken_digits, side_by_side
from annotated.figures.style import INK, VIOLET

LOSSES = {
    "encoder.layers.0.self_attention": [0, 1, 40, 120],
    "decoder.layers.0.self_attention": [15, 0, 2, 147],
    "decoder.layers.0.cross_attention": [9, 93, 0, 300],
    "decoder.layers.1.self_attention": [0, 0, 0, 0],
    "decoder.layers.1.cross_attention": [21, 33, 0, 291],
}


@pytest.fixture
def draw():
    yield lambda losses, total=300: head_losses(losses, total, "Few")
    plt.close("all")


def cells(ax):
    """What is written in each cell, by (row, column)."""
    return {
        (round(y), round(x)): text.get_text() for text in ax.texts for x, y in [text.get_position()]
    }


def test_every_cell_says_its_count(draw):
    left, right = draw(LOSSES).axes
    for row, counts in enumerate(LOSSES.values()):
        *alone, together = counts
        for head, count in enumerate(alone):
            assert cells(left)[row, head] == str(count)
        assert cells(right)[row, 0] == str(together)
    assert len(left.texts) == 15
    assert len(right.texts) == 5


def test_only_none_steps_back(draw):
    left, _ = draw(LOSSES).axes
    quiet = {text.get_text() for text in left.texts if text.get_color() != INK}
    assert quiet == {"0"}


def test_colour_is_the_share_on_one_scale(draw):
    figure = draw(LOSSES)
    left, right = figure.axes
    counts = np.array([*LOSSES.values()])
    for ax, expected in ((left, counts[:, :-1]), (right, counts[:, -1:])):
        (image,) = ax.images
        assert np.array_equal(image.get_array(), expected)
        assert image.get_clim() == (0, 300)
        assert image.get_cmap().name == "changed"
    assert figure.get_suptitle() == "Few"


def test_text_can_be_read_on_its_cell(draw):
    """Contrast of at least 4.5 to 1 everywhere (WCAG), whatever the share."""

    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    losses = {
        f"encoder.layers.{i}.self_attention": [i, i] for i in range(101)
    }
    left, _ = draw(losses, 100).axes
    (image,) = left.images
    for text in left.texts:
        row = round(text.get_position()[1])
        ground = image.get_cmap()(image.norm(image.get_array()[row, 0]))[:3]
        low, high = sorted([luminance(ground), luminance(to_rgb(text.get_color()))])
        assert (high + 0.05) / (low + 0.05) >= 4.5, text.get_text()


def test_the_costliest_single_head_is_framed(draw):
    left, right = draw(LOSSES).axes
    frames = [patch for patch in left.patches if isinstance(patch, Rectangle)]
    assert len(frames) == 1
    (frame,) = frames
    x, y = frame.get_x() + frame.get_width() / 2, frame.get_y() + frame.get_height() / 2
    assert (round(y), round(x)) == (2, 1)  # 93; the columns of all heads do not count
    assert to_rgb(frame.get_edgecolor()) == to_rgb(VIOLET)
    assert not right.patches


def test_axes_are_labelled(draw):
    left, right = draw(LOSSES).axes
    assert [t.get_text() for t in left.get_yticklabels()] == [
        "encoder 0, self",
        "decoder 0, self",
        "decoder 0, cross",
        "decoder 1, self",
        "decoder 1, cross",
    ]
    assert [t.get_text() for t in left.get_xticklabels()] == ["0", "1", "2"]
    assert [t.get_text() for t in right.get_xticklabels()] == ["0-2"]
    labels = left.get_xlabel(), right.get_xlabel()
    assert labels == ("one head cut: wrong of 300", "all 3 cut")


def test_settings_of_the_caller_come_back(draw):
    before = dict(plt.rcParams)
    draw(LOSSES)
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize(
    "losses, words",
    [
        ({"a.layers.0.b": [1, 2], "a.layers.1.b": [1]}, "a.layers.0.b 2, a.layers.1.b 1"),
        ({}, "no rows"),
        ({"a.layers.0.b": [301, 2]}, "between 0 and 300, not 2 to 301"),
        ({"a.layers.0.b": [5, -2]}, "between 0 and 300, not -2 to 5"),
    ],
)
def test_what_can_not_be_drawn_is_named(draw, losses, words):
    with pytest.raises(ValueError, match=words):
        draw(losses)


@pytest.fixture
def layer():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3, 4, generator=generator).softmax(-1)
    return weights, torch.randn(3, 10, generator=generator), torch.randn(3, 7, generator=generator)


def test_maps_stand_above_their_mixes_and_the_output_below_all(layer):
    weights, joined, output = layer
    *upper, last = side_by_side(*layer, "abc", "wxyz", "Found").axes
    for head in (0, 1):
        above, below = upper[2 * head:][:2]
        assert np.array_equal(above.images[0].get_array(), weights[head].numpy())
        assert above.images[0].get_clim() == (0, 1)
        assert np.array_equal(below.images[0].get_array(), joined[:, 5 * head:][:, :5].numpy())
        assert above.get_position().x0 == below.get_position().x0
        assert above.get_position().y0 > below.get_position().y1
        assert [text.get_text() for text in above.get_xticklabels()] == list("wxyz")
    most = joined.abs().max().item()
    first, other = (ax.images[0].get_clim() for ax in (upper[1], upper[3]))
    assert first == other == pytest.approx((-most, most))
    assert np.array_equal(last.images[0].get_array(), output.numpy())
    assert last.get_position().y1 < upper[1].get_position().y0
    assert [text.get_text() for text in upper[0].get_yticklabels()] == list("abc")


def test_titles_say_the_shapes(layer):
    titles = [ax.get_title("left") for ax in side_by_side(*layer, "abc", "wxyz", "Found").axes]
    assert titles == [
        "head 0: weights, 3 × 4", "its mixes, 3 × 5", "head 1: weights, 3 × 4",
        "its mixes, 3 × 5", "joined, 3 × 10, times the output matrix: 3 × 7",
    ]


def test_names_and_widths_must_fit(layer):
    weights, joined, output = layer
    with pytest.raises(ValueError, match="2 and 4 names for 3 queries and 4 keys"):
        side_by_side(*layer, "ab", "wxyz", "Found")
    with pytest.raises(ValueError, match="9 wide; expected a multiple of 2 heads"):
        side_by_side(weights, joined[:, :9], output, "abc", "wxyz", "Found")


def test_a_digit_stands_in_its_row_and_what_it_became_in_the_column():
    became = {"one": {("6", "5"): 37, ("7", "3"): 11, ("0", "9"): 7}, "other": {("1", "2"): 3}}
    fig = mistaken_digits(became, "Found")
    for ax, (name, counts) in zip(fig.axes, became.items(), strict=True):
        (image,) = ax.images
        grid = np.array(image.get_array())
        assert {(str(r), str(c)): int(grid[r, c]) for r, c in np.argwhere(grid)} == counts
        assert image.get_clim() == (0, 37) and ax.get_title("left") == name
    said = {text.get_position(): text.get_text() for text in fig.axes[0].texts}
    assert said.pop((-6, 5)) == "the\ndigit"  # names the rows
    assert said == {(5, 6): "37", (3, 7): "11"} and not fig.axes[1].texts
