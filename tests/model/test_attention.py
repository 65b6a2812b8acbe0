"""§3.2.1-3.2.2 against the formula, PyTorch's functions and PyTorch's module."""

import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.model import (
    MultiHeadAttention,
    causal_mask,
    record_attention,
    scaled_dot_product_attention,
)

few = settings(max_examples=25, deadline=None)
sizes = st.sampled_from([1, 2, 3, 5, 7, 11])
seeds = st.integers(0, 2**31)

# How close a computation in this precision must come to the one in float64.
CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-12}


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def random_mask(*shape, seed=0, empty_rows=False):
    """Bool, about half True; at least one key a row unless rows may be empty."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(*shape, generator=generator) < 0.5
    if not empty_rows:
        first = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        mask = mask.scatter(-1, first, True)
    return mask


def assert_close(ours, theirs, tolerance):
    difference = (ours.double() - theirs.double()).abs()
    assert ours.shape == theirs.shape
    assert difference.max() <= tolerance, (
        f"max difference {difference.max():.3g}, mean {difference.mean():.3g}"
    )


def randomised(attention, dtype=torch.float64):
    """Weights and biases from N(0, 1/√fan-in): a zero bias would hide a lost one."""
    torch.manual_seed(11)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return attention.to(dtype).eval()


PATHS = {"fused": lambda attention: nullcontext(), "literal": record_attention}
path = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)


class TestScaledDotProduct:
    @few
    @given(batch=sizes, heads=sizes, n=sizes, m=sizes, d_k=sizes, d_v=sizes, seed=seeds)
    def test_equals_pytorch_without_a_mask(self, batch, heads, n, m, d_k, d_v, seed):
        q = normal(batch, heads, n, d_k, seed=seed)
        k, v = normal(batch, heads, m, d_k, seed=seed + 1), normal(batch, heads, m, d_v, seed=seed)
        output, weights = scaled_dot_product_attention(q, k, v)
        assert weights.shape == (batch, heads, n, m)
        assert_close(output, F.scaled_dot_product_attention(q, k, v), 1e-12)

    @few
    @given(
        n=sizes,
        m=sizes,
        seed=seeds,
        lead=st.sampled_from([(), (1,), (1, 1), (3, 1), (1, 2), (3, 2)]),
        one_row=st.booleans(),
    )
    def test_equals_pytorch_with_a_mask_that_broadcasts(self, n, m, seed, lead, one_row):
        q, k = normal(3, 2, n, 5, seed=seed), normal(3, 2, m, 5, seed=seed + 1)
        v = normal(3, 2, m, 7, seed=seed + 2)
        mask = random_mask(*lead, 1 if one_row else n, m, seed=seed)
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        assert_close(output, F.scaled_dot_product_attention(q, k, v, mask), 1e-12)

    @pytest.mark.parametrize("shape", [(), (2,), (2, 3), (2, 3, 5)], ids=str)
    def test_any_number_of_batch_axes(self, shape):
        q, k, v = normal(*shape, 7, 11), normal(*shape, 13, 11, seed=1), normal(*shape, 13, 3)
        output, weights = scaled_dot_product_attention(q, k, v)
        assert output.shape == (*shape, 7, 3)
        assert_close(output, weights @ v, 1e-12)
        assert_close(weights, (q @ k.mT / math.sqrt(11)).softmax(-1), 1e-12)

    def test_numbers_that_a_hand_can_check(self):
        # one query; scores 2 ln 2, 0, 0 after division by √4 = 2, so weights 4/6, 1/6, 1/6
        q = torch.tensor([[math.log(2), 0, 0, 0]], dtype=torch.float64)
        k = torch.tensor([[4.0, 0, 0, 0], [0, 3, 0, 0], [0, 0, 5, 0]], dtype=torch.float64)
        v = torch.tensor([[3.0, 0], [0, 6], [6, 6]], dtype=torch.float64)
        output, weights = scaled_dot_product_attention(q, k, v)
        assert_close(weights, torch.tensor([[4 / 6, 1 / 6, 1 / 6]]).double(), 1e-7)
        assert_close(output, torch.tensor([[3.0, 2.0]]), 1e-12)

    @few
    @given(n=sizes, m=sizes, seed=seeds)
    def test_weights_are_the_softmax_over_the_allowed_keys_and_exactly_zero_elsewhere(
        self, n, m, seed
    ):
        q, k, v = normal(n, 5, seed=seed), normal(m, 5, seed=seed + 1), normal(m, 3, seed=seed)
        mask = random_mask(n, m, seed=seed)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        assert (weights[~mask] == 0).all()
        assert_close(weights.sum(-1), torch.ones(n), 1e-12)
        for row in range(n):
            allowed = mask[row]
            _, alone = scaled_dot_product_attention(q[row : row + 1], k[allowed], v[allowed])
            assert_close(weights[row, allowed], alone[0], 1e-12)

    def test_softmax_runs_over_keys_not_over_queries(self):
        _, weights = scaled_dot_product_attention(
            normal(7, 5), normal(11, 5, seed=1), normal(11, 3)
        )
        assert_close(weights.sum(-1), torch.ones(7), 1e-12)
        assert (weights.sum(-2) - 7 / 11).abs().max() > 0.1

    @pytest.mark.parametrize("d_k", [16, 64, 512])
    def test_scores_have_variance_one_whatever_the_head_width(self, d_k):
        n = 199
        q, k = normal(n, d_k), normal(n, d_k, seed=1)
        _, weights = scaled_dot_product_attention(q, k, normal(n, 1))
        scores = weights.log()  # the scores less one number a row
        assert 0.9 < scores.var(-1).mean() < 1.1

    def test_without_the_scale_the_softmax_would_be_saturated(self):
        q, k, v = normal(101, 512), normal(10, 512, seed=1), normal(10, 2)
        _, scaled = scaled_dot_product_attention(q, k, v)
        _, raw = scaled_dot_product_attention(q * math.sqrt(512), k, v)
        assert scaled.amax(-1).mean() < 0.5 < 0.9 < raw.amax(-1).mean()

    def test_a_masked_key_and_its_value_have_no_influence_and_get_no_gradient(self):
        q, k = normal(3, 5), normal(7, 5, seed=1).requires_grad_()
        v = normal(7, 2, seed=2).requires_grad_()
        mask = torch.ones(1, 7, dtype=torch.bool)
        mask[0, [1, 4]] = False
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        output.square().sum().backward()
        for x in (k, v):
            assert (x.grad[[1, 4]] == 0).all()
            assert (x.grad[[0, 2, 3, 5, 6]] != 0).all()
        loud = k.detach().index_fill(0, torch.tensor([1, 4]), 1e6)
        assert torch.equal(scaled_dot_product_attention(q, loud, v, mask)[0], output)


class SoftmaxDtypes(TorchDispatchMode):
    """Collects the dtype of every softmax that is computed."""

    def __init__(self):
        super().__init__()
        self.dtypes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._softmax.default:
            self.dtypes.append(output.dtype)
        return output


class TestPrecision:
    @pytest.mark.parametrize("dtype", CLOSE, ids=str)
    @pytest.mark.parametrize("masked", [False, True])
    def test_every_dtype_is_finite_and_close_to_float64(self, dtype, masked):
        q, k = normal(2, 3, 7, 5, dtype=dtype), normal(2, 3, 11, 5, seed=1, dtype=dtype)
        v = normal(2, 3, 11, 13, seed=2, dtype=dtype)
        mask = random_mask(2, 1, 7, 11) if masked else None
        ours = scaled_dot_product_attention(q, k, v, mask)
        theirs = scaled_dot_product_attention(q.double(), k.double(), v.double(), mask)
        for mine, reference in zip(ours, theirs, strict=True):
            assert mine.dtype == dtype
            assert mine.isfinite().all()
            assert_close(mine, reference, CLOSE[dtype])

    @pytest.mark.parametrize("dtype", CLOSE, ids=str)
    def test_large_scores_stay_finite_under_a_mask(self, dtype):
        q, k = 40 * normal(7, 5, dtype=dtype), 40 * normal(11, 5, seed=1, dtype=dtype)
        mask = random_mask(7, 11)
        output, weights = scaled_dot_product_attention(q, k, normal(11, 3, dtype=dtype), mask)
        assert output.isfinite().all()
        assert (weights[~mask] == 0).all()
        assert_close(weights.sum(-1), torch.ones(7), 4 * CLOSE[dtype])

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
    def test_the_fill_is_below_every_score_that_the_dtype_can_hold(self, dtype):
        # all allowed scores are near -1e6: a fill of -1e4, say, would take the whole softmax
        q, k = torch.full((1, 1), -1000.0), torch.full((5, 1), 1000.0)
        mask = torch.tensor([[True, False, True, False, True]])
        _, weights = scaled_dot_product_attention(q.to(dtype), k.to(dtype), k.to(dtype), mask)
        assert_close(weights, mask.double() / 3, CLOSE[dtype])

    @pytest.mark.parametrize("dtype", CLOSE, ids=str)
    @pytest.mark.parametrize("masked", [False, True])
    def test_softmax_is_taken_in_float32_at_least(self, dtype, masked):
        x, mask = normal(7, 5, dtype=dtype), random_mask(7, 7) if masked else None
        with SoftmaxDtypes() as softmax:
            scaled_dot_product_attention(x, x, x, mask)
        assert softmax.dtypes == [torch.promote_types(dtype, torch.float32)]
        # 4099 equal weights: added up in half precision their sum would stop growing early
        q, k, v = torch.zeros(1, 3), torch.zeros(4099, 3), torch.ones(4099, 1)
        output, _ = scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype))
        assert output.item() == pytest.approx(1, abs=CLOSE[dtype])

    @pytest.mark.parametrize("dtype", CLOSE, ids=str)
    @path
    def test_both_paths_in_every_dtype(self, dtype, path):
        attention = randomised(MultiHeadAttention(10, 2, 5, 7), dtype)
        x, mask = normal(3, 7, 10, dtype=dtype), random_mask(3, 1, 7, 7)
        with torch.no_grad(), path(attention):
            ours = attention(x, None, mask)
        reference = attention.double()(x.double(), None, mask)
        assert ours.dtype == dtype
        assert_close(ours, reference, 4 * CLOSE[dtype])


class TestNothingToAttendTo:
    """A row whose mask is all False: zeros out, finite gradients, and no other row touched."""

    @pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning")
    @few
    @given(n=sizes, m=sizes, seed=seeds, row=st.integers(0, 10))
    def test_literal_function(self, n, m, seed, row):
        row %= n
        q, k, v = normal(n, 5, seed=seed), normal(m, 5, seed=seed + 1), normal(m, 3, seed=seed + 2)
        mask = random_mask(n, m, seed=seed)
        before, _ = scaled_dot_product_attention(q, k, v, mask)
        mask[row] = False
        inputs = [x.requires_grad_() for x in (q, k, v)]
        output, weights = scaled_dot_product_attention(*inputs, mask)
        others = [i for i in range(n) if i != row]
        assert (output[row] == 0).all()
        assert (weights[row] == 0).all()
        assert torch.equal(output[others], before[others])
        with torch.autograd.detect_anomaly(check_nan=True):
            output.square().sum().backward()
        assert all(x.grad.isfinite().all() for x in inputs)
        assert (q.grad[row] == 0).all()

    @few
    @given(n=sizes, seed=seeds, row=st.integers(0, 10))
    @pytest.mark.parametrize("dtype", CLOSE, ids=str)
    @path
    def test_both_paths(self, path, dtype, n, seed, row):
        row %= n
        attention = randomised(MultiHeadAttention(10, 2, 5, 7), dtype)
        x = normal(3, n, 10, seed=seed, dtype=dtype)
        mask = random_mask(3, 1, n, n, seed=seed)
        with path(attention):
            before = attention(x, None, mask).detach()
            mask[1, :, row] = False
            x.requires_grad_()
            output = attention(x, None, mask)
        output.square().sum().backward()
        changed = torch.zeros(3, n, dtype=torch.bool)
        changed[1, row] = True
        assert (output[changed] == 0).all()
        assert torch.equal(output[~changed], before[~changed])
        gradients = [x.grad, *(p.grad for p in attention.parameters())]
        assert all(g.isfinite().all() for g in gradients)

    @path
    def test_a_whole_batch_with_nothing_to_attend_to(self, path):
        attention = randomised(MultiHeadAttention(10, 2))
        x = normal(3, 5, 10).requires_grad_()
        with path(attention):
            output = attention(x, None, torch.zeros(3, 1, 1, 5, dtype=torch.bool))
        output.sum().backward()
        assert (output == 0).all()
        assert (x.grad == 0).all()

    @path
    def test_causal_and_padding_together_may_leave_the_first_rows_empty(self, path):
        attention = randomised(MultiHeadAttention(10, 2, causal=True))
        free = randomised(MultiHeadAttention(10, 2))
        x, mask = normal(1, 5, 10), torch.tensor([[[[False, False, True, True, True]]]])
        with path(attention), path(free):
            output = attention(x, None, mask)
            both = free(x, None, causal_mask(5) & mask)
        assert (output[:, :2] == 0).all()
        assert (output[:, 2:] != 0).all()
        assert torch.equal(output, both)


class TestMultiHead:
    @few
    @given(
        n=sizes,
        m=sizes,
        heads=st.sampled_from([1, 2, 3, 5]),
        d_k=sizes,
        d_v=sizes,
        bias=st.booleans(),
        seed=seeds,
    )
    def test_equals_a_loop_over_heads(self, n, m, heads, d_k, d_v, bias, seed):
        attention = randomised(MultiHeadAttention(13, heads, d_k, d_v, bias=bias))
        x, memory = normal(2, n, 13, seed=seed), normal(2, m, 13, seed=seed + 1)
        mask = random_mask(2, 1, n, m, seed=seed)

        def head(linear, i, inputs, width):
            rows = slice(i * width, (i + 1) * width)
            return F.linear(inputs, linear.weight[rows], linear.bias[rows] if bias else None)

        each = [
            scaled_dot_product_attention(
                head(attention.w_q, i, x, d_k),
                head(attention.w_k, i, memory, d_k),
                head(attention.w_v, i, memory, d_v),
                mask[:, 0],
            )[0]
            for i in range(heads)
        ]
        expected = attention.w_o(torch.cat(each, dim=-1))
        assert_close(attention(x, memory, mask), expected, 1e-12)

    @few
    @given(
        n=sizes,
        m=sizes,
        masked=st.booleans(),
        causal=st.booleans(),
        cross=st.booleans(),
        seed=seeds,
    )
    def test_two_paths_one_answer(self, n, m, masked, causal, cross, seed):
        attention = randomised(MultiHeadAttention(13, 3, 5, 7, causal=causal))
        x = normal(2, n, 13, seed=seed)
        memory = normal(2, m if not causal else n, 13, seed=seed + 1) if cross else None
        keys = x if memory is None else memory
        mask = random_mask(2, 1, 1, keys.shape[1], seed=seed, empty_rows=True) if masked else None
        fused = attention(x, memory, mask)
        with record_attention(attention) as seen:
            literal = attention(x, memory, mask)
        assert_close(fused, literal, 1e-12)
        assert list(seen) == [""]  # the attention is itself the root of its modules
        assert seen[""].shape == (2, 3, n, keys.shape[1])

    @pytest.mark.parametrize("n, m", [(3, 5), (5, 3)])
    @pytest.mark.parametrize("masked", [False, True])
    def test_causal_across_two_lengths_is_refused_on_both_paths(self, plain, n, m, masked):
        """Which key is "now" for a query is anybody's guess; the two paths would guess apart."""
        attention = plain.MultiHeadAttention(13, 3, 5, 7, causal=True)
        x, memory = torch.randn(2, n, 13), torch.randn(2, m, 13)
        mask = torch.ones(2, 1, 1, m, dtype=torch.bool) if masked else None
        for path in (nullcontext(), plain.record_attention(attention)):
            with path, pytest.raises(ValueError, match=rf"{n}.*{m}|{m}.*{n}"):
                attention(x, memory, mask)

    def test_causal_is_the_causal_mask(self):
        causal = randomised(MultiHeadAttention(13, 3, 5, 7, causal=True))
        free, x = randomised(MultiHeadAttention(13, 3, 5, 7)), normal(2, 7, 13)
        assert_close(causal(x), free(x, None, causal_mask(7)), 1e-12)
        padding = random_mask(2, 1, 1, 7, empty_rows=True)
        both = free(x, None, causal_mask(7) & padding)
        assert_close(causal(x, None, padding), both, 1e-12)

    def test_forward_is_attend_to_projected_memory(self):
        attention = randomised(MultiHeadAttention(13, 3, 5, 7))
        x, memory, mask = normal(2, 7, 13), normal(2, 11, 13, seed=1), random_mask(2, 1, 1, 11)
        keys, values = attention.keys_values(memory)
        assert keys.shape == (2, 3, 11, 5)
        assert values.shape == (2, 3, 11, 7)
        assert torch.equal(attention.attend(x, keys, values, mask), attention(x, memory, mask))
        assert torch.equal(attention(x), attention(x, x))

    @path
    def test_one_query_sees_every_key_it_is_given(self, path):
        attention = randomised(MultiHeadAttention(13, 3, 5, 7, causal=True))
        x = normal(2, 7, 13)
        with path(attention):
            last = attention.attend(x[:, -1:], *attention.keys_values(x), own=True)
            assert_close(last, attention(x)[:, -1:], 1e-12)

    def test_defaults_are_the_papers(self):
        attention = MultiHeadAttention(35, 5)
        shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
        assert shapes == {f"w_{x}.weight": (35, 35) for x in "qkvo"}
        assert (attention.dropout_p, attention.causal) == (0, False)
        with_bias = MultiHeadAttention(35, 5, bias=True)
        biases = {n for n, _ in with_bias.named_parameters()} - shapes.keys()
        assert biases == {f"w_{x}.bias" for x in "qkvo"}

    def test_head_widths_are_free(self):
        attention = MultiHeadAttention(13, 3, 5, 7)
        shapes = [tuple(getattr(attention, f"w_{x}").weight.shape) for x in "qkvo"]
        assert shapes == [(15, 13), (15, 13), (21, 13), (13, 21)]
        # Table 3 rows A: with heads x d_k fixed the count doesn't depend on the number of heads
        counts = {
            sum(p.numel() for p in MultiHeadAttention(64, h, 64 // h, 64 // h).parameters())
            for h in (1, 4, 16, 32)
        }
        assert counts == {4 * 64 * 64}

    def test_permuted_keys_give_the_same_answer(self):
        attention = randomised(MultiHeadAttention(13, 3, 5, 7))
        x, memory, order = normal(2, 7, 13), normal(2, 11, 13, seed=1), torch.randperm(11)
        assert_close(attention(x, memory), attention(x, memory[:, order]), 1e-12)

    @few
    @given(n=sizes, seed=seeds)
    def test_self_attention_does_not_know_the_order_unless_it_is_causal(self, n, seed):
        attention, x = randomised(MultiHeadAttention(13, 3, 5, 7)), normal(2, n, 13, seed=seed)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        assert_close(attention(x[:, order]), attention(x)[:, order], 1e-12)
        if n > 1:
            attention.causal = True
            turned = attention(x.flip(1)).flip(1)
            assert (turned - attention(x)).abs().max() > 1e-3

    def test_shapes_are_checked_at_run_time_in_tests(self):
        """The checks are on: without them the first call would be an error of matmul's, the others
        would pass or broadcast."""
        attention, x = MultiHeadAttention(13, 3, 5, 7), torch.randn(2, 7, 13)
        for wrong in (
            lambda: scaled_dot_product_attention(x, torch.randn(2, 7, 11), x),
            lambda: scaled_dot_product_attention(x, x[:1], x[:1]),
            lambda: attention(x[0]),
            lambda: attention(x, torch.randn(1, 5, 13)),
            lambda: attention(x, None, torch.ones(2, 1, 7, 7)),
            lambda: causal_mask(2.5),
        ):
            with pytest.raises(TypeCheckError):
                wrong()


class TestPyTorchModule:
    """nn.MultiheadAttention, whose masks say True where ours say False."""

    def pair(self, bias, d_model=35, heads=5):
        ours = randomised(MultiHeadAttention(d_model, heads, bias=bias))
        theirs = nn.MultiheadAttention(
            d_model, heads, bias=bias, batch_first=True, dtype=torch.float64
        )
        stacked = (ours.w_q, ours.w_k, ours.w_v)
        with torch.no_grad():
            theirs.in_proj_weight.copy_(torch.cat([w.weight for w in stacked]))
            theirs.out_proj.weight.copy_(ours.w_o.weight)
            if bias:
                theirs.in_proj_bias.copy_(torch.cat([w.bias for w in stacked]))
                theirs.out_proj.bias.copy_(ours.w_o.bias)
        return ours, theirs.train()  # train mode keeps off its separate inference path

    @few
    @given(n=sizes, m=sizes, seed=seeds, causal=st.booleans())
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("cross", [False, True])
    def test_output_and_weights(self, bias, cross, n, m, seed, causal):
        ours, theirs = self.pair(bias)
        ours.causal = causal
        x = normal(3, n, 35, seed=seed)
        memory = normal(3, n if causal else m, 35, seed=seed + 1) if cross else x
        # the first key stays, so that no row is empty: theirs would be NaN
        padding = random_mask(3, memory.shape[1], seed=seed)
        padding[:, 0] = True
        with record_attention(ours) as seen:
            output = ours(x, memory, padding[:, None, None])
        expected, weights = theirs(
            x,
            memory,
            memory,
            key_padding_mask=~padding,
            attn_mask=~causal_mask(n) if causal else None,
            average_attn_weights=False,
        )
        assert_close(output, expected, 1e-12)
        assert_close(ours(x, memory, padding[:, None, None]), expected, 1e-12)
        assert_close(seen[""], weights, 1e-12)

    def test_their_mask_handed_over_as_it_is_means_the_opposite(self):
        ours, theirs = self.pair(bias=False)
        x, allowed = normal(3, 7, 35), random_mask(3, 7)
        allowed[:, :2] = torch.tensor([True, False])
        wrong, _ = theirs(x, x, x, key_padding_mask=allowed)
        assert_close(ours(x, None, ~allowed[:, None, None]), wrong, 1e-12)
        assert (ours(x, None, allowed[:, None, None]) - wrong).abs().max() > 1e-2


class TestAttentionDropout:
    """Not in the paper: dropout of attention weights."""

    @path
    def test_acts_in_training_only_and_keeps_the_mean(self, path):
        attention = randomised(MultiHeadAttention(10, 2, dropout=0.4))
        x = normal(1, 5, 10).expand(4099, 5, 10)
        with torch.no_grad(), path(attention):
            expected = attention(x)
            torch.manual_seed(5)
            dropped = attention.train()(x)
        assert torch.equal(expected[0], expected[-1])
        assert (dropped[0] - dropped[1]).abs().max() > 1e-2
        assert_close(dropped.mean(0), expected[0], 5 * dropped.std(0).max().item() / 4099**0.5)

    @path
    def test_is_off_by_default(self, path):
        attention = randomised(MultiHeadAttention(10, 2)).train()
        x = normal(3, 5, 10)
        with path(attention):
            assert torch.equal(attention(x), attention(x))
