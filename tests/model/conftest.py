"""What the tests of the model share: small models, ragged batches, the package unchecked."""

import importlib
import sys
from types import ModuleType

import pytest
import torch

from annotated.model import Transformer, TransformerConfig

# Primes, so that no two axes can be taken for each other; d_model = 2 x 11, as sinusoids need an
# even one. d_k and d_v differ from each other and from d_model / heads, which is no integer.
PRIME = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}

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


def _build(dtype=torch.float32, shake=True, seed=0, **overrides):
    """A small model in eval mode.

    `shake` moves the biases and norms away from the zeros and ones they start from: otherwise
    a test couldn't see one that is lost or used in the wrong place.
    """
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**(PRIME | overrides))).to(dtype).eval()
    if shake:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def _sentences(lengths, config, seed=0):
    """One random sentence for each length: any id of the vocabulary but padding."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.tensor([i for i in range(config.vocab_size) if i != config.pad_id])
    return [words[torch.randint(len(words), (n,), generator=generator)] for n in lengths]


def _pad(sentences, pad_id, width=0):
    """(batch, longest or width), padded on the right."""
    width = max([width, *map(len, sentences)])
    return torch.stack(
        [torch.cat([s, torch.full((width - len(s),), pad_id)]).to(torch.int64) for s in sentences]
    )


# Functions handed out as fixtures of the whole session: nothing has to be importable from here,
# and Hypothesis accepts them.
@pytest.fixture(scope="session")
def build():
    return _build


@pytest.fixture(scope="session")
def sentences():
    return _sentences


@pytest.fixture(scope="session")
def pad():
    return _pad


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
