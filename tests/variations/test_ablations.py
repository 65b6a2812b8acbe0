"""Ablations change what they say and no more, and measure what they say."""

from dataclasses import replace

import pytest
import torch

from annotated import records
from annotated.data.batches import collate
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import RECIPES, Copying, settings
from annotated.training import TrainingConfig
from annotated.variations import ablations
from annotated.variations.ablations import ABLATIONS, BINS, ablation, histogram, main

PLAIN = RECIPES["numbers-en-de"]
PAIRS = [([5, 6, 7], [7, 5]), ([5], [6, 6, 6, 5, 3]), ([3, 4, 5, 6, 7], [4])]
LABELS = 3 + 6 + 2  # with EOS


def batch(pairs=PAIRS):
    return collate(pairs, 0, 1, 2)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Transformer(TransformerConfig.tiny(vocab_size=11, d_model=22, d_ff=29, heads=2))


class TestSettings:
    @pytest.mark.parametrize("name", ABLATIONS)
    def test_only_what_is_named_is_changed(self, name):
        before, after = settings(PLAIN), settings(ablation(name))
        changed = {key for key in before if before[key] != after[key]}
        assert changed == {text.partition("=")[0] for text in ABLATIONS[name]}

    def test_an_unknown_one_is_answered_with_those_there_are(self):
        with pytest.raises(ValueError, match="no ablation 'warmup'; there are none, no-warmup"):
            ablation("warmup")

    def test_the_four_beginnings_have_equal_steps(self):
        names = ("none", "no-warmup", "pre-norm", "pre-norm-no-warmup")
        training = [ablation(name).training for name in names]
        assert {t.steps for t in training} == {500}
        assert [t.warmup for t in training] == [True, False, True, False]
        assert [ablation(n).model.norm for n in names] == ["post", "post", "pre", "pre"]

    def test_no_one_is_as_another(self):
        assert len({ablation(name) for name in ABLATIONS}) == len(ABLATIONS)


class TestHistogram:
    def test_shares_of_equal_bins_with_both_ends(self):
        values = torch.tensor([0.0, 0.009, 0.011, 0.501, 0.905, 0.905, 1.0])
        shares = histogram(values)
        assert len(shares) == BINS and sum(shares) == pytest.approx(1)
        assert {i: share for i, share in enumerate(shares) if share} == {
            place: pytest.approx(sevenths / 7)
            for place, sevenths in ((0, 2), (1, 1), (50, 1), (90, 2), (99, 1))
        }


@pytest.fixture
def small(monkeypatch):
    """A recipe of seconds in place of the numbers."""
    training = TrainingConfig(
        steps=20, batch_tokens=61, length_noise=6.0, warmup_steps=3, average=2, average_every=2
    )
    model = TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1)
    recipe = replace(
        PLAIN, task=Copying(count=211, longest=3, tested=53), model=model, training=training
    )
    monkeypatch.setitem(RECIPES, "numbers-en-de", recipe)
    return recipe


class TestRun:
    def test_the_record_holds_what_the_pages_read(self, small, tmp_path, capsys):
        main(["no-smoothing", "--seed", "3", "--record", str(tmp_path)])
        (record,) = records.find("ablation-no-smoothing", root=tmp_path)
        assert capsys.readouterr().out.strip().endswith(record.filename)
        assert record.command == "python -m annotated.variations.ablations no-smoothing --seed 3"
        assert (record.seed, record.recipe, record.kind) == (3, "numbers-en-de", "cpu")
        assert record.column("step") == list(range(1, 21))
        assert all(0 <= alike <= 1.0001 for alike in record.column("memory_cosine"))
        shares = record.column("share", "token_probabilities")
        assert record.column("from", "token_probabilities") == [i / BINS for i in range(BINS)]
        assert sum(shares) == pytest.approx(1, abs=1e-3)
        assert record.value("perplexity") > 1 and record.value("perplexity_trained") > 1
        assert 0 < record.value("median_token_probability") < 1

    def test_without_smoothing_means_another_run(self, small):
        plain, smoothed = ablations.run("no-smoothing", 0), ablations.run("none", 0)
        assert plain.column("loss") != smoothed.column("loss")
        again = ablations.run("none", 0)
        assert again.curve == smoothed.curve and again.metrics.keys() == smoothed.metrics.keys()

    @pytest.mark.parametrize("given, said", [
        (["warmup"], "invalid choice: 'warmup'"),
        (["none", "--seed", "-1"], "--seed is -1; expected a number from 0 to"),
        (["none", "--seed", "one"], "invalid int value: 'one'"),
    ])
    def test_bad_input_is_status_2_before_any_training(self, given, said, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(given)
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err

    def test_a_file_in_the_way_is_said_before_training(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(ablations, "run", lambda *_: pytest.fail("trained first"))
        (tmp_path / "taken").write_text("")
        with pytest.raises(SystemExit) as stopped:
            main(["none", "--record", str(tmp_path / "taken")])
        assert stopped.value.code == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.endswith(f"error: --record: [Errno 17] File exists: '{tmp_path / 'taken'}'")
