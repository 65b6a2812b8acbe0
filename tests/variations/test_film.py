"""What a film shows of a model at one look."""

import pytest

from annotated.data.numbers import held_out, pairs
from annotated.recipes import recipe_named
from annotated.translation import Translator
from annotated.variations.film import EACH, film

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
