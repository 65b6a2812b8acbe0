"""The numbers corpus against spellers written apart from it, and its split against rng."""

import inspect
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import numbers, one_in_ten
from annotated.data.numbers import (
    DIGIT_WEIGHTS,
    LANGUAGES,
    LIMIT,
    different,
    draw,
    held_out,
    pairs,
    spell,
    training_side,
    vocabulary_texts,
)

# The spellers follow each language's grammar and share nothing with num2words.

EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
EN_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
DE = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
DE_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
FR = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    " dix-sept dix-huit dix-neuf"
).split()
FR_TENS = "- - vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def english(n: int) -> str:
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return english_part(rest)
    joint = "" if rest == 0 else " and " if rest < 100 else ", "
    return f"{english_part(thousands)} thousand{joint}" + (english_part(rest) if rest else "")


@cache
def english_part(n: int) -> str:
    if n < 20:
        return EN[n]
    if n < 100:
        return EN_TENS[n // 10] + (f"-{EN[n % 10]}" if n % 10 else "")
    return f"{EN[n // 100]} hundred" + (f" and {english_part(n % 100)}" if n % 100 else "")


def german(n: int) -> str:
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return german_part(rest, final=True)
    tail = german_part(rest, final=True) if rest else ""
    return german_part(thousands, final=False) + "tausend" + tail


@cache
def german_part(n: int, final: bool) -> str:
    """A one that ends the number is "eins"; a one before anything else is "ein"."""
    if n == 1 and final:
        return "eins"
    if n <= 12:
        return DE[n]
    if n < 20:
        # sechzehn and siebzehn drop the "s" and the "en" of their units.
        return {16: "sech", 17: "sieb"}.get(n, DE[n - 10]) + "zehn"
    if n < 100:
        return (f"{DE[n % 10]}und" if n % 10 else "") + DE_TENS[n // 10]
    return DE[n // 100] + "hundert" + (german_part(n % 100, final) if n % 100 else "")


def french(n: int) -> str:
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return french_part(rest, final=True)
    count = f"{french_part(thousands, final=False)} " if thousands > 1 else ""
    return f"{count}mille" + (f" {french_part(rest, final=True)}" if rest else "")


@cache
def french_part(n: int, final: bool) -> str:
    """Traditional spelling; cent and vingt take an "s" only if they end the number."""
    if n < 20:
        return FR[n]
    if n < 100:
        # 70 to 79 and 90 to 99 count on from sixty and eighty; 81 and 91 take no "et".
        tens = n // 10
        unit = n % 20 if tens in (7, 9) else n % 10
        if n == 80:
            return "quatre-vingts" if final else "quatre-vingt"
        joint = " et " if unit in (1, 11) and tens < 8 else "-"
        return FR_TENS[tens] + (joint + FR[unit] if unit else "")
    hundreds, rest = divmod(n, 100)
    count = f"{FR[hundreds]} " if hundreds > 1 else ""
    if rest:
        return f"{count}cent {french_part(rest, final)}"
    return f"{count}cent" + ("s" if hundreds > 1 and final else "")


SPELLERS: dict[str, Callable[[int], str]] = {"en": english, "de": german, "fr": french}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_number_is_spelled_as_an_independent_speller_does(language):
    # Unwrapped: the run-time check of types would cost ten times the spelling.
    plain, expected = inspect.unwrap(spell), SPELLERS[language]
    wrong = [n for n in range(LIMIT) if plain(n, language) != expected(n)]
    assert wrong == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ("zero", "null", "zéro")),
        (42, ("forty-two", "zweiundvierzig", "quarante-deux")),
        (71, ("seventy-one", "einundsiebzig", "soixante et onze")),
        (
            342,
            (
                "three hundred and forty-two",
                "dreihundertzweiundvierzig",
                "trois cent quarante-deux",
            ),
        ),
        (80_001, ("eighty thousand and one", "achtzigtausendeins", "quatre-vingt mille un")),
        (
            201_116,
            (
                "two hundred and one thousand, one hundred and sixteen",
                "zweihunderteintausendeinhundertsechzehn",
                "deux cent un mille cent seize",
            ),
        ),
    ],
)
def test_some_numbers_by_hand(number, words):
    assert tuple(spell(number, language) for language in LANGUAGES) == words


def test_only_the_german_x01_thousands_differ_from_num2words():
    from num2words import num2words

    uniform = random.Random(11)
    sample = [1000 * n + uniform.randrange(1000) for n in range(1000)]
    for language in LANGUAGES:
        mended = [n for n in sample if num2words(n, lang=language) != spell(n, language)]
        german = [n for n in sample if n > 100_000 and n // 1000 % 100 == 1]
        assert mended == (german if language == "de" else [])


def test_what_cannot_be_spelled_is_named():
    with pytest.raises(ValueError, match=r"^language must be one of en, de, fr, not 'nl'$"):
        spell(3, "nl")
    for number in (-1, LIMIT):
        with pytest.raises(ValueError, match=rf"^number must be from 0 to 999999, not {number}$"):
            spell(number, "en")


def test_pairs_spell_each_number_twice():
    assert pairs([42, 5], "en", "de") == [("forty-two", "zweiundvierzig"), ("five", "fünf")]
    assert pairs(iter([42]), "de", "fr") == [("zweiundvierzig", "quarante-deux")]


def test_one_number_in_ten_is_held_out_at_every_length():
    plain = inspect.unwrap(one_in_ten)  # no check of types, a million times
    for digits in range(1, 7):
        length = range(10 ** (digits - 1) if digits > 1 else 0, 10**digits)
        expected = len(length) / 10
        # Within three standard deviations of as many tosses.
        assert abs(sum(plain(str(n)) for n in length) - expected) < 3 * sqrt(0.9 * expected)


def test_the_split_never_changes():
    """Shipped weights were trained on one side of it: a change would test them on what they saw."""
    assert [n for n in range(100) if held_out(n)] == [8, 19, 22, 29, 36, 42, 54, 64, 65, 87, 96]
    assert sum(n * held_out(n) for n in range(10_000)) == 4_896_187
    assert all(map(held_out, (342, 204, 402, 42)))
    # What has one of them in it, at either end, is out with it; 42 alone is out for itself.
    assert all(held_out(1000 * a + b) for e in (342, 204, 402) for a, b in ((e, 7), (7, e), (e, 0)))
    for number in (42_000, 1_042, 3_420, 34_200):
        assert held_out(number) is one_in_ten(str(number))
    assert not held_out(0)  # no other number has its word


@given(st.integers(0, LIMIT - 1))
def test_each_number_is_on_exactly_one_side(number):
    assert held_out(number) is not training_side(number)


@pytest.mark.parametrize("seed", range(3))
def test_a_draw_follows_the_digit_weights_and_fills_each_length_evenly(seed):
    count = 20_000
    drawn = draw(count, seed, keep=lambda number: True)
    by_digits = Counter(len(str(number)) for number in drawn)
    for digits, weight in enumerate(DIGIT_WEIGHTS, start=1):
        assert abs(by_digits[digits] - count * weight) < 4 * sqrt(count * weight * (1 - weight))
        # The leading digit of a uniform number of more than one digit is 1 to 9, equally often.
        leading = Counter(str(number)[0] for number in drawn if len(str(number)) == digits)
        faces = "0123456789" if digits == 1 else "123456789"
        assert set(leading) == set(faces)
        share = by_digits[digits] / len(faces)
        assert all(abs(seen - share) < 4.5 * sqrt(share) for seen in leading.values())


def test_training_never_draws_what_is_held_out():
    seen, unseen = draw(20_000, seed=1), draw(2_000, seed=1, keep=held_out)
    assert not any(map(held_out, seen)) and all(map(held_out, unseen))
    assert not set(seen) & set(unseen)
    # Both sides have numbers of every length, so each can be scored.
    assert {len(str(number)) for number in unseen} == {1, 2, 3, 4, 5, 6}


def test_whole_thousands_can_be_held_out():
    families = {2, 17, 342}
    drawn = draw(5_000, 3, lambda n: training_side(n) and n // 1000 not in families)
    assert not {number // 1000 for number in drawn} & families
    assert not any(map(held_out, drawn))
    # A family is few numbers of one length; a draw from it alone still ends.
    family = draw(50, 3, lambda n: n // 1000 == 17)
    assert {number // 1000 for number in family} == {17}


@given(st.integers(0, 2**64), st.integers(0, 50), st.integers(0, 50))
def test_a_shorter_draw_is_the_start_of_a_longer_one(seed, count, more):
    assert draw(count + more, seed)[:count] == draw(count, seed)


def test_seeds_differ_and_repeat():
    assert draw(11, 5) == draw(11, 5) != draw(11, 6)
    assert draw(8, 0) == [782158, 3330, 4644, 37298, 6250, 554218, 780, 32545]


def test_a_keep_that_refuses_everything_is_named(monkeypatch):
    monkeypatch.setattr(numbers, "LIMIT", 1_000)
    with pytest.raises(ValueError, match="^keep refused 1000 numbers in a row"):
        draw(1, 0, lambda number: False)


def test_vocabulary_texts_are_training_texts_of_both_languages():
    texts = vocabulary_texts("en", "fr")
    assert len(texts) == 40_000
    for language, half in (("en", texts[::2]), ("fr", texts[1::2])):
        below_1000 = {spell(number, language): number for number in range(1000)}
        met = {below_1000[text] for text in half if text in below_1000}
        # Some 8 000 draws of 900 numbers meet nearly all that training may see, and no other.
        assert not any(map(held_out, met)) and len(met) > 800
    some = vocabulary_texts("en", "de", keep=lambda number: number < 10)
    assert set(some) == {text for pair in pairs(range(10), "en", "de") for text in pair}


class TestDifferent:
    def test_each_once_in_the_order_of_the_draw(self):
        found, drawn = different(97, 5), draw(4 * 97, 5, held_out)
        assert len(set(found)) == len(found) == 97 and all(map(held_out, found))
        assert found == sorted(found, key=drawn.index)
        assert different(53, 5) == found[:53]

    def test_fewer_where_there_are_not_as_many(self):
        assert set(different(211, 0, lambda n: n in (3, 7))) == {3, 7}
