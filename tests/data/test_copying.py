"""The copy task: well-formed sequences, and two sides that never meet."""

from collections import Counter
from math import sqrt
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import one_in_ten
from annotated.data.copying import draw, held_out, pairs, training_side


@given(st.integers(0, 2**64), st.integers(1, 7), st.integers(0, 6), st.sampled_from(["ab", "xyzö"]))
def test_sequences_are_letters_with_one_blank_between(seed, shortest, spread, letters):
    # keep takes all: two letters make few sequences, and held_out may have all short ones.
    drawn = draw(
        13,
        seed,
        lambda sequence: True,
        letters=letters,
        shortest=shortest,
        longest=shortest + spread,
    )
    assert len(drawn) == 13
    for sequence in drawn:
        words = sequence.split(" ")
        assert shortest <= len(words) <= shortest + spread
        assert all(len(word) == 1 and word in letters for word in words)


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
    # Short sequences of few letters, so that draws repeat: all that can be drawn is drawn.
    few = {"letters": "abc", "longest": 4}
    seen = {sequence for seed in range(5) for sequence in draw(500, seed, **few)}
    unseen = {sequence for seed in range(5) for sequence in draw(200, seed, held_out, **few)}
    assert len(seen) + len(unseen) == 3 + 3**2 + 3**3 + 3**4
    assert not seen & unseen and all(map(held_out, unseen)) and all(map(training_side, seen))


def test_about_one_sequence_in_ten_is_held_out():
    drawn = set(draw(20_000, 2, lambda sequence: True, shortest=7))
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


def test_pairs_copy_or_reverse():
    assert pairs(["q b b x", "a"]) == [("q b b x", "q b b x"), ("a", "a")]
    assert pairs(["q b b x", "a"], reverse=True) == [("q b b x", "x b b q"), ("a", "a")]


@pytest.mark.parametrize("lengths", [(0, 3), (4, 3), (-2, -1)])
def test_impossible_lengths_are_named(lengths):
    shortest, longest = lengths
    with pytest.raises(ValueError, match=f"shortest <= longest, not {shortest} and {longest}$"):
        draw(1, 0, shortest=shortest, longest=longest)


@pytest.mark.parametrize("letters", ["", "aba", "a b"])
def test_impossible_letters_are_named(letters):
    with pytest.raises(ValueError, match=f"^letters must be distinct .*, not '{letters}'$"):
        draw(1, 0, letters=letters)


def test_a_keep_that_refuses_everything_is_named():
    with pytest.raises(ValueError, match="^keep refused 100000 sequences in a row"):
        draw(1, 0, lambda sequence: False, letters="a", longest=1)
