"""§3.4: the decoder's vectors on their way up are those that the model works with."""

import torch

from annotated.analysis.readings import decoder_states, gradient_by_use
from annotated.data.batches import Batch


def test_the_last_are_those_that_give_the_logits(build, sentences, pad):
    model = build(layers=3).train()
    config = model.config
    source = pad(sentences([7, 3], config), config.pad_id)
    target = pad(sentences([4, 5], config, seed=1), config.pad_id)
    states = decoder_states(model, source, target)
    parts = ("self", "cross", "feed-forward")
    assert [*states] == ["input", *(f"{layer} {part}" for layer in range(3) for part in parts)]
    assert model.training and not any(x.requires_grad for x in states.values())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(states["input"], model.embed(target, "target"))
        torch.testing.assert_close(model.logits(states["2 feed-forward"]), model(source, target))
        layer, x = model.decoder.layers[1], states["0 feed-forward"]
        torch.testing.assert_close(
            states["1 self"], layer.sublayer_1(x, layer.self_attention)
        )


def test_the_parts_of_the_gradient_add_up(build, sentences, pad):
    model = build().eval()
    config = model.config
    source = pad(sentences([7, 3], config), config.pad_id)
    target = pad(sentences([4, 5], config, seed=1), config.pad_id)
    labels = pad(sentences([4, 5], config, seed=2), config.pad_id)
    parts = gradient_by_use(model, Batch(source, target, labels))
    assert [*parts] == ["source", "target", "output"]
    loss = torch.nn.functional.cross_entropy(
        model(source, target).flatten(0, 1), labels.flatten(), ignore_index=config.pad_id
    )
    whole, = torch.autograd.grad(loss, model.embedding.weight)
    torch.testing.assert_close(sum(parts.values()), whole)
    for use, ids in ("source", source), ("target", target):
        assert set(parts[use].any(1).nonzero().flatten().tolist()) <= set(ids.flatten().tolist())
