"""What came before: the mechanisms and models that the paper measures itself against."""

from annotated.contenders.additive import additive_attention

__all__ = ["additive_attention"]
