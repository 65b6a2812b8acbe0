"""§5.1: batches hold every pair once, keep the budget on both sides, and follow from the seed."""

import inspect
import random
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated.data.batches import Batch, collate, pad, token_batches

ids = st.lists(st.integers(3, 36), max_size=11)
corpora = st.lists(st.tuples(ids, ids), min_size=1, max_size=37)
budgets = st.integers(12, 97)  # the longest side has 11 pieces and one special id
seeds = st.integers(0, 2**63)
spreads = st.sampled_from([0.0, 1.0, 3.0, 1000.0])


def corpus(count, seed=0, longest=23):
    """Pairs of independent lengths; each can be told from all others by its first id."""
    rng = random.Random(seed)
    lengths = [(rng.randint(1, longest), rng.randint(1, longest)) for _ in range(count)]
    return [([i] * m, [i] * n) for i, (m, n) in enumerate(lengths)]


def cells(batch):
    """(source, target): places in the padded tensors, one special id a sentence included."""
    return [len(batch) * (1 + max(map(len, side))) for side in zip(*batch, strict=True)]


def padding(batches):
    """The share of all places, on both sides, that holds no token."""
    places = sum(sum(cells(batch)) for batch in batches)
    tokens = sum(2 + len(m) + len(n) for batch in batches for m, n in batch)
    return 1 - tokens / places


class TestTokenBatches:
    @given(corpora, budgets, seeds, st.integers(0, 5), spreads)
    def test_every_pair_comes_exactly_once_as_it_is(self, pairs, budget, seed, epoch, spread):
        found = [p for batch in token_batches(pairs, budget, seed, epoch, spread) for p in batch]
        assert sorted(found) == sorted(pairs)

    @given(corpora, budgets, seeds, spreads)
    def test_the_budget_holds_on_both_sides_padding_included(self, pairs, budget, seed, spread):
        for batch in token_batches(pairs, budget, seed, spread=spread):
            assert max(cells(batch)) <= budget
            tensors = collate(batch, 0, 1, 2)
            assert [tensors.source.numel(), tensors.target.numel()] == cells(batch)

    @pytest.mark.parametrize("budget", [101, 499])
    def test_little_of_the_budget_is_left(self, budget):
        """But for the last batch, one more sentence would not have fitted."""
        filled = [max(cells(b)) / budget for b in token_batches(corpus(997), budget, seed=0)]
        assert mean(filled) > 1 - 24 / budget

    @given(corpora, budgets, seeds, st.integers(0, 5), spreads)
    def test_seed_and_epoch_are_all_it_depends_on(self, pairs, budget, seed, epoch, spread):
        one = list(token_batches(pairs, budget, seed, epoch, spread))
        state = random.getstate()
        random.seed(11)
        assert list(token_batches(pairs, budget, seed, epoch, spread)) == one
        random.setstate(state)

    def test_it_leaves_the_global_generators_alone(self):
        plain = inspect.unwrap(token_batches)  # the check of types draws random numbers itself
        before = random.getstate(), torch.get_rng_state()
        assert len(list(plain(corpus(53), 101, 0))) > 1
        assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])

    def test_other_seeds_and_other_epochs_give_other_batches_in_another_order(self):
        pairs = corpus(211)
        found = {
            (seed, epoch): [[i[0] for i, _ in b] for b in token_batches(pairs, 101, seed, epoch)]
            for seed in (0, 1) for epoch in (0, 1, 2)
        }  # fmt: skip
        firsts = {tuple(sorted(batches[0])) for batches in found.values()}
        members = {frozenset(map(frozenset, batches)) for batches in found.values()}
        assert len(firsts) == len(members) == len(found) == 6

    def test_batches_do_not_come_in_the_order_of_their_length(self):
        batches = token_batches(corpus(997), 101, seed=0)
        lengths = [mean(len(source) for source, _ in batch) for batch in batches]
        rising = sum(a < b for a, b in zip(lengths, lengths[1:], strict=False))
        assert 0.3 < rising / len(lengths) < 0.7

    def test_without_spread_lengths_in_a_batch_differ_by_one_at_most(self):
        pairs = [(source, source) for source, _ in corpus(997)]
        for batch in token_batches(pairs, 101, seed=0):
            lengths = [len(source) for source, _ in batch]
            assert max(lengths) - min(lengths) <= 1

    def test_spread_buys_fair_samples_with_padding(self):
        pairs = [(source, source) for source, _ in corpus(997)]
        wasted, unlike = [], []
        for spread in (0.0, 5.0, 1000.0):
            batches = list(token_batches(pairs, 211, 0, spread=spread))
            wasted.append(padding(batches))
            unlike.append(stdev(mean(len(source) for source, _ in batch) for batch in batches))
        assert wasted[0] < 0.05 < wasted[1] < wasted[2]
        assert unlike[2] < unlike[0] / 2  # nine sentences at random: a third

    @given(st.integers(0, 12), st.booleans())
    def test_a_pair_that_no_batch_can_hold_is_named(self, place, long_source):
        pairs = [([3] * 4, [3] * 2) for _ in range(13)]
        pairs[place] = ([3] * 17, [3]) if long_source else ([3], [3] * 17)
        assert sum(map(len, token_batches(pairs, 18, seed=0))) == 13
        with pytest.raises(ValueError, match=rf"^pair {place} has 18 tokens; the budget is 17$"):
            list(token_batches(pairs, 17, seed=0))

    def test_no_pairs_make_no_batches(self):
        assert list(token_batches([], 101, seed=0)) == []


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
                           batch.target[:, 1:][batch.target[:, 1:] != 0])  # fmt: skip

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
