"""Change one thing inside a trained model, and see what it then says."""

from typing import NamedTuple

import torch

from annotated.data.batches import pad
from annotated.model.interventions import swap_vectors
from annotated.training.evaluating import evaluating
from annotated.translation.search import greedy_search
from annotated.translation.translator import Translator


class Swap(NamedTuple):
    """A memory with some vectors from another sentence, and what came of it.

    ``places`` are the pieces that differ between the two sentences.
    """

    places: list[int]
    before: str
    after: str


@torch.inference_mode()
def swap_memory(translator: Translator, sentence: str, other: str) -> Swap:
    """Translate with the vectors of the differing pieces taken from other.

    Both sentences are encoded whole; then, at each place where their pieces
    differ, other's vector replaces ours, and the decoder runs on the result.
    Raises ValueError if they are not of the same number of pieces.
    """
    model, tokenizer = translator.model, translator.tokenizer
    ids = [row + [model.config.eos_id] for row in tokenizer.encode_batch([sentence, other])]
    if len(ids[0]) != len(ids[1]):
        raise ValueError(
            f"{sentence!r} has {len(ids[0])} pieces and {other!r} {len(ids[1])}; "
            "expected the same number"
        )
    source = pad(ids, model.config.pad_id).to(next(model.parameters()).device)
    with evaluating(model):
        memory = model.encode(source)
    places = (source[0] != source[1]).nonzero()[:, 0].tolist()
    swapped = swap_vectors(memory[:1], memory[1:], places)
    before, after = (
        tokenizer.decode(greedy_search(model, source[:1], memory=m)[0].tokens)
        for m in (memory[:1], swapped)
    )
    return Swap(places, before, after)
