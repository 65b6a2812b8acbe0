"""§3: the Transformer, from one formula to the whole of Figure 1."""

from annotated.model.attention import (
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    record_attention,
    scaled_dot_product_attention,
)
from annotated.model.config import TransformerConfig
from annotated.model.contract import Cache, Seq2Seq
from annotated.model.embedding import LearnedPositions, TiedEmbedding, sinusoidal_encoding
from annotated.model.feed_forward import PositionwiseFeedForward
from annotated.model.stacks import Decoder, DecoderLayer, Encoder, EncoderLayer, Sublayer
from annotated.model.transformer import DecoderCache, Transformer

__all__ = [
    "Cache",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "LearnedPositions",
    "MultiHeadAttention",
    "PositionwiseFeedForward",
    "Seq2Seq",
    "Sublayer",
    "TiedEmbedding",
    "Transformer",
    "TransformerConfig",
    "causal_mask",
    "padding_mask",
    "record_attention",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
]
