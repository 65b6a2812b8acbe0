"""§5.1: batches hold every pair once, keep the budget on both sides, and follow from the seed."""

import inspect
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import batches
from annotated.data.batches import (
    Batch,
    Padding,
    batch_plan,
    collate,
    cuts,
    fixed_batches,
    micro_batches,
    pad,
    padding_of,
    padding_of_lengths,
    pair_lengths,
    token_batches,
)

# What seed 3, epoch 2 must give on every processor and with every version of NumPy.
FIXED = (
    "[[23, 28, 25, 18], [8, 0, 16, 13, 24, 19, 11, 27], [21, 26, 22, 9, 1, 4], [10, 5],"
    " [12, 6, 3, 14, 17], [20, 15, 7, 2]]"
)


ids = st.lists(st.integers(3, 36), max_size=11)
corpora = st.lists(st.tuples(ids, ids), min_size=1, max_size=37)
budgets = st.integers(12, 97)  # the longest side has 11 pieces and one special id
seeds = st.integers(0, 2**63)
noises = st.sampled_from([0.0, 1.0, 3.0, 1000.0])


def corpus(count, seed=0, longest=23):
    """Pairs of independent lengths; each can be told from all others by its first id."""
    rng = random.Random(seed)
    lengths = [(rng.randint(1, longest), rng.randint(1, longest)) for _ in range(count)]
    return [([i] * m, [i] * n) for i, (m, n) in enumerate(lengths)]


def cells(batch):
    """(source, target): places in the padded tensors, one special id a sentence included."""
    return [len(batch) * (1 + max(map(len, side))) for side in zip(*batch, strict=True)]


def by_first_id(batches):
    """Batches of `corpus` pairs as the numbers of their pairs."""
    return [[source[0] for source, _ in batch] for batch in batches]


def related(count, seed=0):
    """Lengths as sentences have them: from 1 to 40, the two of a pair alike."""
    rng = random.Random(seed)
    sources = [min(40, 1 + int(rng.gammavariate(4, 3))) for _ in range(count)]
    return [([3] * m, [3] * max(1, m + rng.randint(-3, 4))) for m in sources]


class Watched(Sequence):
    """Pairs as a file has them: lengths at hand, and here each pair read is counted."""

    def __init__(self, pairs):
        self.pairs, self.lengths, self.reads = pairs, pair_lengths(pairs), 0

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, place):
        self.reads += 1
        return self.pairs[place]


class TestTokenBatches:
    @given(corpora, budgets, seeds, st.integers(0, 5), noises)
    def test_every_pair_comes_exactly_once_as_it_is(self, pairs, budget, seed, epoch, noise):
        found = [p for batch in token_batches(pairs, budget, seed, epoch, noise) for p in batch]
        assert sorted(found) == sorted(pairs)

    @given(corpora, budgets, seeds, noises)
    def test_the_budget_holds_on_both_sides_padding_included(self, pairs, budget, seed, noise):
        for batch in token_batches(pairs, budget, seed, length_noise=noise):
            assert max(cells(batch)) <= budget
            tensors = collate(batch, 0, 1, 2)
            assert [tensors.source.numel(), tensors.target.numel()] == cells(batch)

    @pytest.mark.parametrize("budget", [101, 499])
    def test_little_of_the_budget_is_left(self, budget):
        """But for the last batch, one more sentence would not have fitted."""
        filled = [max(cells(b)) / budget for b in token_batches(corpus(997), budget, seed=0)]
        assert mean(sorted(filled)[1:]) > 1 - 24 / budget

    @given(corpora, budgets, seeds, st.integers(0, 5), noises)
    def test_seed_and_epoch_are_all_it_depends_on(self, pairs, budget, seed, epoch, noise):
        one = list(token_batches(pairs, budget, seed, epoch, noise))
        np.random.random()
        assert list(token_batches(pairs, budget, seed, epoch, noise)) == one

    def test_the_order_is_the_same_in_every_process_and_for_good(self):
        """Also under another hash seed, and without the faster instructions of this processor."""
        code = """
from annotated.data.batches import token_batches
pairs = [([i] * (1 + i * 7 % 11), [i] * (1 + i * 5 % 13)) for i in range(29)]
print([[source[0] for source, _ in batch] for batch in token_batches(pairs, 60, 3, 2, 1.0)])
"""
        hash_seed = "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "4243"
        slow = {"PYTHONHASHSEED": hash_seed, "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F"}
        other = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | slow, capture_output=True, text=True, check=True,
        )
        assert other.stdout.strip() == FIXED

    def test_it_leaves_the_global_generators_alone(self, monkeypatch):
        for name, plain in vars(batches).items():  # the check of types draws random numbers itself
            if inspect.isfunction(plain):
                monkeypatch.setattr(batches, name, inspect.unwrap(plain))
        before = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].tolist()
        assert len(list(batches.token_batches(corpus(53), 101, 0))) > 1
        assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])
        assert np.random.get_state()[1].tolist() == before[2]

    def test_other_seeds_and_other_epochs_give_other_batches_in_another_order(self):
        pairs = corpus(211)
        found = {
            (seed, epoch): by_first_id(token_batches(pairs, 101, seed, epoch))
            for seed in (0, 1) for epoch in (0, 1, 2)
        }
        firsts = {tuple(sorted(batches[0])) for batches in found.values()}
        members = {frozenset(map(frozenset, batches)) for batches in found.values()}
        assert len(firsts) == len(members) == len(found) == 6

    def test_batches_do_not_come_in_the_order_of_their_length(self):
        batches = token_batches(corpus(997), 101, seed=0)
        lengths = [mean(len(source) for source, _ in batch) for batch in batches]
        rising = sum(a < b for a, b in zip(lengths, lengths[1:], strict=False))
        assert 0.3 < rising / len(lengths) < 0.7

    def test_without_noise_both_sides_of_a_batch_are_alike(self):
        """Neighbours differ by one on the longer side, but for the rare lengths at the end."""
        differences = [
            max(spans)
            for batch in token_batches(related(9973), 997, seed=0)
            for sides in [list(zip(*[(len(m), len(n)) for m, n in batch], strict=True))]
            for spans in [[max(side) - min(side) for side in sides]]
        ]
        assert sum(difference <= 2 for difference in differences) / len(differences) > 0.8

    def test_pairs_of_one_length_do_not_keep_the_order_of_the_data(self):
        pairs = [([i], [i]) for i in range(500)]
        (batch,) = by_first_id(token_batches(pairs, 1000, seed=0))
        rising = sum(a < b for a, b in zip(batch, batch[1:], strict=False))
        assert 200 < rising < 300

    def test_length_noise_buys_fair_samples_with_padding(self):
        pairs = related(997)
        wasted, unlike = [], []
        for noise in (0.0, 5.0, 1000.0):
            batches = list(token_batches(pairs, 211, 0, length_noise=noise))
            wasted.append(padding_of(batches).both)
            unlike.append(stdev(mean(len(source) for source, _ in batch) for batch in batches))
        assert wasted[0] < 0.05 < wasted[1] < wasted[2]
        assert unlike[2] < unlike[0] / 2  # nine sentences at random: a third

    @given(corpora, budgets, seeds, noises, st.integers(0, 40))
    def test_what_is_skipped_is_neither_given_nor_read(self, pairs, budget, seed, noise, skip):
        whole = list(token_batches(pairs, budget, seed, length_noise=noise))
        rest = list(token_batches(pairs, budget, seed, length_noise=noise, skip=skip))
        assert rest == whole[skip:]

    @pytest.mark.parametrize("left", [0, 1, 3])
    def test_what_is_skipped_is_not_read(self, left):
        pairs = Watched(corpus(211))
        plan = batch_plan(pairs.lengths, 101, 0)
        found = list(token_batches(pairs, 101, 0, skip=len(plan) - left))
        assert list(map(len, found)) == list(map(len, plan[len(plan) - left :]))
        assert pairs.reads <= sum(map(len, found)) + 5  # the check of types reads some

    @given(st.integers(0, 12), st.booleans())
    def test_a_pair_that_no_batch_can_hold_is_named(self, place, long_source):
        pairs = [([3] * 4, [3] * 2) for _ in range(13)]
        pairs[place] = ([3] * 17, [3]) if long_source else ([3], [3] * 17)
        assert sum(map(len, token_batches(pairs, 18, seed=0))) == 13
        with pytest.raises(ValueError, match=rf"^pair {place} has 18 tokens; the budget is 17$"):
            list(token_batches(pairs, 17, seed=0))

    def test_a_negative_length_noise_is_refused(self):
        with pytest.raises(ValueError, match=r"^length_noise is -0\.5; expected from 0$"):
            next(token_batches(corpus(13), 101, 0, length_noise=-0.5))

    def test_no_pairs_make_no_batches(self):
        assert list(token_batches([], 101, seed=0)) == []


class TestMicroBatches:
    @given(corpora, budgets, seeds, noises, st.integers(0, 60))
    def test_it_goes_on_from_any_place_over_epochs(self, pairs, budget, seed, noise, start):
        from_zero = micro_batches(pairs, budget, seed, noise)
        wanted = list(islice(from_zero, start, start + 23))
        assert list(islice(micro_batches(pairs, budget, seed, noise, start), 23)) == wanted

    @given(corpora, budgets, seeds, noises)
    def test_it_is_one_epoch_after_the_other(self, pairs, budget, seed, noise):
        epochs = [
            b for epoch in range(3) for b in token_batches(pairs, budget, seed, epoch, noise)
        ]
        assert list(islice(micro_batches(pairs, budget, seed, noise), len(epochs))) == epochs

    @given(corpora, budgets, seeds, noises, st.integers(1, 5))
    def test_processes_share_an_epoch_without_overlap_or_loss(
        self, pairs, budget, seed, noise, world
    ):
        """Each takes the places that leave its rank when divided by their number."""
        pairs = [([i, *source[:10]], target) for i, (source, target) in enumerate(pairs)]
        places = len(list(token_batches(pairs, budget, seed, length_noise=noise)))
        shares = [
            by_first_id(islice(micro_batches(pairs, budget, seed, noise), rank, places, world))
            for rank in range(world)
        ]
        taken = [i for share in shares for batch in share for i in batch]
        assert sorted(taken) == list(range(len(pairs)))

    def test_batches_before_the_start_are_not_read(self):
        pairs = Watched(corpus(211))
        batch = next(micro_batches(pairs, 101, 0, start=500))
        assert batch == next(micro_batches(corpus(211), 101, 0, start=500))
        assert pairs.reads <= len(batch) + 5  # the check of types reads some

    def test_no_pairs_are_refused(self):
        with pytest.raises(ValueError, match="^there are no sentence pairs to train on$"):
            next(micro_batches([], 101, 0))


class TestBatchPlan:
    @given(st.lists(st.integers(1, 40), min_size=1, max_size=37), st.integers(40, 211))
    def test_cuts_are_where_one_more_would_be_too_many(self, tokens, budget):
        ends = cuts(np.array(tokens), budget)
        assert ends[-1] == len(tokens) and ends == sorted(set(ends))
        for start, end in zip([0, *ends], ends, strict=False):
            assert (end - start) * max(tokens[start:end]) <= budget
            if end < len(tokens):
                assert (end + 1 - start) * max(tokens[start : end + 1]) > budget

    def test_lengths_are_taken_from_pairs_that_have_them(self):
        pairs = Watched([([5, 7], [11]), ([], [13])])
        assert pair_lengths(pairs) is pairs.lengths
        assert pairs.lengths.tolist() == [[2, 1], [0, 1]]

    def test_a_pair_takes_four_bytes(self):
        plan = batch_plan(pair_lengths(corpus(997)), 101, 0)
        assert sum(places.nbytes for places in plan) == 4 * 997

    def test_a_large_corpus_wastes_next_to_nothing_at_the_papers_budget(self):
        lengths = pair_lengths(related(200_003))
        plan = batch_plan(lengths, 25_000, 0)
        both = [1 + lengths[places] for places in plan]
        places = sum(len(batch) * batch.max(0).sum() for batch in both)
        assert 1 - sum(batch.sum() for batch in both) / places < 0.05
        filled = sorted(len(batch) * batch.max() / 25_000 for batch in both)
        assert min(filled[1:]) > 0.99  # all but the last


class TestPaddingWaste:
    def test_an_example(self):
        """Sources of 3 and 1 tokens in 2 × 3 places, targets of 2 and 5 in 2 × 5."""
        batches = [[([5, 7], [11]), ([], [13] * 4)]]
        assert padding_of(batches) == Padding(source=2 / 6, target=3 / 10, both=5 / 16)

    @given(corpora, budgets, seeds, noises)
    def test_it_counts_the_places_without_a_token_in_the_tensors(self, pairs, budget, seed, noise):
        batches = list(token_batches(pairs, budget, seed, length_noise=noise))
        tensors = [collate(batch, 0, 1, 2) for batch in batches]
        waste = padding_of(iter(batches))
        lengths = pair_lengths(pairs)
        plan = batch_plan(lengths, budget, seed, length_noise=noise)
        assert padding_of_lengths(lengths[places] for places in plan) == waste
        for name in ("source", "target"):
            sides = [getattr(batch, name) for batch in tensors]
            share = sum((x == 0).sum() for x in sides) / sum(x.numel() for x in sides)
            assert getattr(waste, name) == pytest.approx(float(share))
        assert min(waste[:2]) - 1e-9 <= waste.both <= max(waste[:2]) + 1e-9

    def test_nothing_wastes_nothing(self):
        assert padding_of([]) == padding_of([[([5], [7])]]) == Padding(0.0, 0.0, 0.0)


class TestFixedBatches:
    @given(corpora, st.integers(1, 41), seeds, noises)
    def test_every_pair_comes_once_in_batches_of_one_size(self, pairs, size, seed, noise):
        batches = list(fixed_batches(pairs, size, seed, length_noise=noise))
        assert sorted(pair for batch in batches for pair in batch) == sorted(pairs)
        smallest, *others = sorted(map(len, batches))
        assert 1 <= smallest <= size and others == [size] * (len(batches) - 1)

    def test_length_noise_decides_how_alike_they_are_as_with_a_budget(self):
        waste = [
            padding_of(fixed_batches(related(997), 17, 0, length_noise=noise)).both
            for noise in (0.0, 5.0, 1000.0)
        ]
        assert waste[0] < 0.06 < waste[1] < waste[2]

    def test_seed_and_epoch_are_all_it_depends_on(self):
        pairs = corpus(53)
        one, again, *others = [
            by_first_id(fixed_batches(pairs, 7, *run)) for run in [(0, 0), (0, 0), (0, 1), (1, 0)]
        ]
        assert one == again and one not in others and others[0] != others[1]


class TestCollate:
    @given(corpora)
    def test_layout(self, pairs):
        """source + EOS, BOS + target, target + EOS; padding on the right of each."""
        pad_id, bos, eos = 41, 42, 43
        batch = collate(pairs, pad_id, bos, eos)
        for tensor in (batch.source, batch.target, batch.labels):
            assert tensor.dtype == torch.int64 and len(tensor) == len(pairs)
        for (source, target), *rows in zip(
            pairs, *(x.tolist() for x in vars(batch).values()), strict=True
        ):
            wanted = [*source, eos], [bos, *target], [*target, eos]
            for row, expected in zip(rows, wanted, strict=True):
                assert row == expected + [pad_id] * (len(row) - len(expected))
        assert batch.source.shape[1] == 1 + max(len(source) for source, _ in pairs)
        assert batch.target.shape == batch.labels.shape
        assert batch.target.shape[1] == 1 + max(len(target) for _, target in pairs)

    def test_an_example(self):
        batch = collate([([5, 7], [11, 13, 17]), ([19], [])], 0, 1, 2)
        assert batch.source.tolist() == [[5, 7, 2], [19, 2, 0]]
        assert batch.target.tolist() == [[1, 11, 13, 17], [1, 0, 0, 0]]
        assert batch.labels.tolist() == [[11, 13, 17, 2], [2, 0, 0, 0]]

    def test_each_label_is_what_the_decoder_reads_next(self):
        batch = collate(corpus(13), 0, 1, 2)
        assert torch.equal(batch.labels[:, :-1][batch.target[:, 1:] != 0],
                           batch.target[:, 1:][batch.target[:, 1:] != 0])

    def test_it_changes_no_pair(self):
        pairs = [([5, 7], [11]), ([13], [17, 19])]
        collate(pairs, 0, 1, 2)
        assert pairs == [([5, 7], [11]), ([13], [17, 19])]

    def test_to_moves_all_three(self):
        batch = collate([([5], [7])], 0, 1, 2)
        moved = batch.to("meta")
        assert isinstance(moved, Batch)
        assert {x.device.type for x in vars(moved).values()} == {"meta"}
        assert [x.shape for x in vars(moved).values()] == [x.shape for x in vars(batch).values()]


@given(st.lists(ids, min_size=1, max_size=7).filter(any))
def test_pad_is_as_wide_as_the_longest(rows):
    padded = pad(rows, 41)
    assert padded.shape == (len(rows), max(map(len, rows)))
    assert [[i for i in row if i != 41] for row in padded.tolist()] == rows
