"""§6.1: beam search against greedy search, brute force, and a slow search written as it is told."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from annotated.contenders import RecurrentModel
from annotated.contenders.recurrent import RecurrentConfig
from annotated.model import Transformer, TransformerConfig
from annotated.translation import beam_search, greedy_search, search
from annotated.translation.search import length_penalty

# A small vocabulary, so that an untrained model says EOS every now and then.
SIZES = {"vocab_size": 7, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 1}
PAD, BOS, EOS = 0, 1, 2
MODELS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "halves": {"positions": "sinusoidal-halves"},
    "attention-bias": {"attention_bias": True},
    "untied": {"tie": False},
    "gelu": {"activation": "gelu"},
    "learned": {"positions": "learned", "max_length": 41},
    "other-ids": {"pad_id": 5, "bos_id": 3, "eos_id": 6},
}
models = pytest.mark.parametrize("model", ["lstm", *MODELS])
seeds = st.integers(0, 2**31)
lengths = st.lists(st.integers(1, 5), min_size=1, max_size=3)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
few = settings(max_examples=4, deadline=None)


def made(name, seed=0, **overrides):
    """An untrained model of that name in float64."""
    torch.manual_seed(seed)
    if name == "lstm":
        model = RecurrentModel(RecurrentConfig(vocab_size=7, d_model=22, layers=1))
    else:
        model = Transformer(TransformerConfig(**(SIZES | MODELS[name] | overrides)))
    return model.double().eval()


def ragged(lengths, config, seed=0):
    """(batch, longest): random words, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.tensor([i for i in range(config.vocab_size) if i != config.pad_id])
    source = torch.full((len(lengths), max(lengths)), config.pad_id)
    for row, n in enumerate(lengths):
        source[row, :n] = words[torch.randint(len(words), (n,), generator=generator)]
    return source


@torch.no_grad()
def log_probabilities(model, source, said):
    """Of each word after these, from the whole model: no cache, no batch."""
    target = torch.tensor([[model.config.bos_id, *said]])
    return model(source[None], target)[0, -1].log_softmax(-1).tolist()


def told(model, source, beam, alpha, extra_length):
    """The search as its docstring tells it, one sentence, and no early end: (words, sum, score)."""
    limit = int((source != model.config.pad_id).sum()) + extra_length
    live, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        longer = [
            ((*said, word), total + log_p)
            for said, total in live
            for word, log_p in enumerate(log_probabilities(model, source, said))
        ]
        best, live = sorted(longer, key=lambda found: -found[1])[:beam], []
        for said, total in best:
            if said[-1] == model.config.eos_id or length == limit:
                finished.append((said, total, total / ((5 + length) / 6) ** alpha))
            else:
                live.append((said, total))
    return sorted(finished, key=lambda found: -found[2])


def assert_same(found, expected, eos_id):
    """Hypotheses are these (words with EOS, sum, score), in this order."""
    assert len(found) == len(expected)
    for ours, (said, total, score) in zip(found, expected, strict=True):
        assert ours.tokens == [word for word in said if word != eos_id]
        assert ours.log_probability == pytest.approx(total, abs=1e-10)
        assert ours.score == pytest.approx(score, abs=1e-10)


class TestAgainstOtherSearches:
    @few
    @given(lengths=lengths, seed=seeds, alpha=alphas)
    @models
    def test_beam_1_is_greedy(self, model, lengths, seed, alpha):
        model = made(model, seed)
        source = ragged(lengths, model.config, seed)
        found = beam_search(model, source, beam=1, alpha=alpha, extra_length=5)
        for (ours,), theirs in zip(
            found, greedy_search(model, source, extra_length=5), strict=True
        ):
            assert ours.tokens == theirs.tokens
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-10)
            if alpha == 0:
                assert ours.score == pytest.approx(theirs.score, abs=1e-10)

    @few
    @given(lengths=lengths, seed=seeds, alpha=alphas, beam=st.integers(2, 7), data=st.data())
    @models
    def test_it_finds_what_a_slow_one_without_cache_batch_or_early_end_finds(
        self, model, lengths, seed, alpha, beam, data
    ):
        model, n_best = made(model, seed), data.draw(st.integers(1, beam))
        source = ragged(lengths, model.config, seed)
        found = beam_search(
            model, source, beam=beam, alpha=alpha, extra_length=3, n_best=n_best
        )
        assert len(found) == len(lengths)
        for ours, row in zip(found, source, strict=True):
            expected = told(model, row, beam, alpha, 3)[:n_best]
            assert_same(ours, expected, model.config.eos_id)

    @few
    @given(seed=seeds, alpha=alphas, extra=st.integers(0, 1), words=st.integers(1, 3))
    def test_a_beam_that_cannot_prune_is_brute_force_in_order(self, seed, alpha, extra, words):
        """No more hypotheses than the beam is wide: all but a few words are impossible."""
        model = Few(TransformerConfig(**SIZES | {"vocab_size": 41}), words).double().eval()
        torch.manual_seed(seed)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        source = ragged([2, 1], model.config, seed)
        found = beam_search(model, source, beam=41, alpha=alpha, extra_length=extra, n_best=41)
        for ours, row, n in zip(found, source, (2, 1), strict=True):
            everything = brute_force(model, row, n + extra, alpha)
            assert len(everything) == sum(words**i for i in range(n + extra)) + words ** (n + extra)
            assert_same(ours, everything[:41], EOS)
            assert sum(math.exp(h.log_probability) for h in ours) == pytest.approx(1)


class Few(Transformer):
    """Says EOS and so many words; the others have no probability."""

    def __init__(self, config, words):
        super().__init__(config)
        self.words = words

    def logits(self, x):
        possible = torch.zeros(self.config.vocab_size, dtype=torch.bool)
        possible[EOS : EOS + self.words + 1] = True
        return super().logits(x).masked_fill(~possible, -math.inf)


def brute_force(model, source, limit, alpha):
    """Every sentence that can be said with its sum and score, the best first."""
    words, found = range(EOS + 1, EOS + model.words + 1), []
    for length in range(1, limit + 1):
        for said in itertools.product(words, repeat=length - 1):
            lasts = [EOS, *words] if length == limit else [EOS]
            for last in lasts:
                whole = (*said, last)
                total = sum(
                    log_probabilities(model, source, whole[:i])[word]
                    for i, word in enumerate(whole)
                )
                found.append((whole, total, total / ((5 + length) / 6) ** alpha))
    return sorted(found, key=lambda each: -each[2])


class TestScores:
    @few
    @given(lengths=lengths, seed=seeds, alpha=alphas)
    @models
    @torch.no_grad()
    def test_they_are_recomputed_sums_over_their_penalty(self, model, lengths, seed, alpha):
        model = made(model, seed)
        config, source = model.config, ragged(lengths, model.config, seed)
        found = beam_search(model, source, beam=5, alpha=alpha, extra_length=4, n_best=5)
        for ours, row, n in zip(found, source, lengths, strict=True):
            assert ours == sorted(ours, key=lambda h: -h.score)
            assert len({tuple(h.tokens) for h in ours}) == len(ours)
            for hypothesis in ours:
                said = [*hypothesis.tokens]
                if len(said) < n + 4:
                    said.append(config.eos_id)
                target = torch.tensor([[config.bos_id, *said[:-1]]])
                log_p = model(row[None, :n], target)[0].log_softmax(-1)
                total = float(log_p[range(len(said)), said].sum())
                assert hypothesis.log_probability == pytest.approx(total, abs=1e-10)
                penalty = ((5 + len(said)) / 6) ** alpha
                assert hypothesis.score == pytest.approx(total / penalty, abs=1e-10)

    @few
    @given(lengths=lengths, seed=seeds)
    def test_the_first_of_many_is_the_only_one_of_one(self, lengths, seed):
        model = made("paper", seed)
        source = ragged(lengths, model.config, seed)
        several = beam_search(model, source, n_best=4, extra_length=5)
        for one, many in zip(
            beam_search(model, source, extra_length=5), several, strict=True
        ):
            assert len(one) == 1 and len(many) == 4
            assert one[0].tokens == many[0].tokens
            assert one[0].score == pytest.approx(many[0].score, abs=1e-12)

    def test_the_penalty_is_gnmts(self):
        """((5 + |Y|) / 6)^α: 1 for a single token, whatever α."""
        assert length_penalty(1, 0.6) == 1
        assert length_penalty(7, 0.0) == 1
        assert length_penalty(25, 0.6) == pytest.approx(5**0.6)
        lengths = torch.tensor([1, 13])
        torch.testing.assert_close(length_penalty(lengths, 1.0), torch.tensor([1.0, 3.0]))


class TestBatches:
    @few
    @given(lengths=st.lists(st.integers(1, 7), min_size=2, max_size=5), seed=seeds)
    @models
    def test_a_batch_is_its_sentences_one_by_one(self, model, lengths, seed):
        model = made(model, seed)
        source = ragged(lengths, model.config, seed)
        together = beam_search(model, source, beam=3, extra_length=6, n_best=3)
        for found, row, n in zip(together, source, lengths, strict=True):
            (alone,) = beam_search(model, row[None, :n], beam=3, extra_length=6, n_best=3)
            assert [h.tokens for h in found] == [h.tokens for h in alone]
            for a, b in zip(found, alone, strict=True):
                assert a.score == pytest.approx(b.score, abs=1e-10)

    def test_the_comparison_sees_sentences_that_leave_and_some_that_stay(self):
        """What the tests above rest on: sentences of a batch end at different steps."""
        apart = 0
        for seed in range(20):
            model = made("paper", seed)
            widths = []
            step = model.step
            model.step = lambda token, cache, step=step, widths=widths: (
                widths.append(len(token)), step(token, cache)
            )[1]
            beam_search(model, ragged([5, 2, 7], model.config, seed), beam=3, extra_length=5)
            assert widths[0] == 3 and all(width % 3 == 0 for width in widths)
            assert widths[1:] == sorted(widths[1:], reverse=True)
            apart += len(set(widths[1:])) > 1
        assert apart > 10

    def test_no_sentences_have_no_translations(self):
        assert beam_search(made("paper"), torch.empty(0, 5, dtype=torch.int64)) == []

    def test_an_empty_sentence_with_nothing_extra_says_nothing(self):
        model = made("paper")
        source = ragged([3, 1], model.config)
        expected = beam_search(model, source[:1], extra_length=0)
        source[1] = PAD
        found = beam_search(model, source, extra_length=0)
        assert [h.tokens for h in found[0]] == [h.tokens for h in expected[0]]
        assert [(h.tokens, h.score) for h in found[1]] == [([], 0.0)]


class TestEnd:
    @few
    @given(lengths=lengths, seed=seeds, alpha=alphas, n_best=st.integers(1, 4))
    def test_early_finds_what_the_very_end_finds(self, lengths, seed, alpha, n_best):
        model = made("paper", seed)
        source = ragged(lengths, model.config, seed)
        options = dict(alpha=alpha, n_best=n_best, extra_length=8)
        early = beam_search(model, source, **options)
        with pytest.MonkeyPatch.context() as patch:
            alive = lambda live, *_: live.log_probability.amax(1) > -math.inf  # noqa: E731
            patch.setattr(search, "can_win", alive)
            late = beam_search(model, source, **options)
        for a, b in zip(early, late, strict=True):
            assert [h.tokens for h in a] == [h.tokens for h in b]
            assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-12)

    @pytest.mark.parametrize("extra", [0, 1, 5])
    def test_the_limit_is_the_sentences_own_not_the_padded_width(self, extra):
        """A model that has no EOS to say is cut there; all its hypotheses are as long."""
        model = Few(TransformerConfig(**SIZES), 3).eval()
        logits = model.logits
        model.logits = lambda x: logits(x).index_fill(-1, torch.tensor([EOS]), -math.inf)
        found = beam_search(model, ragged([5, 1, 7], model.config), extra_length=extra, n_best=3)
        for ours, n in zip(found, (5, 1, 7), strict=True):
            assert {len(h.tokens) for h in ours} == {n + extra}
            assert ours[0].penalty == pytest.approx(length_penalty(n + extra, 0.6))

    def test_the_papers_numbers_are_the_defaults(self):
        from annotated import paper

        model = Few(TransformerConfig(**SIZES), 3).eval()
        source = ragged([3], model.config)
        decoding = paper.DECODING
        expected = beam_search(
            model, source, beam=decoding.beam, alpha=decoding.alpha,
            extra_length=decoding.extra_length,
        )
        assert beam_search(model, source) == expected

    def test_learned_positions_end_a_translation_at_their_length(self):
        model = made("learned", max_length=11)
        for ours in beam_search(model, ragged([5, 11], model.config), n_best=4):
            assert all(len(h.tokens) <= 11 for h in ours)


class Scripted(nn.Module):
    """Says what a table says, from start, step and select alone: all that a search may use.

    `table` has the distribution after each prefix; the cache holds the prefixes.
    """

    config = TransformerConfig(vocab_size=7)

    class Cache:
        def __init__(self, said):
            self.said = said

        def select(self, rows):
            self.said = [self.said[row] for row in rows.tolist()]

    def __init__(self, table):
        super().__init__()
        self.table, self.widths = table, []

    def encode(self, source):
        return source[..., None].float()

    def start(self, source, capacity, memory=None):
        return self.Cache([""] * len(source))

    def step(self, token, cache):
        assert len(token) == len(cache.said)
        self.widths.append(len(token))
        names = ["", "", "", "a", "b", "c", "d"]
        cache.said = [said + names[word] for said, word in zip(cache.said, token, strict=True)]
        rows = []
        for said in cache.said:
            p = self.table.get(said, {"end": 1.0})
            rows.append([0.0, 0.0, *(p.get(name, 0.0) for name in ("end", "a", "b", "c", "d"))])
        return torch.tensor(rows, dtype=torch.float64).log()


class TestByHand:
    A, B, C, D = 3, 4, 5, 6
    ONE = torch.tensor([[3]])

    def test_a_beam_finds_what_greedy_search_misses(self):
        """The likeliest first word leads nowhere: a lost choice that a beam of two keeps."""
        model = Scripted({
            "": {"a": 0.5, "b": 0.4, "end": 0.1},
            "a": {"c": 0.3, "d": 0.3, "a": 0.2, "b": 0.2},
            "b": {"end": 0.9, "a": 0.1},
        })
        (greedy,) = greedy_search(model, self.ONE)
        assert greedy.tokens[0] == self.A
        ((found,),) = beam_search(model, self.ONE, beam=2, alpha=0.0)
        assert found.tokens == [self.B]
        assert found.log_probability == pytest.approx(math.log(0.4 * 0.9))
        assert greedy.log_probability < found.log_probability

    def test_a_finished_one_keeps_its_score_while_others_go_on(self):
        model = Scripted({
            "": {"end": 0.4, "a": 0.6},
            "a": {"a": 1.0}, "aa": {"a": 0.9, "end": 0.1}, "aaa": {"end": 1.0},
        })
        ((first, second),) = beam_search(model, self.ONE, beam=2, alpha=0.0, n_best=2)
        assert (first.tokens, second.tokens) == ([self.A] * 3, [])
        assert first.log_probability == pytest.approx(math.log(0.54))
        assert second.log_probability == pytest.approx(math.log(0.4))

    def test_the_penalty_prefers_a_longer_one(self):
        """Sums -0.92 and -1.11; over ((5 + 5) / 6)^0.6 = 1.36 the second is -0.81."""
        table = {
            "": {"end": 0.40, "a": 0.33, "b": 0.27},
            "a": {"a": 1.0}, "aa": {"a": 1.0}, "aaa": {"a": 1.0},
        }
        ((short,),) = beam_search(Scripted(table), self.ONE, beam=2, alpha=0.0)
        ((long,),) = beam_search(Scripted(table), self.ONE, beam=2, alpha=0.6)
        assert short.tokens == [] and long.tokens == [self.A] * 4
        assert long.score == pytest.approx(math.log(0.33) / (10 / 6) ** 0.6)

    def test_it_stops_as_soon_as_no_live_one_can_win(self):
        """Of α 0 at once; with α the live ones might still gain by their length, and do not."""
        table = {"": {"end": 0.6, "a": 0.4}} | {
            "a" * n: {"a": 0.9, "end": 0.1} for n in range(1, 60)
        }
        model = Scripted(table)
        ((found,),) = beam_search(model, self.ONE, beam=2, alpha=0.0)
        assert found.tokens == [] and model.widths == [1]
        model = Scripted(table)
        ((found,),) = beam_search(model, self.ONE, beam=2, alpha=0.6)
        steps = len(model.widths)
        bound = [math.log(0.4 * 0.9**n) / (56 / 6) ** 0.6 for n in range(steps)]
        assert found.tokens == [] and 1 < steps < 51
        assert bound[-1] <= math.log(0.6) < bound[-2]

    def test_what_has_no_probability_is_no_hypothesis(self):
        model = Scripted({"": {"a": 0.7, "b": 0.3}})
        (found,) = beam_search(model, self.ONE, beam=5, alpha=0.0, n_best=5)
        assert [h.tokens for h in found] == [[self.A], [self.B]]
        assert [h.log_probability for h in found] == pytest.approx([math.log(0.7), math.log(0.3)])

    def test_results_are_plain_python(self):
        (found,) = beam_search(Scripted({"": {"a": 0.7, "b": 0.3}}), self.ONE, n_best=2)
        for hypothesis in found:
            assert all(type(token) is int for token in hypothesis.tokens)
            assert type(hypothesis.log_probability) is type(hypothesis.score) is float


class TestTheModel:
    def test_is_searched_without_dropout_and_keeps_its_mode(self):
        model = made("paper", 3, dropout=0.5, attention_dropout=0.5)
        source = ragged([5, 2, 7], model.config)
        expected = beam_search(model, source, extra_length=5)
        model.train()
        assert beam_search(model, source, extra_length=5) == expected
        assert all(module.training for module in model.modules())

    def test_encodes_once_and_can_be_given_another_memory(self):
        """Of a sentence of the same length: the answer is then that sentence's answer."""
        differ = 0
        for seed in range(5):
            model, calls = made("paper", seed), []
            ours, theirs = ragged([5, 3], model.config, seed), ragged([5, 3], model.config, 99)
            with torch.no_grad():
                memory = model.encode(theirs)
            model.encoder.register_forward_hook(lambda *call, calls=calls: calls.append(call))
            found = beam_search(model, ours, memory=memory, extra_length=5, n_best=2)
            assert calls == []
            expected = beam_search(model, theirs, extra_length=5, n_best=2)
            assert len(calls) == 1
            for a, b in zip(found, expected, strict=True):
                assert [h.tokens for h in a] == [h.tokens for h in b]
                assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-10)
            differ += found != beam_search(model, ours, extra_length=5, n_best=2)
        assert differ > 2

    def test_half_precision_is_summed_in_float32(self):
        model = made("paper").to(torch.bfloat16)
        (found,) = beam_search(model, ragged([3], model.config), extra_length=3)
        assert found[0].log_probability != float(torch.tensor(found[0].log_probability).bfloat16())

    def test_no_number_gives_an_answer_that_is_no_number_rather_than_no_end(self):
        model = made("paper")
        with torch.no_grad():
            model.embedding.weight[3] = math.nan
        (found,) = beam_search(model, torch.tensor([[4, 4]]))
        assert math.isnan(found[0].log_probability)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam is 0; expected at least 1"),
        ({"beam": -3}, "beam is -3; expected at least 1"),
        ({"beam": 8}, "beam is 8; expected at most 7 words"),
        ({"n_best": 5}, "n_best is 5; expected 1 to beam, 4"),
        ({"n_best": 0}, "n_best is 0; expected 1 to beam, 4"),
        ({"alpha": -0.1}, "alpha is -0.1; expected a number from 0"),
        ({"alpha": math.inf}, "alpha is inf; expected a number from 0"),
        ({"alpha": math.nan}, "alpha is nan; expected a number from 0"),
        ({"extra_length": -1}, "extra_length is -1; expected at least 0"),
    ],
)
def test_what_can_not_be_meant_is_refused(options, message):
    model = made("paper")
    with pytest.raises(ValueError) as caught:
        beam_search(model, ragged([3], model.config), **options)
    assert str(caught.value) == message


def test_all_the_words_there_are_may_be_a_beam():
    model = made("paper")
    (found,) = beam_search(model, ragged([3], model.config), beam=7, n_best=7, extra_length=2)
    assert len(found) == 7
