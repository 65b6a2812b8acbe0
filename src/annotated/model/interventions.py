"""Change one part of a trained model's work, and see what it then does.

Three interventions, each where its part is found: hide pieces among the
source ids, swap vectors of a memory, cut heads of a model. Effect says in
how many sentences one of them changed something, and how sure that is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.model.attention import MultiHeadAttention


def hide(
    source: Int[Tensor, "batch m"], places: Iterable[int], pad_id: int
) -> Int[Tensor, "batch m"]:
    """The source with padding at these places: no attention looks there.

    ``places`` count pieces from 0, in every row; ``source`` stays as it is.
    Raises ValueError for a place that the rows lack.
    """
    at = place_index(places, source.shape[1], source.device)
    return source.index_fill(1, at, pad_id)


def swap_vectors(
    memory: Float[Tensor, "*batch m d_model"],
    other: Float[Tensor, "*batch m d_model"],
    places: Iterable[int],
) -> Float[Tensor, "*batch m d_model"]:
    """The memory with other's vectors at these places, for any decoder.

    Both are encoder outputs of one shape, and both stay as they are.
    Raises ValueError for unequal shapes, or a place that they lack.
    """
    if memory.shape != other.shape:
        raise ValueError(
            f"memory is {[*memory.shape]} and other {[*other.shape]}; "
            "expected the same shape"
        )
    at = place_index(places, memory.shape[-2], memory.device)
    return memory.index_copy(-2, at, other[..., at, :])


def place_index(
    places: Iterable[int], count: int, device
) -> Int[Tensor, " places"]:
    """Places as a tensor; negative ones, from the end, are refused."""
    places = list(places)
    for place in places:
        if place not in range(count):
            raise ValueError(
                f"no place {place!r}; the places are 0 to {count - 1}"
            )
    return torch.tensor(places, dtype=torch.int64, device=device)


@contextmanager
def cut_heads(
    model: nn.Module, cut: Mapping[str, Iterable[int]]
) -> Iterator[None]:
    """Mute heads: their attention's output loses what they add to it.

    ``cut`` names attentions as record_attention does, and their heads from 0.
    A head reaches the output through its own columns of W^O: inside the block
    these are zero; afterwards W^O is what it was, to the bit.
    Raises ValueError for an attention or a head that the model lacks.
    """
    layers = {
        name: module for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    cut = {name: list(heads) for name, heads in cut.items()}
    check_cut(layers, cut)
    weights = {name: layers[name].w_o.weight.detach() for name in cut}
    before = {name: weight.clone() for name, weight in weights.items()}
    try:
        for name, weight in weights.items():
            # W^O is (d_model, h d_v); this view of it (d_model, h, d_v)
            weight.unflatten(1, (layers[name].heads, -1))[:, cut[name]] = 0
        yield
    finally:
        for name, weight in weights.items():
            weight.copy_(before[name])


def check_cut(
    layers: Mapping[str, MultiHeadAttention], cut: Mapping[str, list[int]]
) -> None:
    """Refuse, before anything is changed, what the model does not have."""
    for name, heads in cut.items():
        if name not in layers:
            raise ValueError(
                f"no attention {name!r}; the model has "
                + (", ".join(layers) or "none")
            )
        for head in heads:
            if head not in range(layers[name].heads):
                raise ValueError(
                    f"no head {head!r} in {name}; "
                    f"its heads are 0 to {layers[name].heads - 1}"
                )


@dataclass(frozen=True)
class Effect:
    """In how many of so many sentences an intervention changed something.

    ``low`` and ``high`` end the 95 % interval of Wilson (1927) for the share
    among all sentences drawn alike; it stays within 0 and 1, and has a width
    where none or all changed. Printed: "≈ 193 of 200 (≈ 92 to ≈ 99 %)", the
    ends rounded outwards, ≈ before each number that is measured.
    Raises ValueError unless 0 <= changed <= total and total >= 1.
    """

    changed: int
    total: int

    def __post_init__(self):
        if self.total < 1 or not 0 <= self.changed <= self.total:
            raise ValueError(
                f"changed is {self.changed} of {self.total}; "
                "expected 0 to total, and a total of at least 1"
            )

    @property
    def share(self) -> float:
        return self.changed / self.total

    @property
    def low(self) -> float:
        return wilson_low(self.changed, self.total)

    @property
    def high(self) -> float:
        """By symmetry: 1 - the least share that stays unchanged."""
        return 1 - wilson_low(self.total - self.changed, self.total)

    def __str__(self) -> str:
        low, high = math.floor(100 * self.low), math.ceil(100 * self.high)
        counts = f"≈ {self.changed} of {self.total}"
        return f"{counts} (≈ {low} to ≈ {high} %)"


def wilson_low(count: int, total: int) -> float:
    """The smaller p whose total p is z standard deviations below count."""
    z = NormalDist().inv_cdf(0.975)
    middle = count + z**2 / 2
    reach = z * math.sqrt(count * (total - count) / total + z**2 / 4)
    return (middle - reach) / (total + z**2)
