"""The LSTM encoder-decoder keeps the Transformer's contract, and learns."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.contenders import RecurrentConfig, RecurrentModel, equal_parameters
from annotated.contenders.additive import additive_attention
from annotated.contenders.recurrent import ATTENTIONS, parameters_of
from annotated.data.batches import collate
from annotated.model import Cache, Seq2Seq, Transformer, TransformerConfig
from annotated.model.contract import Seq2SeqConfig
from annotated.training import Trainer, TrainingConfig
from annotated.translation.search import greedy_search

CLOSE = 1e-10
every = pytest.mark.parametrize("attention", ATTENTIONS)
few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**31)


def made(attention, seed=0, **more):
    torch.manual_seed(seed)
    given = dict(vocab_size=37, d_model=22, d_state=13, attention=attention, pad_id=5)
    model = RecurrentModel(RecurrentConfig(**given | more)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture
def source(sentences, pad):
    """Ragged sentences, one of them padding only."""
    config = made("none").config
    return pad([*sentences([5, 7, 1], config), torch.full((3,), config.pad_id)], config.pad_id)


@pytest.fixture
def target(sentences):
    return torch.stack(sentences([7] * 4, made("none").config, seed=1))


def assert_same(ours, theirs):
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    assert difference.max() < CLOSE, f"max {difference.max()}, mean {difference.mean()}"


class TestContract:
    @every
    def test_it_is_a_model_as_the_contract_has_it(self, attention, source, target):
        model = made(attention)
        assert isinstance(model, Seq2Seq) and isinstance(model.config, Seq2SeqConfig)
        assert isinstance(model.start(source, 3), Cache)
        assert model(source, target).shape == (4, 7, 37)
        assert model.encode(source).shape == (4, 7, 22)

    @every
    @pytest.mark.parametrize("layers", [1, 3])
    def test_every_step_equals_the_whole_computation(self, attention, layers, source, target):
        model = made(attention, layers=layers)
        whole, cache = model(source, target), model.start(source, capacity=7)
        for t in range(7):
            assert_same(model.step(target[:, t], cache), whole[:, t])

    @every
    @few
    @given(seed=seeds, rows=st.lists(st.integers(0, 3), min_size=1, max_size=6))
    def test_also_after_rows_were_repeated_reordered_and_dropped(
        self, attention, seed, rows, sentences, pad
    ):
        model = made(attention, seed)
        source = pad(sentences([5, 7, 1, 2], model.config, seed), 5)
        target = torch.stack(sentences([5] * 4, model.config, seed + 1))
        cache, rows = model.start(source, 5), torch.tensor(rows)
        for t in range(2):
            model.step(target[:, t], cache)
        cache.select(rows)
        whole = model(source[rows], target[rows])
        for t in range(2, 5):
            assert_same(model.step(target[rows, t], cache), whole[:, t])

    @every
    @few
    @given(seed=seeds, more=st.integers(0, 5))
    def test_a_sentence_alone_is_as_in_a_padded_batch(self, attention, seed, more, sentences, pad):
        model = made(attention, seed)
        lengths = [5, 7, 1, 3]
        rows, words = (sentences(lengths, model.config, seed + i) for i in (0, 1))
        batch = model(pad(rows, 5, width=7 + more), pad(words, 5, width=7 + more))
        for row, word, logits in zip(rows, words, batch):
            assert_same(model(row[None], word[None])[0], logits[: len(word)])

    @every
    def test_logits_depend_on_no_later_word(self, attention, source, target):
        model = made(attention)
        before = model(source, target)
        target = target.clone()
        target[:, 4:] = (target[:, 4:] + 11) % 37
        after = model(source, target)
        assert torch.equal(before[:, :4], after[:, :4])
        assert (before[:, 4:] - after[:, 4:]).abs().amax((1, 2)).min() > 1e-6

    @every
    def test_every_piece_of_the_source_counts(self, attention, source, target):
        model = made(attention)
        before = model(source, target)
        for place in range(5):
            changed = source.clone()
            changed[0, place] = (changed[0, place] + 6) % 37
            if changed[0, place] != 5:
                assert (model(changed, target)[0] - before[0]).abs().max() > 1e-9

    @every
    def test_a_memory_that_stands_in_is_the_one_that_is_used(self, attention, source):
        model = made(attention)
        other = model.encode(source.flip(0))
        found = greedy_search(model, source.flip(0), extra_length=3)
        swapped = greedy_search(model, source.flip(0), memory=other, extra_length=3)
        assert [h.tokens for h in swapped] == [h.tokens for h in found]
        bos = torch.full((4,), 1)
        first, second = (
            model.step(bos, model.start(source, 3, memory)) for memory in (None, 0 * other)
        )
        assert (first - second).abs().max() > 1e-6

    def test_a_state_of_fixed_size_is_all_that_is_kept_without_attention(self, sentences):
        """With attention the memory is; neither grows as the target does."""
        model = made("none")
        cache = model.start(torch.stack(sentences([7], model.config)), 1000)
        size = sum(x.numel() for x in cache.state)
        for _ in range(5):
            model.step(torch.tensor([1]), cache)
        assert sum(x.numel() for x in cache.state) == size == 2 * 2 * 13
        assert cache.memory.numel() == cache.keys.numel() == 0


class TestAttention:
    @pytest.mark.parametrize("attention", ["before", "after"])
    def test_it_is_additive_attention(self, attention, source):
        model = made(attention)
        cache = model.start(source, 3)
        query = torch.randn(4, 3, 13).double()
        expected, weights = additive_attention(
            query, cache.memory, cache.memory, model.w_q, model.w_k, model.w, cache.mask
        )
        assert_same(model.attend(query, cache), expected)
        assert (weights[3] == 0).all() and (model.attend(query, cache)[3] == 0).all()

    def test_the_first_state_is_where_both_directions_ended(self, source):
        model = made("none", layers=1)
        one = source[:1, :5]  # without padding
        _, (h, _) = model.encoder(model.embedding(one))
        state, _ = model.start(one, 3).state
        assert_same(state[0], torch.tanh(model.bridge(torch.cat([h[0], h[1]], -1))))


class TestSizes:
    @pytest.mark.parametrize("attention", ATTENTIONS)
    @pytest.mark.parametrize("config", [
        TransformerConfig.tiny(vocab_size=4001), TransformerConfig.tiny(vocab_size=500),
        TransformerConfig(vocab_size=401, d_model=48, d_ff=192, heads=2, layers=2),
    ])
    def test_as_many_parameters_as_a_transformer(self, config, attention):
        ours = equal_parameters(config, attention)
        count, wanted = parameters_of(RecurrentModel, ours), parameters_of(Transformer, config)
        assert abs(count - wanted) <= 0.01 * wanted
        assert (ours.vocab_size, ours.dropout) == (config.vocab_size, config.dropout)

    def test_the_count_without_making_it_is_that_of_the_model(self):
        model = made("before")
        found = sum(p.numel() for p in model.parameters())
        assert parameters_of(RecurrentModel, model.config) == found

    @pytest.mark.parametrize(("field", "value", "said"), [
        ("d_model", 21, "^d_model is 21; expected an even number"),
        ("layers", 0, "^layers is 0; expected at least 1"),
        ("attention", "hard", "^attention is 'hard'; expected one of"),
    ])
    def test_what_can_not_be_is_refused(self, field, value, said):
        with pytest.raises(ValueError, match=said):
            RecurrentConfig(**{field: value})


class TestTraining:
    @pytest.mark.parametrize(
        ("attention", "letters", "longest"), [("before", 5, 4), ("after", 5, 4), ("none", 3, 3)]
    )
    def test_it_learns_to_copy_exactly(self, attention, letters, longest):
        """A trainer that knows nothing of recurrences; with attention, sequences it never saw."""
        rng = random.Random(0)
        drawn = [
            [rng.randrange(3, 3 + letters) for _ in range(rng.randint(1, longest))]
            for _ in range(6000)
        ]
        if attention == "none":
            pairs = tested = drawn
        else:
            tested = [w for w in drawn if sum(i * x for i, x in enumerate(w, 1)) % 7 == 0]
            pairs = [w for w in drawn if sum(i * x for i, x in enumerate(w, 1)) % 7]
        torch.manual_seed(0)
        model = RecurrentModel(RecurrentConfig(
            vocab_size=3 + letters, d_model=48, layers=1, attention=attention, dropout=0.0
        ))
        trainer = Trainer(model, TrainingConfig(
            steps=160, warmup_steps=30, batch_tokens=400, factor=0.3, label_smoothing=0.0,
            average=5, average_every=8, length_noise=3.0,
        ))
        assert trainer.fit([(w, w) for w in pairs])
        tested = tested[:150]
        source = collate([(w, w) for w in tested], 0, 1, 2).source
        found = [h.tokens for h in greedy_search(model, source, extra_length=3)]
        assert sum(map(list.__eq__, found, tested)) == len(tested)
