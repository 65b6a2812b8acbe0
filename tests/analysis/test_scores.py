"""§6.2: perplexity against PyTorch's cross-entropy, and against how sentences are batched."""

import math
import random
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from annotated.analysis.scores import (
    memory_cosine,
    perplexity,
    probability_of_right,
    token_accuracy,
    token_probabilities,
    wrong_tokens,
)
from annotated.data.batches import Batch, collate
from annotated.model import Transformer, TransformerConfig

SIZES = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}


def build(dtype=torch.float64, **overrides):
    torch.manual_seed(0)
    config = TransformerConfig(**(SIZES | {"dropout": 0.5} | overrides))
    return Transformer(config).to(dtype)


def corpus(count=23, seed=0):
    rng = random.Random(seed)
    return [
        tuple([rng.randrange(3, 36) for _ in range(rng.randint(1, 13))] for _ in "st")
        for _ in range(count)
    ]


def batch_of(pairs, config=None):
    return collate(pairs, config.pad_id if config else 0, 1, 2)


def one_by_one(pairs, config=None):
    return [batch_of([pair], config) for pair in pairs]


class Fixed(Transformer):
    """Says the same, whatever it reads: a logit for each word."""

    def __init__(self, logits, pad_id=0):
        small = dict(d_model=2, d_ff=3, heads=1, layers=1)
        super().__init__(TransformerConfig(len(logits), pad_id=pad_id, **small))
        self.fixed = nn.Parameter(torch.tensor(logits, dtype=torch.float64))

    def forward(self, source, target):
        return self.fixed.expand(*target.shape, -1)


def labelled(*rows):
    labels = torch.tensor(rows)
    return Batch(source=labels, target=labels, labels=labels)


class TestValue:
    def test_it_is_e_to_pytorchs_cross_entropy(self):
        model, batch = build(), batch_of(corpus())
        with torch.no_grad():
            logits = model.eval()(batch.source, batch.target)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0)
        assert perplexity(model, [batch]) == pytest.approx(math.exp(loss), rel=1e-12)
        assert math.exp(loss) > 10  # an untrained one: far from where all agree

    def test_who_knows_nothing_has_the_size_of_the_vocabulary(self):
        model = build()
        nn.init.zeros_(model.embedding.weight)  # tied: its logits are 0, too
        assert perplexity(model, [batch_of(corpus())]) == pytest.approx(37, rel=1e-12)

    def test_who_knows_all_has_1(self):
        logits = [-1e4] * 5 + [0.0] + [-1e4] * 7
        assert perplexity(Fixed(logits), [labelled([5, 5, 0], [5, 5, 5])]) == 1.0

    def test_it_counts_tokens_and_not_batches_or_sentences(self):
        """One token of probability 1/7, then three of 2/7: by hand."""
        model = Fixed([math.log(p / 7) for p in (1, 1, 2, 3)])
        batches = [labelled([1]), labelled([2, 2, 2])]
        expected = math.exp((math.log(7) + 3 * math.log(7 / 2)) / 4)
        assert perplexity(model, batches) == pytest.approx(expected, rel=1e-12)
        mean_of_batches = math.exp((math.log(7) + math.log(7 / 2)) / 2)
        assert expected != pytest.approx(mean_of_batches, rel=0.1)

    def test_padding_is_what_the_models_configuration_says(self):
        """3 is padding here, and 0 a word."""
        model = Fixed([math.log(p / 7) for p in (1, 1, 2, 3)], pad_id=3)
        assert perplexity(model, [labelled([0, 3, 3], [0, 0, 3])]) == pytest.approx(7, rel=1e-12)

    def test_a_loss_too_large_for_e_to_the_power_of_it_gives_inf(self):
        assert perplexity(Fixed([0.0, 0.0, 0.0, 900.0]), [labelled([1, 2])]) == math.inf

    def test_a_model_that_is_broken_gives_nan(self):
        assert math.isnan(perplexity(Fixed([0.0, math.nan, 0.0]), [labelled([1, 2])]))


class TestBatches:
    @settings(max_examples=19)
    @given(st.integers(0, 2**31), st.lists(st.integers(1, 7), min_size=1, max_size=5))
    def test_ragged_batches_in_any_order_give_what_one_by_one_gives(self, seed, sizes):
        model, pairs = build(pad_id=36, layers=1), corpus(11, seed)
        expected = perplexity(model, one_by_one(pairs, model.config))
        random.Random(seed).shuffle(pairs)
        rest, batches = iter(pairs), []
        for size in [*sizes, len(pairs)]:  # the last takes what is left
            if part := list(islice(rest, size)):
                batches.append(batch_of(part, model.config))
        assert sum(len(batch.labels) for batch in batches) == len(pairs)
        assert perplexity(model, batches) == pytest.approx(expected, rel=1e-12)

    def test_in_float32_too(self):
        model, pairs = build(torch.float32), corpus(31)
        expected = perplexity(model, one_by_one(pairs))
        assert perplexity(model, [batch_of(pairs)]) == pytest.approx(expected, rel=1e-5)

    def test_an_iterator_will_do(self):
        model, pairs = build(), corpus(7)
        expected = perplexity(model, one_by_one(pairs))
        assert perplexity(model, iter(one_by_one(pairs))) == expected

    @pytest.mark.parametrize("batches", [[], [labelled([0, 0])]], ids=["none", "only padding"])
    def test_no_tokens_is_an_error(self, batches):
        model = Fixed([0.0] * 3).train()
        with pytest.raises(ValueError, match="^there are no tokens to measure perplexity on$"):
            perplexity(model, batches)
        assert model.training


class TestTheModelAfterwards:
    @pytest.mark.parametrize("training", [True, False])
    def test_its_mode_is_what_it_was_and_dropout_was_off(self, training):
        model, batch = build().train(training), batch_of(corpus(7))
        first, second = (perplexity(model, [batch]) for _ in range(2))
        assert first == second
        assert {module.training for module in model.modules()} == {training}

    def test_its_mode_comes_back_after_an_error(self):
        model, batches = build().train(), one_by_one(corpus(3))
        batches[1].source[0, 0] = 37
        with pytest.raises(ValueError, match="37"):
            perplexity(model, batches)
        assert model.training

    def test_it_has_no_gradient_and_the_same_weights(self):
        model = build().train()
        before = [weight.detach().clone() for weight in model.parameters()]
        graph = []
        model.register_forward_hook(lambda m, inputs, out: graph.append(out.requires_grad))
        perplexity(model, [batch_of(corpus(7))])
        assert graph == [False]  # none is built, so none is held in memory
        assert all(weight.grad is None for weight in model.parameters())
        assert all(map(torch.equal, before, model.parameters()))

    def test_training_goes_on_as_if_nothing_had_been_measured(self):
        """No random number was drawn: the dropout that follows is the same."""
        losses = []
        for measured in (False, True):
            model, batch = build().train(), batch_of(corpus(7))
            if measured:
                perplexity(model, [batch])
            loss = model(batch.source, batch.target).square().mean()
            loss.backward()
            losses.append(loss.item())
        assert losses[0] == losses[1]


class TestForeseen:
    def test_it_is_the_share_of_labels_that_are_likeliest(self):
        model, pairs = build().eval(), corpus(7)
        batch = batch_of(pairs)
        likeliest = model(batch.source, batch.target).argmax(-1)
        right = [
            bool(likeliest[row, place] == label)
            for row, labels in enumerate(batch.labels.tolist())
            for place, label in enumerate(labels) if label != model.config.pad_id
        ]
        assert token_accuracy(model, [batch]) == sum(right) / len(right)

    def test_how_sentences_are_batched_changes_nothing(self):
        model, pairs = build().eval(), corpus(13)
        batch = batch_of(pairs)
        first = model(batch.source, batch.target)[:, 0, 3:].argmax(-1) + 3
        pairs = [  # the first piece is right wherever it isn't a special id
            (source, [piece, *target[1:]])
            for (source, target), piece in zip(pairs, first.tolist(), strict=True)
        ]
        whole = token_accuracy(model, [batch_of(pairs)])
        assert 0 < whole < 1
        assert token_accuracy(model, one_by_one(pairs)) == pytest.approx(whole)

    def test_no_dropout_and_the_mode_comes_back(self):
        model, batch = build(dropout=0.5).train(), batch_of(corpus(7))
        assert token_accuracy(model, [batch]) == token_accuracy(model, [batch]) and model.training

    def test_nothing_to_foresee_is_an_error(self):
        with pytest.raises(ValueError, match="no tokens to measure accuracy on"):
            token_accuracy(build(), [])


PAIRS = [([5, 6, 7], [7, 5]), ([5], [6, 6, 6, 5, 3]), ([3, 4, 5, 6, 7], [4])]
LABELS = 3 + 6 + 2  # with EOS


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Transformer(TransformerConfig.tiny(vocab_size=11, d_model=22, d_ff=29, heads=2))


class TestTokenProbabilities:
    def test_it_is_the_softmax_at_each_label_and_pads_do_not_count(self, model):
        model.eval()
        found = token_probabilities(model, [batch_of(PAIRS)])
        expected = []
        for pair in PAIRS:  # each alone: no padding at all
            one = batch_of([pair])
            p = model(one.source, one.target).softmax(-1)[0]
            expected += [p[place, label] for place, label in enumerate(one.labels[0])]
        assert found.shape == (LABELS,)
        torch.testing.assert_close(found, torch.stack(expected))

    def test_its_geometric_mean_is_one_over_the_perplexity(self, model):
        found = token_probabilities(model, [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])])
        mean = found.log().mean().exp().item()
        assert 1 / mean == pytest.approx(perplexity(model, [batch_of(PAIRS)]), rel=1e-5)

    def test_no_dropout_and_the_mode_comes_back(self, model):
        model.train()
        first, second = (token_probabilities(model, [batch_of(PAIRS)]) for _ in range(2))
        assert torch.equal(first, second) and model.training


class TestMemoryCosine:
    def test_it_is_the_mean_cosine_of_all_pairs_of_pieces(self, model):
        model.eval()
        vectors = torch.cat([model.encode(batch_of([pair]).source)[0] for pair in PAIRS])
        cosines = [torch.cosine_similarity(a, b, dim=0) for a in vectors for b in vectors]
        mean = torch.stack(cosines).mean().item()
        assert memory_cosine(model, [batch_of(PAIRS)]) == pytest.approx(mean, abs=1e-5)

    def test_it_is_1_when_all_point_the_same_way(self, model):
        norm = model.encoder.layers[-1].sublayer_2.norm
        torch.nn.init.zeros_(norm.weight)
        torch.nn.init.ones_(norm.bias)
        assert memory_cosine(model, [batch_of(PAIRS)]) == pytest.approx(1.0)


class TestTokens:
    """Random logits of 3 sentences of 5 tokens, of a vocabulary of 11; 6 is padding."""

    PAD = 6

    def made(self, seed):
        rng = torch.Generator().manual_seed(seed)
        logits = torch.randn(3, 5, 11, generator=rng, dtype=torch.float64)
        return logits, torch.randint(11, (3, 5), generator=rng)

    @given(st.integers(0, 2**31))
    def test_the_probability_of_right_is_that_of_cross_entropy(self, seed):
        logits, labels = self.made(seed)
        loss = F.cross_entropy(logits.mT, labels, reduction="none")
        torch.testing.assert_close(probability_of_right(logits, labels), (-loss).exp())

    @given(st.integers(0, 2**31))
    def test_wrong_is_where_another_token_is_likelier(self, seed):
        logits, labels = self.made(seed)
        found = wrong_tokens(logits, labels, self.PAD)
        for row, place in [(i, j) for i in range(3) for j in range(5)]:
            label = labels[row, place]
            beaten = (logits[row, place] > logits[row, place, label]).any()
            assert found[row, place] == (beaten and label != self.PAD)

    @given(st.integers(0, 2**31))
    def test_a_token_of_more_than_half_is_never_wrong(self, seed):
        logits, labels = self.made(seed)
        sure = probability_of_right(3 * logits, labels) > 0.5
        assert not (wrong_tokens(3 * logits, labels, self.PAD) & sure).any()

    def test_those_of_batches_are_those_of_each_batch_without_padding(self):
        model, pairs = build().eval(), corpus(13)
        batches = [batch_of(pairs[:5]), batch_of(pairs[5:])]
        expected = []
        for batch in batches:
            p = probability_of_right(model(batch.source, batch.target), batch.labels)
            expected += p[batch.labels != 0].tolist()
        assert len(expected) == sum(len(target) + 1 for _, target in pairs)
        assert token_probabilities(model, batches).tolist() == pytest.approx(expected)
