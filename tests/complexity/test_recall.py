"""§2: readers are equal but for what they are made of; what is measured of them comes again."""

import math

import pytest
import torch

from annotated import records
from annotated.complexity import reach, recall
from annotated.complexity.recall import (
    BODIES,
    DISTANCES,
    QUESTION,
    VOCABULARY,
    accuracy,
    drawn,
    gradient,
    looks,
    made,
    train_all,
    width,
)
from annotated.jobs import Job, Unavailable

every = pytest.mark.parametrize("kind", BODIES)


def body(kind, seed=0):
    return made(kind, seed).double().body


class TestReaders:
    def test_parameters_are_equal_within_five_per_cent(self):
        counts = [sum(p.numel() for p in made(kind, 0).parameters()) for kind in BODIES]
        assert max(counts) / min(counts) < 1.05

    @every
    def test_scores_for_each_token_of_the_vocabulary(self, kind):
        assert made(kind, 0)(drawn(7, 3, torch.Generator())).shape == (3, VOCABULARY)

    @pytest.mark.parametrize("kind", ["LSTM", "dilated convolution"])
    def test_no_position_depends_on_a_later_one(self, kind):
        seen = reach(body(kind).every, 11, width(kind))
        assert torch.equal(seen, torch.ones(11, 11).tril().bool())

    @every
    @pytest.mark.parametrize("distance", [1, 7, 256])
    def test_the_answer_depends_on_every_token(self, kind, distance):
        model, d = body(kind), width(kind)
        torch.manual_seed(0)
        x = torch.randn(1, distance + 1, d, dtype=torch.float64, requires_grad=True)
        found, = torch.autograd.grad((model(x) @ torch.randn(d, dtype=torch.float64)).sum(), x)
        if kind == "LSTM":  # what is left of the first underflows, but is not cut off
            found = found[:, -50:]
        assert (found != 0).any(-1).all()

    @pytest.mark.parametrize("n", [1, 7, 64, 257])
    def test_the_tree_says_what_the_stack_says_at_the_end(self, n):
        model, x = body("dilated convolution"), torch.randn(3, n, 22, dtype=torch.float64)
        torch.testing.assert_close(model(x), model.every(x)[:, -1])

    def test_the_stack_of_convolutions_is_no_deeper_than_it_has_to_be(self):
        layers = body("dilated convolution").layers
        reaches = 1 + sum(layer.reach * layer.dilation for layer in layers)
        assert reaches / 2 < max(DISTANCES) + 1 <= reaches

    def test_forget_gates_start_open(self):
        lstm = made("LSTM", 0).body.lstm
        open_gates = lstm.bias_ih_l0.chunk(4)[1] + lstm.bias_hh_l0.chunk(4)[1]
        assert (open_gates == 1).all()
        assert not any(b.any() for i, b in enumerate(lstm.bias_ih_l0.chunk(4)) if i != 1)

    def test_order_counts_for_attention(self):
        model, x = body("attention"), torch.randn(1, 7, width("attention")).double()
        turned = x[:, [1, 0, 2, 3, 4, 5, 6]]
        assert not torch.allclose(model(x), model(turned))


class TestSequences:
    def test_tokens_of_the_vocabulary_then_the_question(self):
        ids = drawn(7, 500, torch.Generator().manual_seed(0))
        assert ids.shape == (500, 8) and (ids[:, -1] == QUESTION).all()
        assert set(ids[:, :-1].unique().tolist()) == set(range(VOCABULARY))

    def test_accuracy_is_the_share_of_first_tokens_said(self):
        class Says(torch.nn.Module):
            def forward(self, ids):
                return torch.nn.functional.one_hot(ids[:, self.place], VOCABULARY).float()

        ids, says = drawn(3, 600, torch.Generator().manual_seed(0)), Says()
        says.place = 0
        assert accuracy(says, ids) == 1
        says.place = 1
        assert accuracy(says, ids) == (ids[:, 0] == ids[:, 1]).double().mean()


class TestTraining:
    @every
    def test_the_same_seed_learns_the_same(self, kind):
        runs = [list(looks(made(kind, seed), 3, 0.01, seed, 7)) for seed in (5, 5, 6)]
        assert runs[0] == runs[1] != runs[2]
        assert [update for update, *_ in runs[0]] == [7]

    @every
    def test_at_a_short_distance_it_learns(self, kind):
        (*_, (_, loss, right)) = looks(made(kind, 0), 2, 0.01, 0, 200)
        assert loss < math.log(VOCABULARY) / 2 and right > 0.6

    def test_it_ends_when_all_is_right_twice(self, monkeypatch):
        monkeypatch.setattr(recall, "accuracy", lambda reader, ids: 1.0)
        monkeypatch.setattr(recall, "LOOK", 2)
        found = list(looks(made("attention", 0), 3, 0.01, 0, 100))
        assert [update for update, *_ in found] == [2, 4]

    def test_all_meet_the_same_sequences_and_the_best_rate_counts(self, monkeypatch):
        seen = {}
        draw = recall.drawn
        monkeypatch.setattr(recall, "TESTED", 100)

        def noted(distance, count, rng):
            ids = draw(distance, count, rng)
            seen.setdefault((distance, count), []).append(ids)
            return ids

        monkeypatch.setattr(recall, "drawn", noted)
        rows, curve = train_all(Job("recall", 3, say=lambda line: None), (2, 3), (0.01, 0.0), 2)
        assert len(rows) == 2 * 3 * 2 and len(curve) == 12
        batches = seen[3, recall.BATCH]
        assert all(torch.equal(batches[i], batches[i % 2]) for i in range(12))
        for distance in (2, 3):
            for kind in BODIES:
                mine = [r for r in rows if (r["model"], r["distance"]) == (kind, distance)]
                assert sum(row["chosen"] for row in mine) == 1
                best = max(row["watched"] for row in mine)
                assert all(row["watched"] == best for row in mine if row["chosen"])

    def test_it_says_when_there_is_no_time(self):
        with pytest.raises(Unavailable):
            train_all(Job("recall", left=lambda: 0.0), (2,), (0.01,), 2)


class TestGradients:
    def slope(self, kind, far):
        """How the gradient falls with the length of the sequence, on logarithmic scales."""
        near = 8
        ratio = gradient(kind, far, 0) / gradient(kind, near, 0)
        return math.log(ratio) / math.log((far + 1) / (near + 1))

    def test_of_attention_falls_as_one_over_the_length(self):
        assert -1.15 < self.slope("attention", 256) < -0.85

    def test_of_an_lstm_falls_by_a_factor_for_each_step(self):
        steps = [gradient("LSTM", distance, 0) for distance in (8, 16, 24)]
        assert steps[0] > 2.5 * steps[1] > 6.25 * steps[2]

    def test_of_convolutions_falls_less_than_that_of_attention(self):
        assert self.slope("dilated convolution", 256) > -0.6


def test_the_record_has_a_row_for_everything(monkeypatch, tmp_path):
    for name, value in dict(UPDATES=2, TESTED=10, DISTANCES=(2, 3), RATES=(0.01,),
                              PATIENCE={"distance": 3, "updates": 5}).items():
        monkeypatch.setattr(recall, name, value)
    made = recall.record(Job("recall", 1, say=lambda line: None))
    assert records.read(records.write(made, tmp_path)) == made
    assert len(made.table("recall")) == len(made.table("gradient")) == 6
    assert [row["update"] for row in made.table("patient")] == [5]
    assert made.column("distance", "patient") == [3] and made.column("rate", "patient") == [0.01]
    assert made.value("vocabulary") == VOCABULARY and made.value("updates") == 2
