"""Evaluation mode for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from annotated.model.contract import Seq2Seq


@contextmanager
def evaluating(model: nn.Module | Seq2Seq) -> Iterator[None]:
    """No dropout inside the block; afterwards every module is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
