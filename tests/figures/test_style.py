"""Two widths, letters for a phone, twice the pixels on a clear ground, names beside their lines."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from PIL import Image

from annotated.figures.style import (
    DEEP,
    GREY,
    NARROW,
    ORANGE,
    VIOLET,
    WIDE,
    BookFigure,
    figure,
    letters,
    name_ends,
    name_rows,
    number,
    png,
    spoken,
    style,
)


def drawn(size=None, width=WIDE):
    with style():
        fig, ax = figure(3.0, width=width)
        ax.plot([1, 2], [3, 5], color=VIOLET, linewidth=9)
        ax.set_title("found", **({} if size is None else {"fontsize": size}))
    return fig


@pytest.mark.parametrize(("width", "fits", "small"), [(WIDE, 12.4, 12.2), (NARROW, 9.1, 8.9)])
def test_letters_have_nine_pixels_on_a_phone(width, fits, small):
    assert 9 <= letters(drawn(fits, width)) < 9.2
    with pytest.raises(ValueError, match=r"letters of 8\.\d px on a phone; at least 9"):
        drawn(small, width)


def test_letters_on_a_phone_are_counted_in_its_column():
    assert letters(drawn(12.4)) == pytest.approx(12.4 * 100 / 72 * 358 / 680)


def test_raised_letters_are_smaller():
    with pytest.raises(ValueError, match="px on a phone"), style():
        _, ax = figure(3.0)
        ax.set_title("$W^O$", fontsize=14)


def test_there_are_two_widths():
    with pytest.raises(ValueError, match=r"a figure is 6\.0 inches wide; expected 6\.8 or 5\.0"):
        drawn(width=6.0)


def test_settings_of_the_caller_come_back_also_after_an_error():
    before = dict(plt.rcParams)
    with pytest.raises(ZeroDivisionError), style():
        figure(3.0)
        raise ZeroDivisionError
    assert dict(plt.rcParams) == before
    drawn()
    assert dict(plt.rcParams) == before


def test_a_notebook_gets_twice_the_pixels_and_the_size_to_show_them_at():
    shell = InteractiveShell.instance()
    try:
        select_figure_formats(shell, {"png"})  # as Jupyter's backend does
        fig = drawn()
        data, metadata = shell.display_formatter.format(fig)
        plain, _ = shell.display_formatter.format(plt.figure())
    finally:
        InteractiveShell.clear_instance()
    assert isinstance(fig, BookFigure) and "image/png" not in plain  # empty, and no book's
    image = Image.open(io.BytesIO(data["image/png"]))
    assert image.size == (1360, 600) and image.mode == "P"
    shown = {"width": 680, "height": 300, "needs_background": "light"}
    assert metadata["image/png"] == shown


def test_the_ground_is_clear_and_flat_colours_are_exact():
    image = np.asarray(Image.open(io.BytesIO(png(drawn()))).convert("RGBA"))
    assert image[0, -1, 3] == 0
    violet = tuple(int(VIOLET[i : i + 2], 16) for i in (1, 3, 5))
    assert (image == (*violet, 255)).all(-1).sum() > 1000
    white = np.asarray(Image.open(io.BytesIO(png(drawn(), "white"))).convert("RGBA"))
    assert (white[..., 3] == 255).all() and (white[0, -1] == 255).all()


def test_few_colours_look_like_all():
    with style():
        fig, ax = figure(3.0)
        ax.imshow(np.linspace(-1, 1, 900).reshape(30, 30), cmap="viridis", aspect="auto")
    full = io.BytesIO()
    fig.savefig(full, dpi=200)
    old, new = (np.asarray(Image.open(file).convert("RGBA")).astype(int)
                for file in (full, io.BytesIO(png(fig))))
    seen = [image[..., :3] * image[..., 3:] // 255 for image in (old, new)]
    apart = np.abs(seen[0] - seen[1]).max(-1)
    assert (apart > 24).mean() < 0.001 and apart.mean() < 2


def test_names_of_lines_that_end_together_stand_apart_and_in_their_order():
    with style():
        fig, ax = figure(3.5)
        ends = [(5.0, 0.97, "low", VIOLET), (5.0, 0.99, "high", ORANGE), (3.0, 0.1, "other", GREY)]
        for x, y, _, color in ends:
            ax.plot([0, x], [0, y], color=color)
        ax.set_ylim(-0.03, 1.03)
        name_ends(ax, ends)
    fig.canvas.draw()
    boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert boxes["low"].y1 <= boxes["high"].y0 + 1 and boxes["high"].y1 < fig.bbox.y1
    assert boxes["other"].y1 < boxes["low"].y0
    assert {text.get_text(): text.xy for text in ax.texts}["other"] == (3.0, 0.1)
    colors = {text.get_text(): text.get_color() for text in ax.texts}
    assert colors == {"low": VIOLET, "high": DEEP, "other": GREY}, "words need more contrast"


def test_pieces_are_called_as_one_says_them():
    assert spoken(["BOS", "-", "EOS"]) == ["BOS", "hyphen", "EOS"]
    assert spoken(["BOS", "-", "EOS"], ends=True) == ["start", "hyphen", "end"]
    assert number(1234567) == "1 234 567"


def test_what_a_vertical_axis_shows_stands_level_above_it_and_under_the_title():
    with style():
        fig, ax = figure(3.0)
        ax.plot([1, 2], [3, 5])
        ax.set(ylabel="share of vectors", title="found")
    fig.canvas.draw()
    assert ax.get_ylabel() == "share of vectors" and not ax.yaxis.label.get_visible()
    words = ax.title
    assert words.get_text() == "share of vectors" and words.get_rotation() == 0
    label, title = (text.get_window_extent() for text in (words, ax._left_title))
    frame = ax.get_window_extent()
    assert frame.y1 < label.y0 and label.y1 <= title.y0 + 1 and title.y1 < fig.bbox.y1
    assert abs(label.x0 - frame.x0) < 2


def test_what_the_rows_of_a_map_are_stands_level_above_their_names():
    with style():
        fig, ax = figure(3.0)
        ax.imshow(np.eye(2), aspect="auto")
        ax.set_yticks([0, 1], ["forty", "two"])
        name_rows(ax, "who asks")
    fig.canvas.draw()
    (words,) = ax.texts
    right, left = words.get_window_extent().x1, ax.get_window_extent().x0
    assert words.get_rotation() == 0 and right < left < right + 12
