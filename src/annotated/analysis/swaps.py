"""Swaps of one memory vector between numbers that are one English piece apart."""

import random
from typing import NamedTuple

import torch
from torch import Tensor

from annotated.analysis.interventions import Swap, swap_memory
from annotated.data import numbers
from annotated.translation import Translator


class Case(NamedTuple):
    """Two numbers one English piece apart, and the swap between them."""

    number: int
    other: int
    swap: Swap

    @property
    def exact(self) -> bool:
        """Whether the translation became, to the letter, that of `other`."""
        right = numbers.spell(self.number, "de"), numbers.spell(self.other, "de")
        return (self.swap.before, self.swap.after) == right


def swap_case(translator: Translator, number: int, other: int) -> Case | None:
    """The swap between two numbers; None if they are not one piece apart."""
    sentences = numbers.spell(number, "en"), numbers.spell(other, "en")
    first, second = translator.tokenizer.encode_batch(sentences)
    apart = sum(a != b for a, b in zip(first, second, strict=False))
    if len(first) != len(second) or apart != 1:
        return None
    return Case(number, other, swap_memory(translator, *sentences))


def swap_cases(translator: Translator, count: int, seed: int) -> list[Case]:
    """Different numbers held out of training, each with one digit changed."""
    rng, cases = random.Random(seed), []
    for number in dict.fromkeys(numbers.draw(100 * count, seed, numbers.held_out)):
        digits = list(str(number))
        digits[rng.randrange(len(digits))] = str(rng.randrange(10))
        case = swap_case(translator, number, int("".join(digits)))
        if case is not None:
            cases.append(case)
        if len(cases) == count:
            break
    return cases


@torch.inference_mode()
def memory_of(translator: Translator, sentence: str) -> Tensor:
    """The encoder's output for one sentence, (pieces + EOS, d_model)."""
    ids = [*translator.tokenizer.encode(sentence), translator.model.config.eos_id]
    return translator.model.encode(torch.tensor([ids]))[0]
