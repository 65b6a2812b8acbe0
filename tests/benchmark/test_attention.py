"""The comparison is fair, its counts are right, and the record holds what was sampled."""

from statistics import median

import pytest
import torch

from annotated import paper, records
from annotated.benchmark import attention
from annotated.benchmark.attention import (
    FUNCTIONS,
    LENGTHS,
    inputs,
    kept_bytes,
    largest_bytes,
    measure,
    sample,
    times,
)
from annotated.jobs import Job

HEADS, D_K = paper.BASE.heads, paper.BASE.d_k
FLOAT = 4  # bytes


@pytest.fixture
def short(monkeypatch):
    """Lengths and rounds of a second, and no repeats."""
    monkeypatch.setattr(attention, "LENGTHS", (3, 7))
    monkeypatch.setattr(attention, "ROUNDS", 5)
    monkeypatch.setattr(attention, "LEAST", 0.0)


@pytest.fixture
def calls(monkeypatch):
    """Every call of `sample`, which takes a made-up time: (length, backward, way)."""
    seen = []
    seconds = {"additive": 6.0, "dot": 2.0, "fused": 1.0}

    def pretend(way, given, backward, repeats=1):
        seen.append((given[0].shape[-2], backward, way))
        return seconds[way] * (1 + backward)

    monkeypatch.setattr(attention, "sample", pretend)
    return seen


class TestShapes:
    def test_all_ways_get_the_base_models_shapes(self):
        q, k, v, w_q, w_k, w = inputs(13)
        assert q.shape == k.shape == v.shape == (1, HEADS, 13, D_K)
        assert w_q.shape == w_k.shape == (D_K, D_K) and w.shape == (D_K,)

    def test_they_follow_from_the_seed(self):
        assert all(map(torch.equal, inputs(5, 3), inputs(5, 3)))
        assert not torch.equal(inputs(5, 3)[0], inputs(5, 4)[0])

    def test_all_ways_give_a_mix_of_the_values_and_two_of_them_the_same(self):
        given = inputs(11)
        given[2] = torch.ones_like(given[2])  # any mix of ones is one
        outputs = {way: run(*given) for way, run in FUNCTIONS.items()}
        for output in outputs.values():
            torch.testing.assert_close(output, given[2])
        given = inputs(11)
        torch.testing.assert_close(FUNCTIONS["dot"](*given), FUNCTIONS["fused"](*given))

    def test_scores_of_both_kinds_are_of_a_size(self):
        """One saturated and one flat softmax would not be the same work for a real reader."""
        q, k, _, w_q, w_k, w = inputs(61)
        dot = (q @ w_q) @ (k @ w_k).mT / D_K**0.5
        pairs = (q @ w_q)[..., :, None, :] + (k @ w_k)[..., None, :, :]
        assert 0.5 < dot.std() < 2 and 0.25 < (pairs.tanh() @ w).std() < 2


class TestCounts:
    @pytest.mark.parametrize("n", [67, 101])  # n > d_k, so that n × n is more than n × d_k
    def test_the_largest_result(self, n):
        given = inputs(n)
        found = {way: largest_bytes(run, *given) for way, run in FUNCTIONS.items()}
        assert found["additive"] == FLOAT * HEADS * n * n * D_K
        assert found["dot"] == FLOAT * HEADS * n * n
        assert found["fused"] < found["dot"]

    def test_the_largest_result_of_a_run_that_is_known(self):
        def run():
            x = torch.ones(7, 11)
            return (x[:, :, None] * torch.ones(5)).sum()

        assert largest_bytes(run) == FLOAT * 7 * 11 * 5

    def test_what_is_kept_counts_each_memory_once(self):
        x = torch.ones(7, 11, requires_grad=True)

        def run():
            y = x.exp()  # kept by itself and by the product
            return (y * y.view(7, 11)).sum()

        assert kept_bytes(run) == FLOAT * 7 * 11

    def test_additive_keeps_every_pair_for_the_backward_pass(self):
        n = 67
        given = inputs(n)
        kept = {way: kept_bytes(run, *given) for way, run in FUNCTIONS.items()}
        assert FLOAT * HEADS * n * n * D_K < kept["additive"]
        assert kept["dot"] < 0.1 * kept["additive"] and kept["fused"] < kept["dot"]


class TestMeasure:
    def test_every_round_runs_all_once_in_an_order_of_its_own(self, calls):
        points = measure((3, 7), 5, seed=0)
        each = 2 * 2 * 3
        rounds = [calls[i : i + each] for i in range(2 * each, len(calls), each)]  # warmed up first
        assert len(rounds) == 5
        assert all(set(taken) == set(rounds[0]) and len(set(taken)) == each for taken in rounds)
        assert len(set(map(tuple, rounds))) == 5
        assert [(p["length"], p["backward"]) for p in points] == 5 * [
            (3, 0), (3, 1), (7, 0), (7, 1),
        ]

    def test_times_stand_under_their_own_names(self, calls):
        points = measure((3,), 2, seed=0)
        assert {(p["additive"], p["dot"], p["fused"]) for p in points if p["backward"]} == {
            (12.0, 4.0, 2.0)
        }

    def test_medians_and_ratios_are_of_the_samples(self):
        points = [
            {"length": 5, "backward": b, "additive": a * (1 + b), "dot": d, "fused": 0.5}
            for b in (0, 1) for a, d in [(1.0, 0.5), (4.0, 1.0), (9.0, 3.0)]
        ]
        found = {(row["function"], row["backward"]): row for row in times(points)}
        assert len(found) == 6 and {row["length"] for row in found.values()} == {5}
        assert found["additive", 0]["ms"] == 4000 and found["additive", 1]["ms"] == 8000
        assert found["dot", 0]["ms"] == 1000
        assert found["additive", 0]["ratio"] == 3 == median([2, 4, 3])
        assert found["additive", 0]["ratio_quartile_1"] == 2.5
        assert found["additive", 1]["ratio_quartile_3"] == 7
        assert found["dot", 1]["ratio"] is None

    def test_a_sample_is_a_time_whatever_the_pass(self):
        given = inputs(7)
        for way in FUNCTIONS:
            for backward in (False, True):
                assert sample(way, given, backward, repeats=3) >= 0
        assert all(x.grad is None for x in given), "gradients must not pile up between samples"

    def test_the_backward_pass_gives_gradients_of_all_that_the_way_uses(self, monkeypatch):
        given, used, grad = inputs(7), [], torch.autograd.grad

        def noted(output, inputs, weight):
            used.append(len(inputs))
            return grad(output, inputs, weight)

        monkeypatch.setattr(torch.autograd, "grad", noted)
        for way in FUNCTIONS:
            sample(way, given, backward=True)
        assert used == [6, 5, 5]

    def test_a_sample_is_the_mean_of_its_repeats(self, monkeypatch):
        clock = iter([3.0, 18.0])
        monkeypatch.setattr(attention.time, "process_time", lambda: next(clock))
        assert sample("dot", inputs(7), backward=False, repeats=5) == 3


def largest(record, length):
    (row,) = (row for row in record.table("memory")
              if (row["length"], row["function"]) == (length, "additive"))
    return row["largest_bytes"]


class TestRecord:
    def test_it_holds_what_was_sampled(self, short, tmp_path):
        record = attention.record(Job("attention-additive", 5))
        assert records.read(records.write(record, tmp_path)) == record
        assert (record.seed, record.kind, record.recipe) == (5, "cpu", None)
        assert record.command == "annotated record attention-additive --seed 5"
        samples, memory = record.table("samples"), record.table("memory")
        assert len(samples) == 5 * 2 * 2 and len(memory) == 2 * 3
        assert record.value("d_k") == D_K and record.value("heads") == HEADS
        assert largest(record, 7) == FLOAT * HEADS * 7 * 7 * D_K
        taken = [row["dot"] for row in samples if (row["length"], row["backward"]) == (7, 1)]
        (row,) = (row for row in record.table("times")
                  if (row["length"], row["backward"], row["function"]) == (7, 1, "dot"))
        assert row["ms"] == pytest.approx(1000 * median(taken), rel=1e-3)


@pytest.mark.parametrize("name", ["attention-additive"])
def test_the_shipped_record_is_of_this_benchmark(name):
    found = records.find(name)
    assert found
    for record in found:
        for table in record.tables:
            assert sorted(set(record.column("length", table))) == sorted(LENGTHS)
        for n in LENGTHS:
            assert largest(record, n) == FLOAT * HEADS * n * n * D_K
