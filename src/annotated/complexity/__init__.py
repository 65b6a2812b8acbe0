"""§4, Table 1: layer types behind one interface; what each computes, and how far it sees."""

from annotated.complexity.counting import counted, product_chain, separable_identity
from annotated.complexity.layers import (
    GRU,
    LSTM,
    Convolution,
    Cost,
    DilatedConvolution,
    Layer,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
)
from annotated.complexity.memory import peak_bytes
from annotated.complexity.paths import path_length, reach, ready

__all__ = [
    "GRU",
    "LSTM",
    "Convolution",
    "Cost",
    "DilatedConvolution",
    "Layer",
    "Recurrent",
    "RestrictedSelfAttention",
    "SelfAttention",
    "SeparableConvolution",
    "counted",
    "path_length",
    "peak_bytes",
    "product_chain",
    "reach",
    "ready",
    "separable_identity",
]
