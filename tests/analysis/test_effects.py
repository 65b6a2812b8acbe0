"""The interval of an effect is Wilson's, and it is printed rounded outwards."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated.analysis.effects import Effect


@st.composite
def effects(draw):
    total = draw(st.integers(1, 10**6))
    return Effect(draw(st.integers(0, total)), total)


class TestEffect:
    @given(effects())
    def test_the_interval_holds_the_share_and_stays_within_0_and_1(self, effect):
        assert 0 <= effect.low <= effect.share <= effect.high <= 1
        assert effect.low < effect.high
        assert (effect.low == 0) == (effect.changed == 0)
        assert (effect.high == 1) == (effect.changed == effect.total)

    @given(effects(), st.integers(2, 1000))
    def test_it_narrows_with_the_number_of_sentences(self, effect, times):
        more = Effect(times * effect.changed, times * effect.total)
        assert more.high - more.low < effect.high - effect.low

    @given(effects())
    def test_what_stayed_has_the_mirrored_interval(self, effect):
        stayed = Effect(effect.total - effect.changed, effect.total)
        assert stayed.low == pytest.approx(1 - effect.high, abs=1e-12)
        assert stayed.high == pytest.approx(1 - effect.low, abs=1e-12)

    @given(st.integers(1, 10**4).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_its_ends_are_wilsons(self, counts):
        """The p with (k/n - p)² = z² p (1 - p) / n, as roots of a polynomial in p."""
        k, n = counts
        z = 1.959963984540054  # of the normal distribution, 2.5 % lie above
        roots = np.roots([1 + z**2 / n, -(2 * k / n + z**2 / n), (k / n) ** 2])
        found = Effect(k, n)
        assert [found.low, found.high] == pytest.approx(sorted(roots.real), abs=1e-7)

    @pytest.mark.parametrize(
        "changed, total, low, high",
        [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0000, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ],
    )
    def test_published_values(self, changed, total, low, high):
        """Newcombe (1998), Statistics in Medicine 17, 857-872: table I, method 3."""
        found = Effect(changed, total)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)

    def test_95_of_100_intervals_hold_the_true_share(self):
        """Exactly, from the binomial distribution of 200 sentences, over many true shares."""
        n = 200
        ends = [(Effect(k, n).low, Effect(k, n).high) for k in range(n + 1)]
        ways = [math.comb(n, k) for k in range(n + 1)]
        covered = [
            sum(
                ways[k] * p**k * (1 - p) ** (n - k)
                for k, (low, high) in enumerate(ends)
                if low <= p <= high
            )
            for p in np.linspace(0.005, 0.995, 199)
        ]
        assert 0.945 < np.mean(covered) < 0.955
        assert min(covered) > 0.9

    @pytest.mark.parametrize(
        "changed, total, text",
        [
            (193, 200, "≈ 193 of 200 (≈ 92 to ≈ 99 %)"),  # 0.9295 to 0.9829
            (0, 300, "≈ 0 of 300 (≈ 0 to ≈ 2 %)"),
            (300, 300, "≈ 300 of 300 (≈ 98 to ≈ 100 %)"),
            (202, 900, "≈ 202 of 900 (≈ 19 to ≈ 26 %)"),
        ],
    )
    def test_printed_the_ends_are_rounded_outwards(self, changed, total, text):
        assert str(Effect(changed, total)) == text

    @given(st.lists(st.booleans(), min_size=1))
    def test_of_counts_what_is_true_in_lists_tensors_and_iterators(self, flags):
        expected = Effect(sum(flags), len(flags))
        for form in (flags, torch.tensor(flags), iter(flags), np.array(flags)):
            assert Effect.of(form) == expected

    def test_of_nothing_is_refused(self):
        with pytest.raises(ValueError, match="changed is 0 of 0; expected"):
            Effect.of([])

    @pytest.mark.parametrize("changed, total", [(0, 0), (3, 2), (-1, 5), (0, -1)])
    def test_counts_that_cannot_be_are_refused(self, changed, total):
        with pytest.raises(ValueError) as error:
            Effect(changed, total)
        assert str(error.value) == (
            f"changed is {changed} of {total}; expected 0 to total, and a total of at least 1"
        )
