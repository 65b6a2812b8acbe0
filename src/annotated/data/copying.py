"""The copy task: letters in, the same letters out. A trained model must be exact."""

import random
from collections.abc import Callable
from string import ascii_lowercase

from annotated.data import one_in_ten


def held_out(sequence: str) -> bool:
    """Whether `sequence` is in the tenth of all sequences that training never sees."""
    return one_in_ten(sequence)


def training_side(sequence: str) -> bool:
    """Whether training may see `sequence`: the opposite of `held_out`."""
    return not held_out(sequence)


def draw(
    count: int,
    seed: int,
    keep: Callable[[str], bool] = training_side,
    *,
    longest: int = 10,
) -> list[str]:
    """`count` sequences such as "q b b x": their length is uniform, and so is each letter.

    Of 1 to `longest` letters, drawn with this random `seed`. What `keep` refuses is drawn again;
    `keep=held_out` draws sequences that no training draw holds, whatever its seed. The first n of
    a longer draw are the draw of n. Raises ValueError for a `longest` below 1, or if `keep` refuses
    100 000 sequences in a row.
    """
    if longest < 1:
        raise ValueError(f"longest is {longest}; expected at least 1")
    uniform = random.Random(seed).random  # the same on every platform, as in numbers.draw
    drawn: list[str] = []
    refused = 0
    while len(drawn) < count:
        length = 1 + int(uniform() * longest)
        sequence = " ".join(ascii_lowercase[int(uniform() * 26)] for _ in range(length))
        if keep(sequence):
            drawn.append(sequence)
            refused = 0
        elif (refused := refused + 1) == 100_000:
            raise ValueError(
                f"keep refused 100000 sequences in a row, of up to {longest} letters"
            )
    return drawn
