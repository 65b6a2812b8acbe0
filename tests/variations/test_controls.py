"""Each control takes away one thing, and everything else is the paper's model."""

import inspect
import math
from dataclasses import replace
from pkgutil import resolve_name

import pytest
import torch
from torch import nn

from annotated import records
from annotated.analysis.scores import token_accuracy
from annotated.data import numbers
from annotated.experiments import EXPERIMENTS, Training
from annotated.model import (
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    record_attention,
    sinusoidal_encoding,
)
from annotated.recipes import RECIPES, Report
from annotated.recipes.task import batches_of
from annotated.translation import Translator
from annotated.translation.search import greedy_search
from annotated.variations import controls
from annotated.variations.controls import (
    NoCausalMask,
    NoEmbeddingScale,
    NoEncoderPositions,
    NoFeedForward,
    NoPositions,
    NoResidual,
    NoScale,
    SmallInput,
    same_bag,
    with_control,
    with_control_metrics,
)

RECIPE = "numbers-en-de-five-digits"
MODELS = [
    NoScale, NoEmbeddingScale, SmallInput, NoEncoderPositions, NoPositions, NoFeedForward,
    NoCausalMask, NoResidual,
]
CONFIG = TransformerConfig.tiny(vocab_size=13, d_model=22, d_ff=29, heads=2)


@pytest.fixture
def plain():
    torch.manual_seed(0)
    return Transformer(CONFIG).double().eval()


@pytest.fixture
def away(plain):
    """`away(Kind)` is that control with the plain model's weights."""

    def make(kind: type[Transformer], config=CONFIG) -> Transformer:
        model = kind(config).double().eval()
        model.load_state_dict(plain.state_dict())
        return model

    return make


SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
TARGET = torch.tensor([[1, 4, 3, 11], [1, 12, 6, 0]])


class TestModels:
    @pytest.mark.parametrize("kind", MODELS)
    def test_the_same_parameters_and_another_answer(self, kind, plain, away):
        model = away(kind)
        assert [n for n, _ in model.named_parameters()] == [n for n, _ in plain.named_parameters()]
        assert (model(SOURCE, TARGET) - plain(SOURCE, TARGET)).abs().max() > 1e-3

    @pytest.mark.parametrize("kind", MODELS)
    def test_the_same_seed_gives_the_same_start(self, kind):
        torch.manual_seed(5)
        expected = Transformer(CONFIG).state_dict()
        torch.manual_seed(5)
        found = kind(CONFIG).state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected)

    @pytest.mark.parametrize("kind", MODELS)
    def test_a_search_step_by_step_is_the_whole_at_once(self, kind, away):
        model = away(kind)
        cache = model.start(SOURCE, 4)
        for place in range(3):  # the second sentence has padding after it
            stepped = model.step(TARGET[:, place], cache)
            whole = model(SOURCE, TARGET[:, : place + 1])[:, -1]
            torch.testing.assert_close(stepped, whole, atol=1e-10, rtol=0)

    @pytest.mark.parametrize("kind", MODELS)
    def test_sentences_of_a_search_may_leave_and_change_places(self, kind, away):
        model = away(kind)
        together = greedy_search(model, SOURCE)
        for row, found in zip(SOURCE, together, strict=True):
            (alone,) = greedy_search(model, row[row != 0][None])
            assert alone.tokens == found.tokens
            assert alone.log_probability == pytest.approx(found.log_probability)

    @pytest.mark.parametrize("kind", MODELS)
    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_padding_is_still_masked(self, kind, norm):
        torch.manual_seed(0)
        model = kind(replace(CONFIG, norm=norm)).double().eval()
        alone = model(SOURCE[1:, :3], TARGET[1:, :3])
        together = model(SOURCE, TARGET)[1:, :3]
        torch.testing.assert_close(alone, together, atol=1e-10, rtol=0)


    @pytest.mark.parametrize("kind", MODELS)
    @pytest.mark.parametrize("use", ["source", "target"])
    def test_foreign_ids_are_still_refused(self, kind, use, away):
        with pytest.raises(ValueError, match=use):
            away(kind).embed(torch.tensor([[CONFIG.vocab_size]]), use)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_with_the_mask_put_back_it_trains_as_the_plain_model(self, monkeypatch, norm):
        """Dropout falls on the same places, and the gradients are equal."""

        def put_back(ids, pad_id):
            mask = padding_mask(ids, pad_id)
            return mask & causal_mask(4) if ids.shape[1] == 4 else mask

        monkeypatch.setattr(controls, "padding_mask", put_back)
        real, found = TARGET != 0, {}
        for kind in (Transformer, NoCausalMask):
            torch.manual_seed(5)
            model = kind(replace(CONFIG, norm=norm)).double().train()
            model(SOURCE, TARGET)[real].square().sum().backward()
            found[kind] = [weight.grad for weight in model.parameters()]
        for expected, gradient in zip(*found.values(), strict=True):
            torch.testing.assert_close(gradient, expected, atol=1e-10, rtol=0)


class TestNoScale:
    def test_weights_are_the_softmax_of_plain_dot_products(self, plain, away):
        model = away(NoScale)
        heads = model.encoder.layers[0].self_attention
        with record_attention(model) as seen, torch.no_grad():
            model.encode(SOURCE)
            x = plain.embed(SOURCE, "source")
            query = plain.encoder.layers[0].self_attention.w_q(x)
            scores = heads.split(query) @ heads.split(heads.w_k(x)).mT
        scores = scores.masked_fill((SOURCE == 0)[:, None, None], -math.inf)
        torch.testing.assert_close(seen["encoder.layers.0.self_attention"], scores.softmax(-1))

    def test_every_attention_is_meant(self, plain, away):
        """Queries made √d_k times smaller give the paper's model back."""
        model, d_k = away(NoScale), 11
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith("w_q.weight"):
                    weight /= math.sqrt(d_k)
        torch.testing.assert_close(model(SOURCE, TARGET), plain(SOURCE, TARGET))


class TestNoEmbeddingScale:
    def test_rows_of_the_matrix_and_positions_on_both_sides(self, away):
        model = away(NoEmbeddingScale)
        places = sinusoidal_encoding(5, 22).double()
        for ids, use in ((SOURCE, "source"), (TARGET, "target")):
            expected = model.embedding.weight[ids] + places[: ids.shape[1]]
            torch.testing.assert_close(model.embed(ids, use), expected, atol=1e-7, rtol=0)

    def test_untied_matrices_too(self):
        model = NoEmbeddingScale(replace(CONFIG, tie=False)).eval()
        bare = model.untied["target"].weight[TARGET] + sinusoidal_encoding(4, 22)
        torch.testing.assert_close(model.embed(TARGET, "target"), bare)

    def test_logits_stay(self, plain, away):
        x = torch.randn(3, 22, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert torch.equal(away(NoEmbeddingScale).embedding.logits(x), plain.embedding.logits(x))


class TestSmallInput:
    @pytest.mark.parametrize("start", [0, 3])
    def test_it_is_the_papers_input_divided(self, start, plain, away):
        for ids, use in ((SOURCE, "source"), (TARGET, "target")):
            expected = plain.embed(ids, use, start) / math.sqrt(22)
            torch.testing.assert_close(away(SmallInput).embed(ids, use, start), expected)


class TestNoFeedForward:
    def test_what_is_left_is_the_norm(self, away):
        layer = away(NoFeedForward).decoder.layers[1]
        x = torch.randn(1, 5, 22, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert torch.equal(layer.sublayer_3(x, layer.feed_forward), layer.sublayer_3.norm(x))

    def test_nothing_of_them_is_learned(self, away):
        model = away(NoFeedForward)
        model(SOURCE, TARGET).square().sum().backward()
        grads = {name: weight.grad for name, weight in model.named_parameters()}
        assert all((grad != 0).any() for name, grad in grads.items() if "feed_forward" not in name)
        assert not any(grad.any() for name, grad in grads.items() if "feed_forward" in name)


class TestNoEncoderPositions:
    def test_the_memory_of_a_bag_is_a_bag(self, plain, away):
        order = torch.tensor([3, 0, 4, 1, 2])
        source = SOURCE[:1]
        model = away(NoEncoderPositions)
        moved, memory = model.encode(source[:, order]), model.encode(source)
        torch.testing.assert_close(moved, memory[:, order])
        assert not torch.allclose(plain.encode(source[:, order]), plain.encode(source)[:, order])

    def test_dropout_falls_on_the_same_places(self, plain, away):
        model, drawn = away(NoEncoderPositions).train(), []
        for made in (plain.train(), model):
            torch.manual_seed(5)
            drawn.append(made.embed(SOURCE, "source") == 0)
        assert 0 < drawn[0].sum() < drawn[0].numel() and torch.equal(*drawn)

    def test_the_decoder_keeps_its_own(self, plain, away):
        expected = plain.embed(TARGET, "target")
        assert torch.equal(away(NoEncoderPositions).embed(TARGET, "target"), expected)


class TestNoPositions:
    def test_embeddings_are_the_matrix_alone_on_both_sides(self, plain, away):
        model = away(NoPositions)
        for ids, use in ((SOURCE, "source"), (TARGET, "target")):
            assert torch.equal(model.embed(ids, use), model.embedding(ids))
            assert not torch.equal(model.embed(ids, use), plain.embed(ids, use))


class TestNoResidual:
    def test_what_a_sublayer_does_not_pass_on_is_lost(self, plain, away):
        """With W^O and the last feed-forward matrix at zero no word reaches the memory."""
        memory = {}
        for name, model in (("without", away(NoResidual)), ("with", plain)):
            with torch.no_grad():
                for layer in model.encoder.layers:
                    layer.self_attention.w_o.weight.zero_()
            memory[name] = model.encode(SOURCE[:, :2])
        first, second = memory["without"].flatten(0, 1)[:2]
        torch.testing.assert_close(first, second)
        assert not torch.allclose(*memory["with"].flatten(0, 1)[:2])

    def test_one_sublayer_is_the_norm_of_f_of_x(self, away):
        layer = away(NoResidual).encoder.layers[0]
        x = torch.randn(1, 5, 22, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        expected = layer.sublayer_2.norm(layer.feed_forward(x))
        assert torch.equal(layer.sublayer_2(x, layer.feed_forward), expected)


class TestNoCausalMask:
    def jacobian(self, model):
        """How logits at each place depend on the vectors of each, (n, n)."""
        x = model.embed(TARGET[:1], "target").detach()
        memory = model.encode(SOURCE[:1]).detach()
        model.embed = lambda ids, use, start=0: x_in
        found = torch.zeros(4, 4)
        for place in range(4):
            x_in = x.clone().requires_grad_()
            logits = model.decode(TARGET[:1], memory, SOURCE[:1])
            (gradient,) = torch.autograd.grad(logits[0, place].square().sum(), x_in)
            found[place] = gradient[0].abs().sum(-1)
        return found

    def test_all_places_see_all_where_the_papers_see_what_is_before(self, plain, away):
        assert (self.jacobian(away(NoCausalMask)) > 0).all()
        assert torch.equal(self.jacobian(plain) > 0, torch.ones(4, 4).tril() > 0)

    def test_parts_of_different_batches_are_refused(self, away):
        model = away(NoCausalMask)
        memory = model.encode(SOURCE[:1])
        with pytest.raises(ValueError, match="source 1, memory 1, target 2"):
            inspect.unwrap(NoCausalMask.decode)(model, TARGET, memory, SOURCE[:1])

    def test_a_memory_may_be_given(self, away):
        model = away(NoCausalMask)
        memory = model.encode(SOURCE)
        given = greedy_search(model, SOURCE, memory=memory)
        assert [f.tokens for f in given] == [f.tokens for f in greedy_search(model, SOURCE)]
        other = greedy_search(model, SOURCE, memory=-memory)
        assert [f.log_probability for f in other] != [f.log_probability for f in given]


class TestWithControl:
    def test_a_trained_model_with_something_missing(self, plain):
        state = torch.get_rng_state()
        model = with_control("no-causal-mask", plain)
        assert torch.equal(torch.get_rng_state(), state)
        assert isinstance(model, NoCausalMask) and not model.training
        assert torch.equal(model.embedding.weight, plain.embedding.weight)
        assert model.embedding.weight.dtype == torch.float64

    def test_an_unknown_one_is_answered_with_those_there_are(self, plain):
        with pytest.raises(ValueError, match="no model 'pre-norm'; there are no-scale, no-emb"):
            with_control("pre-norm", plain)

    def test_each_experiment_with_another_model_can_be_had_without_training(self):
        others = {
            e.name.removeprefix("control-"): resolve_name(e.model)
            for e in EXPERIMENTS.values() if isinstance(e, Training) and e.model != Training.model
        }
        assert others == controls.MODELS


class TestNumbers:
    def test_nothing_longer_than_five_digits_is_trained_on_or_held_out(self):
        corpus = RECIPES[RECIPE].task
        assert max(example.group for example in corpus.training(0)) == 5
        assert max(example.group for example in corpus.held_out(1000, 1)) == 5
        assert not any(corpus.trained_on(n) for n in (100_000, 999_999, 342))
        assert corpus.trained_on(345) and not numbers.held_out(345)

    def test_the_two_numbers_of_a_pair_are_one_bag_in_two_orders(self):
        corpus = RECIPES[RECIPE].task
        tokenizer, pairs = corpus.tokenizer(), same_bag()
        assert (204, 402) in [tuple(sorted(pair)) for pair in pairs] and len(pairs) == 36
        for pair in pairs:
            one, other = (tokenizer.encode(numbers.spell(n, "en")) for n in pair)
            assert sorted(one) == sorted(other) and one != other

    @pytest.mark.parametrize("digits", [0, -1, 7, 10**12])
    def test_what_is_no_number_of_digits_is_refused(self, digits):
        with pytest.raises(ValueError, match=f"digits is {digits}; expected 1 to 6"):
            replace(RECIPES[RECIPE].task, digits=digits)

    def test_families_of_longer_numbers_are_left_out_and_refused_if_they_are_all(self):
        corpus = replace(RECIPES[RECIPE].task, thousands=(7, 99, 100))
        tested = corpus.held_out(2000, 1)  # all there are
        assert {example.group for example in tested} == {4, 5}
        with pytest.raises(ValueError, match=r"digits is 5; too few for thousands of \(100,\)"):
            replace(corpus, thousands=(100,))


def few(recipe):
    """The recipe with few examples to test on."""
    return replace(recipe, task=replace(recipe.task, tested=11, longer=7))


class TestMetrics:
    def test_it_adds_what_an_exact_match_does_not_show(self):
        recipe = few(RECIPES[RECIPE])
        translator = Translator.load("numbers-en-de")
        before = Report(records.as_metrics({"tested": 11, "old": 7.0}))
        found = with_control_metrics(before, translator, recipe, 0).metrics
        tokenizer = translator.tokenizer
        seen = batches_of(recipe.task.held_out_ids(tokenizer, 11), tokenizer)
        expected = round(token_accuracy(translator.model, seen), 4)
        assert found["token_accuracy"].value == expected > 0.9
        assert found["old"].value == 7.0
        assert found["same_bag"].value == 0  # the shipped model tells 204 from 402 …
        assert found["exact_six_digits"].value > 0.9  # … and has seen six digits

    def test_without_positions_two_orders_are_one_translation(self):
        shipped = Translator.load("numbers-en-de")
        blind = Translator(with_control("no-encoder-positions", shipped.model), shipped.tokenizer)
        before = Report(records.as_metrics({"tested": 11}))
        found = with_control_metrics(before, blind, few(RECIPES[RECIPE]), 0).metrics
        assert found["same_bag"].value == 1


def test_a_hook_is_no_module_of_its_own():
    """A control has the modules of the model, so that pictures and records fit it."""
    names = [name for name, _ in Transformer(CONFIG).named_modules()]
    for kind in MODELS:
        assert [name for name, _ in kind(CONFIG).named_modules()] == names
        assert isinstance(kind(CONFIG), nn.Module)
