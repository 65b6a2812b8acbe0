"""Additive attention against loops over its formula, and what holds for any attention."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from annotated.contenders import additive_attention
from annotated.model import causal_mask, scaled_dot_product_attention

few = settings(max_examples=25, deadline=None)
sizes = st.sampled_from([1, 2, 3, 5, 7, 11])
seeds = st.integers(0, 2**31)
assert_close = torch.testing.assert_close


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)


def parts(batch=(3, 2), n=5, m=7, d_q=11, d_k=13, d_v=3, d_a=17, seed=0):
    """q, K, V, W_q, W_k and w; every size another prime."""
    shapes = [(*batch, n, d_q), (*batch, m, d_k), (*batch, m, d_v), (d_q, d_a), (d_k, d_a), (d_a,)]
    return [normal(*shape, seed=seed + i) for i, shape in enumerate(shapes)]


def random_mask(*shape, seed=0):
    """About half True, at least one key a row."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
    return (torch.rand(*shape, generator=generator) < 0.5).scatter(-1, first, True)


def naive(query, key, value, w_q, w_k, w, mask=None):
    """The formula for one query after the other, in floats and lists, without the package."""
    outputs, rows = [], []
    for i, q in enumerate(query):
        allowed = [j for j in range(len(key)) if mask is None or mask[i, j]]
        scores = {}
        for j in allowed:
            hidden = [
                math.tanh(
                    sum(float(q[a] * w_q[a, u]) for a in range(len(q)))
                    + sum(float(key[j, b] * w_k[b, u]) for b in range(key.shape[1]))
                )
                for u in range(len(w))
            ]
            scores[j] = sum(float(w[u]) * hidden[u] for u in range(len(w)))
        total = sum(math.exp(score) for score in scores.values())
        row = [math.exp(scores[j]) / total if j in scores else 0.0 for j in range(len(key))]
        rows.append(row)
        outputs.append([
            sum(share * float(v) for share, v in zip(row, value[:, c]))
            for c in range(value.shape[1])
        ])
    return [torch.tensor(x, dtype=torch.float64) for x in (outputs, rows)]


class TestFormula:
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize(("n", "m"), [(3, 5), (5, 3), (1, 7), (2, 1)])
    def test_equals_a_loop(self, n, m, masked):
        given = parts((), n, m, 2, 3, 2, 5)
        mask = random_mask(n, m) if masked else None
        output, weights = additive_attention(*given, mask)
        expected, rows = naive(*given, mask)
        assert_close(output, expected)
        assert_close(weights, rows)

    def test_numbers_that_a_hand_can_check(self):
        """tanh(0.5 ln 3) = 1/2; w = 2 ln 2 makes scores ln 2, 0 and −ln 2."""
        half = 0.5 * math.log(3)
        key = torch.tensor([[half], [0.0], [-half]], dtype=torch.float64)
        one = torch.ones(1, 1, dtype=torch.float64)
        w = torch.tensor([2 * math.log(2)], dtype=torch.float64)
        value = torch.tensor([[7.0], [14.0], [28.0]], dtype=torch.float64)
        output, weights = additive_attention(0 * one, key, value, one, one, w)
        assert_close(weights, torch.tensor([[4, 2, 1]], dtype=torch.float64) / 7)
        assert_close(output, torch.full_like(one, 12.0))

    @few
    @given(batch=st.sampled_from([(), (1,), (2, 3)]), n=sizes, m=sizes, seed=seeds)
    def test_batch_axes_are_many_calls_in_one(self, batch, n, m, seed):
        query, key, value, *learned = parts(batch, n, m, 3, 5, 2, 7, seed)
        output, weights = additive_attention(query, key, value, *learned)
        assert output.shape == (*batch, n, 2) and weights.shape == (*batch, n, m)
        flat = [x.flatten(0, -3) if batch else x[None] for x in (query, key, value)]
        alone = [additive_attention(*x, *learned)[0] for x in zip(*flat)]
        assert_close(output, torch.stack(alone).view_as(output))

    def test_the_inputs_stay_as_they_were(self):
        """The tanh is taken in place: never on what the caller holds."""
        given = parts()
        before = [x.clone() for x in given]
        additive_attention(*given)
        for x, was in zip(given, before):
            assert torch.equal(x, was)


class TestWeights:
    @few
    @given(n=sizes, m=sizes, seed=seeds, masked=st.booleans())
    def test_rows_are_shares_of_one(self, n, m, seed, masked):
        mask = random_mask(3, 2, n, m, seed=seed) if masked else None
        _, weights = additive_attention(*parts(n=n, m=m, seed=seed), mask)
        assert (weights >= 0).all()
        assert_close(weights.sum(-1), torch.ones(3, 2, n, dtype=torch.float64))

    @few
    @given(n=sizes, m=sizes, seed=seeds)
    def test_masked_keys_are_as_if_they_were_not_there(self, n, m, seed):
        query, key, value, *learned = parts((), n, m, seed=seed)
        kept = random_mask(m, seed=seed)
        output, weights = additive_attention(query, key, value, *learned, kept.expand(n, m))
        assert (weights[:, ~kept] == 0).all()
        shorter, _ = additive_attention(query, key[kept], value[kept], *learned)
        assert_close(output, shorter)

    def test_a_mask_broadcasts_and_can_be_causal(self):
        given = parts((3, 2), 5, 5)
        _, weights = additive_attention(*given, causal_mask(5))
        assert (weights.triu(1) == 0).all() and (weights[..., 0, 0] == 1).all()

    def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(self):
        given = [x.requires_grad_() for x in parts()]
        mask = random_mask(5, 7)
        mask[2] = False
        output, weights = additive_attention(*given, mask)
        assert (output[..., 2, :] == 0).all() and (weights[..., 2, :] == 0).all()
        output.square().sum().backward()
        assert all(x.grad.isfinite().all() for x in given)
        assert (given[0].grad[..., 2, :] == 0).all()

    @few
    @given(n=sizes, m=sizes, seed=seeds)
    def test_keys_and_values_are_a_bag(self, n, m, seed):
        query, key, value, *learned = parts((), n, m, seed=seed)
        order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
        output, weights = additive_attention(query, key, value, *learned)
        same, moved = additive_attention(query, key[order], value[order], *learned)
        assert_close(same, output)
        assert_close(moved, weights[:, order])

    def test_more_in_every_key_is_noticed_unlike_by_a_dot_product(self):
        query, key, value, *learned = parts(d_q=13)
        more = normal(13, seed=31)
        _, before = additive_attention(query, key, value, *learned)
        _, after = additive_attention(query, key + more, value, *learned)
        assert (after - before).abs().max() > 0.1
        _, before = scaled_dot_product_attention(query, key, value)
        _, after = scaled_dot_product_attention(query, key + more, value)
        assert_close(after, before)


class TestGradients:
    def test_they_are_those_of_the_formula(self):
        given = [x.requires_grad_() for x in parts((2,), 3, 2, 3, 2, 2, 3)]
        mask = random_mask(2, 3, 2)
        assert torch.autograd.gradcheck(lambda *x: additive_attention(*x, mask), given)

    def test_all_six_get_one(self):
        given = [x.requires_grad_() for x in parts()]
        additive_attention(*given)[0].square().sum().backward()
        assert all((x.grad != 0).any() for x in given)


class TestErrors:
    @pytest.mark.parametrize(
        "mask", [torch.ones(7, 5).bool(), torch.ones(5, 7), torch.ones(7).bool()]
    )
    def test_a_mask_that_does_not_fit_is_refused(self, mask):
        """Ours answers, not the run-time check of shapes, which users do not have."""
        with pytest.raises(ValueError, match="^mask is torch"):
            inspect.unwrap(additive_attention)(*parts(), mask)

    def test_shapes_are_checked_in_tests(self):
        query, key, value, w_q, w_k, w = parts()
        with pytest.raises(TypeCheckError):
            additive_attention(query, key, value, w_q.T, w_k, w)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_other_precisions_come_near(self, dtype):
        given = parts()
        exact, _ = additive_attention(*given)
        output, weights = additive_attention(*(x.to(dtype) for x in given))
        assert output.dtype == weights.dtype == dtype
        assert_close(output.double(), exact, atol=0.1 if dtype != torch.float32 else 1e-5, rtol=0.1)
