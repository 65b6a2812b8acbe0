"""§3, Figure 1: the whole model."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.model.attention import Memory, Vectors, padding_mask
from annotated.model.checks import check_ids, check_rows
from annotated.model.config import TransformerConfig
from annotated.model.embedding import (
    SINUSOIDS,
    LearnedPositions,
    SinusoidalPositions,
    TiedEmbedding,
)
from annotated.model.stacks import Decoder, Encoder, LayerCache

Ids = Int[Tensor, "batch n"]
SourceIds = Int[Tensor, "batch m"]


class Transformer(nn.Module):
    """§3, Figure 1: source ids and target ids in, logits out.

    model(source, target) gives logits (batch, n, vocab): at position t for
    the word after target[:, t]. `target` is shifted right: it begins with
    BOS. Logits at t do not depend on target after t.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocab_size, config.d_model)
        self.untied = nn.ModuleDict(  # Not in the paper: three matrices
            (use, TiedEmbedding(config.vocab_size, config.d_model))
            for use in ("target", "output") if not config.tie
        )
        self.positions = build_positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        for module in self.modules():  # the paper states no initialisation
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(
        self, source: SourceIds, target: Ids
    ) -> Float[Tensor, "batch n vocab"]:
        return self.decode(target, self.encode(source), source)

    def encode(self, source: SourceIds) -> Memory:
        """Source ids to memory, one vector per piece."""
        x = self.embed(source, "source")
        return self.encoder(x, padding_mask(source, self.config.pad_id))

    def decode(
        self, target: Ids, memory: Memory, source: SourceIds
    ) -> Float[Tensor, "batch n vocab"]:
        """Logits of every position at once; source tells what is padding."""
        check_rows(source=source, memory=memory, target=target)
        mask = padding_mask(source, self.config.pad_id)
        x = self.decoder(self.embed(target, "target"), memory, mask)
        return self.logits(x)

    def logits(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch vocab"]:
        """§3.4: scores of every word, from the decoder's output."""
        return self.matrix("output").logits(x)

    def matrix(self, use: str) -> TiedEmbedding:
        """§3.4: the same matrix whatever the use, unless they are untied."""
        return self.untied[use] if use in self.untied else self.embedding

    def embed(self, ids: Ids, use: str, start: int = 0) -> Vectors:
        """§3.4-3.5, §5.4: Dropout(E[ids] √d_model + PE)."""
        check_ids(ids, use, self.config.vocab_size)
        x = self.matrix(use)(ids) + self.positions(ids.shape[1], start)
        return self.dropout(x)

    @torch.no_grad()
    def start(
        self, source: SourceIds, capacity: int, memory: Memory | None = None
    ) -> "DecoderCache":
        """Encode, and make the cache for `capacity` target positions.

        `memory` stands in for the encoder's output: for interventions.
        """
        memory = self.encode(source) if memory is None else memory
        check_rows(source=source, memory=memory)
        mask = padding_mask(source, self.config.pad_id)
        caches = self.decoder.start(memory, mask, capacity)
        return DecoderCache(caches, capacity)

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], cache: "DecoderCache"
    ) -> Float[Tensor, "batch vocab"]:
        """Logits for the word after `token`, the next target position."""
        if cache.length == cache.capacity:
            raise ValueError(f"the cache is full: capacity {cache.capacity}")
        check_rows(token=token, cache=cache.layers[0].mask)
        x = self.embed(token[:, None], "target", cache.length)
        x = self.decoder.step(x, cache.layers)
        return self.logits(x[:, 0])


@dataclass
class DecoderCache:
    """Keys and values of all decoder layers; for search, made by start()."""

    layers: list[LayerCache]
    capacity: int

    @property
    def length(self) -> int:
        """Target positions seen so far."""
        return self.layers[0].length

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Repeat, reorder or drop rows of the batch, in place."""
        for layer in self.layers:
            layer.select(rows)


def build_positions(config: TransformerConfig) -> nn.Module:
    """§3.5: the positions that the configuration names."""
    if config.positions == "learned":
        return LearnedPositions(config.max_length, config.d_model)
    return SinusoidalPositions(config.d_model, SINUSOIDS[config.positions])
