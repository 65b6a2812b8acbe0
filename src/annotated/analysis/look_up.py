"""§3.2: what an attention of a trained model looks up with, and the look-up of a dictionary."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.analysis.interventions import attentions
from annotated.model import MultiHeadAttention, Transformer


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


def attention_inputs(
    model: Transformer, name: str,
    source: Int[Tensor, "batch m"], target: Int[Tensor, "batch n"],
) -> tuple[Tensor, Tensor]:
    """The vectors that ask in an attention, and those that answer, (batch, places, d_model).

    `name` is the attention's, as `record_attention` has it; `source` and `target` are what the
    `model` reads. In self-attention both are the same. Raises ValueError if the model has no such
    attention.
    """
    attention = _named(model, name)
    taken: list[tuple] = []
    handle = attention.register_forward_pre_hook(lambda module, inputs: taken.append(inputs))
    try:
        with torch.no_grad():
            model(source, target)
    finally:
        handle.remove()
    x, memory, *_ = *taken[-1], None
    return x, x if memory is None else memory


def queries_keys_values(
    model: Transformer, name: str, source: Int[Tensor, "batch m"], target: Int[Tensor, "batch n"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V of all heads of an attention: (batch, heads, places, width of a head).

    `model`, `name`, `source` and `target` are those of `attention_inputs`.
    """
    attention = _named(model, name)
    x, memory = attention_inputs(model, name, source, target)
    with torch.no_grad():
        return attention.split(attention.w_q(x)), *attention.keys_values(memory)


def _named(model: nn.Module, name: str) -> MultiHeadAttention:
    found = attentions(model)
    if name not in found:
        raise ValueError(f"no attention {name!r}; the model has {', '.join(found)}")
    return found[name]
