"""§3.5: what holds for sinusoids, in float64."""

import math

import pytest
import torch

from annotated.analysis.positions import frequencies, rotation, wavelengths


def encoding(pos, d_model):
    angle = pos * frequencies(d_model)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten()


@pytest.mark.parametrize("d_model", [2, 22, 512])
@pytest.mark.parametrize("k", [-3, 0, 1, 17])
def test_the_rotation_takes_each_position_k_places_on(k, d_model):
    turn = rotation(k, d_model)
    assert turn.shape == (d_model, d_model) and turn.dtype == torch.float64
    for pos in (0, 5, 101):
        residual = turn @ encoding(pos, d_model) - encoding(pos + k, d_model)
        assert residual.abs().max() < 1e-12
    torch.testing.assert_close(turn @ turn.T, torch.eye(d_model).double())


def test_rotations_add_up():
    torch.testing.assert_close(rotation(3, 22) @ rotation(4, 22), rotation(7, 22))


def test_wavelengths_are_geometric_and_end_below_the_papers_limit():
    lengths = wavelengths(512)
    assert len(lengths) == 256 and lengths[0].item() == 2 * math.pi
    assert lengths[-1].item() == pytest.approx(60_611.48, abs=0.01)
    ratio = lengths[1:] / lengths[:-1]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1.0366329), atol=1e-7, rtol=0)
