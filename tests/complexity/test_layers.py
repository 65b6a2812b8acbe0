"""The layers are what their formulas say, and their kernels give the same numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated import paper
from annotated.complexity import (
    Convolution,
    DilatedConvolution,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
)
from annotated.complexity.layers import band
from annotated.model import scaled_dot_product_attention

few = settings(max_examples=30, deadline=None)
sizes = st.sampled_from([1, 2, 3, 5, 7, 11, 13, 23])
seeds = st.integers(0, 2**31)


def made(kind, d=22, seed=0):
    torch.manual_seed(seed)
    return kind(d).double()


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def assert_close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


class TestAll:
    @few
    @given(n=sizes, batch=st.sampled_from([1, 3]), seed=seeds)
    def test_the_kernel_gives_what_the_formula_gives(self, kind, n, batch, seed):
        layer, x = made(kind, seed=seed), normal(batch, n, 22, seed=seed)
        y = layer(x)
        assert y.shape == x.shape
        assert_close(layer(x, fused=True), y)

    def test_gradients_too(self, kind):
        layer, x = made(kind), normal(2, 11, 22).requires_grad_()
        weights = [x, *layer.parameters()]
        ours, theirs = (
            torch.autograd.grad(layer(x, fused).square().sum(), weights) for fused in (False, True)
        )
        for a, b in zip(ours, theirs):
            assert a.abs().max() > 0
            assert_close(a, b)

    def test_a_sequence_alone_is_as_in_a_batch(self, kind):
        layer, x = made(kind), normal(3, 7, 22)
        assert_close(torch.cat([layer(one[None]) for one in x]), layer(x))

    def test_no_layer_has_biases_and_each_belongs_to_a_row_of_the_table(self, kinds):
        rows = set()
        for kind in kinds:
            layer = made(kind)
            rows.add(layer.row)
            assert all(p.dim() > 1 for p in layer.parameters())
        assert rows == set(paper.TABLE_1)

    def test_heads_are_as_wide_as_the_papers(self):
        assert SelfAttention(512).heads == paper.BASE.heads
        assert SelfAttention(64).heads == SelfAttention(32).heads == 1


class TestRestricted:
    @few
    @given(n=st.integers(1, 41), r=st.sampled_from([3, 5, 7, 13]), seed=seeds)
    def test_it_is_full_attention_under_a_banded_mask(self, n, r, seed):
        torch.manual_seed(seed)
        layer, x = RestrictedSelfAttention(22, r, heads=2).double(), normal(2, n, 22, seed=seed)
        query, keys, values = layer.before(x)
        apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
        full, _ = scaled_dot_product_attention(query, keys, values, apart <= r // 2)
        assert_close(layer(x), layer.after(full))

    @few
    @given(n=st.integers(1, 41), r=st.sampled_from([3, 5, 7]))
    def test_a_query_sees_r_keys_fewer_only_at_the_ends(self, n, r):
        seen = band(n, r).sum(-1).flatten()[:n].tolist()
        assert seen == [min(t + r // 2, n - 1) - max(t - r // 2, 0) + 1 for t in range(n)]

    def test_a_band_as_wide_as_the_sequence_hides_nothing(self):
        torch.manual_seed(0)
        near, full = RestrictedSelfAttention(22, 13, 2).double(), SelfAttention(22, 2).double()
        full.load_state_dict(near.state_dict())
        x = normal(2, 7, 22)
        assert_close(near(x), full(x))

    @pytest.mark.parametrize("r", [0, 1, 4])
    def test_a_window_without_a_middle_is_refused(self, r):
        with pytest.raises(ValueError, match=f"^r is {r}; expected an odd number from 3"):
            RestrictedSelfAttention(22, r)


class TestRecurrent:
    def test_tanh_of_both(self):
        layer, x = made(Recurrent, d=3), normal(1, 5, 3)
        w, u = layer.rnn.weight_ih_l0, layer.rnn.weight_hh_l0
        h = torch.zeros(3).double()
        for x_t, y_t in zip(x[0], layer(x)[0]):
            h = torch.tanh(w @ x_t + u @ h)
            assert_close(y_t, h)

    def test_n_sweeps_of_every_step_at_once_are_the_recurrence(self):
        layer, x = made(Recurrent), normal(2, 7, 22)
        states = torch.zeros_like(x)
        for sweep in range(7):
            states = layer.sweep(x, states)
            assert_close(states[:, : sweep + 1], layer(x)[:, : sweep + 1])
            assert sweep == 6 or (states - layer(x)).abs().max() > 1e-6


class TestConvolution:
    @few
    @given(
        n=sizes, k=st.sampled_from([2, 3, 5]), dilation=st.sampled_from([1, 2, 3]),
        causal=st.booleans(), seed=seeds,
    )
    def test_a_sum_over_k_places(self, n, k, dilation, causal, seed):
        if k == 2 and not causal:
            return
        torch.manual_seed(seed)
        layer, x = Convolution(7, k, dilation, causal).double(), normal(1, n, 7, seed=seed)
        first = -(k - 1) if causal else -(k // 2)
        expected = torch.zeros_like(x)
        for t in range(n):
            for j in range(k):
                place = t + (first + j) * dilation
                if 0 <= place < n:
                    expected[0, t] += layer.weight[..., j] @ x[0, place]
        assert_close(layer(x), expected)

    def test_separable_is_a_convolution_of_each_component_then_a_matrix(self):
        layer, x = made(lambda d: SeparableConvolution(d, k=7), d=5), normal(1, 11, 5)
        whole = Convolution(5, k=7).double()
        with torch.no_grad():
            whole.weight.copy_(
                torch.einsum("oc,ck->ock", layer.pointwise.weight, layer.weight[:, 0])
            )
        assert_close(layer(x), whole(x))

    @pytest.mark.parametrize(
        ("k", "causal", "expected"), [(3, True, [1, 3, 9, 27]), (5, False, [1, 3, 9, 27])]
    )
    def test_dilations_grow_by_as_many_places_as_lie_on_one_side(self, k, causal, expected):
        made = [DilatedConvolution(2, k, i, causal).dilation for i in range(4)]
        assert made == expected

    @pytest.mark.parametrize("k", [1, 2, 4])
    def test_an_even_kernel_has_no_middle(self, k):
        with pytest.raises(ValueError, match=f"^k is {k}; expected an odd number from 3"):
            Convolution(22, k)
