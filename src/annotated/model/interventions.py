"""Take one part out of a trained model, and see what it then does."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from annotated.model.attention import MultiHeadAttention


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
