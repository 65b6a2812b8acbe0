"""§3.4: what the vectors inside a decoder say, read with the embedding matrix on their way up."""

from jaxtyping import Float, Int
from torch import Tensor, no_grad

from annotated.model import Transformer
from annotated.model.evaluating import evaluating

PARTS = {"sublayer_1": "self", "sublayer_2": "cross", "sublayer_3": "feed-forward"}


@no_grad()
def decoder_states(
    model: Transformer, source: Int[Tensor, "batch m"], target: Int[Tensor, "batch n"]
) -> dict[str, Float[Tensor, "batch n d_model"]]:
    """The decoder's vectors on their way up: name → (batch, n, d_model).

    "input" first, embeddings and positions; then what each sub-layer passes on, norm included:
    "0 self", "0 cross", "0 feed-forward", "1 self" and so on, layers counted from 0. `source` and
    `target` are what the `model` reads. No dropout; the model's mode comes back.
    """
    states: dict[str, Tensor] = {}

    def keep(name: str):
        def hook(module, inputs, output):
            states[name] = output
        return hook

    first, *_ = layers = list(model.decoder.layers)
    handles = [first.register_forward_pre_hook(lambda _, inputs: states.update(input=inputs[0]))]
    handles += [
        getattr(layer, part).register_forward_hook(keep(f"{index} {name}"))
        for index, layer in enumerate(layers) for part, name in PARTS.items()
    ]
    try:
        with evaluating(model):
            model(source, target)
    finally:
        for handle in handles:
            handle.remove()
    return states
