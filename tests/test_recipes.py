"""Recipes: two sides that never meet, runs that repeat, and the weights that ship."""

import random
from dataclasses import FrozenInstanceError, fields, replace
from functools import cache
from importlib.resources import files

import pytest
import torch

from annotated import records
from annotated.data import copying, numbers
from annotated.data.tokenizer import Tokenizer
from annotated.model import TransformerConfig
from annotated.recipes import (
    FAMILIES,
    RECIPES,
    Copying,
    Example,
    Numbers,
    Recipe,
    Score,
    recipe_named,
    run_record,
    score,
    train,
)
from annotated.training import TrainingConfig, learning_rate, load_checkpoint, save_checkpoint
from annotated.translation import Translator, shipped

BOOKS_OWN = (342, 204, 402, 42)
MINIATURE = Recipe(
    "copy-three", "three letters at most",
    Copying(count=211, longest=3),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1),
    TrainingConfig(
        steps=5, batch_tokens=61, spread=6.0, warmup_steps=3, average=2, average_every=2
    ),
)  # fmt: skip

named = pytest.mark.parametrize("name", RECIPES)
spelled = pytest.mark.parametrize("name", [n for n in RECIPES if n != "copy"])


# Spelling 60 000 numbers takes seconds where every call is checked: each draw is made once, and
# a tenth of it stands for the rest (the first n of a longer draw are the draw of n).
@cache
def trained_on(name, seed, count=6000):
    return replace(RECIPES[name].corpus, count=count).training(seed)


@cache
def vocabulary(name):
    """The recipe's tokenizer, and the texts it was made from."""
    made_from, real = set(), Tokenizer.train

    def listen(texts, merges):
        made_from.update(texts := list(texts))
        return real(texts, merges)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokenizer, "train", listen)
        return RECIPES[name].corpus.tokenizer(), made_from


def tokenizer(name):
    return vocabulary(name)[0]


def last_rate(recipe):
    training = recipe.training
    return learning_rate(
        training.steps, recipe.model.d_model, training.warmup_steps, training.factor
    )


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


class TestNames:
    def test_the_recipes_there_are(self):
        assert set(RECIPES) >= {"numbers-en-de", "numbers-en-fr", "copy"}
        for name, recipe in RECIPES.items():
            assert recipe_named(name) is recipe and recipe.name == name
            assert recipe.about and "\n" not in recipe.about

    @pytest.mark.parametrize("name", ["numbers", "", "Copy", "(none)"])
    def test_an_unknown_one_is_answered_with_those_there_are(self, name):
        with pytest.raises(ValueError) as caught:
            recipe_named(name)
        assert str(caught.value) == f"no recipe {name!r}; there are {', '.join(RECIPES)}"

    def test_nothing_in_a_recipe_can_be_changed(self):
        recipe = recipe_named("numbers-en-de")
        for thing in (recipe, recipe.corpus, recipe.model, recipe.training):
            for field in fields(thing):
                with pytest.raises(FrozenInstanceError):
                    setattr(thing, field.name, None)
        assert {hash(recipe) for recipe in RECIPES.values()}


class TestSides:
    @named
    def test_nothing_held_out_is_trained_on_whatever_the_seeds(self, name):
        corpus = RECIPES[name].corpus
        seen = {e.source for seed in (0, 1) for e in trained_on(name, seed)}
        unseen = {e.source for seed in (0, 1, 1_000_000) for e in corpus.held_out(1000, seed)}
        assert len(seen) > 5000 and len(unseen) > 1000
        assert not seen & unseen

    def test_nor_by_the_very_run_that_made_the_shipped_weights(self):
        corpus = recipe_named("numbers-en-de").corpus
        seen = {e.source for e in trained_on("numbers-en-de", 0, corpus.count)}
        assert corpus.count == 60_000
        assert not seen & {e.source for e in corpus.held_out(1000, 1_000_000)}

    @spelled
    def test_the_books_own_numbers_are_never_trained_on(self, name):
        corpus = RECIPES[name].corpus
        own = {numbers.spell(number, "en") for number in BOOKS_OWN}
        assert not own & {e.source for e in trained_on(name, 0)}
        assert not any(map(corpus.trained_on, BOOKS_OWN))

    @named
    def test_nor_does_the_vocabulary_see_what_is_held_out(self, name):
        _, texts = vocabulary(name)
        unseen = RECIPES[name].corpus.held_out(1000, 0)
        assert texts and not texts & {text for e in unseen for text in (e.source, e.target)}

    def test_of_a_family_not_one_number_is_trained_on_and_all_are_tested(self):
        name = "numbers-en-de-families"
        corpus = recipe_named(name).corpus
        assert corpus.thousands == FAMILIES and len(FAMILIES) == 8
        family = {numbers.spell(1000 * k + rest, "en") for k in FAMILIES for rest in range(1000)}
        assert not family & {e.source for seed in (0, 1) for e in trained_on(name, seed)}
        assert family & {e.source for e in trained_on("numbers-en-de", 0)}
        assert not any(corpus.trained_on(1000 * k + rest) for k in FAMILIES for rest in range(1000))
        tested = [e.source for e in corpus.held_out(8000, 0)]
        assert len(tested) == len(family) and set(tested) == family

    @named
    def test_examples_are_right_and_in_their_group(self, name):
        corpus = RECIPES[name].corpus
        examples = [*trained_on(name, 0)[:101], *corpus.held_out(101, 0)]
        if name == "copy":
            for source, target, group in examples:
                assert source == target and group == len(source.split()) <= corpus.longest
            assert {e.group for e in examples} == set(range(1, 11))
            return
        spelling = {
            numbers.spell(n, "en"): (numbers.spell(n, corpus.target), len(str(n)))
            for n in range(1000)
        }
        known = [e for e in examples if e.source in spelling]
        assert all((e.target, e.group) == spelling[e.source] for e in known)
        assert {e.group for e in examples} <= set(range(1, 7))
        assert known or corpus.thousands

    @spelled
    def test_no_number_is_tested_twice(self, name):
        tested = RECIPES[name].corpus.held_out(1000, 1_000_000)
        assert len(set(tested)) == len(tested) == 1000
        assert {e.group for e in tested} >= {4, 5, 6}

    def test_every_length_is_tested(self):
        tested = recipe_named("numbers-en-de").corpus.held_out(1000, 1_000_000)
        assert {e.group for e in tested} == {1, 2, 3, 4, 5, 6}

    @named
    def test_all_follows_from_the_seed(self, name):
        corpus = replace(RECIPES[name].corpus, count=997)
        assert corpus.training(3) == corpus.training(3) != corpus.training(4)
        assert corpus.held_out(101, 3) == corpus.held_out(101, 3) != corpus.held_out(101, 4)


class TestTokenizers:
    def test_342_is_cut_as_the_book_has_it(self):
        for name in ("numbers-en-de", "numbers-en-de-families"):
            english = tokenizer(name).pieces("three hundred and forty-two")
            assert english == ["three", "hundred", "and", "forty", "-", "two"]
            german = tokenizer(name).pieces("dreihundertzweiundvierzig")
            assert german == ["dreihundert", "zwei", "undvierzig"]

    def test_204_and_402_are_one_bag_of_pieces(self):
        one, other = tokenizer("numbers-en-de").encode_batch(
            ["two hundred and four", "four hundred and two"]
        )
        assert one != other and sorted(one) == sorted(other)

    def test_numbers_have_a_vocabulary_of_420(self):
        assert {tokenizer(name).vocab_size for name in RECIPES if name != "copy"} == {420}

    def test_a_letter_to_copy_is_one_piece(self):
        assert tokenizer("copy").pieces("a q z") == ["a", "q", "z"]

    @named
    def test_no_training_pair_is_longer_than_a_batch(self, name):
        recipe = RECIPES[name]
        for side in zip(*[e[:2] for e in trained_on(name, 0)], strict=True):
            longest = max(map(len, tokenizer(name).encode_batch(side)))
            assert longest < recipe.training.batch_tokens / 20


class TestScore:
    class Parrot(Translator):
        """Says what it is told, but for what it can't say."""

        def __init__(self):
            pass

        def translate(self, sentences):
            return [sentence.replace("x", "?") for sentence in sentences]

    def test_exact_matches_in_all_and_by_group(self):
        examples = [
            Example("a b", "a b", 2), Example("x", "x", 1), Example("c", "c", 1),
            Example("a  b", "a b", 2), Example("A", "a", 1), Example("d e f", "d e f", 3),
        ]  # fmt: skip
        result = score(self.Parrot(), examples)
        assert (result.right, result.total) == (3, 6)
        assert result.by_group == {1: (1, 3), 2: (1, 2), 3: (1, 1)}
        assert list(result.by_group) == [1, 2, 3]
        assert result.accuracy == 0.5


@pytest.fixture(scope="module")
def run():
    """A run of the miniature, with what its callback saw: (updates, modes)."""
    seen = []
    made = train(
        MINIATURE, 3, lambda update, translator: seen.append((update, translator, weights(
            translator.model
        ))),
    )  # fmt: skip
    return made, seen


class TestRun:
    def test_it_reports_every_update_with_the_model_as_it_then_is(self, run):
        made, seen = run
        assert [update for update, *_ in seen] == made.updates
        assert [update.step for update in made.updates] == [1, 2, 3, 4, 5]
        assert all(translator is made.translator for _, translator, _ in seen)
        for (_, _, one), (_, _, other) in zip(seen, seen[1:], strict=False):
            assert any(not torch.equal(a, b) for a, b in zip(one, other, strict=True))

    def test_its_end_is_the_mean_of_the_last_checkpoints(self, run):
        made, seen = run
        for found, a, b in zip(weights(made.translator.model), seen[2][2], seen[4][2], strict=True):
            torch.testing.assert_close(found, (a + b) / 2, rtol=1e-6, atol=1e-7)

    def test_the_model_is_the_recipes_with_the_tokenizers_vocabulary(self, run):
        model, pieces = run[0].translator.model, run[0].translator.tokenizer
        assert model.config == replace(MINIATURE.model, vocab_size=pieces.vocab_size)
        assert pieces.to_json() == tokenizer("copy").to_json()
        assert not model.training
        assert run[0].seconds > 0

    def test_the_same_seed_is_the_same_run_bit_for_bit(self, run):
        torch.manual_seed(11)
        random.seed(11)
        again = train(MINIATURE, 3)
        assert again.updates == run[0].updates
        assert same(again.translator.model, run[0].translator.model)
        other = train(MINIATURE, 4)
        assert not same(other.translator.model, run[0].translator.model)
        assert other.updates[0].loss != run[0].updates[0].loss

    def test_looking_at_it_while_it_trains_changes_nothing(self, run):
        """Translating uses no random number and leaves the mode as it was."""
        examples = MINIATURE.corpus.held_out(7, 0)
        watched = train(MINIATURE, 3, lambda update, translator: score(translator, examples))
        assert same(watched.translator.model, run[0].translator.model)

    def test_it_can_be_kept_loaded_and_scored(self, run, tmp_path):
        made = run[0].translator
        save_checkpoint(tmp_path, made.model, made.tokenizer, recipe=MINIATURE.name, seed=3)
        examples = MINIATURE.corpus.held_out(11, 0)
        result = score(Translator.load(tmp_path), examples)
        assert result == score(run[0].translator, examples)
        assert result.total == 11 == sum(total for _, total in result.by_group.values())

    def test_its_record_is_valid_and_says_what_happened(self, run, tmp_path):
        made = run[0]
        result = Score(9, 13, {1: (2, 3), 2: (3, 5), 3: (4, 5)})
        record = run_record(MINIATURE, 3, made, result, "annotated train …", {2: 0.25, 4: 0.5})
        path = records.write(record, tmp_path)
        assert records.read(path) == record
        assert path.parent.name == record.experiment == record.recipe == "copy-three"
        assert (record.seed, record.kind, record.precision) == (3, "cpu", "float32")
        assert record.column("step") == [2, 4] and record.column("accuracy") == [0.25, 0.5]
        for step, loss, rate in zip(*map(record.column, ("step", "loss", "rate")), strict=True):
            update = made.updates[step - 1]
            assert loss == pytest.approx(update.loss, abs=1e-4)
            assert rate == pytest.approx(update.rate, rel=1e-3)
        tokens = [update.tokens for update in made.updates]
        assert record.tokens_per_update == round(sum(tokens) / 5)
        found = {name: metric["value"] for name, metric in record.metrics.items()}
        assert found == {
            "exact": 9 / 13, "tested": 13,
            "exact_letters_1": 0.6667, "exact_letters_2": 0.6, "exact_letters_3": 0.8,
        }  # fmt: skip
        assert record.versions["torch"] == torch.__version__


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


class TestShippedWeights:
    @pytest.mark.parametrize("name", shipped())
    def test_they_are_small_named_after_their_recipe_and_note_it(self, name):
        folder = files("annotated") / "weights" / name
        found = sorted(file.name for file in folder.iterdir())
        assert found == ["config.json", "model.safetensors", "tokenizer.json"]
        assert sum(len(file.read_bytes()) for file in folder.iterdir()) <= 5_000_000
        model, pieces, notes = load_checkpoint(folder)
        recipe = recipe_named(notes["recipe"])
        assert recipe.name == name and notes["seed"] >= 0
        assert model.config == replace(recipe.model, vocab_size=pieces.vocab_size)
        assert pieces.to_json() == tokenizer(name).to_json()

    def test_together_they_take_little_of_the_16_megabytes(self):
        assert "numbers-en-de" in shipped()
        total = sum(
            len(file.read_bytes())
            for name in shipped() for file in (files("annotated") / "weights" / name).iterdir()
        )  # fmt: skip
        assert total <= 16_000_000

    @pytest.mark.parametrize("number", BOOKS_OWN)
    def test_the_books_own_numbers_come_out_right(self, translator, number):
        said = translator.translate([numbers.spell(number, "en")])
        assert said == [numbers.spell(number, "de")]

    def test_of_300_unseen_numbers_at_least_99_per_cent_are_exact(self, translator):
        result = score(translator, recipe_named("numbers-en-de").corpus.held_out(300, 7))
        assert result.total == 300 and result.accuracy >= 0.99, result

    @pytest.mark.parametrize("digits", [2, 3, 4, 5, 6])
    def test_and_at_least_97_per_cent_of_every_length(self, translator, digits):
        length = range(10 ** (digits - 1), 10**digits)
        unseen = [n for n in random.Random(0).sample(length, min(len(length), 2000))
                  if numbers.held_out(n)][:150]  # fmt: skip
        assert len(unseen) == {2: 10, 3: 88}.get(digits, 150)
        result = score(translator, Numbers().examples(unseen))
        assert result.by_group == {digits: (result.right, result.total)}
        assert result.accuracy >= 0.97, result


RECORDED = sorted({path.name for path in (files("annotated") / "results").iterdir()} & {*RECIPES})


class TestRecords:
    @pytest.mark.parametrize("name", RECORDED)
    def test_they_are_of_the_recipe_as_it_is(self, name):
        recipe = recipe_named(name)
        for record in records.find(name):
            assert record.recipe == name
            assert record.command == f"annotated train --recipe {name} --seed {record.seed}"
            assert record.column("step")[-1] == recipe.training.steps
            assert record.curve[-1]["rate"] == pytest.approx(last_rate(recipe), rel=1e-3)
            assert f"exact_{recipe.corpus.groups}_6" in record.metrics

    def test_three_seeds_of_the_books_recipe_reach_99_per_cent_and_97_for_every_length(self):
        found = {record.seed: record.metrics for record in records.find("numbers-en-de")}
        assert {0, 1, 2} <= set(found)
        for metrics in found.values():
            assert metrics["tested"]["value"] == 1000 and metrics["exact"]["value"] >= 0.99
            assert all(metrics[f"exact_digits_{n}"]["value"] >= 0.97 for n in range(2, 7))


def test_letters_to_copy_are_held_out_by_the_copy_tasks_rule():
    assert all(copying.held_out(e.source) for e in Copying().held_out(101, 0))
    assert all(copying.training_side(e.source) for e in Copying(count=101).training(0))
