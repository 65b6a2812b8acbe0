"""§3.4: what the embedding matrix reads inside a decoder, and its gradient by its three uses."""

from dataclasses import replace

from jaxtyping import Float, Int
from torch import Tensor, autograd, enable_grad, no_grad, random
from torch.nn.functional import cross_entropy

from annotated.data.batches import Batch
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


@enable_grad()
def gradient_by_use(
    model: Transformer, batch: Batch
) -> dict[str, Float[Tensor, "vocab d_model"]]:
    """The gradient of a tied E in its three parts: "source", "target" and "output".

    Of the mean cross-entropy of the batch's labels, without dropout. Taken on a copy of the
    `model` with a matrix per use, all with the same numbers; the parts add up to E's gradient.
    """
    E = model.embedding.weight.detach()
    with random.fork_rng(devices=[]):
        apart = Transformer(replace(model.config, tie=False)).to(E).eval()
    same = {f"untied.{use}.weight": E for use in ("target", "output")}
    apart.load_state_dict(model.state_dict() | same)
    loss = cross_entropy(
        apart(batch.source, batch.target).flatten(0, 1), batch.labels.flatten(),
        ignore_index=model.config.pad_id,
    )
    uses = ("source", "target", "output")
    return dict(zip(uses, autograd.grad(loss, [apart.matrix(use).weight for use in uses])))
