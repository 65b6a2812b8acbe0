"""Where a text that is too long for a model is cut: after sentences, else between words."""

import re
from collections.abc import Callable, Iterator, Sequence

CLOSING, OPENING = "\"'”’“‘»›)]}", "\"'“„‘‚«‹([{¿¡"
# Words before whose full stop a sentence seldom ends, besides single letters and numbers.
ABBREVIATIONS = frozenset(
    "abb al art bd bspw bzw ca cf co dept dr etc evtl fig figs ggf gen hr inc inkl jr ltd max min "
    "mlle mm mme mr mrs ms mt nr núm oct op pp prof resp rev sen sog sr st tel usw vgl vol vs "
    "zzgl".split()
)


def sentences(text: str) -> list[str]:
    """A text of single blanks, cut where a sentence seems to end.

    It ends with ". ! ? …", perhaps in quotation marks or brackets, if no
    small letter comes next and no abbreviation, number or single letter
    stands before; in Chinese and Japanese with their own stops. Nothing is
    lost: but for blanks the sentences are the text.
    """
    found: list[list[str]] = [[]]
    words = [word for word in re.split(r" |(?<=[。！？])", text) if word]
    for word, following in zip(words, [*words[1:], ""]):
        found[-1].append(word)
        if ends_sentence(word, following):
            found.append([])
    return [" ".join(sentence) for sentence in found if sentence]


def ends_sentence(word: str, following: str) -> bool:
    """Whether a sentence ends between two words that follow one another."""
    bare = word.rstrip(CLOSING)
    if bare.endswith(("。", "！", "？")):
        return True
    if not bare.endswith((".", "!", "?", "…")) or following.lstrip(OPENING)[:1].islower():
        return False
    stem = bare[:-1].lstrip(OPENING)
    if not bare.endswith(".") or stem.endswith("."):  # "...": three full stops are one sign
        return True
    letter, inside = len(stem) == 1 and stem.isalpha(), "." in stem  # "z.B.", "e.g."
    return not (letter or inside or stem.isdigit() or stem.lower() in ABBREVIATIONS)


def parts(
    text: str, longest: int, count: Callable[[Sequence[str]], Sequence[int]]
) -> list[str]:
    """A text as it is, or cut so that no part has more pieces than `longest`.

    `count` says of some texts how many pieces each has; of words they add up.
    A text that is too long is cut into its `sentences`, those that are too
    long yet between words, and a word anywhere.
    """
    if not text or count([text])[0] <= longest:
        return [text] if text else []
    found: list[str] = []
    whole = sentences(text)
    for sentence, size in zip(whole, count(whole)):
        found += [sentence] if size <= longest else shorter(sentence, longest, count)
    return found


def shorter(
    sentence: str, longest: int, count: Callable[[Sequence[str]], Sequence[int]]
) -> Iterator[str]:
    """The words of a sentence that is too long, as many together as fit.

    `longest` and `count` as in `parts`.
    """
    room = max(1, longest // 4 - 1)  # no character has more than four pieces, a word one besides
    words: list[str] = []
    for word, size in zip(whole := sentence.split(" "), count(whole)):
        step = room if size > longest else len(word)
        words += [word[at : at + step] for at in range(0, len(word), step)]
    kept: list[str] = []
    pieces = 0
    for word, size in zip(words, count(words)):
        if kept and pieces + size > longest:
            yield " ".join(kept)
            kept, pieces = [], 0
        kept.append(word)
        pieces += size
    yield " ".join(kept)
