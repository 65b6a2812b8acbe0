"""Attention Is All You Need, executed: the package behind the book.

Names are imported when they are first asked for, so that records, the paper's
numbers and `annotated --help` need no PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from annotated.translation import Translator, beam_search, greedy_search

_MODULES = {
    "annotated.model": (
        "MultiHeadAttention", "Transformer", "TransformerConfig", "causal_mask", "padding_mask",
        "record_attention", "scaled_dot_product_attention", "sinusoidal_encoding",
    ),
    "annotated.training": ("label_smoothed_loss", "learning_rate"),
    "annotated.translation": ("Translator", "beam_search", "greedy_search"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "beam_search",
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


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported now (PEP 562)."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("annotated-attention")
    if name in __all__:
        return import_module(f"annotated.{name}")
    raise AttributeError(f"module 'annotated' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
