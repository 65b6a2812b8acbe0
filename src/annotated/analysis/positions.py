"""§3.5: what sinusoids have that other vectors lack."""

import torch
from jaxtyping import Float
from torch import Tensor


def frequencies(d_model: int) -> Float[Tensor, " pairs"]:
    """ω_i = 10000^(-2i/d_model), radians per position, in float64; i counts pairs of channels."""
    return 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)


def wavelengths(d_model: int) -> Float[Tensor, " pairs"]:
    """After how many positions each pair of channels repeats: 2π / ω_i."""
    return 2 * torch.pi / frequencies(d_model)


def rotation(k: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """R_k: PE(pos + k) = R_k PE(pos) for every pos, interleaved.

    Each pair of channels turns by its own angle k ω_i. In float64.
    """
    angle = k * frequencies(d_model)
    cos, sin = angle.cos(), angle.sin()
    blocks = torch.stack([cos, sin, -sin, cos], dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks)
