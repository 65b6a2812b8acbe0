"""Path lengths by gradients equal the formulas, for every length from 2 to 64."""

import math

import pytest
import torch

from annotated.complexity import (
    GRU,
    LSTM,
    Convolution,
    DilatedConvolution,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
    path_length,
    reach,
    ready,
)

LENGTHS = range(2, 65)
# Layer number i of a stack, and how many of them connect n positions.
STACKS = {
    "self-attention": (lambda i: SelfAttention(2), lambda n: 1),
    "recurrent": (lambda i: Recurrent(2), lambda n: n),
    "GRU": (lambda i: GRU(2), lambda n: n),
    "LSTM": (lambda i: LSTM(2), lambda n: n),
    "restricted, r = 3": (lambda i: RestrictedSelfAttention(2, 3), lambda n: n - 1),
    "restricted, r = 7": (
        lambda i: RestrictedSelfAttention(2, 7), lambda n: math.ceil((n - 1) / 3),
    ),
    "contiguous, k = 3": (lambda i: Convolution(2, 3), lambda n: n - 1),
    "contiguous, k = 5": (lambda i: Convolution(2, 5), lambda n: math.ceil((n - 1) / 2)),
    "contiguous, causal, k = 3": (
        lambda i: Convolution(2, 3, causal=True), lambda n: math.ceil((n - 1) / 2),
    ),
    "contiguous, causal, k = 4": (
        lambda i: Convolution(2, 4, causal=True), lambda n: math.ceil((n - 1) / 3),
    ),
    "separable, k = 5": (lambda i: SeparableConvolution(2, 5), lambda n: math.ceil((n - 1) / 2)),
    "dilated, k = 3": (
        lambda i: DilatedConvolution(2, 3, i), lambda n: least_power(2, n),
    ),
    "dilated, k = 5": (
        lambda i: DilatedConvolution(2, 5, i), lambda n: least_power(3, n),
    ),
    "dilated, causal, k = 2": (
        lambda i: DilatedConvolution(2, 2, i, causal=True), lambda n: least_power(2, n),
    ),
    "dilated, causal, k = 3": (
        lambda i: DilatedConvolution(2, 3, i, causal=True), lambda n: least_power(3, n),
    ),
}


def least_power(k, wanted):
    """⌈log_k wanted⌉ in whole numbers."""
    return next(power for power in range(1, 99) if k**power >= wanted)


def made(kind):
    """Its layers; where all are of one shape, one layer again and again."""
    make, _ = STACKS[kind]
    layers = []
    for i in range(7 if "dilated" in kind else 1):
        torch.manual_seed(i)
        layers.append(make(i).double())
    return lambda i: layers[i % len(layers)]


@pytest.mark.parametrize("kind", STACKS)
def test_as_many_layers_as_the_formula_says(kind):
    make, (_, formula) = made(kind), STACKS[kind]
    layer = make(0)
    found = {n: path_length(make, n) for n in LENGTHS}
    assert found == {n: formula(n) for n in LENGTHS}
    assert found == {n: layer.path(n) for n in LENGTHS}


@pytest.mark.parametrize("kind", ["restricted, r = 7", "contiguous, k = 5", "dilated, k = 3"])
@pytest.mark.parametrize("n", [7, 23])
def test_gradients_through_the_whole_stack_say_the_same(kind, n):
    make = made(kind)
    depth = path_length(make, n)
    layers = [make(i) for i in range(depth)]
    assert reach(torch.nn.Sequential(*layers), n, 2).all()
    assert not reach(torch.nn.Sequential(*layers[:-1]), n, 2).all()


@pytest.mark.parametrize("kind", ["recurrent", "LSTM"])
def test_a_whole_recurrence_sees_all_that_came_before(kind):
    assert torch.equal(reach(made(kind)(0), 11, 2), torch.ones(11, 11).tril().bool())


def test_orders_of_the_table():
    """Doubling n: nothing for attention, double for steps and bands, one layer more for k = 2."""
    attention, steps = SelfAttention(2), Recurrent(2)
    near, wide = RestrictedSelfAttention(2, 5), RestrictedSelfAttention(2, 9)
    dilated = DilatedConvolution(2, 2, causal=True)
    for n in (257, 4097):
        assert attention.path(2 * n) == attention.path(n) == 1
        assert steps.path(2 * n) == 2 * steps.path(n)
        assert near.path(2 * n - 1) == 2 * near.path(n) and near.path(n) == 2 * wide.path(n)
        assert dilated.path(2 * n) == dilated.path(n) + 1


def test_each_position_of_a_recurrence_waits_one_step_longer():
    assert ready(lambda i: LSTM(2).double(), 11) == list(range(1, 12))


def test_all_positions_of_attention_are_ready_at_once():
    assert ready(made("self-attention"), 11) == [1] * 11


def test_a_position_of_a_dilated_stack_waits_for_the_logarithm_of_its_place():
    assert ready(made("dilated, causal, k = 2"), 11) == [1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4]


def test_reach_is_who_depends_on_whom():
    def f(x):
        return torch.stack([x[:, 2], x[:, 0] + x[:, 1], 0 * x[:, 1]], 1)

    expected = torch.tensor([[0, 0, 1], [1, 1, 0], [0, 0, 0]]).bool()
    assert torch.equal(reach(f, 3, 5), expected)


def test_around_a_middle_dilations_that_grow_by_k_leave_the_ends_apart():
    """The table's log_k n holds for k places on one side; here 6 = 9 - 3 would leave the 7."""
    torch.manual_seed(0)
    layers = [Convolution(2, 3, dilation=3**i).double() for i in range(7)]
    assert not reach(torch.nn.Sequential(*layers), 7, 2)[0, 6]
    assert reach(torch.nn.Sequential(*layers), 7, 2)[0, 4]


def test_a_stack_that_never_gets_there():
    far = Convolution(2, 3, dilation=64).double()
    with pytest.raises(ValueError, match="^5 layers do not connect 5 positions"):
        path_length(lambda i: far, 5)
