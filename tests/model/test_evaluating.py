"""A model is put into evaluation and comes out as it went in, module by module."""

import pytest

from annotated.model.evaluating import evaluating


def modes(model):
    return {name: module.training for name, module in model.named_modules()}


@pytest.mark.parametrize("top", [True, False])
def test_every_module_gets_its_own_mode_back(build, top):
    """A frozen encoder in a model that trains, or one layer that trains in a frozen model."""
    model = build(dropout=0.5).train(top)
    model.encoder.train(not top)
    before = modes(model)
    with evaluating(model):
        assert not any(modes(model).values())
    assert modes(model) == before and set(before.values()) == {True, False}

    with pytest.raises(KeyboardInterrupt), evaluating(model):
        raise KeyboardInterrupt
    assert modes(model) == before
