"""The copy task: letters in, the same letters out. A trained model must be exact."""

import random
from collections.abc import Callable, Iterable
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
    letters: str = ascii_lowercase,
    shortest: int = 1,
    longest: int = 10,
) -> list[str]:
    """`count` sequences such as "q b b x": their length is uniform, and so is each letter.

    Lengths are `shortest` to `longest` letters, drawn from `letters` with this random `seed`.
    What `keep` refuses is drawn again; `keep=held_out` draws sequences that no training draw holds,
    whatever its seed. The first n of a longer draw are the draw of n. Raises ValueError for lengths
    or letters that make no sequence, or if `keep` refuses 100 000 sequences in a row.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"lengths must satisfy 1 <= shortest <= longest, not {shortest} and {longest}"
        )
    if not letters or len(set(letters)) < len(letters) or " " in letters:
        raise ValueError(f"letters must be distinct and not blank, at least one, not {letters!r}")
    uniform = random.Random(seed).random  # the same on every platform, as in numbers.draw
    drawn: list[str] = []
    refused = 0
    while len(drawn) < count:
        length = shortest + int(uniform() * (longest - shortest + 1))
        sequence = " ".join(letters[int(uniform() * len(letters))] for _ in range(length))
        if keep(sequence):
            drawn.append(sequence)
            refused = 0
        elif (refused := refused + 1) == 100_000:
            raise ValueError(
                f"keep refused 100000 sequences in a row; it must accept some of {shortest} to"
                f" {longest} letters from {letters!r}"
            )
    return drawn


def pairs(sequences: Iterable[str], *, reverse: bool = False) -> list[tuple[str, str]]:
    """Each sequence with its copy, or with itself read backwards."""
    return [(sequence, sequence[::-1] if reverse else sequence) for sequence in sequences]
