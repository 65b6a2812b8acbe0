"""What the tests of the model share: its variants, and the package unchecked."""

import importlib
import sys
from types import ModuleType

import pytest
import torch

# The paper's model first, then every named deviation from it. The last one moves the special ids.
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "halves": {"positions": "sinusoidal-halves"},
    "learned": {"positions": "learned", "max_length": 41},
    "attention-bias": {"attention_bias": True},
    "untied": {"tie": False},
    "gelu": {"activation": "gelu"},
    "other-ids": {"pad_id": 31, "bos_id": 17, "eos_id": 3},
}


@pytest.fixture(scope="session", params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


def _take_package_out():
    """Remove every module of the package from sys.modules, and return them."""
    names = [n for n in sys.modules if n == "annotated" or n.startswith("annotated.")]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture(scope="session")
def _unchecked_modules():
    """The package imported a second time, without jaxtyping's import hook."""
    hooks = [f for f in sys.meta_path if type(f).__name__ == "_JaxtypingFinder"]
    checked = _take_package_out()
    sys.meta_path[:] = [f for f in sys.meta_path if f not in hooks]
    try:
        importlib.import_module("annotated.model")
        unchecked = _take_package_out()
    finally:
        sys.meta_path[:0] = hooks
        sys.modules.update(checked)
    return unchecked


@pytest.fixture
def plain(_unchecked_modules) -> ModuleType:
    """`annotated.model` as users import it: no wrapper checks shapes at run time.

    torch.compile can't trace those wrappers, and they would answer a wrong argument before our
    own checks do. The modules stand in sys.modules for the length of the test, because that is
    where the compiler looks up the globals of what it traces.
    """
    checked = _take_package_out()
    sys.modules.update(_unchecked_modules)
    torch._dynamo.reset()
    try:
        yield sys.modules["annotated.model"]
    finally:
        torch._dynamo.reset()
        _take_package_out()
        sys.modules.update(checked)
