"""Change one part of a trained model's work, and see what it then does.

Each where its part is found: hide pieces among the source ids, swap vectors
of a memory, cut heads of a model, mute a part of it, leave out a summand,
shift its positions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.data.batches import pad
from annotated.model import Transformer
from annotated.model.attention import MultiHeadAttention
from annotated.model.evaluating import evaluating
from annotated.model.stacks import Sublayer
from annotated.translation.search import greedy_search
from annotated.translation.translator import Translator


def hide(
    source: Int[Tensor, "batch m"], places: Iterable[int], pad_id: int
) -> Int[Tensor, "batch m"]:
    """The source with padding at these places: no attention looks there.

    `places` count pieces from 0, in every row; `source` stays as it is.
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


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """The attentions of a model by their names, those of `record_attention`."""
    return {
        name: module for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


@contextmanager
def cut_heads(
    model: nn.Module, cut: Mapping[str, Iterable[int]]
) -> Iterator[None]:
    """Mute heads: their attention's output loses what they add to it.

    `cut` names attentions as record_attention does, and their heads from 0.
    A head reaches the output through its own columns of W^O: inside the block
    these are zero; afterwards W^O is what it was, to the bit.
    Raises ValueError for an attention or a head that the model lacks.
    """
    layers = attentions(model)
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


@contextmanager
def mute(*parts: nn.Module) -> Iterator[None]:
    """Silence parts of a model: inside the block each gives zeros.

    A sub-layer whose f gives zeros passes on what came to it, normalised
    (§3.1). Afterwards the parts speak again.
    """
    handles = [part.register_forward_hook(_zeros) for part in parts]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _zeros(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


@contextmanager
def leave_out(summand: str, *sublayers: Sublayer) -> Iterator[None]:
    """§3.1: inside the block sub-layers keep one summand of x + f(x).

    Without "box" LayerNorm(x) is left, without "x" LayerNorm(f(x)).
    Afterwards they add again. Raises ValueError for another summand.
    """
    if summand not in ("x", "box"):
        raise ValueError(f"summand is {summand!r}; expected 'x' or 'box'")
    with ExitStack() as stack:
        for sublayer in sublayers:
            if summand == "box":
                stack.enter_context(mute(sublayer.dropout))
            else:
                sublayer.forward = partial(f_alone, sublayer)  # type: ignore[method-assign]
                stack.callback(delattr, sublayer, "forward")
        yield


def f_alone(
    sublayer: Sublayer, x: Tensor, f: Callable[..., Tensor], *inputs
) -> Tensor:
    """What `sublayer` makes of f alone: zeros stand in the sum for x.

    `x` and `inputs` go into `f` as ever.
    """
    x = sublayer.norm(x) if sublayer.pre else x
    return type(sublayer).forward(
        sublayer, torch.zeros_like(x), lambda _, *rest: f(x, *rest), *inputs
    )


@contextmanager
def shift_positions(model: Transformer, use: str, by: int) -> Iterator[None]:
    """Inside the block positions of one side count from `by`, not from 0.

    `use` is "source" or "target". Distances between pieces stay as they are.
    Raises ValueError for another side.
    """
    if use not in ("source", "target"):
        raise ValueError(f"use is {use!r}; expected 'source' or 'target'")
    embed = model.embed

    def shifted(ids, side, start=0):
        return embed(ids, side, start + by if side == use else start)

    model.embed = shifted  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.embed


def check_cut(
    layers: Mapping[str, MultiHeadAttention], cut: Mapping[str, Iterable[int]]
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


class Swap(NamedTuple):
    """A memory with some vectors from another sentence, and what came of it.

    `places` are the pieces that differ between the two sentences.
    """

    places: list[int]
    before: str
    after: str


@torch.inference_mode()
def swap_memory(translator: Translator, sentence: str, other: str) -> Swap:
    """Translate with the vectors of the differing pieces taken from other.

    Both sentences are encoded whole; then, at each place where their pieces
    differ, other's vector replaces ours, and the decoder runs on the result.
    Raises ValueError if they are not of the same number of pieces.
    """
    model, tokenizer = translator.model, translator.tokenizer
    ids = [row + [model.config.eos_id] for row in tokenizer.encode_batch([sentence, other])]
    if len(ids[0]) != len(ids[1]):
        raise ValueError(
            f"{sentence!r} has {len(ids[0])} pieces and {other!r} {len(ids[1])}; "
            "expected the same number"
        )
    source = pad(ids, model.config.pad_id).to(next(model.parameters()).device)
    with evaluating(model):
        memory = model.encode(source)
    places = (source[0] != source[1]).nonzero()[:, 0].tolist()
    swapped = swap_vectors(memory[:1], memory[1:], places)
    before, after = (
        tokenizer.decode(greedy_search(model, source[:1], memory=m)[0].tokens)
        for m in (memory[:1], swapped)
    )
    return Swap(places, before, after)
