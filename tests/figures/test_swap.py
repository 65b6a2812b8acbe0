"""The swap: what the picture shows is what the model did, and it does it nearly always."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color

from annotated.analysis.swaps import memory_of, swap_case
from annotated.data import numbers
from annotated.figures.style import DEEP, GREY, ORANGE
from annotated.figures.swap import Words, apart, swap_picture
from annotated.translation import Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


@pytest.fixture(scope="module")
def ax(translator):
    figure = swap_picture(translator, 342, 346)
    figure.canvas.draw()
    yield figure.axes[0]
    plt.close(figure)


def color_of(ax, words):
    (found,) = [text for text in ax.texts if text.get_text() == words]
    return found.get_color()


class TestPicture:
    def test_strips_are_the_memory_averaged_to_16_numbers_one_of_them_the_others(
        self, translator, ax
    ):
        memory, other = (memory_of(translator, numbers.spell(n, "en")) for n in (342, 346))
        shown = sorted(ax.images, key=lambda image: image.get_extent()[0])
        expected = [*memory[:6], other[5], memory[6]]  # the old vector beside the new
        for image, vector in zip(shown, expected, strict=True):
            cells = vector.reshape(16, 2).mean(1)
            np.testing.assert_allclose(image.get_array()[:, 0], cells, rtol=1e-5)
        assert [image.get_alpha() < 1 for image in shown] == [False] * 5 + [True] + [False] * 2
        widths = [image.get_extent()[1] - image.get_extent()[0] for image in shown]
        assert widths[5] < widths[6] / 2

    def test_violet_is_as_far_below_zero_as_orange_above(self, ax):
        ((low, high),) = {image.get_clim() for image in ax.images}
        assert low == -high
        assert {image.get_cmap().name for image in ax.images} == {"signed"}

    def test_pieces_stand_above_their_strips_and_one_is_marked(self, ax):
        words = [text.get_text() for text in ax.texts]
        assert words[1:9] == ["three", "hundred", "and", "forty", "hyphen", "two →", "six", "end"]
        assert same_color(color_of(ax, "six"), DEEP) and same_color(color_of(ax, "two →"), GREY)
        framed = [same_color(patch.get_edgecolor(), ORANGE) for patch in ax.patches]
        assert framed.count(True) == 1 and len(framed) == 8

    def test_the_words_are_what_the_model_says_and_the_change_is_in_colour(self, translator, ax):
        case = swap_case(translator, 342, 346)
        begin, old, new, end = [text.get_text() for text in ax.texts[-5:-1]]
        assert begin + old + end == case.swap.before and begin + new + end == case.swap.after
        assert (old, new) == ("zwei", "sechs")
        assert same_color(color_of(ax, new), DEEP) and same_color(color_of(ax, old), GREY)

    def test_what_went_is_struck_out(self, ax):
        for line, words in zip(ax.lines, ("two →", "zwei"), strict=True):
            (text,) = [text for text in ax.texts if text.get_text() == words]
            box = text.get_window_extent().transformed(ax.transData.inverted())
            assert box.y0 < line.get_ydata()[0] < box.y1
            assert line.get_xdata()[0] == pytest.approx(box.x0, abs=0.03)
            assert line.get_xdata()[1] <= box.x1 + 0.03

    def test_two_is_zwei(self, ax):
        assert ax.texts[-1].get_text() == "two = zwei,  six = sechs"

    def test_the_title_says_what_happened(self, ax):
        assert ax.texts[0].get_text() == "One vector of 342 is exchanged, one word changes"

    @pytest.mark.parametrize("other", [342, 7, 243])
    def test_numbers_it_cannot_swap_are_refused(self, translator, other):
        with pytest.raises(ValueError, match=rf"^342 and {other} are not exactly one .* apart$"):
            swap_picture(translator, 342, other)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("abc", "axc", ("a", "b", "x", "c")),
        ("abc", "abc", ("abc", "", "", "")),
        ("ab", "axxb", ("a", "", "xx", "b")),
        ("aa", "a", ("a", "a", "", "")),
        ("", "b", ("", "", "b", "")),
    ],
)
def test_translations_are_split_where_they_part(before, after, words):
    assert apart(before, after) == Words(*words)
