"""The swap: what the picture shows is what the model did, and it does it nearly always."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.offsetbox import AnnotationBbox, TextArea

from annotated.analysis.swaps import memory_of, swap_case
from annotated.data import numbers
from annotated.figures.style import GREY, ORANGE
from annotated.figures.swap import swap_picture
from annotated.translation import Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


@pytest.fixture(scope="module")
def picture(translator):
    figure = swap_picture(translator, 342, 346)
    figure.canvas.draw()
    yield figure
    plt.close(figure)


def words(ax):
    """The line under the strips: (text, colour) of each part."""
    (box,) = [artist for artist in ax.artists if isinstance(artist, AnnotationBbox)]
    parts = [part for part in box.offsetbox.get_children() if isinstance(part, TextArea)]
    return [(part.get_text(), part._text.get_color()) for part in parts]


class TestPicture:
    def test_strips_are_the_memory_averaged_to_16_numbers(self, translator, picture):
        memory = [memory_of(translator, numbers.spell(n, "en")) for n in (342, 346)]
        swapped = memory[0].clone()
        swapped[5] = memory[1][5]
        for ax, shown in zip(picture.axes, (memory[0], swapped), strict=True):
            assert len(ax.images) == 7
            for image, vector in zip(ax.images, shown, strict=True):
                expected = vector.reshape(16, 2).mean(1)
                np.testing.assert_allclose(image.get_array()[:, 0], expected, rtol=1e-5)

    def test_only_the_swapped_strip_differs(self, picture):
        above, below = ([image.get_array() for image in ax.images] for ax in picture.axes)
        assert [i for i in range(7) if not np.array_equal(above[i], below[i])] == [5]

    def test_purple_is_as_far_below_zero_as_orange_above_and_nothing_is_cut_off(self, picture):
        for ax in picture.axes:
            limits = {image.get_clim() for image in ax.images}
            ((low, high),) = limits
            assert low == -high
            assert high == pytest.approx(max(abs(image.get_array()).max() for image in ax.images))

    def test_pieces_stand_above_their_strips_and_one_is_marked(self, picture):
        names = ["three", "hundred", "and", "forty", "-", "two", "EOS"]
        for ax, changed in zip(picture.axes, (None, "two → six"), strict=True):
            shown = [changed if changed and name == "two" else name for name in names]
            assert [text.get_text() for text in ax.texts] == shown
            assert [text.get_position()[0] for text in ax.texts] == list(range(7))
            marked = [same_color(text.get_color(), ORANGE) for text in ax.texts]
            framed = [same_color(patch.get_edgecolor(), ORANGE) for patch in ax.patches]
            assert marked == framed == [i == 5 and changed is not None for i in range(7)]

    def test_the_words_are_what_the_model_says(self, translator, picture):
        case = swap_case(translator, 342, 346)
        for ax, said in zip(picture.axes, (case.swap.before, case.swap.after), strict=True):
            (label, _), *parts = words(ax)
            assert label == "says: "
            assert "".join(text for text, _ in parts) == said

    def test_the_word_that_changed_is_the_one_in_colour(self, picture):
        above, below = (words(ax)[1:] for ax in picture.axes)
        changed = [i for i, (a, b) in enumerate(zip(above, below, strict=True)) if a[0] != b[0]]
        assert [above[i][0] for i in changed] == ["zwei"] and below[changed[0]][0] == "sechs"
        for line, color in ((above, GREY), (below, ORANGE)):
            for i, (_, used) in enumerate(line):
                assert same_color(used, color if i in changed else "black")

    def test_titles_name_the_numbers(self, picture):
        titles = [ax.get_title("left") for ax in picture.axes]
        assert "342" in titles[0] and "346" in titles[1]

    @pytest.mark.parametrize("other", [342, 7, 243])
    def test_numbers_it_cannot_swap_are_refused(self, translator, other):
        with pytest.raises(ValueError, match=rf"^342 and {other} are not exactly one .* apart$"):
            swap_picture(translator, 342, other)
