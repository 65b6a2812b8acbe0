"""What the tests of layer types share: one of each, by its width."""

import pytest

from annotated.complexity import (
    GRU,
    LSTM,
    Convolution,
    DilatedConvolution,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
)

KINDS = {
    "self-attention": lambda d: SelfAttention(d, heads=1),
    "self-attention, 2 heads": lambda d: SelfAttention(d, heads=2),
    "restricted": lambda d: RestrictedSelfAttention(d, r=5, heads=2),
    "recurrent": Recurrent,
    "GRU": GRU,
    "LSTM": LSTM,
    "convolution": lambda d: Convolution(d, k=5),
    "causal": lambda d: Convolution(d, k=4, causal=True),
    "dilated": lambda d: DilatedConvolution(d, k=3, number=2),
    "separable": lambda d: SeparableConvolution(d, k=7),
}


@pytest.fixture(scope="session", params=KINDS.values(), ids=KINDS)
def kind(request):
    """`kind(d)` makes a layer of width d; the test runs with each kind."""
    return request.param


@pytest.fixture(scope="session")
def kinds():
    """All of them."""
    return list(KINDS.values())
