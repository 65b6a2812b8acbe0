"""Attention Is All You Need, executed: the package behind the book."""

from annotated import paper
from annotated.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    record_attention,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)
from annotated.training import label_smoothed_loss, learning_rate
from annotated.translation import Translator, greedy_search

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "causal_mask",
    "greedy_search",
    "label_smoothed_loss",
    "learning_rate",
    "padding_mask",
    "paper",
    "record_attention",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
]
