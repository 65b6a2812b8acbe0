"""The picture of cut heads shows the shares it was given, and frames the costliest head."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from annotated.figures.heads import head_losses
from annotated.figures.style import BLUE

LOSSES = {
    "encoder.layers.0.self_attention": [0.0, 0.002, 0.13, 0.4],
    "decoder.layers.0.self_attention": [0.05, 0.0, 0.004, 0.49],
    "decoder.layers.0.cross_attention": [0.03, 0.31, 0.0, 1.0],
    "decoder.layers.1.self_attention": [0.0, 0.0, 0.0, 0.0],
    "decoder.layers.1.cross_attention": [0.07, 0.11, 0.0, 0.97],
}


@pytest.fixture
def draw():
    yield lambda losses: head_losses(losses)
    plt.close("all")


def cells(ax):
    """What is written in each cell, by (row, column)."""
    return {
        (round(y), round(x)): text.get_text() for text in ax.texts for x, y in [text.get_position()]
    }


def test_every_cell_says_its_share_in_per_cent(draw):
    left, right = draw(LOSSES).axes
    for row, shares in enumerate(LOSSES.values()):
        *alone, together = shares
        for head, share in enumerate(alone):
            assert cells(left)[row, head] == f"{100 * share:.0f}"
        assert cells(right)[row, 0] == f"{100 * together:.0f}"
    assert len(left.texts) == 15
    assert len(right.texts) == 5


def test_colour_is_the_share_on_one_scale(draw):
    left, right = draw(LOSSES).axes
    shares = np.array([*LOSSES.values()])
    for ax, expected in ((left, shares[:, :-1]), (right, shares[:, -1:])):
        (image,) = ax.images
        assert np.array_equal(image.get_array(), expected)
        assert image.get_clim() == (0, 1)
        assert image.get_cmap().name == "Oranges"


def test_text_can_be_read_on_its_cell(draw):
    """Contrast of at least 4.5 to 1 everywhere (WCAG), whatever the share."""

    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    losses = {
        f"encoder.layers.{i}.self_attention": [share, share]
        for i, share in enumerate(np.linspace(0, 1, 101))
    }
    left, _ = draw(losses).axes
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
    assert (round(y), round(x)) == (2, 1)  # 0.31; the columns of all heads do not count
    assert to_rgb(frame.get_edgecolor()) == to_rgb(BLUE)
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
    labels = left.get_ylabel(), left.get_xlabel(), right.get_xlabel()
    assert labels == ("attention", "one head cut", "all 3 cut")


def test_it_fits_a_page_and_stands_on_white(draw):
    fig = draw(LOSSES)
    width, height = fig.get_size_inches()
    assert width <= 7
    assert height <= 7
    assert fig.dpi == 100
    assert fig.get_facecolor() == (1, 1, 1, 1)
    fig.canvas.draw()
    box = fig.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


def test_settings_of_the_caller_come_back(draw):
    before = dict(plt.rcParams)
    draw(LOSSES)
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize(
    "losses, words",
    [
        ({"a.layers.0.b": [0.1, 0.2], "a.layers.1.b": [0.1]}, "a.layers.0.b 2, a.layers.1.b 1"),
        ({}, "no rows"),
        ({"a.layers.0.b": [5.0, 0.2]}, "between 0 and 1, not 0.2 to 5.0"),
        ({"a.layers.0.b": [0.5, -0.2]}, "between 0 and 1, not -0.2 to 0.5"),
    ],
)
def test_what_can_not_be_drawn_is_named(draw, losses, words):
    with pytest.raises(ValueError, match=words):
        draw(losses)
