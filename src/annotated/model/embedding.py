"""§3.4-3.5: from ids to vectors that know where they stand, and back."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.model.attention import Vectors
from annotated.model.checks import check_choice, check_even

SINUSOIDS = {"sinusoidal": "interleaved", "sinusoidal-halves": "halves"}
POSITIONS = (*SINUSOIDS, "learned")


class TiedEmbedding(nn.Module):
    """§3.4: one matrix E that embeds source and target and gives the logits.

    E is (vocab_size, d_model). Embedding multiplies by √d_model; the logits
    do not. Rows start from N(0, 1/d_model), so that both start near unit
    scale (the paper states no initialisation).
    """

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Int[Tensor, "batch n"]) -> Vectors:
        return F.embedding(ids, self.weight) * self.scale

    def logits(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch vocab"]:
        """Scores of every word of the vocabulary: x Eᵀ."""
        return F.linear(x, self.weight)


def sinusoidal_encoding(
    n: int, d_model: int, layout: str = "interleaved", start: int = 0
) -> Float[Tensor, "{n} {d_model}"]:
    """§3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos.

    n positions from `start` on, counted from 0; i counts pairs of sine and
    cosine. Every row has squared length d_model / 2. Raises ValueError for
    an odd d_model.
    Not in the paper: layout "halves" puts all sines before all cosines.
    """
    check_even(d_model)
    check_choice("layout", layout, SINUSOIDS.values())
    position = torch.arange(start, start + n, dtype=torch.float64)[:, None]
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    angle = position / 10000 ** (2 * pair / d_model)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1)
    if layout == "halves":
        waves = waves.mT
    return waves.flatten(1).to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """§3.5: adds nothing to learn and takes inputs of any length."""

    def __init__(self, d_model: int, layout: str = "interleaved", rows=512):
        super().__init__()
        self.d_model, self.layout = d_model, layout
        table = sinusoidal_encoding(rows, d_model, layout)
        self.register_buffer("table", table, persistent=False)

    def forward(self, n: int, start: int = 0) -> Float[Tensor, "{n} d_model"]:
        """The encodings of positions start … start + n - 1."""
        if start + n <= len(self.table):
            return self.table[start : start + n]
        table = sinusoidal_encoding(n, self.d_model, self.layout, start)
        return table.to(self.table)


class LearnedPositions(nn.Module):
    """Table 3 row E: one learned vector a position, up to max_length.

    Raises ValueError for a longer input.
    """

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        # as large as the sinusoids they replace, whose mean square is 1/2
        nn.init.normal_(self.weight, std=0.5**0.5)

    def forward(self, n: int, start: int = 0) -> Float[Tensor, "{n} d_model"]:
        """The encodings of positions start … start + n - 1."""
        if start + n > len(self.weight):
            raise ValueError(
                f"the input has {start + n} positions; learned positions "
                f"were built for max_length={len(self.weight)}"
            )
        return self.weight[start : start + n]
