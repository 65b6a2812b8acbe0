"""What an attention looks up with is the model's own; a slide is straight, a dictionary hard."""

import math

import pytest
import torch

from annotated.analysis.look_up import (
    attention_inputs,
    hard_weights,
    queries_keys_values,
    slide,
)
from annotated.model import record_attention


def test_a_slide_goes_straight_from_one_query_to_the_other():
    start, end = torch.tensor([1.0, 5.0, 3.0]), torch.tensor([2.0, 1.0, 3.0])
    queries = slide(start, end, 5)
    assert torch.equal(queries[0], start) and torch.equal(queries[-1], end)
    torch.testing.assert_close(queries[2], (start + end) / 2)
    torch.testing.assert_close(queries.diff(dim=0), ((end - start) / 4).expand(4, 3))


def test_hard_weights_give_everything_to_the_best_key():
    scores = torch.randn(31, 5, generator=torch.Generator().manual_seed(0))
    weights = hard_weights(scores)
    assert torch.equal(weights.sum(1), torch.ones(31))
    assert torch.equal(weights.argmax(1), scores.argmax(1)) and weights.unique().tolist() == [0, 1]
    torch.testing.assert_close(weights, (1e5 * scores).softmax(-1), atol=1e-3, rtol=0)


ATTENTIONS = [
    f"{stack}.layers.{layer}.{use}" for layer in range(2)
    for stack, use in [("encoder", "self_attention"), ("decoder", "self_attention"),
                       ("decoder", "cross_attention")]
]


@pytest.fixture
def trained(build, sentences, pad):
    """A model of prime sizes, and a source and a target of two sentences."""
    model = build()
    source, target = sentences([5, 3], model.config), sentences([3, 2], model.config, seed=1)
    return model, pad(source, model.config.pad_id), pad(target, model.config.pad_id)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_queries_and_keys_give_the_weights_that_the_model_has(trained, name):
    model, source, target = trained
    with torch.no_grad(), record_attention(model) as seen:
        model(source, target)
    q, k, v = queries_keys_values(model, name, source, target)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(seen[name] == 0, -math.inf)
    torch.testing.assert_close(scores.softmax(-1), seen[name])
    assert v.shape[:3] == k.shape[:3]


@pytest.mark.parametrize("name", ATTENTIONS)
def test_who_asks_and_who_answers(trained, name):
    model, source, target = trained
    asks, answers = attention_inputs(model, name, source, target)
    with torch.no_grad():
        memory = model.encode(source)
    if "cross" in name:
        torch.testing.assert_close(answers, memory)
        assert asks.shape == (*target.shape, model.config.d_model)
    else:
        assert asks is answers
    if name == "encoder.layers.0.self_attention":
        torch.testing.assert_close(asks, model.embed(source, "source"))


def test_nothing_stays_behind_in_the_model(trained):
    model, source, target = trained
    attention_inputs(model, ATTENTIONS[0], source, target)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["encoder", "encoder.layers.2.self_attention", "layers"])
def test_an_attention_that_the_model_lacks_is_refused(trained, name):
    with pytest.raises(ValueError, match=f"no attention '{name}'; the model has encoder.layers.0"):
        queries_keys_values(trained[0], name, *trained[1:])
