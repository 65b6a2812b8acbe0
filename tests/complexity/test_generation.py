"""Training against generation at tiny sizes: who is compared, in which order, and what counts."""

import pytest
import torch

from annotated import records
from annotated.complexity import generation
from annotated.complexity.generation import (
    RECURRENT,
    TRANSFORMER,
    UNCACHED,
    Recomputing,
    held_bytes,
    in_turns,
    models,
    read_bytes,
    sentences,
    step_bytes,
    summary,
)
from annotated.jobs import Job, Unavailable
from annotated.model import TransformerConfig

FLOAT = 4  # bytes
CONFIG = TransformerConfig(vocab_size=37, d_model=22, d_ff=29, heads=2, layers=2, dropout=0.0)


@pytest.fixture(scope="module")
def made():
    return models(CONFIG, "cpu", 0) | {UNCACHED: Recomputing(CONFIG)}


def test_sentences_are_of_one_length_and_hold_words(made):
    batch = sentences(CONFIG, 3, 7, seed=1)
    assert batch.source.shape == batch.labels.shape == (3, 7)
    assert (batch.source[:, :-1] > 2).all() and (batch.source[:, -1] == CONFIG.eos_id).all()


class TestTurns:
    def test_all_in_every_round_in_new_orders(self):
        called = []
        runs = {name: (lambda name=name: called.append(name) or name.upper()) for name in "abcdef"}
        found = in_turns(Job("x"), runs, 4, 1.0)
        assert len(called) == 5 * 6 and len(found) == 4 * 6
        assert all(result == key.upper() for _, key, result in found)
        orders = {tuple(k for number, k, _ in found if number == n) for n in range(4)}
        assert len(orders) > 1 and all(set(order) == set("abcdef") for order in orders)

    def test_it_stops_with_the_time_but_not_before_three_rounds(self):
        with pytest.raises(Unavailable, match="time for 1 rounds only"):
            in_turns(Job("x", left=lambda: 0.0), {"a": lambda: 1}, 9, 1.0)

    def test_medians_and_quartiles(self):
        rows = [{"model": m, "seconds": s} for m, s in zip("aaabbb", [1.0, 2, 4, 3, 3, 3])]
        assert summary(rows, ["model"], "seconds") == [
            {"model": "a", "seconds": 2.0, "seconds_quartile_1": 1.5, "seconds_quartile_3": 3.0},
            {"model": "b", "seconds": 3.0, "seconds_quartile_1": 3.0, "seconds_quartile_3": 3.0},
        ]


class TestBytes:
    def test_what_is_read_of_what_was_there(self):
        w, table, kept = torch.ones(7, 11), torch.ones(13, 7), torch.ones(5, 11)
        word = torch.tensor([3])

        def run():
            x = torch.nn.functional.embedding(word, table)
            y = x @ w + kept[:2].sum(0)
            kept[3] = y[0]
            return (y @ w.T).exp()

        assert read_bytes(run) == FLOAT * (7 * 11 + 2 * 11)

    def test_what_is_kept(self, made):
        rows = {(r["model"], r["place"]): r for r in step_bytes(CONFIG, made, 11, [3, 7])}
        d, layers, m = CONFIG.d_model, CONFIG.layers, 11
        for place in (3, 7):
            kept = FLOAT * layers * 2 * d * (place + 1 + m) + layers * m  # and a mask of booleans
            assert rows[TRANSFORMER, place]["kept_bytes"] == kept
        for name, attention in RECURRENT.items():
            config = made[name].config
            kept = FLOAT * 2 * config.layers * config.d_state
            if attention != "none":
                kept += FLOAT * 2 * m * config.d_model + m
            assert rows[name, 3]["kept_bytes"] == rows[name, 7]["kept_bytes"] == kept

    def test_what_a_step_reads(self, made):
        """Weights of what a step uses, and of the past what there is."""
        rows = {(r["model"], r["place"]): r for r in step_bytes(CONFIG, made, 11, [3, 7])}
        more = rows[TRANSFORMER, 7]["read_bytes"] - rows[TRANSFORMER, 3]["read_bytes"]
        assert more == FLOAT * CONFIG.layers * 2 * CONFIG.d_model * 4
        for name, model in made.items():
            encoder = sum(p.numel() for p in model.encoder.parameters())
            bridge = model.bridge if name in RECURRENT else None
            unused = encoder + sum(p.numel() for p in bridge.parameters()) if bridge else encoder
            weights = FLOAT * (sum(p.numel() for p in model.parameters()) - unused)
            # No more than the decoder's weights, its memory and its state.
            assert 0.6 * weights < rows[name, 3]["read_bytes"] < weights + 2e4
            if name in RECURRENT:
                assert rows[name, 3]["read_bytes"] == rows[name, 7]["read_bytes"]

    def test_a_cache_in_parts(self):
        assert held_bytes([torch.ones(3), {"x": 1}, (torch.ones(2).double(),)]) == 12 + 16


class TestSteps:
    def test_they_are_at_the_places_asked_for(self, made, monkeypatch):
        """With a cache and without, the timed steps continue the same target."""
        source = sentences(CONFIG, 1, 5, 0).source
        target = sentences(CONFIG, 1, 13, 1).target
        monkeypatch.setattr(generation, "timed", lambda run, device: run() or 1.0)
        for model in made.values():
            seen, step = [], type(model).step

            def noted(token, cache, model=model, seen=seen, step=step):
                logits = step(model, token, cache)
                seen.append(logits)
                return logits

            monkeypatch.setattr(model, "step", noted, raising=False)
            taken = generation.step_seconds(model, source, target, [2, 7], torch.device("cpu"))
            assert taken == [0.5, 0.5]
            whole = model(source, target)
            for place, logits in zip((7, 8), seen[-2:]):
                torch.testing.assert_close(logits, whole[:, place], atol=1e-4, rtol=1e-4)
            assert len(seen) == (4 if isinstance(model, Recomputing) else 9)


def test_the_record_holds_what_was_sampled(monkeypatch, tmp_path):
    monkeypatch.setitem(generation.SIZES, "small", dict(
        vocab_size=37, d_model=22, d_ff=29, heads=2, layers=1
    ))
    job = Job("training-and-generation", 5, say=lambda text: None)
    record = generation.record(
        job, "small", tokens=23, lengths=(3, 7), places=(2, 5), source_length=5, rounds=3
    )
    assert records.read(records.write(record, tmp_path)) == record
    names = [TRANSFORMER, *RECURRENT]
    counts = dict(zip(record.column("model", "models"), record.column("parameters", "models")))
    assert list(counts) == names
    assert max(counts.values()) <= 1.03 * min(counts.values())  # tiny widths are coarse
    assert len(record.table("updates")) == 3 * 4 * 2 and len(record.table("steps")) == 3 * 5 * 2
    assert len(record.table("update_seconds")) == 4 * 2
    assert {row["tokens"] for row in record.table("updates")} == {21}
    assert set(record.column("model", "step_seconds")) == {*names, UNCACHED}
    for row in record.table("product_seconds"):
        assert row["one"] > 0 and row["steps"] > 0
    assert len(record.table("products")) == 3 * 2 * 2
