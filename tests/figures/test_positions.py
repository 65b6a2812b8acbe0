"""What is drawn of positions are the numbers that were given."""

import torch

from annotated.analysis.positions import frequencies, rotation
from annotated.figures.positions import (
    changed_by_shift,
    positions_map,
    products_by_offset,
    turned,
)
from annotated.model import sinusoidal_encoding


def test_the_map_is_the_encoding_on_one_signed_scale():
    table = sinusoidal_encoding(7, 22)
    (ax,) = positions_map(table, "t").axes
    (image,) = ax.images
    assert torch.equal(torch.tensor(image.get_array()), table)
    assert image.get_clim() == (-1, 1) and image.get_cmap().name == "signed"
    assert ax.get_xlabel() == "channel, 0 to 21"


def test_products_of_each_position_have_their_own_mark():
    products = {3: torch.tensor([2.0, 1.0]), 11: torch.tensor([2.0, 0.5])}
    (ax,) = products_by_offset(products, "t").axes
    first, _, second, _ = ax.lines  # each with its mark beside its name
    assert [list(line.get_ydata()) for line in (first, second)] == [[2.0, 1.0], [2.0, 0.5]]
    assert first.get_marker() != second.get_marker() and first.get_linestyle() == "None"
    labels = [text.get_text() for text in ax.texts]
    assert labels == ["from position 3", "from position 11"]


def test_the_matrix_that_turns_is_drawn_with_what_it_leaves():
    angle = torch.arange(37).double()[:, None] * frequencies(22)
    encoding = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    turn = rotation(5, 22)
    left, right = turned(turn, encoding, 5, "t", shown=6).axes
    assert torch.equal(torch.tensor(left.images[0].get_array()), turn[:6, :6])
    before, after = (torch.tensor(line.get_ydata()) for line in right.lines)
    assert len(before) == len(after) == 32
    assert torch.allclose(before, (encoding[5:] - encoding[:-5]).abs().amax(1))
    assert after.max() < 1e-14 < 0.1 < before.min()
    assert [text.get_text() for text in right.texts] == [
        "PE(pos + 5) − PE(pos)", "PE(pos + 5) − R PE(pos)",
    ]


def test_two_sides_are_told_apart_without_colour_too():
    changed = {"source": {1: 0, 5: 31}, "target": {1: 2, 5: 3}}
    (ax,) = changed_by_shift(changed, 37, "t").axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert lines == [([1, 5], [0, 31]), ([1, 5], [2, 3])]
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
    assert [text.get_text() for text in ax.texts] == ["source", "target"]
    assert ax.get_ylabel() == "changed of 37"
