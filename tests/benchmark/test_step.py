"""Timing a step: the batch, the samples, the record, and what a small memory does."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest
import torch

from annotated import records
from annotated.benchmark import step, work
from annotated.benchmark.step import (
    LONGEST,
    RATIO_LOG,
    SOURCE_LOG,
    Product,
    Rate,
    Sample,
    Steps,
    affordable,
    as_record,
    full_batches,
    matrix_rate,
    sentence_lengths,
    step_time,
    timed,
)
from annotated.jobs import Job, Unavailable
from annotated.model import TransformerConfig
from annotated.training import Trainer

SMALL = TransformerConfig(vocab_size=53, d_model=22, d_ff=29, heads=2, layers=1)


@pytest.fixture(autouse=True)
def a_small_pool(request, monkeypatch):
    """Batches from few sentences, but where their padding is looked at."""
    if "waste" not in request.node.name:
        monkeypatch.setattr(step, "POOL", 5003)


@pytest.fixture
def updates(monkeypatch):
    """Every call of Trainer.update: its trainer, its batches, what it returned."""
    calls, real = [], Trainer.update

    def update(self, *batches):
        made = real(self, *batches)
        calls.append((self, batches, made))
        return made

    monkeypatch.setattr(Trainer, "update", update)
    return calls


class TestBatches:
    def test_lengths_are_those_of_newstest(self):
        source, target = sentence_lengths(30_011, seed=0).T
        assert np.log(source).mean() == pytest.approx(SOURCE_LOG[0], abs=0.02)
        assert np.log(source).std() == pytest.approx(SOURCE_LOG[1], abs=0.02)
        assert np.log(target / source).mean() == pytest.approx(RATIO_LOG[0], abs=0.01)
        assert source.mean() == pytest.approx(24, abs=1)
        assert np.mean(source > 56) == pytest.approx(0.05, abs=0.01)

    def test_they_end_and_follow_from_the_seed(self):
        lengths = sentence_lengths(3001, seed=0, longest=31)
        assert lengths.min() >= 1 and lengths.max() == 31 and LONGEST == 255
        assert np.array_equal(lengths, sentence_lengths(3001, seed=0, longest=31))
        assert not np.array_equal(lengths, sentence_lengths(3001, seed=1, longest=31))

    def test_ids_are_words(self):
        (batch,) = full_batches(SMALL, 997, 1, seed=0)
        assert set(batch.source.unique().tolist()) - {0} == set(range(2, 53))  # EOS and words
        assert set(batch.target.unique().tolist()) - {0} == {1, *range(3, 53)}  # BOS and words
        assert torch.equal(full_batches(SMALL, 997, 1, seed=0)[0].source, batch.source)

    @pytest.mark.parametrize("budget", [8, 61, 997, 5003])
    def test_batches_are_full_and_within_the_budget(self, budget):
        batches = full_batches(SMALL, budget, 5, seed=0)
        assert len(batches) == 5
        for batch in batches:
            widest = max(batch.source.numel(), batch.labels.numel())
            assert budget / 2 < widest <= budget
            assert batch.target[:, 0].eq(SMALL.bos_id).all()

    def test_large_ones_waste_little(self):
        batches = full_batches(TransformerConfig.base(), 25_000, 3, seed=0)
        places = [x for batch in batches for x in (batch.source, batch.labels)]
        waste = 1 - sum(int(x.ne(0).sum()) for x in places) / sum(x.numel() for x in places)
        assert 0 < waste < 0.06

    def test_a_budget_for_no_sentence_is_refused(self):
        with pytest.raises(ValueError, match=r"^budget is 7; expected at least 8 tokens$"):
            full_batches(SMALL, 7, 1, seed=0)


class TestStepTime:
    def test_samples_are_the_updates_the_trainer_made(self, updates):
        steps = step_time(SMALL, budget=101, samples=5, seed=3)
        assert len(steps.samples) == 5 and len(updates) == 6  # one to warm up
        trainer = updates[0][0]
        assert all(call[0] is trainer for call in updates) and trainer.step == 6
        for sample, (_, batches, update) in zip(steps.samples, updates[1:], strict=True):
            (batch,) = batches
            assert sample.target_tokens == update.tokens == int(batch.labels.ne(0).sum())
            assert sample.source_tokens == int(batch.source.ne(0).sum())
            assert sample.flops == work(SMALL, *batch.source.shape, batch.target.shape[1]).update
            assert sample.seconds >= update.seconds
        assert steps.parameters == sum(p.numel() for p in trainer.model.parameters())
        assert (steps.model, steps.precision, steps.device) == ("custom", "float32", "cpu")
        assert 0 <= steps.padding < 0.6
        assert len({batches for _, batches, _ in updates}) == 2  # not one shape alone

    def test_time_up_still_gives_three(self, updates):
        assert len(step_time(SMALL, budget=101, seconds=0.0).samples) == 3

    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    def test_precision_and_micro_batches_reach_the_trainer(self, updates, precision):
        steps = step_time(SMALL, "cpu", precision, 101, samples=3, micro_batches=3)
        assert steps.micro_batches == 3 and steps.precision == precision
        for trainer, batches, _ in updates:
            assert trainer.config.precision == precision and len(batches) == 3
            assert trainer.config.micro_batches == 3 and trainer.config.batch_tokens == 101
            assert all(batch.labels.numel() <= 101 // 3 for batch in batches)

    def test_a_small_memory_gets_more_micro_batches(self, monkeypatch):
        real, tried = Trainer.update, []

        def update(self, *batches):
            tried.append(len(batches))
            if len(batches) < 4:
                raise torch.OutOfMemoryError("a pretended one")
            return real(self, *batches)

        monkeypatch.setattr(Trainer, "update", update)
        steps = step_time(SMALL, budget=211, samples=3)
        assert tried == [1, 2, 4, 4, 4, 4] and steps.micro_batches == 4

    def test_a_memory_too_small_for_anything_is_said(self, monkeypatch):
        def update(self, *batches):
            raise torch.OutOfMemoryError("a pretended one")

        monkeypatch.setattr(Trainer, "update", update)
        with pytest.raises(torch.OutOfMemoryError):
            step_time(SMALL, budget=2003, micro_batches=32)

    def test_of_base_and_big_the_configurations_are_taken(self, monkeypatch):
        asked = []
        monkeypatch.setattr(
            step, "_steps", lambda *args: asked.append(args[:2]) or TestRecord.STEPS
        )
        step_time("base")
        step_time("big")
        assert asked == [("base", TransformerConfig.base()), ("big", TransformerConfig.big())]

    def test_memory_is_that_of_the_steps(self):
        small = step_time(SMALL, budget=101, samples=3).peak_bytes
        wide = replace(SMALL, vocab_size=40_009)
        large = step_time(wide, budget=499, samples=3).peak_bytes
        if small is None:
            assert large is None
        else:  # the logits alone are 499 x 40 009 x 4 bytes
            assert large - small > 60e6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnCuda:
    def test_a_step_and_the_rate(self):
        steps = step_time(SMALL, "cuda", "bfloat16", 997, samples=5)
        rate = matrix_rate("cuda", torch.bfloat16, 1.0)
        record = as_record(Job("x", device="cuda"), steps, rate)
        assert record.kind == "cuda" and steps.peak_bytes > 0
        assert 0 < record.value("utilisation") < 1


class TestRate:
    def test_the_best_size_counts_and_of_a_size_the_median(self):
        rate = Rate(tuple(Product(2, s) for s in (1.0, 4.0, 2.0)) + (Product(4, 8.0),))
        assert rate.by_size == {2: 8.0, 4: 16.0} and rate.best == 16.0

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_measured_here(self, dtype, monkeypatch):
        monkeypatch.setitem(step.SIZES, "cpu", (67, 131))
        rate = matrix_rate("cpu", dtype, 0.1)
        sizes = [product.size for product in rate.products]
        assert set(sizes) == {67, 131} and sizes == sorted(sizes)
        assert all(3 <= sizes.count(size) <= 9 for size in (67, 131))
        assert 1e6 < rate.best < 1e14

    def test_sizes_beyond_the_time_are_left_out(self, monkeypatch):
        monkeypatch.setitem(step.SIZES, "cpu", (67, 100_003))
        assert set(matrix_rate("cpu", torch.float32, 0.05).by_size) == {67}

    def test_timed_is_the_time_of_the_call(self, monkeypatch):
        ticks = iter([3.0, 8.0])
        monkeypatch.setattr(step.time, "perf_counter", lambda: next(ticks))
        assert timed(lambda: None, torch.device("cpu")) == 5.0


class TestRecord:
    STEPS = Steps(
        "base", 1234, "bfloat16", "cpu", 101, 1, 0.125,
        tuple(Sample(s, 83, 97, 1000) for s in (2.0, 1.0, 4.0, 3.0, 5.0)), 5_000_000,
    )
    RATE = Rate((Product(10, 1.0), Product(10, 2.0), Product(10, 4.0)))

    def test_median_quartiles_and_rates(self):
        assert self.STEPS.seconds == (2.0, 3.0, 4.0)
        assert self.STEPS.per_second("flops") == median([500, 1000, 250, 1000 / 3, 200])
        assert self.STEPS.per_second("target_tokens") == pytest.approx(97 / 3)

    def test_it_is_valid_and_keeps_every_sample(self, tmp_path):
        record = as_record(Job("step-base", 2), self.STEPS, self.RATE)
        assert records.read(records.write(record, tmp_path)) == record
        value = {name: metric.value for name, metric in record.metrics.items()}
        assert record.metrics["step_seconds"].spread == (2.0, 4.0)
        assert value["step_seconds"] == 3.0 and value["matrix_flops_per_second"] == 1000
        assert value["utilisation"] == pytest.approx(1 / 3, rel=1e-4)
        assert value["peak_memory_bytes"] == 5_000_000 and value["padding"] == 0.125
        assert record.column("seconds", "updates") == [2.0, 1.0, 4.0, 3.0, 5.0]
        assert record.column("seconds", "matrix_products") == [1.0, 2.0, 4.0]
        assert record.column("size", "matrix_products") == [10, 10, 10]
        assert (record.seed, record.precision) == (2, "bfloat16")
        assert record.tokens_per_update == 97

    def test_an_unknown_memory_is_no_metric(self):
        steps = replace(self.STEPS, peak_bytes=None)
        record = as_record(Job("x"), steps, self.RATE)
        assert "peak_memory_bytes" not in record.metrics


class TestMeasurement:
    def test_steps_leave_a_record_with_the_rate_beside_them(self, monkeypatch, tmp_path):
        small = TransformerConfig(vocab_size=53, d_model=22, d_ff=29, heads=2, layers=1)
        monkeypatch.setattr(TransformerConfig, "base", classmethod(lambda cls: small))
        monkeypatch.setattr(step, "affordable", lambda *_: 101)
        job = Job("step-base-float32", left=lambda: 12.0)  # two for the rate; the rest is room
        record = step.record(job, "base", "float32", {"cpu": 20.0})
        assert records.read(records.write(record, tmp_path)) == record
        rates = record.value("flops_per_second"), record.value("matrix_flops_per_second")
        assert record.value("utilisation") == pytest.approx(rates[0] / rates[1], rel=1e-3)
        assert record.value("budget") == 101 and len(record.table("updates")) >= 3

    def test_on_too_slow_a_machine_it_says_so(self, monkeypatch):
        rate = Rate((Product(100, 2e6 / 1e9),))  # a billion operations a second
        monkeypatch.setattr(step, "matrix_rate", lambda *_: rate)
        monkeypatch.setattr(step, "step_time", lambda *_, **__: pytest.fail("not to be run"))
        said = "^too slow a machine: an update of 97 . 97 tokens would take"
        with pytest.raises(Unavailable, match=said):
            step.record(Job("step-big-float32"), "big", "float32", {"cpu": 60.0})

    def test_a_budget_is_what_the_time_allows(self):
        quick, slow = (Rate((Product(1000, 2e9 / rate),)) for rate in (7e14, 5e10))
        assert affordable("base", quick, 10.0) == affordable("big", quick, 10.0) == 25_000
        assert 64 <= affordable("big", slow, 60.0) < affordable("base", slow, 60.0) < 2000
        assert affordable("base", slow, 0.0) >= 64
        assert affordable("base", slow, 1e6) == 25_000
