"""record_attention: the weights of the model's own forward pass, and no trace of it after."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from annotated.model import MultiHeadAttention, record_attention

NAMES = {
    "encoder.layers.0.self_attention",
    "encoder.layers.1.self_attention",
    "decoder.layers.0.self_attention",
    "decoder.layers.0.cross_attention",
    "decoder.layers.1.self_attention",
    "decoder.layers.1.cross_attention",
}


@pytest.fixture
def batch(build, sentences, pad):
    config = build().config
    return (
        pad(sentences([7, 3, 5], config), config.pad_id),
        pad(sentences([4, 4, 2], config, seed=1), config.pad_id),
    )


def test_every_attention_of_the_model_by_its_name(build, batch):
    model = build()
    with record_attention(model) as seen:
        assert seen == {}
        model(*batch)
    assert seen.keys() == NAMES == {n for n, _ in model.named_modules() if n.endswith("attention")}
    shapes = {name: tuple(weights.shape) for name, weights in seen.items()}
    for name, shape in shapes.items():
        n = 7 if name.startswith("encoder") else 4
        m = 4 if name.startswith("decoder") and "self" in name else 7
        assert shape == (3, 3, n, m)


def test_rows_sum_to_one_over_what_is_allowed(build, batch, variant):
    model = build(torch.float64, **variant)
    source, target = batch
    source = source.masked_fill(source == 0, model.config.pad_id)
    with record_attention(model) as seen:
        model(source, target)
    words = (source != model.config.pad_id)[:, None, None]
    for name, weights in seen.items():
        assert (weights >= 0).all()
        assert (weights.sum(-1) - 1).abs().max() < 1e-12, name
        if "decoder" in name and "self" in name:
            assert (weights.triu(1) == 0).all()
            assert (weights[..., 0, 0] == 1).all()
        else:
            assert (weights.masked_fill(words, 0) == 0).all()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_the_output_is_that_of_the_fused_path(build, batch, variant, dtype, tolerance):
    model = build(dtype, **variant)
    plain = model(*batch)
    with record_attention(model):
        recorded = model(*batch)
    scale = plain.abs().max().clamp(min=1)
    assert (plain - recorded).abs().max() <= tolerance * scale
    gradients = [
        torch.autograd.grad(x.sin().sum(), model.embedding.weight) for x in (plain, recorded)
    ]
    scale = gradients[0][0].abs().max().clamp(min=1)
    assert (gradients[0][0] - gradients[1][0]).abs().max() <= 10 * tolerance * scale


def test_the_weights_are_those_that_made_the_output(build, batch):
    """Recorded weights times this pass's values are what goes into this pass's W^O."""
    model = build(torch.float64)
    values, mixed = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            module.w_v.register_forward_hook(
                lambda *call, name=name: values.update({name: call[-1]})
            )
            module.w_o.register_forward_pre_hook(
                lambda _, args, name=name: mixed.update({name: args[0]})
            )
    with record_attention(model) as seen:
        model(*batch)
    for name in NAMES:
        heads = values[name].unflatten(-1, (3, 7)).transpose(1, 2)
        expected = (seen[name] @ heads).transpose(1, 2).flatten(2)
        assert (expected - mixed[name]).abs().max() < 1e-12, name


def test_the_latest_pass_counts(build, batch):
    model = build()
    source, target = batch
    with record_attention(model) as seen:
        model(source, target)
        first = dict(seen)
        model(source[:2, :5], target[:2])
        assert {w.shape[0] for w in seen.values()} == {2}
    assert {w.shape[0] for w in first.values()} == {3}


def test_weights_are_taken_before_dropout(build, batch):
    model = build(attention_dropout=0.5, dropout=0.0).train()
    with record_attention(model) as seen:
        one = model(*batch)
        other = model(*batch)
    assert not torch.equal(one, other)  # dropout of weights was at work
    for name, weights in seen.items():
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5), name
    first = "encoder.layers.0.self_attention"  # nothing random comes before its weights
    expected = dict(seen)[first]
    with record_attention(model.eval()) as seen:
        model(*batch)
    assert torch.allclose(seen[first], expected, atol=1e-6)


def test_no_graph_is_kept(build, batch):
    model = build().train()
    with record_attention(model) as seen:
        logits = model(*batch)
    assert logits.requires_grad
    assert all(w.grad_fn is None and not w.requires_grad for w in seen.values())


def fingerprint(model):
    """Everything that hangs on the modules: attributes by identity, hooks by their keys."""
    return {
        name: {
            key: list(value) if key.endswith("_hooks") else id(value)
            for key, value in vars(module).items()
            if key != "training"
        }
        for name, module in model.named_modules()
    }


def test_nothing_is_left_on_the_modules(build, batch):
    model = build()
    before = fingerprint(model)
    with record_attention(model) as seen:
        model(*batch)
    assert fingerprint(model) == before
    kept = dict(seen)
    model(batch[0][:1], batch[1][:1])
    assert all(seen[name] is kept[name] for name in NAMES)


def test_nothing_is_left_after_an_exception(build, batch):
    model = build()
    before = fingerprint(model)
    with pytest.raises(RuntimeError, match="stop here"), record_attention(model) as seen:
        model(*batch)
        raise RuntimeError("stop here")
    assert fingerprint(model) == before
    assert seen.keys() == NAMES


def test_modules_keep_no_activations(build, batch):
    model = build()
    with record_attention(model):
        model(*batch)
    model(*batch)
    for name, module in model.named_modules():
        strangers = {k for k, v in vars(module).items() if isinstance(v, torch.Tensor)}
        assert not strangers, f"{name} keeps {strangers}"


def test_another_model_is_not_recorded(build, batch):
    model, other = build(), build(seed=1)
    with record_attention(model) as seen:
        other(*batch)
        assert seen == {}
        with record_attention(other) as inner:
            model(*batch)
            other(*batch)
    assert seen.keys() == inner.keys() == NAMES
    assert all((seen[name] - inner[name]).abs().max() > 1e-3 for name in NAMES)


def test_blocks_may_be_nested(build, batch):
    model = build()
    before = fingerprint(model)
    with record_attention(model) as outer:
        with record_attention(model.encoder) as inner:
            model(*batch)
        assert inner.keys() == {"layers.0.self_attention", "layers.1.self_attention"}
        outer.clear()
        model(*batch)
        assert outer.keys() == NAMES
    assert fingerprint(model) == before


def test_part_of_a_model(build, batch):
    model = build()
    with record_attention(model.decoder.layers[1]) as seen:
        model(*batch)
    assert seen.keys() == {"self_attention", "cross_attention"}


def test_search_can_be_recorded_step_by_step(build, batch):
    model = build(torch.float64)
    source, target = batch
    with record_attention(model) as whole, torch.no_grad():
        model(source, target)
    with record_attention(model) as seen:
        cache = model.start(source, capacity=4)
        for t in range(4):
            model.step(target[:, t], cache)
            for name in NAMES:
                if name.startswith("decoder"):
                    expected = whole[name][:, :, t : t + 1]
                    expected = expected[..., : t + 1] if "self" in name else expected
                    assert (seen[name] - expected).abs().max() < 1e-12


class FusedCalls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.count += function is F.scaled_dot_product_attention
        return function(*args, **(kwargs or {}))


def test_the_fused_kernel_does_the_work_when_nothing_is_recorded(build, batch):
    model = build()
    with FusedCalls() as calls:
        model(*batch)
        assert calls.count == 6
        with record_attention(model):
            model(*batch)
        assert calls.count == 6
        cache = model.start(batch[0], capacity=2)
        assert calls.count == 6 + 2
        model.step(batch[1][:, 0], cache)
        assert calls.count == 6 + 2 + 4
