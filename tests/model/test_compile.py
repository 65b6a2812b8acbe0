"""torch.compile traces the whole model without a break, and the answer stays the same."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

LENGTHS = [(2, 5, 3), (3, 7, 5), (5, 11, 2), (2, 4, 13), (7, 6, 6)]
PAPER = {"layers": 1}
DEVIATIONS = {
    "layers": 1,
    "norm": "pre",
    "positions": "learned",
    "max_length": 41,
    "attention_bias": True,
    "tie": False,
    "activation": "gelu",
}


@pytest.fixture
def build_plain(build, plain):
    """`build`, with the classes of the package that checks no shapes."""

    def make(training=False, **overrides):
        config = plain.TransformerConfig(**(vars(build().config) | overrides))
        model = plain.Transformer(config).train(training)
        model.load_state_dict(build(**overrides).state_dict())
        return model

    return make


def batch(size, m, n):
    generator = torch.Generator().manual_seed(m)
    source = torch.randint(3, 37, (size, m), generator=generator)
    source[0, 2:] = 0  # one sentence is shorter,
    source[1] = 0  # and one is padding only
    return source, torch.randint(3, 37, (size, n), generator=generator)


def assert_close(ours, theirs, tolerance=1e-5):
    difference = (ours - theirs).abs()
    assert difference.max() <= tolerance, f"max {difference.max()}, mean {difference.mean()}"


def test_the_fixture_gives_the_package_without_wrappers(plain, build):
    checked, unchecked = type(build()).forward, plain.Transformer.forward
    assert hasattr(checked, "__wrapped__")
    assert not hasattr(unchecked, "__wrapped__")
    assert unchecked.__code__.co_filename == checked.__wrapped__.__code__.co_filename


def test_the_fixture_puts_the_checked_package_back(build):
    import annotated.model

    assert annotated.model.Transformer is type(build())
    assert hasattr(annotated.model.Transformer.forward, "__wrapped__")


@pytest.mark.parametrize("overrides", [PAPER, DEVIATIONS], ids=["paper", "deviations"])
def test_every_length_equals_eager_and_few_are_compiled(build_plain, overrides):
    eager = build_plain(**overrides)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(eager, fullgraph=True, backend=counter)
    with torch.no_grad():
        for size, m, n in LENGTHS:
            source, target = batch(size, m, n)
            assert_close(compiled(source, target), eager(source, target))
    # one for the first shape and one for all others, if the sizes became symbols
    assert 1 <= counter.frame_count <= 3


@pytest.mark.parametrize("overrides", [PAPER, DEVIATIONS], ids=["paper", "deviations"])
def test_gradients_equal_eager(build_plain, overrides):
    eager = build_plain(training=True, dropout=0.0, **overrides)
    compiled = torch.compile(eager, fullgraph=True, backend="aot_eager")
    source, target = batch(3, 7, 5)
    gradients = [
        torch.autograd.grad(m(source, target).logsumexp(-1).mean(), [*eager.parameters()])
        for m in (eager, compiled)
    ]
    for mine, theirs in zip(*gradients, strict=True):
        assert_close(mine, theirs)


def test_inductor(build_plain, need):
    need(("g++", "clang++", "c++"), "inductor compiles C++")
    eager = build_plain(**PAPER)
    compiled = torch.compile(eager, fullgraph=True)  # the default back end
    source, target = batch(3, 7, 5)
    with torch.no_grad():
        assert_close(compiled(source, target), eager(source, target))
