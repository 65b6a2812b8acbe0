"""§3.3: equation 2, one position at a time."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from annotated.model import PositionwiseFeedForward


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_numbers_that_a_hand_can_check():
    network = PositionwiseFeedForward(2, 3)
    with torch.no_grad():
        network.w_1.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [-1, -1]]))
        network.w_1.bias.copy_(torch.tensor([0.0, -3, 1]))
        network.w_2.weight.copy_(torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
        network.w_2.bias.copy_(torch.tensor([10.0, 20]))
    # hidden (2, 5, -7) and (0, -3, 1) become (2, 5, 0) and (0, 0, 1)
    output = network(torch.tensor([[[2.0, 8.0], [0.0, 0.0]]]))
    assert output.tolist() == [[[22.0, 53.0], [13.0, 26.0]]]


@settings(max_examples=20, deadline=None)
@given(batch=st.integers(1, 3), n=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_is_two_convolutions_of_width_one(batch, n, seed):
    network = PositionwiseFeedForward(5, 13).double()
    first, second = nn.Conv1d(5, 13, 1).double(), nn.Conv1d(13, 5, 1).double()
    with torch.no_grad():
        for convolution, linear in ((first, network.w_1), (second, network.w_2)):
            convolution.weight.copy_(linear.weight[..., None])
            convolution.bias.copy_(linear.bias)
    x = normal(batch, n, 5, seed=seed)
    assert torch.allclose(network(x), second(first(x.mT).relu()).mT, rtol=0, atol=1e-12)


def test_permuting_positions_commutes_with_it():
    network, x = PositionwiseFeedForward(5, 13).double(), normal(2, 7, 5)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert torch.allclose(network(x)[:, order], network(x[:, order]), rtol=0, atol=1e-12)


def test_equal_positions_get_equal_answers():
    network, x = PositionwiseFeedForward(5, 13), torch.randn(1, 1, 5).expand(1, 7, 5)
    output = network(x)
    assert torch.allclose(output, output[:, :1].expand_as(output), atol=1e-6)


@pytest.mark.parametrize("name, function", [("relu", F.relu), ("gelu", F.gelu), ("silu", F.silu)])
def test_activations(name, function):
    network, x = PositionwiseFeedForward(5, 13, name).double(), normal(2, 3, 5)
    expected = F.linear(
        function(F.linear(x, network.w_1.weight, network.w_1.bias)),
        network.w_2.weight,
        network.w_2.bias,
    )
    assert torch.allclose(network(x), expected, rtol=0, atol=1e-12)


def test_relu_is_the_default_and_both_layers_have_biases():
    network = PositionwiseFeedForward(5, 13)
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    assert shapes == {
        "w_1.weight": (13, 5),
        "w_1.bias": (13,),
        "w_2.weight": (5, 13),
        "w_2.bias": (5,),
    }
    x = torch.randn(2, 3, 5)
    assert torch.equal(network(x), PositionwiseFeedForward.forward(network.train(), x))
    assert torch.equal(network(x), network.w_2(network.w_1(x).clamp(min=0)))
