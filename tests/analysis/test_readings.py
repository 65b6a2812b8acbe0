"""§3.4: the decoder's vectors on their way up are those that the model works with."""

import torch

from annotated.analysis.readings import decoder_states


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
