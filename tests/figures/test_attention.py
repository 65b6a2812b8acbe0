"""Maps of attention show the weights they are given, row by row and on one scale."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from annotated.figures.attention import attention_maps

QUERIES, KEYS = ["drei", "hundert", "EOS"], ["three", "hundred", "-", "two", "EOS"]


def weights_of(heads):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(heads, len(QUERIES), len(KEYS), generator=generator).softmax(-1)


@pytest.fixture
def draw():
    figures = []

    def made(heads, titles=None, **options):
        titles = titles or [f"head {i + 1}" for i in range(heads)]
        figures.append(attention_maps(weights_of(heads), QUERIES, KEYS, titles, **options))
        figures[-1].canvas.draw()
        return figures[-1]

    yield made
    for figure in figures:
        plt.close(figure)


def maps(figure):
    return [ax for ax in figure.axes if ax.images and ax.get_title("left")]


@pytest.mark.parametrize(("heads", "columns"), [(1, 1), (2, 2), (3, 2), (5, 3), (7, 1)])
def test_one_map_a_head_in_order_and_no_empty_frame(draw, heads, columns):
    figure = draw(heads, columns=columns)
    assert [ax.get_title("left") for ax in maps(figure)] == [f"head {i + 1}" for i in range(heads)]
    for ax, weights in zip(maps(figure), weights_of(heads), strict=True):
        np.testing.assert_allclose(ax.images[0].get_array(), weights)
    places = [ax.get_subplotspec() for ax in maps(figure)]
    assert [(p.rowspan.start, p.colspan.start) for p in places] == [
        divmod(i, columns) for i in range(heads)
    ]
    empty = [ax for ax in figure.axes if not ax.images and not ax.collections]
    assert all(not ax.axison for ax in empty)


def test_colours_mean_the_same_in_every_map(draw):
    figure = draw(3)
    for ax in maps(figure):
        assert ax.images[0].get_clim() == (0, 1)
    assert len(figure.axes) == 4, "from 0 to 1 needs no colour bar"


def test_a_map_alone_has_its_weights_in_the_cells(draw):
    (ax,) = maps(draw(1))
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text()
               for t in ax.texts}
    (weights,) = weights_of(1)
    for row, column in np.ndindex(3, 5):
        weight = float(weights[row, column])
        expected = f"{weight:.2f}".removeprefix("0") if weight >= 0.05 else None
        assert written.get((row, column)) == expected
    assert not any(ax.texts for ax in maps(draw(2)))


def test_the_title_of_all_stands_above(draw):
    assert draw(2, title="Found").get_suptitle() == "Found"


def test_rows_are_queries_from_the_top_and_columns_keys(draw):
    for place, ax in enumerate(maps(draw(3))):
        named = [t.get_text() for t in ax.get_yticklabels()]
        assert named == ([] if place == 1 else QUERIES)
        names = [t.get_text() for t in ax.get_xticklabels() if t.get_visible()]
        below = place > 0  # the lowest map of its column
        assert names == (["three", "hundred", "hyphen", "two", "EOS"] if below else [])
        bottom, top = ax.get_ylim()
        assert bottom > top
        assert ax.get_yticks().tolist() == [0, 1, 2]
        assert ax.get_xticks().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("heads", "last"), [(1, [0]), (2, [1]), (3, [1, 2]), (4, [1, 3])])
def test_what_a_decoder_says_stands_at_the_right_of_the_last_map_of_a_row(draw, heads, last):
    figure = draw(heads, says=["a", "b", "c"])
    for place, ax in enumerate(maps(figure)):
        said = [text.get_text() for right in ax.child_axes for text in right.get_yticklabels()]
        assert said == (["→ a", "→ b", "→ c"] if place in last else [])


def test_as_many_are_said_as_read(draw):
    with pytest.raises(ValueError, match="^says are 2 for 3 queries; expected one each$"):
        draw(2, says=["a", "b"])


def test_names_of_another_number_are_refused(draw):
    before = plt.get_fignums()
    for titles in (["one"], ["one", "two", "three"]):
        named = rf"\({len(titles)}, 3, 5\)"
        with pytest.raises(ValueError, match=rf"^weights are \(2, 3, 5\); .* {named}$"):
            draw(2, titles)
    for queries, keys in ((QUERIES[1:], KEYS), (QUERIES, KEYS[1:])):
        with pytest.raises(ValueError, match=r"^weights are \(1, 3, 5\); the names are for"):
            attention_maps(weights_of(1), queries, keys, ["one"])
    assert plt.get_fignums() == before


def test_settings_of_the_caller_come_back(draw):
    before = dict(plt.rcParams)
    draw(2)
    assert dict(plt.rcParams) == before
