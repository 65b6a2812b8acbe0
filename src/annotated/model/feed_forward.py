"""§3.3: the same small network at every position."""

from torch import nn

from annotated.model.attention import Vectors
from annotated.model.checks import check_choice

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


class PositionwiseFeedForward(nn.Module):
    """§3.3, eq. 2: max(0, x W₁ + b₁) W₂ + b₂, at each position alone.

    In and out (batch, n, d_model). Permuting positions commutes with it.
    Not in the paper: an `activation` other than "relu".
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu"):
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        self.w_1 = nn.Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Vectors) -> Vectors:
        return self.w_2(self.activation(self.w_1(x)))
