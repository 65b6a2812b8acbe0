"""§4, Table 1: sequential operations and path lengths, read off who depends on whom."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from annotated.complexity.layers import Layer, Recurrent


def reach(
    f: Callable[[Tensor], Tensor], n: int, d: int
) -> Bool[Tensor, "{n} {n}"]:
    """Whether output i of f depends on input j, for n vectors of width d.

    Row i, column j. It does where the gradient of output i, along a random
    direction, is not exactly 0 at input j. All rows in one pass: sentence i
    of a batch of n equal ones is asked for its output i.
    """
    rng = torch.Generator().manual_seed(0)
    one = torch.randn(1, n, d, generator=rng, dtype=torch.float64)
    x = one.repeat(n, 1, 1).requires_grad_()
    direction = torch.randn(d, generator=rng, dtype=torch.float64)
    with torch.enable_grad():
        asked = (f(x) @ direction).diagonal().sum()
        gradient, = torch.autograd.grad(asked, x)
    return (gradient != 0).any(-1)


def path_length(make: Callable[[int], Layer], n: int) -> int:
    """How many layers of a stack until every output depends on every input of n.

    `make(i)` is layer number i, in float64, as for `ready`.
    """
    return max(ready(make, n))


def ready(make: Callable[[int], Layer], n: int) -> list[int]:
    """For each of n positions, after how many layers of a stack it depends on all it ever will.

    `make(i)` is layer number i, in float64. How far each reaches is taken from its gradients, of
    a layer that is the one below again only once; which inputs are behind a stack follows from
    that. Causal layers, in which no output depends on a later input, need only reach all earlier
    ones. Of a recurrence it is the number of steps: each passes all states on by one position.
    Raises ValueError for a stack that never gets there.
    """
    layer, below = make(0), None
    itself = torch.eye(n, dtype=torch.bool)
    seen = torch.zeros_like(itself) if isinstance(layer, Recurrent) else itself
    depths = torch.zeros(n, dtype=torch.int64)
    for depth in range(1, n + 1):
        if layer is not below:
            steps = isinstance(layer, Recurrent)
            own = step_reach(layer, n) if steps else reach(layer, n, layer.d)
            causal = not own.triu(1).any()
        seen = (own.double() @ seen.double()) > 0
        if steps:
            seen |= itself  # a step reads its input as well as the state before
        every = torch.ones_like(seen)
        whole = (seen == (every.tril() if causal else every)).all(1)
        depths[whole & (depths == 0)] = depth
        if whole.all():
            return depths.tolist()
        layer, below = make(depth), layer
    raise ValueError(f"{n} layers do not connect {n} positions")


def step_reach(layer: Any, n: int) -> Bool[Tensor, "{n} {n}"]:
    """On which state the next one depends, when every step of a recurrence is made at once."""
    x = torch.ones(1, n, layer.d, dtype=torch.float64)
    return reach(lambda states: layer.sweep(x.expand_as(states), states), n, layer.d)
