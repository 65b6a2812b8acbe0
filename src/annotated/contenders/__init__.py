"""What came before: the mechanisms and models that the paper measures itself against."""

from annotated.contenders.additive import additive_attention
from annotated.contenders.recurrent import (
    RecurrentCache,
    RecurrentConfig,
    RecurrentModel,
    equal_parameters,
)

__all__ = [
    "RecurrentCache",
    "RecurrentConfig",
    "RecurrentModel",
    "additive_attention",
    "equal_parameters",
]
