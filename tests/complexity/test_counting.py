"""Formulas equal what is counted while PyTorch runs; the table's orders follow from them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from annotated.complexity import (
    GRU,
    LSTM,
    Convolution,
    Cost,
    DilatedConvolution,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
    counted,
    product_chain,
    separable_identity,
)
from annotated.complexity.counting import run_counts

few = settings(max_examples=20, deadline=None)


class TestCost:
    @few
    @given(n=st.integers(1, 43), d=st.sampled_from([2, 6, 10, 22]))
    def test_the_formula_is_what_runs(self, kind, n, d):
        layer = kind(d)
        assert layer.cost(n) == counted(layer, n)

    def test_the_tables_terms_and_those_it_leaves_out(self):
        n, d, k, r = 35, 64, 3, 5
        terms = {
            SelfAttention(d): (2 * n * n * d, 4 * n * d * d),
            Recurrent(d): (2 * n * d * d, 0),
            GRU(d): (6 * n * d * d, 0),
            LSTM(d): (8 * n * d * d, 0),
            Convolution(d, k): (k * n * d * d, 0),
            DilatedConvolution(d, k, 3): (k * n * d * d, 0),
            SeparableConvolution(d, k): (k * n * d + n * d * d, 0),
            RestrictedSelfAttention(d, r): (2 * (2 * r - 1) * n * d, 4 * n * d * d),  # 5 divides 35
        }
        for layer, (mixing, projections) in terms.items():
            assert layer.cost(n)[:2] == (mixing, projections)
            assert layer.cost(n).products == mixing + projections

    @pytest.mark.parametrize("d", [64, 512])
    def test_where_self_attention_and_recurrence_cost_the_same(self, d):
        attention = SelfAttention(d)
        assert attention.cost(d).mixing == Recurrent(d).cost(d).mixing
        assert attention.cost(2 * d).products == LSTM(d).cost(2 * d).products
        assert attention.cost(d).products == GRU(d).cost(d).products
        assert attention.cost(1).products > Recurrent(d).cost(1).products

    def test_restricted_saves_work_where_the_sequence_is_longer_than_the_blocks(self):
        near, full = RestrictedSelfAttention(64, r=31), SelfAttention(64)
        assert near.cost(31 * 31).mixing < 0.07 * full.cost(31 * 31).mixing
        assert near.cost(62).mixing / near.cost(31).mixing == 2

    @few
    @given(n=st.integers(2, 30), d=st.sampled_from([2, 7, 22]))
    def test_a_separable_convolution_over_all_places(self, n, d):
        """§4: as much as self-attention and a feed-forward network, up to the factor 2 of both."""
        found = separable_identity(n, d)
        assert found["separable"] == n * n * d + n * d * d
        assert found["self-attention"] == 2 * n * n * d
        assert found["feed-forward"] == 2 * n * d * d

    def test_pytorchs_flop_counter_says_twice_as_many(self, kind):
        layer = kind(22)
        with torch.no_grad(), FlopCounterMode(display=False) as flops:
            layer(torch.ones(1, 13, 22))
        assert flops.get_total_flops() == 2 * layer.cost(13).products

    def test_what_is_counted_of_a_run_that_is_known(self):
        a, b = torch.ones(3, 5), torch.ones(5, 7)
        products, elementwise = run_counts(lambda: ((a @ b).T * 2 + 1).clone())
        assert (products, elementwise) == (3 * 5 * 7, 2 * 3 * 7)
        assert Cost(5, 7, 11).products == 12


class TestSequential:
    @pytest.mark.parametrize("n", [2, 3, 5, 13, 64])
    def test_the_longest_chain_of_products(self, kind, n):
        layer = kind(6)
        assert product_chain(layer(torch.ones(1, n, 6))) == layer.sequential(n)

    def test_only_recurrences_get_longer_with_n(self, kinds):
        for kind in kinds:
            layer = kind(6)
            recurrent = isinstance(layer, Recurrent)
            assert (layer.sequential(1000) == 1000) == recurrent, layer
            assert (layer.sequential(1000) == layer.sequential(2)) != recurrent

    def test_a_chain_that_is_known(self):
        w = torch.ones(3, 3, requires_grad=True)
        both = (w @ w) @ torch.ones(3, 3)
        assert product_chain((both.tanh() + w) @ w) == 3
        assert product_chain(w.tanh()) == 0

    def test_without_a_graph_there_is_nothing_to_read(self):
        with pytest.raises(ValueError, match="^the output has no graph"):
            product_chain(torch.ones(3))
