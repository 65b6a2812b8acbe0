"""What a run holds at most is counted right, the backward pass included."""

import torch

from annotated.complexity import SelfAttention, peak_bytes

FLOAT = 4  # bytes


def test_what_is_held_at_one_time_counts():
    x = torch.ones(7, 11)

    def run():
        y = x + 1  # 77 numbers
        z = (y * 2).view(77)  # 77 more
        del y
        (z * 3).sum()  # 77 in place of those of y, then one number
        return z[:5]

    assert peak_bytes(run) == FLOAT * (2 * 77 + 1)


def test_what_was_there_before_does_not_nor_do_views_of_it_or_changes_in_place():
    x = torch.ones(7, 11)
    assert peak_bytes(lambda: x.view(77).add_(1)[:5]) == 0
    assert peak_bytes(lambda: x + 1) == FLOAT * 77


def test_the_backward_pass_is_seen():
    x = torch.ones(101, requires_grad=True)

    def run():
        (x.exp().exp()).sum().backward()

    with torch.no_grad():
        assert peak_bytes(lambda: x.exp().exp()) == 2 * FLOAT * 101
    assert peak_bytes(run) >= 3 * FLOAT * 101  # two results that are kept, and a gradient


def test_the_weights_of_attention_are_what_a_fused_kernel_saves():
    layer, n, d = SelfAttention(8), 256, 8
    with torch.no_grad():
        parts = layer.before(torch.ones(1, n, d))
        literal = peak_bytes(lambda: layer.mix(*parts))
        fused = peak_bytes(lambda: layer.fused(*parts))
    assert literal > 2 * FLOAT * n * n  # scores and weights
    assert fused < 4 * FLOAT * n * d
