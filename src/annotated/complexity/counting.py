"""§4: what a layer computes, counted while PyTorch runs it.

Matrix products and convolutions are counted by the formulas of PyTorch's own
FLOP counter, two FLOPs for each multiply-add. It has none for anything else,
so the numbers that all other arithmetic gives out are counted here.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from annotated.complexity.layers import Cost, Layer, SelfAttention, SeparableConvolution
from annotated.model import PositionwiseFeedForward

aten = torch.ops.aten
# They move, choose or make numbers, and compute none.
MOVES = {
    aten.clone, aten.copy_, aten._to_copy, aten.cat, aten.stack, aten.constant_pad_nd,
    aten.masked_fill, aten.new_zeros, aten.zeros, aten.zeros_like, aten.empty, aten.ones,
    aten.new_empty, aten._unsafe_view,
}


class Counter(TorchDispatchMode):
    """Counts FLOPs of products by PyTorch's formulas, and what else gives out numbers.

    `elementwise` are the numbers given out by operations that are no products, and no moves.
    """

    flops = elementwise = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = function(*args, **kwargs)
        packet = function.overloadpacket
        if packet in flop_registry:
            self.flops += flop_registry[packet](*args, **kwargs, out_val=given)
        elif not function.is_view and packet not in MOVES:
            results = given if isinstance(given, tuple | list) else (given,)
            self.elementwise += sum(x.numel() for x in results if is_number(x))
        return given


def is_number(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def run_counts(run: Callable[[], object]) -> tuple[int, int]:
    """Multiply-adds of the matrix products in `run()`, and its elementwise results.

    Equal to `FlopCounterMode`, which looks the same formulas up in the same registry. A fused
    kernel for attention on a CPU has no entry there: count the formula it stands for.
    """
    with Counter() as counter:
        run()
    return counter.flops // 2, counter.elementwise


@torch.no_grad()
def counted(layer: Layer, n: int) -> Cost:
    """The cost of `layer` for n vectors, as counted while it runs; `layer.cost(n)` by formula."""
    x = torch.zeros(1, n, layer.d, dtype=next(layer.parameters()).dtype)
    parts = layer.before(x)
    mixing, _ = run_counts(lambda: layer.mix(*parts))
    products, elementwise = run_counts(lambda: layer(x))
    return Cost(mixing, products - mixing, elementwise)


@torch.no_grad()
def separable_identity(n: int, d: int) -> dict[str, int]:
    """§4, last sentence but one: a separable convolution over k = n places, and what it equals.

    Multiply-adds of "separable", and of "self-attention" (what Table 1 counts of it) and
    "feed-forward" (d to d to d), as counted. The two together are exactly twice
    the first, for every n and d, and so is each of their terms: n²d and nd².
    """
    layer = SeparableConvolution(d, k=n, causal=True)
    network = PositionwiseFeedForward(d, d)
    return {
        "separable": counted(layer, n).mixing,
        "self-attention": counted(SelfAttention(d), n).mixing,
        "feed-forward": run_counts(lambda: network(torch.zeros(1, n, d)))[0],
    }


def product_chain(output: Tensor) -> int:
    """The longest chain of matrix products behind `output`, each of which needs the one before.

    Read off the graph that PyTorch keeps for the backward pass, which is the graph of what
    depends on what. Raises ValueError for an output without one.
    """
    if output.grad_fn is None:
        raise ValueError("the output has no graph; expected one made outside no_grad")
    longest: dict[Any, int] = {}
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        behind = [earlier for earlier, _ in node.next_functions if earlier is not None]
        if unseen := [earlier for earlier in behind if earlier not in longest]:
            waiting += unseen
            continue
        waiting.pop()
        longest[node] = max((longest[x] for x in behind), default=0) + is_product(node)
    return longest[output.grad_fn]


def is_product(node: Any) -> bool:
    return node.name().rstrip("0123456789") in PRODUCTS


PRODUCTS = {"MmBackward", "BmmBackward", "AddmmBackward", "ConvolutionBackward"}
