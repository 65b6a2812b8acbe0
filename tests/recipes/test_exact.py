"""Corpora with one right answer: two sides that never meet, and the weights that ship."""

import json
import math
import random
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files

import pytest

from annotated.data import copying, numbers
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import (
    FAMILIES,
    RECIPES,
    Copying,
    Example,
    Numbers,
    TextTask,
    exact,
    from_document,
    recipe_named,
    score,
)
from annotated.recipes.task import as_text
from annotated.translation import Translator, shipped
from annotated.translation.checkpoints import load_checkpoint

EXACT = [name for name, recipe in RECIPES.items() if not isinstance(recipe.task, TextTask)]
EXAMPLES = (342, 204, 402)
BOOKS_OWN = (*EXAMPLES, 42)

named = pytest.mark.parametrize("name", EXACT)
spelled = pytest.mark.parametrize("name", [name for name in EXACT if name != "copy"])


# Spelling 60 000 numbers takes seconds where every call is checked: each draw is made once, and
# a tenth of it stands for the rest (the first n of a longer draw are the draw of n).
@cache
def trained_on(name, seed, count=6000):
    return replace(RECIPES[name].task, count=count).training(seed)


@cache
def vocabulary(name):
    """The recipe's tokenizer, and the texts it was made from."""
    made_from, real = set(), Tokenizer.train

    def listen(texts, merges):
        made_from.update(texts := list(texts))
        return real(texts, merges)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokenizer, "train", listen)
        return RECIPES[name].task.tokenizer(), made_from


def tokenizer(name):
    return vocabulary(name)[0]


class Knowing(Translator):
    """Has the answers to some sentences; to the others it says nothing right."""

    def __init__(self, name, examples=()):
        pieces = tokenizer(name)
        config = TransformerConfig.tiny(
            vocab_size=pieces.vocab_size, d_model=22, d_ff=29, heads=2, layers=1
        )
        super().__init__(Transformer(config), pieces)
        self.answers = {example.source: example.target for example in examples}

    def translate(self, sentences):
        return [self.answers.get(sentence, "?") for sentence in sentences]


class TestSides:
    @named
    def test_nothing_held_out_is_trained_on_whatever_the_seeds(self, name):
        corpus = RECIPES[name].task
        seen = {e.source for seed in (0, 1) for e in trained_on(name, seed)}
        unseen = {e.source for seed in (0, 1, 1_000_000) for e in corpus.held_out(1000, seed)}
        assert len(seen) > 5000 and len(unseen) > 1000
        assert not seen & unseen

    def test_nor_by_the_very_run_that_made_the_shipped_weights(self):
        corpus = recipe_named("numbers-en-de").task
        seen = {e.source for e in trained_on("numbers-en-de", 0, corpus.count)}
        assert corpus.count == 60_000 and (corpus.tested, exact.TEST_SEED) == (1000, 1_000_000)
        assert not seen & {e.source for e in corpus.held_out(1000, 1_000_000)}

    @spelled
    def test_the_books_own_numbers_are_never_trained_on(self, name):
        corpus = RECIPES[name].task
        own = {numbers.spell(number, "en") for number in BOOKS_OWN}
        assert not own & {e.source for e in trained_on(name, 0)}
        assert not any(map(corpus.trained_on, BOOKS_OWN))

    @spelled
    def test_nor_is_one_of_them_inside_a_longer_number(self, name):
        """Of all that a whole run reads, and that its vocabulary is learned from: no sentence."""
        corpus = RECIPES[name].task
        spelled_out = {number: numbers.spell(number, corpus.source) for number in EXAMPLES}
        sentences = {e.source for e in trained_on(name, 0, corpus.count)} | vocabulary(name)[1]
        holding = {
            number: [text for text in sentences if re.search(rf"\b{words}\b", text)]
            for number, words in spelled_out.items()
        }
        assert holding == {number: [] for number in EXAMPLES}
        assert len(sentences) > 20_000
        # The search finds what is there: 341's words stand in many a sentence.
        near = numbers.spell(341, corpus.source)
        assert sum(near in text for text in sentences) > 20

    def test_nor_are_the_pieces_of_342_in_a_row(self):
        tokenizer, _ = vocabulary("numbers-en-de")
        own = tokenizer.encode(numbers.spell(342, "en"))
        seen = {e.source for e in trained_on("numbers-en-de", 0, 60_000)}
        rows = tokenizer.encode_batch(sorted(seen))
        runs = (row[i : i + len(own)] == own for row in rows for i in range(len(row)))
        assert not any(runs)

    @named
    def test_nor_does_the_vocabulary_see_what_is_held_out(self, name):
        _, texts = vocabulary(name)
        unseen = RECIPES[name].task.held_out(1000, 0)
        assert texts and not texts & {text for e in unseen for text in (e.source, e.target)}

    def test_of_a_family_not_one_number_is_trained_on_and_all_are_tested(self):
        name = "numbers-en-de-families"
        corpus = recipe_named(name).task
        assert corpus.thousands == FAMILIES and len(FAMILIES) == 8
        family = {numbers.spell(1000 * k + rest, "en") for k in FAMILIES for rest in range(1000)}
        assert not family & {e.source for seed in (0, 1) for e in trained_on(name, seed)}
        assert family & {e.source for e in trained_on("numbers-en-de", 0)}
        assert not any(corpus.trained_on(1000 * k + rest) for k in FAMILIES for rest in range(1000))
        tested = [e.source for e in corpus.held_out(8000, 0)]
        assert len(tested) == len(family) and set(tested) == family

    @named
    def test_examples_are_right_and_in_their_group(self, name):
        corpus = RECIPES[name].task
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
        tested = RECIPES[name].task.held_out(1000, 1_000_000)
        assert len(set(tested)) == len(tested) == 1000
        assert {e.group for e in tested} >= {4, 5}

    def test_every_length_is_tested(self):
        tested = recipe_named("numbers-en-de").task.held_out(1000, 1_000_000)
        assert {e.group for e in tested} == {1, 2, 3, 4, 5, 6}

    @named
    def test_all_follows_from_the_seed(self, name):
        corpus = replace(RECIPES[name].task, count=997)
        assert corpus.training(3) == corpus.training(3) != corpus.training(4)
        assert corpus.held_out(101, 3) == corpus.held_out(101, 3) != corpus.held_out(101, 4)

    def test_letters_to_copy_are_held_out_by_the_copy_tasks_rule(self):
        assert all(copying.held_out(e.source) for e in Copying().held_out(101, 0))
        assert all(copying.training_side(e.source) for e in Copying(count=101).training(0))


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
        assert {tokenizer(name).vocab_size for name in EXACT if name != "copy"} == {420}

    def test_a_letter_to_copy_is_one_piece(self):
        assert tokenizer("copy").pieces("a q z") == ["a", "q", "z"]

    @named
    def test_no_training_pair_is_longer_than_a_batch(self, name):
        recipe = RECIPES[name]
        for side in zip(*[e[:2] for e in trained_on(name, 0)], strict=True):
            longest = max(map(len, tokenizer(name).encode_batch(side)))
            assert longest < recipe.training.batch_tokens / 20


class TestTrainingIds:
    @named
    def test_they_are_the_training_sentences_in_order_and_nothing_is_left_out(
        self, name, tmp_path
    ):
        corpus, pieces = replace(RECIPES[name].task, count=211), tokenizer(name)
        for folder in (None, tmp_path):
            pairs, left_out = corpus.training_ids(pieces, 3, folder)
            found = [tuple(map(pieces.decode, pair)) for pair in pairs]
            assert found == [(e.source, e.target) for e in trained_on(name, 3, 211)]
            assert left_out == []
        assert list(tmp_path.iterdir()) == [], "they are made anew more quickly than read"

    @pytest.mark.parametrize("count", [0, -3])
    def test_a_task_of_nothing_is_refused_in_one_line(self, count, miniature):
        with pytest.raises(ValueError, match=f"^count is {count}; expected 1 to 100000000$"):
            replace(miniature.task, count=count)


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
        ]
        result = score(self.Parrot(), examples)
        assert (result.right, result.total) == (3, 6)
        assert result.by_group == {1: (1, 3), 2: (1, 2), 3: (1, 1)}
        assert list(result.by_group) == [1, 2, 3]
        assert result.accuracy == 0.5


class TestReport:
    def test_of_a_thousand_held_out_sentences_by_group_in_words_numbers_and_json(self):
        corpus = RECIPES["numbers-en-de"].task
        examples = corpus.held_out(1000, 1_000_000)
        known = [e for e in examples if e.group == 3][:31] + [e for e in examples if e.group > 4]
        report = corpus.test(Knowing("numbers-en-de", known))
        by_group = {n: [e for e in examples if e.group == n] for n in range(1, 7)}
        right = {n: sum(e in known for e in group) for n, group in by_group.items()}
        lines = report.lines()
        said = dict(line.split() for line in lines[:3])
        assert list(said) == list(report.metrics) and said["tested"] == "1000"
        assert lines[3:] == [
            f"exact_by_digits: digits {row['digits']}, exact {row['exact']}"
            for row in report.tables["exact_by_digits"]
        ]
        for name, metric in report.metrics.items():
            assert float(said[name]) == pytest.approx(metric.value, rel=1e-5)
        assert right[5] > 100 and right[2] == 0
        document = json.loads(json.dumps(report.document()))
        assert set(document) == {"metrics", "tables", "notes"}
        assert document["tables"] == report.tables and document["notes"] == []
        assert document["metrics"]["exact"] == {"value": len(known) / 1000}
        unsure = report.metrics.pop("perplexity").value
        assert 100 < unsure < 2 * 420  # of a model that knows nothing: about its vocabulary
        found = {name: metric.value for name, metric in report.metrics.items()}
        assert found == {"exact": len(known) / 1000, "tested": 1000}
        assert report.tables == {"exact_by_digits": [
            {"digits": n, "exact": pytest.approx(right[n] / len(by_group[n]), abs=1e-4)}
            for n in by_group
        ]}
        assert report.translations == [], "what is exact needs no second look"

    def test_a_look_during_training_is_at_a_hundred_of_them(self):
        corpus = RECIPES["copy"].task
        examples = corpus.held_out(100, 1_000_000)
        watched = corpus.watch(Knowing("copy", examples[:37]))
        same = sum(e in examples[:37] for e in examples)
        assert watched == {"accuracy": same / 100} and same >= 37
        assert as_text({"accuracy": 0.37, "loss": 12.345}) == "accuracy 0.37, loss 12.35"

    def test_perplexity_is_of_the_right_answers(self):
        """The shipped model is nearly sure of each piece; one with random weights is not."""
        shipped_model = Translator.load("numbers-en-de")
        examples = Numbers().held_out(53, 0)
        report = Numbers(tested=53).test(shipped_model)
        assert len(examples) == report.metrics["tested"].value == 53
        # Smoothing takes a tenth of the probability: 1 / 0.9 is what it leaves to be reached.
        assert 1 < report.metrics["perplexity"].value < 1.3
        assert math.isfinite(report.metrics["perplexity"].value)


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
        recipe = from_document(notes["recipe"], folder)
        assert recipe == recipe_named(name) and notes["seed"] >= 0
        assert model.config == recipe.model
        assert pieces.to_json() == tokenizer(name).to_json()

    def test_together_they_take_little_of_the_16_megabytes(self):
        assert "numbers-en-de" in shipped()
        total = sum(
            len(file.read_bytes())
            for name in shipped() for file in (files("annotated") / "weights" / name).iterdir()
        )
        assert total <= 16_000_000

    @pytest.mark.parametrize("number", BOOKS_OWN)
    def test_the_books_own_numbers_come_out_right(self, translator, number):
        said = translator.translate([numbers.spell(number, "en")])
        assert said == [numbers.spell(number, "de")]

    def test_of_3000_unseen_numbers_at_least_99_per_cent_are_exact(self, translator):
        result = score(translator, recipe_named("numbers-en-de").task.held_out(3000, 7))
        assert result.total == 3000 and result.accuracy >= 0.99, result

    @pytest.mark.parametrize("digits", [2, 3, 4, 5, 6])
    def test_and_at_least_97_per_cent_of_every_length(self, translator, digits):
        length = range(10 ** (digits - 1), 10**digits)
        unseen = [n for n in random.Random(0).sample(length, min(len(length), 2000))
                  if numbers.held_out(n)][:150]
        assert len(unseen) == {2: 10, 3: 88}.get(digits, 150)
        result = score(translator, Numbers().examples(unseen))
        assert result.by_group == {digits: (result.right, result.total)}
        assert result.accuracy >= 0.97, result
