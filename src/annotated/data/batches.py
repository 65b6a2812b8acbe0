"""§5.1: batches of about equal length, cut by a budget of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

IdPair = tuple[list[int], list[int]]
Lengths = Int[np.ndarray, "pairs 2"]
Places = Int[np.ndarray, "_sentences"]  # _: each its own number


@dataclass(frozen=True)
class Batch:
    """Ids of some sentence pairs, padded on the right.

    `source` ends in EOS; `target` begins with BOS and is what the decoder
    reads; `labels` is the same one place to the left, ends in EOS, and is
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


def collate(pairs: Sequence[IdPair], pad_id: int, bos_id: int, eos_id: int) -> Batch:
    """One batch of these pairs of ids, with their special ids added.

    `pairs` hold no special id; `pad_id` fills up short rows, `bos_id` begins
    each target, `eos_id` ends each source and each row of labels.
    """
    return Batch(
        source=pad([source + [eos_id] for source, _ in pairs], pad_id),
        target=pad([[bos_id] + target for _, target in pairs], pad_id),
        labels=pad([target + [eos_id] for _, target in pairs], pad_id),
    )


def token_batches(
    pairs: Sequence[IdPair], budget: int, seed: int, epoch: int = 0,
    length_noise: float = 0.0, skip: int = 0,
) -> Iterator[list[IdPair]]:
    """One epoch: every pair once, in batches of at most `budget` tokens.

    The budget holds on each side, padding included, with one special id
    per sentence. Which pairs share a batch, and the order of batches, follow
    from `seed` and `epoch` alone; `length_noise` as in `order_by_length`.
    The first `skip` batches are left out unread.
    Raises ValueError for a pair that no batch can hold.
    """
    plan = batch_plan(pair_lengths(pairs), budget, seed, epoch, length_noise)
    for places in plan[skip:]:
        yield [pairs[place] for place in places.tolist()]


def micro_batches(
    pairs: Sequence[IdPair], budget: int, seed: int, length_noise: float = 0.0,
    start: int = 0, every: int = 1,
) -> Iterator[list[IdPair]]:
    """Epoch after epoch of token_batches, without end, from place `start`.

    `pairs`, `budget`, `seed` and `length_noise` are those of token_batches.
    Places count batches from the first of epoch 0. Batches before `start`
    are planned but not read. With `every` = n, only each n-th is: n
    processes that begin one place apart share all batches without overlap.
    """
    lengths = pair_lengths(pairs)
    if not len(lengths):
        raise ValueError("there are no sentence pairs to train on")
    for epoch in count():
        plan = batch_plan(lengths, budget, seed, epoch, length_noise)
        for places in plan[start::every]:
            yield [pairs[place] for place in places.tolist()]
        start -= len(plan)  # the next place, as the next epoch counts
        if start < 0:
            start %= every


def shuffled(batches: Sequence[Places], rng: np.random.PCG64) -> list[Places]:
    """The batches in a random order."""
    order = np.argsort(rng.random_raw(len(batches)), kind="stable")
    return [batches[i] for i in order.tolist()]


def pair_lengths(pairs: Sequence[IdPair]) -> Lengths:
    """(source, target) lengths: as they lie in a file of ids, or counted."""
    if hasattr(pairs, "lengths"):
        return pairs.lengths
    counted = [(len(source), len(target)) for source, target in pairs]
    return np.array(counted, dtype=np.int32).reshape(-1, 2)


def batch_plan(
    lengths: Lengths, budget: int, seed: int, epoch: int = 0,
    length_noise: float = 0.0,
) -> list[Places]:
    """One epoch of batches, each as the places of its pairs in `lengths`.

    `lengths` (pairs, 2) counts ids without special ones, `budget` tokens on
    each side; the order follows from `seed` and `epoch`. `length_noise` as in
    `order_by_length`, which sorts the pairs. They are cut where the budget is
    full, and the batches shuffled. Takes 28 bytes of memory per pair while
    it sorts, and 4 afterwards: for 36 million pairs 1 GB, then 0.15 GB.
    """
    tokens = 1 + lengths.max(1)  # of the longer side
    if len(too_long := np.flatnonzero(tokens > budget)):
        place = too_long[0]
        raise ValueError(
            f"pair {place} has {tokens[place]} tokens; the budget is {budget}"
        )
    rng = np.random.PCG64([seed, epoch])
    order = order_by_length(lengths, length_noise, rng)
    *batches, _ = np.split(order, cuts(tokens[order], budget))  # _ is empty
    return shuffled(batches, rng)


def order_by_length(
    lengths: Lengths, length_noise: float, rng: np.random.PCG64
) -> Places:
    """The pairs' places in an order in which neighbours have like lengths.

    Sorted by the longer side and, where that is equal, by how much longer
    the source is: rising, then falling, so that it never jumps. A random
    number up to 1 + `length_noise` is added to both: at 0 it only breaks
    ties; a large one makes each batch a fair sample, which small batches
    need.
    """
    if length_noise < 0:
        raise ValueError(f"length_noise is {length_noise}; expected from 0")
    # Raw bits and a stable sort: the same order on every processor and with
    # every version of NumPy. In place, because a pair has only a few bytes.
    pairs = len(lengths)
    bits = rng.random_raw((pairs + 1) // 2).view(np.uint16)[: 2 * pairs]
    longer, excess = keys = bits.reshape(2, pairs).astype(np.float32)
    keys *= (1 + length_noise) / 2**16
    longer += lengths.max(1)
    np.floor(longer, out=longer)
    excess += lengths[:, 0]
    excess -= lengths[:, 1]
    excess *= 1 - 2 * (longer % 2)
    return np.lexsort((excess, longer)).astype(np.int32)


def cuts(tokens: Places, budget: int) -> list[int]:
    """Where batches that just keep the budget end in a row of lengths."""
    found, start = [], 0
    while start < len(tokens):
        # No more can fit: the first sentence alone makes it so wide.
        rows = tokens[start : start + budget // int(tokens[start])]
        widths = np.maximum.accumulate(rows)
        cells = widths * np.arange(1, 1 + len(rows))  # padding included
        start += int(np.searchsorted(cells, budget, side="right"))
        found.append(start)
    return found


class Padding(NamedTuple):
    """The share of places that hold padding: of each side, and of both."""

    source: float
    target: float
    both: float


def padding_of(batches: Iterable[Sequence[IdPair]]) -> Padding:
    """§5.1: how much of the padded batches is padding.

    Each sentence counts with its one special id. No batches waste nothing.
    """
    return padding_of_lengths(pair_lengths(batch) for batch in batches)


def padding_of_lengths(batches: Iterable[Lengths]) -> Padding:
    """The same, where of each batch only the lengths are at hand."""
    tokens, places = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for batch in batches:
        with_special = 1 + batch
        tokens += with_special.sum(0)
        places += len(batch) * with_special.max(0)
    empty = places - tokens
    source, target = (empty / np.maximum(places, 1)).tolist()
    return Padding(source, target, float(empty.sum() / max(places.sum(), 1)))


def fixed_batches(
    pairs: Sequence[IdPair], size: int, seed: int, epoch: int = 0,
    length_noise: float = 0.0,
) -> Iterator[list[IdPair]]:
    """Not in the paper: as token_batches, but `size` pairs a batch.

    What a budget of tokens is measured against; `seed`, `epoch` and
    `length_noise` mean the same as there.
    """
    rng = np.random.PCG64([seed, epoch])
    order = order_by_length(pair_lengths(pairs), length_noise, rng)
    batches = np.split(order, range(size, len(order), size))
    for places in shuffled(batches, rng):
        yield [pairs[place] for place in places.tolist()]
