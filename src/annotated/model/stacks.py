"""§3.1: sub-layers, layers and the two stacks of Figure 1."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annotated.model.attention import (
    ATTENTIONS,
    Memory,
    MultiHeadAttention,
    Vectors,
)
from annotated.model.checks import check_choice
from annotated.model.config import NORMS, TransformerConfig
from annotated.model.feed_forward import PositionwiseFeedForward

PadMask = Bool[Tensor, "batch 1 1 m"]
NewVector = Float[Tensor, "batch 1 d_model"]


class Sublayer(nn.Module):
    """§3.1, §5.4: LayerNorm(x + Dropout(f(x))) around any sub-layer f.

    Not in the paper: norm="pre" gives x + Dropout(f(LayerNorm(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm: str = "post"):
        super().__init__()
        check_choice("norm", norm, NORMS)
        self.pre = norm == "pre"
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, f: Callable[..., Tensor], *inputs) -> Tensor:
        """`inputs` go to f after x: memory, mask, or a cache."""
        if self.pre:
            return x + self.dropout(f(self.norm(x), *inputs))
        return self.norm(x + self.dropout(f(x, *inputs)))


class EncoderLayer(nn.Module):
    """§3.1: self-attention, then the feed-forward network."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = build_attention(config)
        self.feed_forward = build_feed_forward(config)
        self.sublayer_1 = build_sublayer(config)
        self.sublayer_2 = build_sublayer(config)

    def forward(self, x: Memory, mask: PadMask) -> Memory:
        x = self.sublayer_1(x, self.self_attention, None, mask)
        return self.sublayer_2(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """§3.1: masked self-attention, attention to the memory, feed-forward."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = build_attention(config, causal=True)
        self.cross_attention = build_attention(config)
        self.feed_forward = build_feed_forward(config)
        self.sublayer_1 = build_sublayer(config)
        self.sublayer_2 = build_sublayer(config)
        self.sublayer_3 = build_sublayer(config)

    def forward(self, x: Vectors, memory: Memory, mask: PadMask) -> Vectors:
        x = self.sublayer_1(x, self.self_attention)
        x = self.sublayer_2(x, self.cross_attention, memory, mask)
        return self.sublayer_3(x, self.feed_forward)

    def step(self, x: NewVector, cache: "LayerCache") -> NewVector:
        """The same, for one new position; the earlier ones are in cache."""
        x = self.sublayer_1(x, self.attend_to_past, cache)
        x = self.sublayer_2(x, self.attend_to_memory, cache)
        return self.sublayer_3(x, self.feed_forward)

    def attend_to_past(self, x: NewVector, cache: "LayerCache"):
        past = cache.append(*self.self_attention.keys_values(x))
        return self.self_attention.attend(x, *past, own=True)

    def attend_to_memory(self, x: NewVector, cache: "LayerCache"):
        return self.cross_attention.attend(x, *cache.memory, cache.mask)


@dataclass
class LayerCache:
    """What one decoder layer keeps between steps, projected once.

    `past` holds keys and values of the target, with room for all positions,
    of which `length` are filled; `memory` holds those of the source.
    """

    past: tuple[Tensor, Tensor]
    memory: tuple[Tensor, Tensor]
    mask: PadMask
    length: int = 0

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Write one position; return all filled ones, the new one last."""
        for kept, added in zip(self.past, new):
            kept[:, :, self.length] = added[:, :, 0]
        self.length += 1
        return tuple(kept[:, :, : self.length] for kept in self.past)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep these rows of the batch, in this order; rows may repeat."""
        self.past = tuple(kept[rows] for kept in self.past)
        self.memory = tuple(kept[rows] for kept in self.memory)
        self.mask = self.mask[rows]


class Encoder(nn.Module):
    """§3.1: N encoder layers. Post-norm needs no norm after the last."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        layers = [EncoderLayer(config) for _ in range(config.layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = build_final_norm(config)

    def forward(self, x: Memory, mask: PadMask) -> Memory:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """§3.1: N decoder layers, each attending to the encoder's last output."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        layers = [DecoderLayer(config) for _ in range(config.layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = build_final_norm(config)

    def forward(self, x: Vectors, memory: Memory, mask: PadMask) -> Vectors:
        for layer in self.layers:
            x = layer(x, memory, mask)
        return self.norm(x)

    def start(
        self, memory: Memory, mask: PadMask, capacity: int
    ) -> list[LayerCache]:
        """Empty caches with the memory projected once for each layer."""
        caches = []
        for layer in self.layers:
            kept = layer.cross_attention.keys_values(memory)
            shapes = ((*x.shape[:2], capacity, x.shape[3]) for x in kept)
            past = tuple(memory.new_empty(shape) for shape in shapes)
            caches.append(LayerCache(past, kept, mask))
        return caches

    def step(self, x: NewVector, caches: list[LayerCache]) -> NewVector:
        for layer, cache in zip(self.layers, caches):
            x = layer.step(x, cache)
        return self.norm(x)


def build_attention(
    config: TransformerConfig, causal: bool = False
) -> MultiHeadAttention:
    """One attention of the kind and size that the configuration names."""
    return ATTENTIONS[config.attention](
        config.d_model, config.heads, config.d_k, config.d_v, causal=causal,
        bias=config.attention_bias, dropout=config.attention_dropout,
    )


def build_feed_forward(config: TransformerConfig) -> PositionwiseFeedForward:
    """One feed-forward network of the configured size."""
    return PositionwiseFeedForward(
        config.d_model, config.d_ff, config.activation
    )


def build_sublayer(config: TransformerConfig) -> Sublayer:
    """Residual, dropout and norm for one sub-layer."""
    return Sublayer(config.d_model, config.dropout, config.norm)


def build_final_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm leaves the last layer's sum as it is; this normalises it."""
    pre = config.norm == "pre"
    return nn.LayerNorm(config.d_model) if pre else nn.Identity()
