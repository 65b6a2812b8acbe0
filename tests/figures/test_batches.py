"""Batches are drawn to scale: as much violet as tokens, as much grey as padding."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from annotated.data.batches import batch_plan, padding_of, pair_lengths, token_batches
from annotated.figures.batches import (
    GAP,
    PADDING,
    TOKEN,
    learning_by_batches,
    packed,
    packed_batches,
    packing,
)

sides = st.lists(st.just(5), max_size=11)
corpora = st.lists(st.tuples(sides, sides), min_size=1, max_size=37)
PAIRS = [([5] * (1 + i % 7), [5] * (1 + i % 5)) for i in range(53)]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def count(picture, color):
    return int((picture == (*to_rgb(color), 1)).all(-1).sum())


@given(corpora, st.integers(12, 97), st.sampled_from([0, 1]))
def test_the_share_of_grey_is_the_waste(pairs, budget, side):
    batches = list(token_batches(pairs, budget, 0))
    picture = packed(batches, side)
    grey, violet = count(picture, PADDING), count(picture, TOKEN)
    assert violet == sum(1 + len(pair[side]) for pair in pairs)
    assert grey / (grey + violet) == pytest.approx(padding_of(batches)[side])


def test_rectangles_stand_apart_on_one_line_with_the_longest_row_at_the_bottom():
    batches = [[([5], [5]), ([5] * 3, [5])], [([5] * 2, [5])]]
    colors = {(*to_rgb(TOKEN), 1): "t", (*to_rgb(PADDING), 1): "p", (0, 0, 0, 0): "."}
    picture = packed(batches, 0)
    rows = ["".join(colors[tuple(cell)] for cell in row) for row in picture]
    assert rows == ["tttt" + "." * GAP + "ttt", "ttpp" + "." * GAP + "..."]


def test_all_panels_have_one_scale_and_their_titles():
    ways = {
        "one way": list(token_batches(PAIRS, 97, 0)),
        "another": list(token_batches(PAIRS, 31, 0)),
    }
    axes = packed_batches(ways, "Found", side=1).axes
    assert [ax.get_title(loc="left") for ax in axes] == list(ways)
    assert axes[0].get_xlim() == axes[1].get_xlim() and axes[0].get_ylim() == axes[1].get_ylim()
    for ax, batches in zip(axes, ways.values(), strict=True):
        (image,) = ax.images
        assert np.array_equal(image.get_array(), packed(batches, 1))
        left, right, low, high = image.get_extent()
        assert (high - low, right - left) == image.get_array().shape[:2]
        assert right <= ax.get_xlim()[1] and high <= ax.get_ylim()[1]


def test_a_thick_line_is_the_mean_of_the_thin_ones():
    curves = {
        "alike": [{25: 0.0, 50: 0.25}, {25: 0.5, 50: 0.75}],
        "random": [{25: 0.25, 50: 1.0}, {25: 0.75, 50: 1.0}],
    }
    (ax,) = learning_by_batches(curves, "Found").axes
    drawn = {
        line.get_label(): line.get_ydata() for line in ax.lines if line.get_label() in curves
    }
    assert {name: list(ys) for name, ys in drawn.items()} == {
        "alike": [0.25, 0.5], "random": [0.5, 1.0],
    }
    assert len(ax.lines) == 6 and len({line.get_color() for line in ax.lines}) == 2
    assert {text.get_text() for text in ax.texts} == set(curves)
    low, high = ax.get_ylim()
    assert low < 0 and high > 1


@given(corpora, st.integers(0, 99), st.integers(12, 97))
def test_the_chance_that_a_page_gets_makes_the_packages_batches(pairs, seed, budget):
    """Sorted by these numbers, cut, and in order of the ranks: the package's plan."""
    data = packing(pairs, seed)
    longer = [max(a, b) for a, b in data["pairs"]]
    excess = [(a - b) * (1 - 2 * (long % 2)) for (a, b), long in zip(data["pairs"], longer)]
    sign = [1 - 2 * (long % 2) for long in longer]
    keys = [
        (long, e + s * bits[1] / 65_536)
        for long, e, s, bits in zip(longer, excess, sign, data["bits"])
    ]
    batches, width = [], 0
    for place in sorted(range(len(pairs)), key=keys.__getitem__):
        width = max(width, 1 + longer[place])
        if batches and width * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(place)
        else:
            batches.append([place])
            width = 1 + longer[place]
    order = sorted(range(len(batches)), key=data["ranks"].__getitem__)
    plan = batch_plan(pair_lengths(pairs), budget, seed)
    assert [batches[i] for i in order] == [places.tolist() for places in plan]
