"""§6.1 over a model that keeps nothing between steps: each step computes all positions again."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Source = Int[Tensor, "batch m"]
Memory = Float[Tensor, "batch m d_model"]


@dataclass
class Prefix:
    """What has been read and said so far: all that such a model needs."""

    source: Source
    memory: Memory
    target: Int[Tensor, "batch n"]

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Repeat, reorder or drop rows of the batch, in place."""
        self.source, self.memory = self.source[rows], self.memory[rows]
        self.target = self.target[rows]


class Uncached:
    """`start` and `step` of `model.contract`, from a model's `encode` and `decode`."""

    encode: Callable[..., Tensor]
    decode: Callable[..., Tensor]

    @torch.no_grad()
    def start(self, source: Source, capacity: int, memory: Memory | None = None) -> Prefix:
        """Encode; `memory` stands in for the encoder's output. `capacity` has no say."""
        memory = self.encode(source) if memory is None else memory
        return Prefix(source, memory, source[:, :0])

    @torch.no_grad()
    def step(self, token: Int[Tensor, " batch"], cache: Prefix) -> Float[Tensor, "batch vocab"]:
        """Logits for the word after `token`, from the whole target so far."""
        cache.target = torch.cat([cache.target, token[:, None]], dim=1)
        return self.decode(cache.target, cache.memory, cache.source)[:, -1]
