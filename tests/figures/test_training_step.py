"""The picture of a training step shows what it was given: who reads what, and the losses."""

import math

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, Rectangle

from annotated.figures.style import GREY, ORANGE, VIOLET
from annotated.figures.training_step import HEIGHT, HIDDEN, SEEN, training_step

PIECES = ["ein", "und", "zwan", "zig", "EOS"]
SEES = torch.ones(5, 5).tril().bool()
BEFORE = torch.tensor([0.001, 0.002, 0.0007, 0.01, 0.003])
AFTER = torch.tensor([0.05, 0.004, 0.0006, 0.3, 0.9])
SAID = ["neun", "zehn", "EOS"]


@pytest.fixture
def draw():
    yield lambda *given: training_step(*given).axes
    plt.close("all")


@pytest.fixture
def panels(draw):
    return draw(PIECES, SEES, BEFORE, AFTER, SAID)


def cells(ax, color):
    """(row, column) of the cells of one face colour, rows as the panel spaces them."""
    found = [
        (patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2)
        for patch in ax.patches
        if isinstance(patch, Rectangle) and to_rgb(patch.get_facecolor()) == to_rgb(color)
        and patch.get_fill() and to_rgb(patch.get_edgecolor()) != to_rgb(ORANGE)
    ]
    return {(round(x), round(y, 6)) for x, y in found}


def framed(ax):
    return {
        (round(patch.get_x() + patch.get_width() / 2),
         round(patch.get_y() + patch.get_height() / 2, 6))
        for patch in ax.patches
        if isinstance(patch, Rectangle) and to_rgb(patch.get_edgecolor()) == to_rgb(ORANGE)
    }


def texts(ax):
    return {
        (round(x), round(y, 6)): text.get_text() for text in ax.texts for x, y in
        [text.get_position()] if text.get_text() and x == round(x)
    }


def test_training_shows_what_each_prediction_depends_on(panels):
    top = panels[0]
    seen = {(j, round(-t * HEIGHT, 6)) for t in range(5) for j in range(5) if SEES[t, j]}
    hidden = {(j, round(-t * HEIGHT, 6)) for t in range(5) for j in range(5) if not SEES[t, j]}
    assert cells(top, SEEN) == seen
    assert cells(top, HIDDEN) == hidden
    for column, y in seen:
        assert texts(top)[column, y] == ["BOS", *PIECES][column]


def test_a_leak_would_be_drawn(draw):
    """Not the triangle everybody expects, but the one that was measured."""
    leaky = SEES.clone()
    leaky[0, 3] = True
    top = draw(PIECES, leaky, BEFORE, AFTER, SAID)[0]
    assert (3, 0) in cells(top, SEEN) and (3, 0) not in cells(top, HIDDEN)
    assert texts(top)[3, 0] == "zwan"


def test_each_right_piece_is_framed_after_what_it_follows(panels):
    top = panels[0]
    places = [(t + 1, round(-t * HEIGHT, 6)) for t in range(5)]
    assert framed(top) == set(places)
    assert [texts(top)[place] for place in places] == PIECES


def test_bars_are_minus_the_logarithm_of_the_probability(panels):
    bars = {GREY: [], VIOLET: []}
    for patch in panels[1].patches:
        middle, height = patch.get_x() + patch.get_width() / 2, patch.get_height()
        color = GREY if to_rgb(patch.get_facecolor()) == to_rgb(GREY) else VIOLET
        bars[color].append((round(middle), height))
    for color, given in ((GREY, BEFORE), (VIOLET, AFTER)):
        assert [place for place, _ in bars[color]] == [1, 2, 3, 4, 5]
        losses = [-math.log(p) for p in given.tolist()]
        assert [height for _, height in bars[color]] == pytest.approx(losses, rel=1e-5)


def test_the_middle_says_means_and_probabilities(panels):
    middle = panels[1]
    said = [text.get_text() for text in middle.texts]
    assert f"{-BEFORE.log().mean():.1f} before" in said
    assert f"{-AFTER.log().mean():.1f} after" in said
    assert middle.get_xticklabels()[0].get_text() == "0.1 % →\n5 %"
    assert middle.get_xticklabels()[2].get_text() == "0.07 % →\n0.06 %"


def test_every_call_reads_what_the_calls_before_it_said(panels):
    below = panels[2]
    rows = sorted({y for _, y in cells(below, SEEN)}, reverse=True)
    assert len(rows) == len(SAID)
    for call, y in enumerate(rows):
        read = [texts(below)[column, y] for column in range(call + 1)]
        assert read == ["BOS", *SAID][: call + 1]
        assert (call + 1, y) in framed(below)
        assert texts(below)[call + 1, y] == SAID[call]
    assert not cells(below, HIDDEN)


def test_an_arrow_leads_from_each_prediction_to_the_next_call(panels):
    below = panels[2]
    rows = sorted({y for _, y in cells(below, SEEN)}, reverse=True)
    arrows = [patch for patch in below.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == len(SAID) - 1
    for call, arrow in enumerate(arrows):
        (x, start), (end_x, end) = arrow._posA_posB
        assert x == end_x == call + 1
        assert rows[call] > start > end > rows[call + 1]


def test_titles_count_calls(panels):
    assert panels[0].get_title("left") == "Training: 1 call, 5 predictions"
    assert panels[2].get_title("left").startswith("Generation: 3 calls")


def test_all_of_it_is_inside(draw):
    draw(PIECES, SEES, BEFORE, AFTER, SAID)
    figure = plt.gcf()
    figure.canvas.draw()
    for ax in figure.axes:
        for text in ax.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()


@pytest.mark.parametrize("pieces, said", [(PIECES[:3], SAID), (PIECES, [])])
def test_what_does_not_fit_is_named(pieces, said):
    with pytest.raises(ValueError, match=f"{len(pieces)} pieces for 5 .* {len(said)} said"):
        training_step(pieces, SEES, BEFORE, AFTER, said)
