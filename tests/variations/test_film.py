"""What a film shows of a model at one look, and what is recorded of all looks."""

from collections import Counter
from dataclasses import replace

import pytest

from annotated import records
from annotated.data.numbers import EXAMPLES, held_out, pairs
from annotated.jobs import Job, Unavailable
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, recipe_named
from annotated.translation import Translator
from annotated.variations.film import (
    ASKED,
    EACH,
    asked_numbers,
    film,
    looks,
    questions,
    record,
)

RECIPE = recipe_named("numbers-en-de")


class Knows(Translator):
    """A translator of `right` numbers; it says "so" to all others, and keeps what it is asked."""

    def __init__(self, right):
        self.german, self.asked = dict(pairs(right, "en", "de")), []

    def translate(self, sentences):
        self.asked += sentences
        return [self.german.get(sentence, "so") for sentence in sentences]


@pytest.mark.parametrize(("right", "says"), [([342], "dreihundertzweiundvierzig"), ([], "so")])
def test_it_has_what_is_said_of_the_running_sentence(right, says):
    assert film(Knows(right), RECIPE)["says"] == says


def test_shares_are_those_of_each_number_of_digits():
    shown = film(Knows(range(1000)), RECIPE)
    shares = {name: value for name, value in shown.items() if name != "says"}
    assert shares == {"exact_2": 1, "exact_3": 1, "exact_4": 0, "exact_5": 0, "exact_6": 0}


def test_what_is_asked_is_held_out_and_the_same_each_time():
    first, second = Knows([]), Knows([])
    for translator in (first, second):
        film(translator, RECIPE)
    assert first.asked == second.asked
    unseen = {english for english, _ in pairs(filter(held_out, range(100)), "en", "de")}
    asked = first.asked[1:]
    assert len(asked) == len(set(asked)) and 4 * EACH < len(asked) <= 5 * EACH
    assert len(unseen & set(asked)) > 5


def test_numbers_that_are_asked_are_of_all_lengths_some_held_out_and_some_not():
    numbers = asked_numbers()
    assert numbers == sorted(set(numbers)) == asked_numbers()
    assert {342, 204, 402, 42} <= set(numbers) >= set(range(10))
    drawn = [n for n in numbers if n not in EXAMPLES | {42} | set(range(10))]
    kinds = Counter((len(str(n)), held_out(n)) for n in drawn)
    assert set(kinds) == {(digits, unseen) for digits in range(2, 7) for unseen in (True, False)}
    assert all(ASKED - 1 <= count <= ASKED for count in kinds.values())


@pytest.fixture
def little(monkeypatch):
    """The recipe with little of everything; a look after each third update makes two."""
    training = replace(
        RECIPE.training, steps=7, warmup_steps=2, batch_tokens=211, average=2, average_every=1
    )
    model = TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1)
    recipe = replace(
        RECIPE, task=replace(RECIPE.task, count=199, tested=7, watched=5), model=model,
        training=training,
    )
    monkeypatch.setitem(RECIPES, "numbers-en-de", recipe)


def test_a_record_has_all_looks_and_what_was_said_of_each_number(little, tmp_path):
    told = []
    made = record(Job("film-numbers-en-de", 2, say=told.append), "numbers-en-de", every=3)
    assert records.read(records.write(made, tmp_path)) == made
    assert (made.experiment, made.recipe, made.seed) == ("film-numbers-en-de", "numbers-en-de", 2)
    assert made.column("step") == [3, 6] and len(told) == 2
    assert set(made.curve[0]) == {"step", "loss", "accuracy", "says"} | {
        f"exact_{digits}" for digits in range(2, 7)
    }
    asked = [(row["step"], row["number"]) for row in made.table("answers")]
    assert asked == [(step, number) for step in (3, 6) for number in asked_numbers()]
    frames = looks(made)
    assert [frame["answers"]["342"] for frame in frames] == made.column("says")
    assert [frame["exact_3"] for frame in frames] == made.column("exact_3")
    assert all(list(frame["answers"]) == [str(n) for n in asked_numbers()] for frame in frames)


def test_questions_are_the_numbers_in_words_and_whether_they_are_held_out():
    asked = questions()
    assert [one["number"] for one in asked] == asked_numbers()
    words = [(one["english"], one["german"]) for one in asked]
    assert words == pairs(asked_numbers(), "en", "de")
    assert all(one["unseen"] == held_out(one["number"]) for one in asked)


def test_looking_changes_nothing_of_the_training(little):
    often, once = (
        record(Job("film-numbers-en-de"), "numbers-en-de", every=every) for every in (2, 6)
    )
    assert often.curve[2] == once.curve[0]
    assert often.metrics["perplexity"] == once.metrics["perplexity"]


def test_half_a_film_is_none(little):
    with pytest.raises(Unavailable, match="^the time was up after 1 of 7 updates$"):
        record(Job("film-numbers-en-de", left=lambda: 0.0), "numbers-en-de", every=3)
