"""§5.1, the data: corpora, the shared vocabulary and token-budget batches."""

from hashlib import sha256


def one_in_ten(text: str) -> bool:
    """Whether `text` is in the tenth of every made-up corpus that training never sees.

    The answer depends on the text alone: not on a seed, the platform or PYTHONHASHSEED. So the two
    sides of a split can't overlap, whichever seeds they are drawn with.
    """
    # Any residue would do for the rest of the corpus. 5 is the one that leaves exactly one of the
    # ten one-digit numbers out (8) and not zero, whose word occurs in no other number.
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % 10 == 5
