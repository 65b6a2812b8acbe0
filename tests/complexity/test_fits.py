"""Exponents are those of power laws; intervals hold them as often as they say."""

import math

import numpy as np
import pytest

from annotated.complexity.fits import crossing, deviations, exponents, local_slopes, student

GRID = [(n, d) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
SIZES = {"n": [n for n, _ in GRID], "d": [d for _, d in GRID]}


def test_a_power_law_is_found_exactly():
    found = exponents(SIZES, [3e-9 * n**2 * d for n, d in GRID])
    assert found["n"].value == pytest.approx(2) and found["d"].value == pytest.approx(1)
    assert found["n"].high - found["n"].low < 1e-9


def test_the_interval_holds_the_truth_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        noise = np.exp(rng.normal(0, 0.2, len(GRID)))
        n = exponents(SIZES, [n**2 * d * e for (n, d), e in zip(GRID, noise)])["n"]
        assert n.low < n.value < n.high
        held += n.low <= 2 <= n.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.30265), (5, 2.57058), (10, 2.22814), (60, 2.0003)]
)
def test_students_distribution(freedom, t):
    assert student(freedom, 0.95) == pytest.approx(t, rel=1e-4)


def test_deviations_are_how_many_times_as_much_as_the_power_law():
    times = [3e-9 * n**2 * d for n, d in GRID]
    assert deviations(SIZES, times) == pytest.approx([1.0] * len(GRID))
    times[5] *= 2
    off = deviations(SIZES, times)
    assert max(off) == off[5] > 1.3 and math.prod(off) == pytest.approx(1)


def test_local_slopes_are_those_between_neighbours():
    found = local_slopes([2, 4, 12, 24], [5.0, 20.0, 20.0 * 27, 20.0 * 27])
    assert found == pytest.approx([2, 3, 0])


@pytest.mark.parametrize("sizes", [{"n": [1, 2]}, {"n": [1, 2, 4, 8], "d": [1, 2, 4, 8]}])
def test_what_can_not_be_told_apart_is_refused(sizes):
    with pytest.raises(ValueError, match="expected more of them"):
        exponents(sizes, sizes["n"])


class TestCrossing:
    def test_of_two_power_laws(self):
        sizes = [16, 64, 256, 1024]
        found = crossing(sizes, [2 * n**2 for n in sizes], [200 * n for n in sizes])
        assert found == pytest.approx(100)

    def test_where_there_is_none(self):
        assert crossing([1, 2, 4], [1, 1, 1], [2, 2, 2]) is None
        assert crossing([1, 2, 4], [2, 2, 2], [1, 1, 1]) == 1
        assert crossing([1, 2, 4], [2, 1, 2], [1, 2, 1]) == pytest.approx(2 * math.sqrt(2))
