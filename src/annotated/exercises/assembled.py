"""The model of Figure 1, made of functions that a reader wrote."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.exercises.parts import EXERCISES, check, completed
from annotated.model import Transformer, TransformerConfig
from annotated.translation.uncached import Uncached

Source = Int[Tensor, "batch m"]
Target = Int[Tensor, "batch n"]
Memory = Float[Tensor, "batch m d_model"]
Logits = Float[Tensor, "batch n vocab"]


class Assembled(Uncached, nn.Module):
    """The parameters of a `Transformer`, and seven given functions that compute with them.

    `parts`: functions by the names of the exercises; the package's stand in for those that are
    missing. The names of the parameters are the Transformer's, so its weights fit. For translation
    only: no dropout, and each step of a search computes all positions again.
    """

    def __init__(self, config: TransformerConfig, parts: dict[str, Callable]):
        super().__init__()
        if (config.norm, config.positions) != ("post", "sinusoidal"):
            raise ValueError(
                f"norm is {config.norm!r} and positions {config.positions!r}; "
                f"expected the paper's, 'post' and 'sinusoidal'"
            )
        model = Transformer(config)
        self.config, self.embedding = config, model.embedding
        self.encoder, self.decoder = model.encoder, model.decoder
        self.yours = [name for name in EXERCISES if name in parts]
        self.parts = completed(parts)

    def forward(self, source: Source, target: Target) -> Logits:
        return self.decode(target, self.encode(source), source)

    def embed(self, ids: Target) -> Float[Tensor, "batch n d_model"]:
        x = self.embedding(ids)
        return x + self.parts["positions"](*x.shape[1:]).to(x)

    def attention(self, layer: Any) -> Callable:
        """The weights of one attention in the given function: (x, memory, mask) → output."""
        maps = layer.w_q, layer.w_k, layer.w_v, layer.w_o

        def attend(x, memory, mask):
            return self.parts["multi_head"](x, memory, mask, *maps, layer.heads)

        return attend

    def encode(self, source: Source) -> Memory:
        mask = self.parts["unpadded"](source, self.config.pad_id)
        sublayer, x = self.parts["sublayer"], self.embed(source)
        for layer in self.encoder.layers:
            attend = self.attention(layer.self_attention)
            x = sublayer(x, lambda x, attend=attend: attend(x, x, mask), layer.sublayer_1.norm)
            x = sublayer(x, layer.feed_forward, layer.sublayer_2.norm)
        return x

    def decode(self, target: Target, memory: Memory, source: Source) -> Logits:
        mask = self.parts["unpadded"](source, self.config.pad_id)
        x = self.embed(target)
        for layer in self.decoder.layers:
            x = self.parts["decoder_layer"](
                x, memory, mask, self.attention(layer.self_attention),
                self.attention(layer.cross_attention), layer.feed_forward,
                [layer.sublayer_1.norm, layer.sublayer_2.norm, layer.sublayer_3.norm],
            )
        return self.embedding.logits(x)


def with_mistake(config: TransformerConfig, part: str, name: str) -> Assembled:
    """A model, not yet trained, with the first mistake of this name in one part, all else right."""
    for mistake in EXERCISES[part].mistakes:
        if mistake.name == name:
            return Assembled(config, {part: mistake.wrong})
    known = ", ".join(mistake.name for mistake in EXERCISES[part].mistakes)
    raise ValueError(f"no mistake {name!r} in {part}; expected one of {known}")


def assemble(config: TransformerConfig, **answers: Callable | None) -> Assembled:
    """A model, not yet trained, of those answers that are right; `yours` lists them.

    The package's functions stand in for the others. ValueError for a name
    that is no exercise.
    """
    right = {
        name: answer for name, answer in answers.items()
        if check(name, answer) and answer is not None
    }
    return Assembled(config, right)
