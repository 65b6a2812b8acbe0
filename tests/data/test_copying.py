"""The copy task: well-formed sequences, and two sides that never meet."""

from collections import Counter
from math import sqrt
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import one_in_ten
from annotated.data.copying import draw, held_out, training_side


@given(st.integers(0, 2**64), st.integers(1, 7))
def test_sequences_are_letters_with_one_blank_between(seed, longest):
    drawn = draw(13, seed, longest=longest)
    assert len(drawn) == 13
    for sequence in drawn:
        words = sequence.split(" ")
        assert 1 <= len(words) <= longest
        assert all(len(word) == 1 and word in ascii_lowercase for word in words)


@pytest.mark.parametrize("seed", range(3))
def test_lengths_and_letters_are_uniform(seed):
    drawn = draw(11_000, seed, lambda sequence: True, longest=11)
    lengths = Counter(len(sequence.split()) for sequence in drawn)
    assert set(lengths) == set(range(1, 12))
    assert all(abs(seen - 1000) < 4.5 * sqrt(1000) for seen in lengths.values())
    letters = Counter(letter for sequence in drawn for letter in sequence.split())
    share = letters.total() / 26
    assert set(letters) == set(ascii_lowercase)
    assert all(abs(seen - share) < 4.5 * sqrt(share) for seen in letters.values())


def test_the_two_sides_never_meet_whatever_the_seeds():
    # Short sequences, so that draws repeat: all that can be drawn is drawn.
    seen = {sequence for seed in range(5) for sequence in draw(4000, seed, longest=2)}
    unseen = {sequence for seed in range(5) for sequence in draw(400, seed, held_out, longest=2)}
    assert len(seen) + len(unseen) == 26 + 26**2
    assert not seen & unseen and all(map(held_out, unseen)) and all(map(training_side, seen))


def test_about_one_sequence_in_ten_is_held_out():
    drawn = set(draw(20_000, 2, lambda sequence: len(sequence) > 12))
    expected = len(drawn) / 10
    assert abs(sum(map(held_out, drawn)) - expected) < 4 * sqrt(0.9 * expected)


@given(st.text())
def test_the_split_is_a_property_of_the_text_alone(text):
    assert one_in_ten(text) is one_in_ten(text[:1] + text[1:]) is held_out(text)
    assert training_side(text) is not held_out(text)


def test_a_shorter_draw_is_the_start_of_a_longer_one():
    assert draw(5, 3) == draw(17, 3)[:5] != draw(5, 4)
    assert draw(0, 3) == []


def test_draws_never_change():
    assert draw(3, 0) == ["t k g n k u h m p", "n h t q g x z v x i", "x r m c l p x z"]


@pytest.mark.parametrize("longest", [0, -1])
def test_an_impossible_length_is_named(longest):
    with pytest.raises(ValueError, match=f"^longest is {longest}; expected at least 1$"):
        draw(1, 0, longest=longest)


def test_a_keep_that_refuses_everything_is_named():
    with pytest.raises(ValueError, match="^keep refused 100000 sequences in a row"):
        draw(1, 0, lambda sequence: False, longest=1)
