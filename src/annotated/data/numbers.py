"""The numbers corpus: every integer below a million in words, English to German or French.

Real words and real reordering (German says units before tens), as many pairs as one likes, one
right answer each, and nothing to download.
"""

import random
from bisect import bisect
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate

from annotated.data import one_in_ten

LIMIT = 1_000_000
LANGUAGES = ("en", "de", "fr")

# How often a number has 1, 2, … 6 digits. Drawn uniformly below a million, 99.9 % of the corpus
# would have four digits or more, and a model never learns "three hundred and forty-two".
DIGIT_WEIGHTS = (0.02, 0.08, 0.30, 0.20, 0.20, 0.20)

# The book's own sentences: 342, and its two friends with the same words in two orders.
EXAMPLES = frozenset({342, 204, 402})

# 256 bytes, 3 special ids and these merges make a vocabulary of 420.
MERGES = 161


def spell(number: int, language: str) -> str:
    """`number` in words: 342 is "three hundred and forty-two".

    Raises ValueError for an unknown language or a number outside 0 to 999 999.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    if not 0 <= number < LIMIT:
        raise ValueError(f"number must be from 0 to {LIMIT - 1}, not {number}")
    thousands, rest = divmod(number, 1000)
    if thousands == 0:
        return _words(rest, language)
    return _words(1000 * thousands, language) + _tail(rest, language)


# num2words takes 40 to 110 µs a number. In all three languages what follows the thousands does not
# depend on how many they are, so 3 000 calls of it a language spell a million numbers.
@cache
def _words(number: int, language: str) -> str:
    from num2words import num2words

    # num2words keeps the "s" of "eins" before "tausend" in 101 000, 201 000, … (and only there).
    return num2words(number, lang=language).replace("einstausend", "eintausend")


@cache
def _tail(rest: int, language: str) -> str:
    """What `rest` adds to a number of thousands, joint included: " and four" or ", one hundred"."""
    return _words(1000 + rest, language).removeprefix(_words(1000, language))


def held_out(number: int) -> bool:
    """Whether `number` is kept out of training: one in ten, 42, and all that has an example in it.

    A number with one of `EXAMPLES` as its thousands or as its last three digits
    is spelled with the example's words in a row, so training on it would show them.
    """
    thousands, rest = divmod(number, 1000)
    example = thousands in EXAMPLES or rest in EXAMPLES
    return example or number == 42 or one_in_ten(str(number))


def training_side(number: int) -> bool:
    """Whether training may see `number`: the opposite of `held_out`."""
    return not held_out(number)


def draw(count: int, seed: int, keep: Callable[[int], bool] = training_side) -> list[int]:
    """`count` numbers, with repetition: the number of digits first, then uniformly within it.

    What `keep` refuses is drawn again, digits included, so a `keep` that leaves no number of some
    length shares its weight out over the others: `keep=held_out` draws unseen numbers,
    `lambda n: training_side(n) and n // 1000 not in families` holds whole thousands out as well.
    The first n of a longer draw are the draw of n. Raises ValueError if `keep` refuses a million
    numbers in a row.
    """
    # Of all the generators at hand only random.random() promises the same numbers in every later
    # version and on every platform; NumPy's Generator may change its integers and choices.
    uniform = random.Random(seed).random
    shares = list(accumulate(DIGIT_WEIGHTS))
    drawn: list[int] = []
    refused = 0
    while len(drawn) < count:
        digits = 1 + bisect(shares, uniform(), hi=len(shares) - 1)
        low = 10 ** (digits - 1) if digits > 1 else 0
        number = low + int(uniform() * (10**digits - low))
        if keep(number):
            drawn.append(number)
            refused = 0
        elif (refused := refused + 1) == LIMIT:
            raise ValueError(
                f"keep refused {LIMIT} numbers in a row; it must accept some below {LIMIT}"
            )
    return drawn


def different(count: int, seed: int, keep: Callable[[int], bool] = held_out) -> list[int]:
    """The first `count` different ones of `4 * count` drawn: fewer where there are not as many."""
    return list(dict.fromkeys(draw(4 * count, seed, keep)))[:count]


def pairs(numbers: Iterable[int], source: str, target: str) -> list[tuple[str, str]]:
    """Each number in the two languages: 42 is ("forty-two", "zweiundvierzig")."""
    return [(spell(number, source), spell(number, target)) for number in numbers]


def vocabulary_texts(
    source: str, target: str, keep: Callable[[int], bool] = training_side
) -> list[str]:
    """The training-side texts from which the recipes learn their vocabulary of `MERGES` merges.

    They are the same in every run. Which German pieces byte-pair encoding finds is nearly a tie:
    "dreihundert" is as frequent as "hundertneun" to one part in a hundred (one hundreds digit in
    nine against eleven endings in a hundred), and with these 20 000 numbers drawn from other seeds
    about one vocabulary in seven cuts 342 after "drei". Here it is cut as the book has it with any
    number of merges from 139 to 219.
    """
    return [text for pair in pairs(draw(20_000, 0, keep), source, target) for text in pair]
