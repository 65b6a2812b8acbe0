"""§3.2: a query that slides from one key to another, and the look-up of a dictionary."""

import torch
from jaxtyping import Float
from torch import Tensor


def slide(
    start: Float[Tensor, " d_k"], end: Float[Tensor, " d_k"], steps: int = 401
) -> Float[Tensor, "{steps} d_k"]:
    """Queries on the straight line from one to the other."""
    share = torch.linspace(0, 1, steps)[:, None]
    return (1 - share) * start + share * end


def hard_weights(scores: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    """What a dictionary does: the best key gets all of the weight."""
    best = scores.argmax(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0)
