"""§5.4: the smoothed loss against PyTorch's, against entropy, and against padding."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from annotated.training import label_smoothed_loss

PAD = 0
TIGHT = {
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
}

seeds = st.integers(0, 2**31)
dtypes = st.sampled_from(sorted(TIGHT, key=str))
epsilons = st.one_of(st.sampled_from([0.0, 0.1]), st.floats(0, 0.999))


def made(shape, vocab, seed, dtype=torch.float64, pad_id=PAD, padding=0.3, scale=3.0):
    """Random logits that ask for a gradient, and targets about a third of which are padding."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(*shape, vocab, generator=generator, dtype=torch.float64)
    target = torch.randint(vocab, shape, generator=generator)
    target[torch.rand(shape, generator=generator) < padding] = pad_id
    return logits.to(dtype).requires_grad_(), target


def loss_and_gradient(logits, target, epsilon, pad_id=PAD):
    total, tokens = label_smoothed_loss(logits, target, epsilon, pad_id)
    (gradient,) = torch.autograd.grad(total, logits)
    return total.detach(), int(tokens), gradient


def row_entropy(vocab, epsilon):
    """Of one smoothed target, in nats: no loss a token can be smaller."""
    wrong = epsilon / vocab
    right = 1 - epsilon + wrong
    rest = (vocab - 1) * wrong * math.log(wrong) if wrong else 0.0
    return -right * math.log(right) - rest


class TestAgainstPyTorch:
    @given(
        shape=st.lists(st.sampled_from([1, 2, 3, 5, 7]), max_size=3),
        vocab=st.sampled_from([2, 3, 11, 37]),
        pad=st.integers(0, 36), epsilon=epsilons, dtype=dtypes, seed=seeds,
    )
    def test_it_is_cross_entropy_summed_with_the_pads_ignored(
        self, shape, vocab, pad, epsilon, dtype, seed
    ):
        pad_id = pad % vocab
        logits, target = made(shape, vocab, seed, dtype, pad_id)
        total, tokens, gradient = loss_and_gradient(logits, target, epsilon, pad_id)
        expected = F.cross_entropy(
            logits.reshape(-1, vocab), target.reshape(-1),
            ignore_index=pad_id, label_smoothing=epsilon, reduction="sum",
        )
        (expected_gradient,) = torch.autograd.grad(expected, logits)
        torch.testing.assert_close(total, expected.detach(), **TIGHT[dtype])
        torch.testing.assert_close(gradient, expected_gradient, **TIGHT[dtype])
        assert tokens == int((target != pad_id).sum())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_is_summed_in_float32(self, dtype):
        logits, target = made((5, 7), 37, 0, dtype)
        total, _, gradient = loss_and_gradient(logits, target, 0.1)
        exact, _, _ = loss_and_gradient(logits.detach().double().requires_grad_(), target, 0.1)
        assert total.dtype == torch.float32 and gradient.dtype == dtype
        assert float(total) == pytest.approx(float(exact), rel=1e-6)

    def test_without_smoothing_it_is_the_plain_negative_log_likelihood(self):
        logits, target = made((3, 5), 11, 0)
        total, _ = label_smoothed_loss(logits, target, 0.0, PAD)
        log_p = logits.log_softmax(-1)
        plain = -sum(
            log_p[i, j, target[i, j]] for i in range(3) for j in range(5) if target[i, j] != PAD
        )
        torch.testing.assert_close(total, plain)


    @given(pad=st.sampled_from([-100, -1, 11, 500]), epsilon=epsilons, seed=seeds)
    def test_the_id_of_padding_need_not_be_a_word(self, pad, epsilon, seed):
        """-100 is what PyTorch's own loss ignores by default."""
        logits, target = made((3, 5), 11, seed, pad_id=pad)
        total, tokens, gradient = loss_and_gradient(logits, target, epsilon, pad)
        expected = F.cross_entropy(
            logits.flatten(0, 1), target.flatten(),
            ignore_index=pad, label_smoothing=epsilon, reduction="sum",
        )  # fmt: skip
        (expected_gradient,) = torch.autograd.grad(expected, logits)
        torch.testing.assert_close(total, expected.detach())
        torch.testing.assert_close(gradient, expected_gradient)
        assert tokens == int((target != pad).sum())

    @pytest.mark.parametrize("forbidden", [[0], [3], [0, 3, 7]])
    def test_without_smoothing_a_word_without_probability_leaves_the_plain_loss(self, forbidden):
        """Cross-entropy has no term for it; with smoothing it costs infinity."""
        logits, target = made((2, 5), 11, 0, padding=0)
        target = target.where(~torch.isin(target, torch.tensor(forbidden)), 5)
        logits = logits.detach().clone()
        logits[..., forbidden] = -math.inf
        logits.requires_grad_()
        total, _, gradient = loss_and_gradient(logits, target, 0.0, -100)
        expected = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
        assert total.isfinite() and gradient.isfinite().all()
        torch.testing.assert_close(total, expected.detach())
        assert label_smoothed_loss(logits, target, 0.1, -100)[0] == math.inf


class TestMinimum:
    # 37 000 terms add up to five digits in float32, PyTorch's own loss no better.
    @pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 5e-7), (torch.float32, 1e-4)])
    def test_the_papers_floor_is_1_376913_nats(self, dtype, near):
        """V = 37 000, ε = 0.1; with ε/(V-1) on the wrong words it would be 1.376948."""
        vocab, epsilon = 37_000, 0.1
        q = torch.full((1, vocab), epsilon / vocab, dtype=dtype)
        q[0, 1] += 1 - epsilon
        total, tokens, gradient = loss_and_gradient(
            q.log().requires_grad_(), torch.tensor([1]), epsilon
        )
        assert tokens == 1
        assert float(total) == pytest.approx(1.376913, abs=near)
        assert float(total) == pytest.approx(row_entropy(vocab, epsilon), abs=near)
        assert gradient.abs().max() < near

    @given(vocab=st.sampled_from([2, 3, 11, 37]), epsilon=epsilons, seed=seeds)
    def test_the_targets_sum_to_one(self, vocab, epsilon, seed):
        """The gradient is what the softmax gives less the target, so it tells the target."""
        logits, _ = made((1,), vocab, seed)
        _, _, gradient = loss_and_gradient(logits, torch.tensor([1]), epsilon)
        q = (logits.softmax(-1) - gradient)[0].detach()
        assert q.sum().item() == pytest.approx(1, abs=1e-12)
        assert q[1].item() == pytest.approx(1 - epsilon + epsilon / vocab, abs=1e-12)
        assert q[0].item() == pytest.approx(epsilon / vocab, abs=1e-12)

    def test_the_released_codes_form_is_this_one_with_another_epsilon_less_a_constant(self):
        """tensor2tensor gives ε to the V - 1 wrong words and takes off the least loss: 1.376948."""
        vocab, epsilon = 37_000, 0.1
        q = torch.full((vocab,), epsilon / (vocab - 1), dtype=torch.float64)
        q[1] = 1 - epsilon
        least = -(q * q.log()).sum().item()
        assert least == pytest.approx(1.376948, abs=5e-7)
        ours = epsilon * vocab / (vocab - 1)
        total, _ = label_smoothed_loss(q.log()[None], torch.tensor([1]), ours, PAD)
        assert total.item() - least == pytest.approx(0, abs=1e-9)

    @given(vocab=st.sampled_from([2, 3, 11, 37]), epsilon=epsilons, seed=seeds)
    def test_no_logits_do_better_than_the_entropy_of_the_smoothed_target(
        self, vocab, epsilon, seed
    ):
        logits, target = made((7,), vocab, seed)
        total, tokens = label_smoothed_loss(logits, target, epsilon, PAD)
        assert total.item() >= int(tokens) * row_entropy(vocab, epsilon) - 1e-9


class TestPadding:
    @given(epsilon=epsilons, dtype=dtypes, seed=seeds, more=st.sampled_from([1, 2, 5]))
    def test_more_of_it_changes_neither_loss_nor_gradient(self, epsilon, dtype, seed, more):
        logits, target = made((3, 5), 11, seed, dtype)
        wide = torch.cat([logits, made((3, more), 11, seed + 1, dtype)[0]], dim=1).detach()
        padded = torch.cat([target, torch.full((3, more), PAD)], dim=1)
        one = loss_and_gradient(logits, target, epsilon)
        other = loss_and_gradient(wide.requires_grad_(), padded, epsilon)
        torch.testing.assert_close(other[0], one[0], **TIGHT[dtype])
        assert other[1] == one[1]
        assert torch.equal(other[2][:, :5], one[2])

    @pytest.mark.parametrize("value", [0.0, 1e30, math.inf, -math.inf, math.nan])
    @pytest.mark.parametrize("pad_id", [0, 7])
    def test_whatever_stands_there_has_no_say_and_no_gradient(self, value, pad_id):
        logits, target = made((3, 5), 11, 0, torch.float32, pad_id)
        target[1:, 3:] = pad_id
        pads = target == pad_id
        one = loss_and_gradient(logits, target, 0.1, pad_id)
        spoilt = logits.detach().clone()
        spoilt[pads] = value
        other = loss_and_gradient(spoilt.requires_grad_(), target, 0.1, pad_id)
        assert torch.equal(other[0], one[0]) and torch.equal(other[2], one[2])
        assert torch.equal(other[2][pads], torch.zeros_like(other[2][pads]))
        assert (other[2][~pads].abs().sum(-1) > 0).all()

    def test_one_bad_logit_elsewhere_is_not_hidden(self):
        logits, _ = made((2, 3), 11, 0)
        spoilt = logits.detach().clone()
        spoilt[1, 2, 3] = math.nan
        total, _ = label_smoothed_loss(spoilt, torch.ones(2, 3, dtype=torch.int64), 0.1, PAD)
        assert total.isnan()

    def test_a_batch_of_padding_only_is_zero_of_zero_tokens(self):
        logits, target = made((3, 5), 11, 0, padding=1.0)
        total, tokens, gradient = loss_and_gradient(logits, target, 0.1)
        assert (float(total), tokens) == (0.0, 0)
        assert torch.equal(gradient, torch.zeros_like(gradient))


@given(seed=seeds, cuts=st.lists(st.integers(1, 12), unique=True, max_size=4))
def test_micro_batches_summed_and_divided_once_are_one_batch(seed, cuts):
    """A mean of means would weigh the tokens of a small micro-batch more."""
    logits, target = made((13, 5), 11, seed)
    total, tokens = label_smoothed_loss(logits, target, 0.1, PAD)
    (expected,) = torch.autograd.grad(total / tokens, logits)

    edges = [0, *sorted(cuts), 13]
    parts = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    losses = [label_smoothed_loss(logits[part], target[part], 0.1, PAD) for part in parts]
    for loss, _ in losses:
        loss.backward()
    count = sum(int(n) for _, n in losses)
    assert count == int(tokens)
    torch.testing.assert_close(logits.grad / count, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(sum(loss for loss, _ in losses), total, rtol=1e-12, atol=0)
