"""visibility: zero exactly where an output does not use an input, and nowhere else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from annotated.analysis.visibility import visibility
from annotated.model import MultiHeadAttention, PositionwiseFeedForward, padding_mask


@pytest.fixture
def model(build):
    return build(torch.float64)


@pytest.fixture
def batch(model, sentences, pad):
    """Seven source ids, of which the last two are padding, and five target ids."""
    config = model.config
    return (
        pad(sentences([5], config), config.pad_id, width=7),
        pad(sentences([5], config, seed=1), config.pad_id),
    )


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 5), m=st.integers(1, 7), seed=st.integers(0, 99), data=st.data())
def test_any_pattern_of_dependences_is_found(n, m, seed, data):
    """Output i is made of exactly the inputs that a drawn pattern names."""
    uses = torch.tensor(data.draw(st.lists(
        st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n)))
    torch.manual_seed(seed)
    weight = torch.randn(3, 2).double()
    found = visibility(lambda x: uses.double() @ (x @ weight).sin(), torch.randn(1, m, 3).double())
    assert found.shape == (n, m)
    assert torch.equal(found > 0, uses)


def test_a_linear_map_has_the_gradient_that_it_must():
    """y = x W: the gradient along direction r is W r, and the direction is the same everywhere."""
    torch.manual_seed(0)
    weight, x = torch.randn(5, 3).double(), torch.randn(1, 2, 5).double()
    direction = torch.randn(3, generator=torch.Generator().manual_seed(0)).double()
    expected = torch.eye(2).double() * (weight @ direction).norm()
    assert (visibility(lambda x: x @ weight, x) - expected).abs().max() < 1e-12


def test_a_sum_would_miss_what_a_random_direction_sees():
    """After LayerNorm the components of a vector sum to 0, whatever came in."""
    norm = nn.LayerNorm(11).double()
    x = torch.randn(1, 3, 11, generator=torch.Generator().manual_seed(1)).double()
    y = x.clone().requires_grad_()
    norm(y)[0, 0].sum().backward()
    assert y.grad.abs().max() < 1e-12
    assert torch.equal(visibility(norm, x) > 0.1, torch.eye(3, dtype=torch.bool))


def test_an_encoder_sees_every_piece_and_no_padding(model, batch):
    source, _ = batch
    mask = padding_mask(source, model.config.pad_id)
    seen = visibility(lambda x: model.encoder(x, mask), model.embed(source, "source"))
    assert torch.equal(seen[:5] > 0, mask[0, 0].expand(5, 7))


def test_a_feed_forward_network_sees_its_own_position():
    torch.manual_seed(0)
    ffn = PositionwiseFeedForward(11, 29).double()
    seen = visibility(ffn, torch.randn(1, 7, 11).double())
    assert torch.equal(seen > 0, torch.eye(7, dtype=torch.bool))


def test_a_decoder_sees_itself_and_the_past(model, batch):
    source, target = batch
    mask, memory = padding_mask(source, model.config.pad_id), model.encode(source)
    seen = visibility(lambda x: model.decoder(x, memory, mask), model.embed(target, "target"))
    assert torch.equal(seen > 0, torch.ones(5, 5, dtype=torch.bool).tril())


def test_a_decoder_sees_the_whole_memory_but_padding(model, batch):
    source, target = batch
    seen = visibility(lambda z: model.decode(target, z, source), model.encode(source))
    assert seen.shape == (5, 7)
    assert torch.equal(seen > 0, (source != model.config.pad_id).expand(5, 7))


def test_an_unmasked_decoder_is_caught(build):
    """The negative control: without a mask there are no zeros."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(22, 2).double()
    x = torch.randn(1, 5, 22).double()
    assert (visibility(attention, x) > 0).all()
    attention.causal = True
    masked = visibility(attention, x)
    assert torch.equal(masked > 0, torch.ones(5, 5, dtype=torch.bool).tril())


def test_nothing_is_left_behind(model, batch):
    """No gradients in the weights, no draw from the global generator, x as it was."""
    source, _ = batch
    x = model.embed(source, "source").detach()
    kept, state = x.clone(), torch.get_rng_state()
    mask = padding_mask(source, model.config.pad_id)
    with torch.no_grad():
        first = visibility(lambda x: model.encoder(x, mask), x)
    assert torch.equal(first, visibility(lambda x: model.encoder(x, mask), x))
    assert not first.requires_grad
    assert first.dtype == torch.float64
    assert torch.equal(x, kept) and not x.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in model.parameters())


def test_an_output_made_of_weights_alone_depends_on_nothing():
    weight = nn.Parameter(torch.ones(1, 2, 3))
    assert torch.equal(visibility(lambda x: weight * 2, torch.ones(1, 5, 3)), torch.zeros(2, 5))


@pytest.mark.parametrize(
    "f, words",
    [
        (lambda x: x[0], ["(5, 3)", "(1, n, width)"]),
        (lambda x: torch.cat([x, x]), ["(2, 5, 3)", "(1, n, width)"]),
        (lambda x: x.detach(), ["no gradient", "outside no_grad"]),
        (lambda x: torch.ones(1, 2, 3), ["no gradient", "outside no_grad"]),
    ],
)
def test_what_is_no_row_of_vectors_is_refused(f, words):
    with pytest.raises(ValueError) as error:
        visibility(f, torch.ones(1, 5, 3))
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)
