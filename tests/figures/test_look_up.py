"""The soft look-up shows the weights it is given, and its slide is a straight line."""

import math

import pytest
import torch
from matplotlib.colors import to_hex

from annotated.analysis.look_up import hard_weights, slide
from annotated.figures.look_up import soft_look_up
from annotated.figures.style import LINE

KEYS = ["three", "forty", "-", "two", "EOS"]


@pytest.fixture
def scores():
    """Of 31 queries that slide from the second key to the fourth."""
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(5, 7, generator=generator)
    return slide(3 * keys[1], 3 * keys[3], 31) @ keys.T / math.sqrt(7)


def heights(ax):
    """Each area's share of one along the slide: upper edge less lower edge."""
    found = []
    for area in ax.collections:
        edges = area.get_paths()[0].vertices
        upper, lower = {}, {}
        for x, y in edges:
            upper[round(float(x), 6)] = max(y, upper.get(round(float(x), 6), 0.0))
            lower[round(float(x), 6)] = min(y, lower.get(round(float(x), 6), 1.0))
        found.append([upper[x] - lower[x] for x in sorted(upper)])
    return torch.tensor(found, dtype=torch.float32)


def test_areas_are_the_weights_in_their_order(scores):
    """Named keys each for themselves, the rest as one area on top."""
    soft = scores.softmax(-1)
    fig = soft_look_up({"hard": hard_weights(scores), "soft": soft}, KEYS, "a", "b", "Found")
    named = [i for i in range(5) if max(soft[:, i].max(), hard_weights(scores)[:, i].max()) >= 0.15]
    rest = [i for i in range(5) if i not in named]
    drawn = heights(fig.axes[1])
    torch.testing.assert_close(drawn[: len(named)], soft[:, named].T, atol=1e-5, rtol=1e-4)
    if rest:
        torch.testing.assert_close(drawn[-1], soft[:, rest].sum(1), atol=1e-5, rtol=1e-4)
    labels = [area.get_label() for area in fig.axes[1].collections]
    assert labels == [KEYS[i] for i in named] + ["others"] * bool(rest)


def test_little_keys_are_drawn_together():
    weights = torch.tensor([[0.9, 0.05, 0.02, 0.02, 0.01], [0.05, 0.9, 0.02, 0.02, 0.01]])
    (ax,) = soft_look_up({"soft": weights}, KEYS, "a", "b", "Found").axes
    assert [area.get_label() for area in ax.collections] == ["three", "forty", "others"]
    torch.testing.assert_close(heights(ax)[-1], torch.tensor([0.05, 0.05]))


def test_a_key_has_one_colour_in_every_panel(scores):
    fig = soft_look_up({"hard": hard_weights(scores), "soft": scores.softmax(-1)},
                       KEYS, "a", "b", "Found")
    colours = [
        {a.get_label(): tuple(a.get_facecolor()[0]) for a in ax.collections} for ax in fig.axes
    ]
    assert colours[0] == colours[1] and len(set(colours[0].values())) == len(colours[0])


@pytest.mark.parametrize("little", [0, 1])
def test_of_many_keys_too_each_is_drawn_and_only_the_others_are_grey(little):
    weights = torch.eye(9 + little)[:9].double()
    (ax,) = soft_look_up({"hard": weights}, "abcdefghij"[: 9 + little], "a", "i", "Found").axes
    colours = [to_hex(area.get_facecolor()[0]) for area in ax.collections]
    assert len(colours) == 9 + little
    assert [place for place, colour in enumerate(colours) if colour == LINE] == [9] * little


def test_everything_is_named(scores):
    fig = soft_look_up({"hard": hard_weights(scores), "soft": scores.softmax(-1)},
                       KEYS, "a", "b", "Found")
    assert [ax.get_title("left") for ax in fig.axes] == ["hard", "soft"]
    assert [t.get_text() for t in fig.axes[-1].get_xticklabels()] == ["a", "half way", "b"]
    assert fig.axes[-1].get_xlabel() and fig.axes[0].get_ylabel() == "weight"
    for ax in fig.axes:
        for words in ax.texts:
            assert words.get_text() in [*KEYS, "others"]


def test_what_is_no_weights_is_refused(scores):
    with pytest.raises(ValueError, match="4 keys for weights of 5 in 'soft'"):
        soft_look_up({"soft": scores.softmax(-1)}, KEYS[1:], "a", "b", "Found")
    with pytest.raises(ValueError, match="rows of 'raw' must be weights that sum to 1"):
        soft_look_up({"raw": scores}, KEYS, "a", "b", "Found")
    with pytest.raises(ValueError, match="rows of 'more' must be weights that sum to 1"):
        soft_look_up({"more": 1.01 * scores.softmax(-1)}, KEYS, "a", "b", "Found")
