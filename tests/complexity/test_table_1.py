"""Table 1's measurement at tiny sizes: what is run, in which order, and what is made of it."""

import math
import time

import pytest
import torch

from annotated import paper, records
from annotated.complexity import table_1
from annotated.complexity.table_1 import (
    WAYS,
    Bench,
    Grid,
    Point,
    counted_products,
    crossings,
    fitted,
    points,
    predicted_crossing,
    table_orders,
    times,
)
from annotated.jobs import Job, Unavailable

TINY = Grid((3, 7, 64, 65), (2, 6), 3, 60_000.0, (5, 11))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(table_1.GRIDS, "default", TINY)
    monkeypatch.setattr(table_1, "LEAST", 0.0)
    return TINY


def samples_of(seconds):
    """Samples of two rounds, as if each way took what `seconds(way, n, d)` says."""
    return [
        {"round": r, "n": n, "d": d, "backward": b}
        | {way: (1 + b) * (1 + r) * seconds(way, n, d) for way in WAYS}
        for r in (0, 1) for n in (16, 64, 256, 1024) for d in (16, 64, 128, 256) for b in (0, 1)
    ]


class TestPoints:
    def test_every_way_at_every_size_that_is_not_too_much(self):
        found = list(points(TINY, "cpu"))
        assert len(set(found)) == len(found) and {p.way for p in found} == set(WAYS)
        assert {p.backward for p in found} == {0, 1}
        for point in found:
            assert counted_products(*point[:3]) <= TINY.limit
        left_out = Point("self-attention, whole", 65, 6, 0)
        assert left_out not in found and left_out._replace(n=7) in found

    def test_literal_attention_is_left_out_where_its_weights_do_not_fit(self, monkeypatch):
        monkeypatch.setattr(table_1, "memory_size", lambda device: 1000)
        ns = {p.n for p in points(TINY, "cpu") if p.way == "self-attention, literal"}
        assert ns == {3}

    @pytest.mark.parametrize("way", WAYS)
    def test_what_is_timed_is_the_layer_or_its_mixing(self, way):
        bench, chosen = Bench(torch.device("cpu"), 3), WAYS[way]
        y = bench.run(Point(way, 7, 6, 0))()
        layer = bench.layer(way, 6)
        x = torch.randn(1, 7, 6, generator=torch.Generator().manual_seed(3))
        expected = layer(x)
        torch.testing.assert_close(y if chosen.whole else layer.after(y), expected)
        assert not y.requires_grad
        gradients = bench.run(Point(way, 7, 6, 1))()
        assert all(torch.isfinite(g).all() and (g != 0).any() for g in gradients)
        assert all(p.grad is None for p in layer.parameters())


class TestFits:
    def test_orders_are_read_off_the_papers_table(self):
        found = [tuple(table_orders(row).values()) for row in paper.TABLE_1]
        assert found == [(2, 1), (1, 2), (1, 2), (1, 1)]

    def test_exponents_of_times_that_follow_the_table(self):
        def seconds(way, n, d):
            orders = table_orders(WAYS[way].make(64).row)
            return 1e-9 * n ** orders["n"] * d ** orders["d"]

        rows = fitted(times(samples_of(seconds)))
        assert len(rows) == len(WAYS) * 2 * 2
        for row in rows:
            assert row["exponent"] == pytest.approx(row["table"], abs=1e-3)
            assert row["low"] <= row["exponent"] <= row["high"] and row["points"] == 4

    def test_medians_and_quartiles_of_the_samples(self):
        (row,) = (r for r in times(samples_of(lambda way, n, d: 0.001))
                  if (r["way"], r["n"], r["d"], r["backward"]) == ("GRU", 64, 16, 0))
        assert (row["ms"], row["ms_quartile_1"], row["ms_quartile_3"]) == (1.5, 1.25, 1.75)
        assert row["products"] == 6 * 64 * 16 * 16


class TestCrossings:
    @pytest.mark.parametrize(("way", "other", "expected"), [
        ("self-attention", "recurrent", 65), ("self-attention", "LSTM", 257),
        ("self-attention", "convolution", 97), ("self-attention, whole", "LSTM", 129),
        ("self-attention, whole", "GRU", 65), ("self-attention, whole", "recurrent", 1),
    ])
    def test_predicted_by_counts(self, way, other, expected):
        """n = d, 4d, kd/2; with the projections 2d, d, and always."""
        assert predicted_crossing(way, other, 64) == expected

    def test_nothing_is_more_than_itself(self):
        assert predicted_crossing("recurrent", "recurrent", 64) is None

    def test_measured_ones_are_those_of_the_medians(self):
        def seconds(way, n, d):
            return 1e-9 * (2 * n * n * d if way.startswith("self") else 2 * n * d * d)

        rows = crossings(times(samples_of(seconds)))
        found = {(r["way"], r["other"], r["d"], r["backward"]): r for r in rows}
        row = found["self-attention", "recurrent", 128, 1]
        assert row["measured"] == pytest.approx(128, abs=0.1) and row["predicted"] == 129
        assert row["longest"] == 1024


class TestRecord:
    def test_it_holds_what_was_sampled(self, tiny, tmp_path):
        said = []
        record = table_1.record(Job("table-1", 5, say=said.append), "default")
        assert records.read(records.write(record, tmp_path)) == record
        assert (record.seed, record.kind, record.value("rounds")) == (5, "cpu", 3)
        samples = record.table("samples")
        assert len(samples) == 3 * 2 * 4 * 2 and len(said) == 3
        for row in record.table("times"):
            taken = [
                1000 * s[row["way"]] for s in samples
                if all(s[name] == row[name] for name in ("n", "d", "backward"))
            ]
            assert row["ms"] == pytest.approx(sorted(taken)[1], rel=1e-3)
        kept = {(r["way"], r["n"]): r["kept_bytes"] for r in record.table("memory")}
        assert len(kept) == 2 * len(WAYS)
        assert kept["self-attention, literal", 11] > kept["self-attention", 11]

    def test_memory_of_the_literal_formula_grows_with_the_square(self, monkeypatch):
        monkeypatch.setattr(table_1, "WAYS", {w: WAYS[w] for w in WAYS if w.startswith("self")})
        grid = Grid((3,), (8,), 1, 1e9, (256, 512))
        rows = table_1.memory(Job("table-1"), grid)
        grown = {
            (b["way"], name): math.log2(b[name] / a[name])
            for a, b in zip(rows, rows[1:]) if a["way"] == b["way"]
            for name in ("kept_bytes", "peak_bytes")
        }
        for name in ("kept_bytes", "peak_bytes"):
            assert grown["self-attention, literal", name] > 1.9
            assert 0.9 < grown["self-attention", name] < 1.1

    def test_energy_is_what_the_meter_tells_of_many_passes(self, tiny, monkeypatch):
        monkeypatch.setattr(table_1, "METERED", 0.0005)
        monkeypatch.setattr(table_1, "energy_meter", lambda device: lambda: 6.0)
        rows = table_1.record(Job("table-1"), "default").table("energy")
        assert {(r["way"], r["backward"]) for r in rows} == {(w, b) for w in WAYS for b in (0, 1)}
        for row in rows:
            assert (row["n"], row["d"]) == (64, 6) and row["passes"] >= 1
            assert row["joules"] * row["passes"] == pytest.approx(6.0, rel=1e-3)
            assert row["watts"] > 0

    def test_where_nothing_tells_the_energy_there_is_no_table_of_it(self, tiny, monkeypatch):
        monkeypatch.setattr(table_1, "energy_meter", lambda device: None)
        assert "energy" not in table_1.record(Job("table-1"), "default").tables

    def test_every_round_is_in_an_order_of_its_own(self, tiny, monkeypatch):
        orders, run = [], Bench.run
        monkeypatch.setattr(Bench, "run", lambda self, p: (orders.append(p), run(self, p))[1])
        table_1.measure(Job("table-1"), tiny)
        each = len(list(points(tiny, "cpu")))
        rounds = [orders[i : i + each] for i in range(each, len(orders), each)]
        assert len(rounds) == 3 and len(set(map(tuple, rounds))) == 3
        assert all(set(taken) == set(orders[:each]) for taken in rounds)

    def test_what_takes_too_long_is_left_out_and_all_longer_ones_too(self, monkeypatch):
        """Without being tried: 7 is slow, so 65 is not begun."""
        tried = []

        def run(self, point):
            tried.append(point)
            return lambda: time.sleep(0.03 if point.way == "GRU" and point.n >= 7 else 0)

        monkeypatch.setattr(Bench, "run", run)
        rows = table_1.measure(Job("table-1"), Grid((3, 7, 65), (2,), 3, 1e9, (), longest=0.02))
        gru = {row["n"] for row in rows if row["GRU"] is not None}
        lstm = {row["n"] for row in rows if row["LSTM"] is not None}
        assert (gru, lstm) == ({3}, {3, 7, 65})
        assert {point.n for point in tried if point.way == "GRU"} == {3, 7}

    def test_without_time_there_is_no_record(self, tiny):
        with pytest.raises(Unavailable, match="time was up"):
            table_1.measure(Job("table-1", left=lambda: 0.0), tiny)
        lefts = iter([1.0] * len(list(points(tiny, "cpu"))) + [0.0])
        with pytest.raises(Unavailable, match="time for 1 rounds only; 3 are the least"):
            table_1.measure(Job("table-1", left=lambda: next(lefts)), tiny)
