"""A sheet is measured in inches, and what is drawn on it lies in one order."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import FancyArrowPatch, Rectangle

from annotated.figures.boxes import Ink, inches, spread


@pytest.fixture
def ax():
    fig, ax = plt.subplots()
    yield ax
    plt.close(fig)


def test_a_sheet_fills_the_width_that_the_figure_has(ax):
    ax.figure.set_size_inches(6.0, 1.0)
    spread(ax.figure, ax, 3.0, 5.0)
    ax.figure.canvas.draw()
    assert tuple(ax.figure.get_size_inches()) == (6.0, 10.0)
    corners = ax.transData.transform([(0, 0), (3.0, 5.0)]) / ax.figure.dpi
    assert corners.ravel().tolist() == pytest.approx([0, 0, 6.0, 10.0])
    assert not ax.axison


def test_a_rectangle_has_the_edges_it_was_given(ax):
    Ink(ax).rectangle(0.5, 1.0, 2.5, 1.25, "white", gid="box")
    (box,) = ax.patches
    assert isinstance(box, Rectangle) and box.get_gid() == "box"
    assert box.get_bbox().extents.tolist() == [0.5, 1.0, 2.5, 1.25]


def test_an_arrow_follows_its_points_and_its_head_is_at_the_last(ax):
    Ink(ax).arrow((0, 0), (0, 2), (1, 2), color="red")
    (line,), (head,) = ax.lines, ax.patches
    assert line.get_xydata().tolist() == [[0, 0], [0, 2], [1, 2]]
    assert isinstance(head, FancyArrowPatch)
    assert head._posA_posB == [(0, 2), (1, 2)]
    assert line.get_color() == "red"


def test_lines_lie_behind_boxes_heads_on_them_and_words_on_all(ax):
    ink = Ink(ax)
    ink.say(0, 0, "word")
    ink.rectangle(0, 0, 1, 1, "white")
    ink.arrow((0, 0), (1, 1))
    box, head = ax.patches
    assert ax.lines[0].zorder < box.zorder < head.zorder < ax.texts[0].zorder


def test_words_are_as_wide_as_they_are_drawn(ax):
    ax.figure.canvas.draw()
    for words, size, weight in (("undvierzig", 13, "normal"), ("sechs", 19, "bold")):
        text = ax.text(0, 0, words, fontsize=size, weight=weight, family="DejaVu Sans")
        assert inches(words, size, weight) * ax.figure.dpi == pytest.approx(
            text.get_window_extent().width, rel=0.03)
