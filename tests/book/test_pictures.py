"""How far two pictures may differ before nbval, with our plugin, calls them different."""

import numpy as np
import pytest
from pages.nbval_plugin import SHADE, difference


def blank(height=100, width=130):
    return np.full((height, width, 4), 200, dtype=np.int16)


@pytest.mark.parametrize(
    ("pixels", "shade", "same"),
    [
        (0, 0, True),
        (13_000, SHADE, True),  # every pixel, a little: another rounding
        (13, 200, True),  # one in a thousand, much: the edge of a line
        (14, 200, False),
        (400, SHADE + 1, False),  # a small bar in a light colour
    ],
)
def test_tolerance(pixels, shade, same):
    new = blank()
    new.reshape(-1, 4)[:pixels, 1] -= shade
    assert (difference(new, blank()) is None) is same


def test_another_size():
    assert difference(blank(), blank(100, 131)) == (
        "the stored picture has 131x100 pixels, the new one 130x100"
    )
