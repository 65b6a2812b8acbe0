"""§5.1: batches of about equal length, cut by a budget of tokens."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Batch:
    """Ids of some sentence pairs, padded on the right.

    ``source`` ends in EOS; ``target`` begins with BOS and is what the decoder
    reads; ``labels`` is the same one place to the left, ends in EOS, and is
    what it must say. All are int64, (sentences, length).
    """

    source: Int[Tensor, "batch m"]
    target: Int[Tensor, "batch n"]
    labels: Int[Tensor, "batch n"]

    def to(self, device) -> "Batch":
        return Batch(*(x.to(device) for x in vars(self).values()))


def pad(rows: Sequence[list[int]], pad_id: int) -> Int[Tensor, "rows width"]:
    """Rows of ids as one tensor, as wide as the longest."""
    width = max(map(len, rows))
    padded = [row + [pad_id] * (width - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.int64)


def collate(pairs: Sequence[Pair], pad_id: int, bos_id: int, eos_id: int) -> Batch:
    """Pairs of ids without special ids to one batch with them."""
    return Batch(
        source=pad([source + [eos_id] for source, _ in pairs], pad_id),
        target=pad([[bos_id] + target for _, target in pairs], pad_id),
        labels=pad([target + [eos_id] for _, target in pairs], pad_id),
    )


def token_batches(
    pairs: Sequence[Pair], budget: int, seed: int, epoch: int = 0, spread: float = 0.0
) -> Iterator[list[Pair]]:
    """One epoch: every pair once, in batches of at most ``budget`` tokens.

    The budget holds on each side, padding included, with one special id a
    sentence. Pairs are sorted by source length plus a random number up to
    ``spread``, cut, and the batches shuffled: all of it follows from seed and
    epoch alone. A small spread wastes little on padding; a large one makes
    each batch a fair sample, which small batches need. Raises ValueError for
    a pair that no batch can hold.
    """
    rng = random.Random(f"{seed}-{epoch}")
    # never under 1: ties in length would otherwise keep the order of the data
    key = [len(source) + rng.uniform(0, max(spread, 1)) for source, _ in pairs]
    order = sorted(range(len(pairs)), key=key.__getitem__)
    batches, batch, width = [], [], 0
    for i in order:
        longest = 1 + max(map(len, pairs[i]))
        if longest > budget:
            raise ValueError(f"pair {i} has {longest} tokens; the budget is {budget}")
        if (len(batch) + 1) * max(width, longest) > budget:
            batches.append(batch)
            batch, width = [], 0
        batch.append(pairs[i])
        width = max(width, longest)
    if batch:
        batches.append(batch)
    rng.shuffle(batches)
    yield from batches
