"""§6.1: greedy search against an argmax loop, and against models whose answer is known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from annotated.model import Transformer, TransformerConfig
from annotated.translation.search import Hypothesis, greedy_search

# A small vocabulary, so that an untrained model says EOS every now and then.
SIZES = {"vocab_size": 7, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "learned": {"positions": "learned", "max_length": 41},
    "other-ids": {"pad_id": 5, "bos_id": 3, "eos_id": 6},
}
variants = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
seeds = st.integers(0, 2**31)
few = settings(max_examples=10, deadline=None)


def build(seed=0, **overrides):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**(SIZES | overrides))).double().eval()


def ragged(lengths, config, seed=0):
    """(batch, longest): random words, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.tensor([i for i in range(config.vocab_size) if i != config.pad_id])
    source = torch.full((len(lengths), max(lengths)), config.pad_id)
    for row, n in enumerate(lengths):
        source[row, :n] = words[torch.randint(len(words), (n,), generator=generator)]
    return source


@torch.no_grad()
def argmax_loop(model, source, extra_length):
    """One sentence, the whole model again at every step: (tokens, log-probability)."""
    config = model.config
    limit = int((source != config.pad_id).sum()) + extra_length
    target, total = [config.bos_id], 0.0
    while len(target) <= limit:
        log_p = model(source[None], torch.tensor([target]))[0, -1].log_softmax(-1)
        word = int(log_p.argmax())
        total += float(log_p[word])
        if word == config.eos_id:
            break
        target.append(word)
    return target[1:], total


def always_says(word, **overrides):
    """A Transformer whose last norm gives one vector whatever comes in: that of `word`."""
    model = build(**overrides)
    with torch.no_grad():
        end = model.decoder.layers[-1].sublayer_3.norm
        end.weight.zero_()
        model.embedding.weight[word] = 1.0
        end.bias.fill_(0.3)
    return model


def probability_of_always(model, word):
    bias = model.decoder.layers[-1].sublayer_3.norm.bias
    return float((model.embedding.weight @ bias).log_softmax(-1)[word].detach())


def assert_same(hypothesis, tokens, log_probability):
    assert hypothesis.tokens == tokens
    assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-10)


class TestAgainstRecomputation:
    @few
    @given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), seed=seeds)
    @variants
    def test_equals_an_argmax_loop_sentence_by_sentence(self, variant, lengths, seed):
        model = build(seed, **variant)
        source = ragged(lengths, model.config, seed)
        found = greedy_search(model, source, extra_length=5)
        assert len(found) == len(lengths)
        for hypothesis, row in zip(found, source, strict=True):
            assert_same(hypothesis, *argmax_loop(model, row, extra_length=5))

    def test_the_comparison_sees_sentences_that_end_and_sentences_that_do_not(self):
        """What the test above rests on: both kinds come up, also side by side."""
        kinds = set()
        for seed in range(40):
            model = build(seed)
            source = ragged([5, 2, 7], model.config, seed)
            found = greedy_search(model, source, extra_length=5)
            ended = [len(h.tokens) < n + 5 for h, n in zip(found, (5, 2, 7), strict=True)]
            kinds.add((any(ended), all(ended)))
        assert kinds >= {(False, False), (True, False)}

    @few
    @given(lengths=st.lists(st.integers(1, 7), min_size=2, max_size=5), seed=seeds)
    @variants
    def test_a_batch_equals_its_sentences_one_by_one(self, variant, lengths, seed):
        model = build(seed, **variant)
        source = ragged(lengths, model.config, seed)
        together = greedy_search(model, source, extra_length=7)
        for hypothesis, row, n in zip(together, source, lengths, strict=True):
            (alone,) = greedy_search(model, row[None, :n], extra_length=7)
            assert_same(hypothesis, alone.tokens, alone.log_probability)

    def test_wider_padding_and_another_order_change_nothing(self):
        model = build(3)
        source = ragged([5, 2, 7], model.config)
        wide = torch.cat([source, torch.full((3, 11), model.config.pad_id)], dim=1).flip(0)
        one = greedy_search(model, source, extra_length=5)
        other = greedy_search(model, wide, extra_length=5)[::-1]
        for a, b in zip(one, other, strict=True):
            assert_same(a, b.tokens, b.log_probability)

    @torch.no_grad()
    def test_the_score_is_the_log_probability_of_the_words_and_of_eos(self):
        """Also of a sentence that ended while others went on: it keeps its score."""
        early = 0
        for seed in range(20):
            model = build(seed)
            source = ragged([5, 2, 7], model.config, seed)
            found = greedy_search(model, source, extra_length=5)
            longest = max(len(h.tokens) for h in found)
            for hypothesis, row, n in zip(found, source, (5, 2, 7), strict=True):
                said = [*hypothesis.tokens]
                if len(said) < n + 5:
                    said.append(model.config.eos_id)
                target = torch.tensor([[model.config.bos_id, *said[:-1]]])
                log_p = model(row[None], target)[0].log_softmax(-1)
                total = float(log_p[range(len(said)), said].sum())
                assert hypothesis.log_probability == pytest.approx(total, abs=1e-10)
                early += len(said) < longest
        assert early > 5


class TestLength:
    def test_a_model_that_always_says_eos_translates_to_nothing(self):
        model = always_says(2)
        expected = probability_of_always(model, 2)
        for hypothesis in greedy_search(model, ragged([5, 2, 7], model.config)):
            assert_same(hypothesis, [], expected)
            assert hypothesis.log_probability < 0

    @pytest.mark.parametrize("extra", [0, 1, 5])
    def test_a_model_that_never_does_stops_at_its_own_length_plus_the_extra(self, extra):
        model = always_says(4)
        each = probability_of_always(model, 4)
        lengths = [5, 1, 7]
        found = greedy_search(model, ragged(lengths, model.config), extra_length=extra)
        for hypothesis, n in zip(found, lengths, strict=True):
            assert_same(hypothesis, [4] * (n + extra), (n + extra) * each)

    def test_the_papers_fifty_is_the_default(self):
        model = always_says(4)
        found = greedy_search(model, ragged([3, 1], model.config))
        assert [len(h.tokens) for h in found] == [53, 51]

    def test_padding_does_not_count_and_other_words_do(self):
        model = always_says(4, pad_id=5, bos_id=3, eos_id=6)
        source = torch.tensor([[0, 0, 3, 6, 5, 5, 5], [1, 5, 5, 5, 5, 5, 5]])
        found = greedy_search(model, source, extra_length=2)
        assert [len(h.tokens) for h in found] == [6, 3]

    def test_a_sentence_of_padding_only_leaves_its_neighbours_alone(self):
        model = build(3)
        source = ragged([5, 2, 7], model.config)
        expected = greedy_search(model, source, extra_length=5)
        source[1] = model.config.pad_id
        found = greedy_search(model, source, extra_length=5)
        for row in (0, 2):
            assert_same(found[row], expected[row].tokens, expected[row].log_probability)
        assert math.isfinite(found[1].log_probability)
        assert len(found[1].tokens) <= 5


class Scripted(nn.Module):
    """Says what a table says, from start, step and select alone: all that a search may use.

    `table[source word][step]` is the distribution; the cache is the source words and a clock.
    """

    class Cache:
        def __init__(self, words):
            self.words, self.time = words, 0

        def select(self, rows):
            self.words = self.words[rows]

    def __init__(self, table, config):
        super().__init__()
        self.table, self.config = table, config
        self.fed, self.widths = [], []

    def encode(self, source):
        return source[..., None].float()

    def start(self, source, capacity, memory=None):
        self.capacity = capacity
        return self.Cache(source[:, 0])

    def step(self, token, cache):
        assert len(token) == len(cache.words)
        self.fed.append(token.tolist())
        self.widths.append(len(token))
        logits = torch.tensor([self.table[int(w)][cache.time] for w in cache.words]).log()
        cache.time += 1
        return logits


class TestAgainstATable:
    A, B, C, D = 3, 4, 5, 6

    @pytest.fixture
    def model(self):
        def p(**words):
            row = [0.0] * 7
            for name, value in words.items():
                row[{"eos": 2, "a": 3, "b": 4, "c": 5, "d": 6}[name]] = value
            return row

        table = {
            3: [p(a=0.6, b=0.4), p(eos=0.5, a=0.3, b=0.2)],
            4: [p(eos=0.9, a=0.1)],
            5: [p(c=0.7, d=0.3), p(d=0.8, c=0.2), p(c=0.4, eos=0.35, a=0.25), p(eos=1.0)],
        }
        return Scripted(table, TransformerConfig(vocab_size=7))

    def test_words_and_scores(self, model):
        found = greedy_search(model, torch.tensor([[3, 3], [4, 4], [5, 5]]))
        assert [h.tokens for h in found] == [[self.A], [], [self.C, self.D, self.C]]
        for hypothesis, p in zip(found, (0.6 * 0.5, 0.9, 0.7 * 0.8 * 0.4), strict=True):
            assert hypothesis.log_probability == pytest.approx(math.log(p), abs=1e-6)

    def test_bos_first_then_its_own_words_and_nothing_after_the_end(self, model):
        greedy_search(model, torch.tensor([[3, 3], [4, 4], [5, 5]]))
        assert model.fed[0] == [1, 1, 1]
        assert [fed[-1] for fed in model.fed] == [1, self.C, self.D, self.C]
        assert len(model.fed) == 4  # nobody is left to ask after the last EOS

    def test_sentences_that_have_ended_leave_the_batch(self, model):
        greedy_search(model, torch.tensor([[3, 3], [4, 4], [5, 5]]))
        assert model.widths == [3, 2, 1, 1]

    def test_the_limit_cuts_without_eos(self, model):
        found = greedy_search(model, torch.tensor([[5, 0], [5, 5]]), extra_length=0)
        assert [h.tokens for h in found] == [[self.C], [self.C, self.D]]
        assert found[0].log_probability == pytest.approx(math.log(0.7), abs=1e-6)
        assert model.capacity >= 2

    def test_results_are_plain_python(self, model):
        for hypothesis in greedy_search(model, torch.tensor([[3, 3], [4, 4]])):
            assert isinstance(hypothesis, Hypothesis)
            assert all(type(token) is int for token in hypothesis.tokens)
            assert type(hypothesis.log_probability) is float


class TestTheModel:
    def test_is_searched_without_dropout_and_keeps_its_mode(self):
        model = build(3, dropout=0.5, attention_dropout=0.5)
        source = ragged([5, 2, 7], model.config)
        expected = greedy_search(model, source, extra_length=5)
        model.train()
        found = greedy_search(model, source, extra_length=5)
        assert all(module.training for module in model.modules())
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b.tokens, b.log_probability)
        model.eval()
        greedy_search(model, source, extra_length=5)
        assert not any(module.training for module in model.modules())

    def test_keeps_its_mode_after_an_error_too(self):
        model = build().train()
        with pytest.raises(ValueError, match="source.*7"):
            greedy_search(model, torch.tensor([[3, 7]]))
        assert all(module.training for module in model.modules())

    def test_encodes_once_and_keeps_no_graph(self):
        model, calls = build(), []
        model.encoder.register_forward_hook(lambda *call: calls.append(call[-1].requires_grad))
        greedy_search(model, ragged([5, 2, 7], model.config), extra_length=5)
        assert calls == [False]

    def test_can_be_given_another_memory(self):
        """Of a sentence of the same length: the answer is then that sentence's answer."""
        differ = 0
        for seed in range(5):
            model = build(seed)
            ours, theirs = ragged([5, 3], model.config, seed), ragged([5, 3], model.config, 99)
            with torch.no_grad():
                memory = model.encode(theirs)
            found = greedy_search(model, ours, memory=memory, extra_length=5)
            expected = greedy_search(model, theirs, extra_length=5)
            for a, b in zip(found, expected, strict=True):
                assert_same(a, b.tokens, b.log_probability)
            differ += found != greedy_search(model, ours, extra_length=5)
        assert differ > 2

    def test_can_be_trained_afterwards(self):
        model = build().train()
        source = ragged([5, 2], model.config)
        greedy_search(model, source, extra_length=2)
        model(source, source).logsumexp(-1).sum().backward()
        assert model.embedding.weight.grad.abs().sum() > 0


def test_learned_positions_end_a_translation_at_their_length():
    """The last position is used too, by a model that would go on for ever."""
    model = always_says(4, positions="learned", max_length=11)
    source = ragged([5, 11], model.config)
    assert [h.tokens for h in greedy_search(model, source)] == [[4] * 11] * 2
    assert [len(h.tokens) for h in greedy_search(model, source, extra_length=3)] == [8, 11]


def test_a_batch_of_no_sentences_has_no_translations():
    assert greedy_search(build(), torch.empty(0, 5, dtype=torch.int64)) == []
