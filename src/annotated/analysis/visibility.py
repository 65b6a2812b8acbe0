"""§3.1: who may see whom, measured: which vectors an output depends on."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


@torch.enable_grad()
def visibility(
    f: Callable[[Tensor], Tensor], x: Float[Tensor, "1 m d"]
) -> Float[Tensor, "n m"]:
    """How strongly each output vector of f depends on each input vector.

    f maps the m vectors of one sentence to n vectors, (1, n, any width). Row
    i is for output i, column j for input j: the length of the gradient, with
    respect to input j, of output i seen along one random direction. It is
    exactly 0 where output i does not use input j. Where it does, it is 0
    with probability 0: a fixed direction can meet a zero (after LayerNorm
    the sum of a vector is constant), a random one doesn't. The direction is
    the same in every call. This holds at this x, in x's own precision;
    float64 leaves room for dependences too weak for float32.
    Raises ValueError if f(x) is no such tensor or carries no gradient.
    """
    x = x.detach().requires_grad_()
    y = f(x)
    check_output(y)
    random = torch.Generator().manual_seed(0)
    direction = torch.randn(y.shape[2], generator=random).to(y)
    rows = []
    for vector in y[0]:
        seen = direction @ vector
        gradient, = torch.autograd.grad(
            seen, x, retain_graph=True, materialize_grads=True
        )
        rows.append(gradient[0].norm(dim=-1))
    return torch.stack(rows)


def check_output(y: Tensor) -> None:
    """Refuse what is no row of vectors, and what gradients can't leave."""
    if y.dim() != 3 or len(y) != 1 or not y.requires_grad:
        carries = "a" if y.requires_grad else "no"
        raise ValueError(
            f"f(x) is of shape {tuple(y.shape)} and carries {carries} "
            "gradient; expected (1, n, width), made from x outside no_grad"
        )
