"""§5.3, eq. 3 against reference values, and its shape: up in a line, down as 1/√step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.training import learning_rate

BASE = {"d_model": 512, "warmup_steps": 4000}

steps = st.integers(1, 10**6)
warmups = st.integers(1, 20_000)
widths = st.integers(1, 2048)


@pytest.mark.parametrize(
    ("step", "d_model", "rate"),
    [
        (1, 512, 1.746928e-7),
        (4000, 512, 6.987712e-4),
        (100_000, 512, 1.397542e-4),
        (4000, 1024, 4.941059e-4),
        (300_000, 1024, 5.705443e-5),
    ],
)
def test_reference_values_of_the_base_and_the_big_model(step, d_model, rate):
    assert learning_rate(step, d_model, 4000) == pytest.approx(rate, rel=1e-6)


@given(steps, widths, warmups, st.floats(0.01, 100))
def test_the_formula(step, d_model, warmup, factor):
    expected = min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3) / math.sqrt(d_model)
    found = learning_rate(step, d_model, warmup, factor)
    assert found == pytest.approx(factor * expected, rel=1e-12)


@given(widths, warmups)
def test_it_is_largest_where_warm_up_ends_and_both_branches_meet(d_model, warmup):
    peak = learning_rate(warmup, d_model, warmup)
    assert peak == pytest.approx(1 / math.sqrt(d_model * warmup), rel=1e-12)
    for step in (warmup - 1, warmup + 1):
        if step:
            assert learning_rate(step, d_model, warmup) < peak


@given(st.integers(1, 4000), st.integers(4000, 10**6))
def test_it_rises_in_a_line_and_falls_with_the_root(early, late):
    first = learning_rate(1, **BASE)
    assert learning_rate(early, **BASE) == pytest.approx(early * first, rel=1e-12)
    assert learning_rate(4 * late, **BASE) == pytest.approx(learning_rate(late, **BASE) / 2)


@pytest.mark.parametrize("step", [0, -1, -4000])
def test_steps_count_from_1(step):
    with pytest.raises(ValueError, match=rf"^step is {step}; the first update is step 1$"):
        learning_rate(step, **BASE)
