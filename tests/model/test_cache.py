"""Decoding with a cache equals computing everything again, whatever becomes of its rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

CLOSE = 1e-10


class Recomputed:
    """What the cache must equal: the words so far, and the whole model over them each time."""

    def __init__(self, model, source):
        self.model, self.source = model, source
        self.words = source.new_empty(len(source), 0)

    def step(self, token):
        self.words = torch.cat([self.words, token[:, None]], dim=1)
        with torch.no_grad():
            return self.model(self.source, self.words)[:, -1]

    def select(self, rows):
        self.source, self.words = self.source[rows], self.words[rows]


def assert_same(cached, recomputed):
    assert cached.shape == recomputed.shape
    difference = (cached - recomputed).abs()
    assert difference.max() < CLOSE, f"max {difference.max()}, mean {difference.mean()}"


@pytest.fixture(scope="session")
def batch(sentences, pad):
    """Ragged sentences, one of them padding only."""

    def make(model, seed=0):
        pad_id = model.config.pad_id
        rows = [*sentences([5, 7, 1], model.config, seed), torch.full((3,), pad_id)]
        return pad(rows, pad_id)

    return make


def test_every_step_equals_the_whole_computation(build, sentences, batch, variant):
    model = build(torch.float64, **variant)
    source = batch(model)
    target = torch.stack(sentences([7] * len(source), model.config, seed=1))
    whole = model(source, target)
    cache = model.start(source, capacity=7)
    for t in range(7):
        logits = model.step(target[:, t], cache)
        assert_same(logits, whole[:, t])
    assert not logits.requires_grad


def test_the_last_of_many_steps_still_sees_the_first(build, sentences):
    """Nothing is forgotten: the same logits as at once, beyond the 512 rows of kept sinusoids."""
    model = build(torch.float64)
    (source,), (target,) = sentences([5], model.config), sentences([523], model.config, seed=1)
    cache = model.start(source[None], capacity=len(target))
    logits = [model.step(token[None], cache) for token in target]
    with torch.no_grad():
        assert_same(torch.stack(logits, 1), model(source[None], target[None]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), data=st.data())
def test_also_after_rows_were_repeated_reordered_and_dropped(build, batch, variant, seed, data):
    model = build(torch.float64, **variant)
    source = batch(model, seed)
    generator = torch.Generator().manual_seed(seed)
    cache, reference = model.start(source, capacity=11), Recomputed(model, source)
    rows = len(source)
    for _ in range(data.draw(st.integers(1, 7))):
        if data.draw(st.booleans()):
            chosen = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=6))
            cache.select(torch.tensor(chosen))
            reference.select(torch.tensor(chosen))
            rows = len(chosen)
        token = torch.randint(0, 37, (rows,), generator=generator)
        assert_same(model.step(token, cache), reference.step(token))


@pytest.mark.parametrize(
    "rows", [[0, 0, 0, 0], [3, 2, 1, 0], [2], [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2, 3]], ids=str
)
def test_select(build, batch, rows):
    model = build(torch.float64)
    source = batch(model)
    cache, reference = model.start(source, capacity=5), Recomputed(model, source)
    for t in range(2):
        token = torch.tensor([1, 4, 6, 8]) + t
        assert_same(model.step(token, cache), reference.step(token))
    cache.select(torch.tensor(rows))
    reference.select(torch.tensor(rows))
    for t in range(3):  # equal rows go different ways from here
        token = torch.arange(len(rows)) + 3 * t
        assert_same(model.step(token, cache), reference.step(token))


def test_select_before_the_first_step(build, batch):
    model = build(torch.float64)
    source, rows = batch(model), torch.tensor([1, 1, 3])
    cache = model.start(source, capacity=2)
    cache.select(rows)
    token = torch.tensor([1, 5, 9])
    assert_same(model.step(token, cache), model(source[rows], token[:, None])[:, -1])


def test_capacity_is_room_and_nothing_else(build, batch):
    model = build(torch.float64)
    source, token = batch(model), torch.tensor([1, 4, 6, 8])
    narrow, wide = model.start(source, capacity=1), model.start(source, capacity=101)
    assert torch.equal(model.step(token, narrow), model.step(token, wide))
    with pytest.raises(ValueError, match=r"full.*\b1\b"):
        model.step(token, narrow)


def test_two_caches_of_one_model_are_independent(build, batch):
    model = build(torch.float64)
    source = batch(model)
    one, other = model.start(source, capacity=3), model.start(source.flip(0), capacity=3)
    references = Recomputed(model, source), Recomputed(model, source.flip(0))
    for t in range(3):
        for shift, cache, reference in ((0, one, references[0]), (5, other, references[1])):
            token = torch.tensor([1, 4, 6, 8]) + t + shift
            assert_same(model.step(token, cache), reference.step(token))


def test_the_source_is_encoded_and_projected_once(build, batch):
    model = build()
    calls = {"encoder": 0, "memory": 0}

    def count(name):
        return lambda *_: calls.update({name: calls[name] + 1})

    model.encoder.register_forward_hook(count("encoder"))
    for layer in model.decoder.layers:
        layer.cross_attention.w_k.register_forward_hook(count("memory"))
        layer.cross_attention.w_v.register_forward_hook(count("memory"))
    cache = model.start(batch(model), capacity=3)
    for _ in range(3):
        model.step(torch.tensor([1, 4, 6, 8]), cache)
    assert calls == {"encoder": 1, "memory": 2 * 2}


def test_another_memory_may_stand_in_for_the_encoders(build, batch):
    """For interventions: change what the encoder said, and see what the decoder makes of it."""
    model = build(torch.float64)
    source = batch(model)
    memory = model.encode(source).detach().roll(1, dims=1)
    target = torch.tensor([[1, 4], [1, 6], [1, 8], [1, 9]])
    model.encoder.register_forward_pre_hook(lambda *_: pytest.fail("the encoder was asked"))
    whole = model.decode(target, memory, source)
    cache = model.start(source, 2, memory)
    for t in range(2):
        assert_same(model.step(target[:, t], cache), whole[:, t])


def test_a_step_works_on_one_position(build, batch):
    model = build()
    widths = set()
    for module in model.decoder.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, args: widths.add(args[0].shape[1]))
    cache = model.start(batch(model), capacity=3)
    widths.clear()  # start projects the memory
    for _ in range(3):
        model.step(torch.tensor([1, 4, 6, 8]), cache)
    assert widths == {1}
