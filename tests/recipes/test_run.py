"""A recipe and a seed become a model: the same one each time, also with stops in between."""

import itertools
import json
import math
import random
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated import records
from annotated.data.batches import padding_of, token_batches
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer
from annotated.recipes import (
    RECIPES,
    CorpusTask,
    Report,
    Run,
    TextTask,
    as_document,
    override,
    recipe_named,
    run_record,
    score,
    train,
)
from annotated.recipes.run import Log, count_parameters, identity, read_log
from annotated.training import Update, World, learning_rate
from annotated.translation import Translator
from annotated.translation.checkpoints import save_checkpoint
from annotated.variations.controls import NoScale


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@pytest.fixture(scope="module")
def run(miniature):
    """A run of the miniature, and what its callback saw: updates, translators, weights."""
    seen = []
    made = train(
        miniature, 3, lambda update, translator: seen.append((update, translator, weights(
            translator.model
        ))),
    )
    return made, seen


class TestRun:
    def test_it_reports_every_update_with_the_model_as_it_then_is(self, run):
        made, seen = run
        assert [update for update, *_ in seen] == made.updates
        assert [update.step for update in made.updates] == [1, 2, 3, 4, 5]
        assert all(translator is made.translator for _, translator, _ in seen)
        for (_, _, one), (_, _, other) in itertools.pairwise(seen):
            assert any(not torch.equal(a, b) for a, b in zip(one, other, strict=True))

    def test_its_end_is_the_mean_of_the_last_checkpoints(self, run):
        made, seen = run
        assert made.finished
        for found, a, b in zip(weights(made.translator.model), seen[2][2], seen[4][2], strict=True):
            torch.testing.assert_close(found, (a + b) / 2, rtol=1e-6, atol=1e-7)

    def test_the_model_is_the_recipes_with_the_tokenizers_vocabulary(self, run, miniature):
        model, pieces = run[0].translator.model, run[0].translator.tokenizer
        assert model.config == miniature.model
        assert pieces.to_json() == RECIPES["copy"].task.tokenizer().to_json()
        assert not model.training
        assert run[0].seconds > 0

    def test_the_same_seed_is_the_same_run_bit_for_bit(self, run, miniature):
        torch.manual_seed(11)
        random.seed(11)
        again = train(miniature, 3)
        assert again.updates == run[0].updates
        assert same(again.translator.model, run[0].translator.model)
        other = train(miniature, 4)
        assert not same(other.translator.model, run[0].translator.model)
        assert other.updates[0].loss != run[0].updates[0].loss

    def test_looking_at_it_while_it_trains_changes_nothing(self, run, miniature):
        """Translating uses no random number and leaves the mode as it was."""
        examples = miniature.task.held_out(7, 0)
        watched = train(miniature, 3, lambda update, translator: score(translator, examples))
        assert same(watched.translator.model, run[0].translator.model)

    def test_nor_does_a_folder_to_keep_it_in(self, run, miniature, tmp_path):
        kept = train(miniature, 3, folder=tmp_path)
        assert kept.updates == run[0].updates and kept.watched == run[0].watched
        assert same(kept.translator.model, run[0].translator.model)

    def test_it_can_be_kept_loaded_and_scored(self, run, miniature, tmp_path):
        made = run[0].translator
        save_checkpoint(tmp_path, made.model, made.tokenizer, recipe=as_document(miniature))
        examples = miniature.task.held_out(11, 0)
        result = score(Translator.load(tmp_path), examples)
        assert result == score(run[0].translator, examples)
        assert result.total == 11 == sum(total for _, total in result.by_group.values())

    def test_it_tells_what_padding_takes_of_the_batches_of_the_first_epoch(self, run, miniature):
        pairs, _ = miniature.task.training_ids(run[0].translator.tokenizer, 3)
        training = replace(miniature.training, batch_tokens=124, micro_batches=2, length_noise=2.0)
        other = train(replace(miniature, training=training), 3)
        for made, noise in ((run[0], 6.0), (other, 2.0)):
            batches = token_batches(pairs, 62 - (noise == 6), 3, length_noise=noise)
            assert 0 < padding_of(batches).both == pytest.approx(made.padding)
        assert run[0].padding != other.padding

    def test_a_folder_keeps_no_run_of_another_model(self, miniature, tmp_path):
        with pytest.raises(ValueError, match="build is given together with a folder"):
            train(miniature, 3, folder=tmp_path, build=NoScale)
        assert not list(tmp_path.iterdir())

    def test_of_several_processes_the_first_tells(self, miniature, monkeypatch):
        monkeypatch.setattr("annotated.recipes.run.Trainer.fit", lambda *_: True)
        monkeypatch.setattr(World, "each", lambda self, number: [number] * self.size)
        two = override(miniature, ["training.micro_batches=2", "training.steps=1"])
        assert train(two, 3, world=World(0, 2)).padding > 0
        assert train(two, 3, world=World(1, 2)).padding == 0

    def test_it_is_looked_at_twenty_times_or_after_each_update(self, run, miniature, monkeypatch):
        assert list(run[0].watched) == [1, 2, 3, 4, 5]
        assert all(set(watched) == {"accuracy"} for watched in run[0].watched.values())
        looks = itertools.count()
        look = lambda *_: {"look": float(next(looks))}  # noqa: E731
        monkeypatch.setattr(type(miniature.task), "watch", look)
        longer = override(miniature, ["training.steps=43", "training.average=1"])
        watched = train(longer, 3).watched
        assert list(watched) == list(range(2, 43, 2)) and watched[42] == {"look": 20}

    def test_the_vocabulary_and_its_ids_are_the_tokenizers_whatever_a_model_says(self, miniature):
        other = replace(miniature.model, vocab_size=37, pad_id=5, bos_id=6, eos_id=7)
        assert replace(miniature, model=other) == miniature
        pieces = miniature.task.tokenizer()
        assert miniature.task.vocab_size == miniature.model.vocab_size == pieces.vocab_size


def stopping(after):
    """A stop that is asked for after so many questions."""
    calls = itertools.count(1)
    return lambda: next(calls) >= after


class TestStops:
    @pytest.mark.parametrize("after", [1, 2, 4])
    def test_a_run_with_a_stop_is_the_run_without_one(self, run, miniature, tmp_path, after):
        first = train(miniature, 3, folder=tmp_path, stop=stopping(after))
        assert not first.finished and len(first.updates) == after
        starts = []
        second = train(
            miniature, 3, folder=tmp_path, start=lambda run, step: starts.append((step, run))
        )
        assert starts == [(after, second)]
        assert second.finished and second.updates == run[0].updates
        assert second.watched == run[0].watched
        assert same(second.translator.model, run[0].translator.model)
        # The time of both, and not what lies between them.
        assert second.seconds > first.seconds > 0
        assert [row.step for row in read_log(tmp_path / "log.jsonl")] == [1, 2, 3, 4, 5]

    def test_one_at_each_update(self, run, miniature, tmp_path):
        for _ in range(4):
            assert not train(miniature, 3, folder=tmp_path, stop=stopping(1)).finished
        last = train(miniature, 3, folder=tmp_path, stop=stopping(1))
        assert last.finished and last.updates == run[0].updates
        assert same(last.translator.model, run[0].translator.model)

    def test_a_finished_run_makes_no_more_updates_and_ends_the_same(
        self, run, miniature, tmp_path
    ):
        for _ in range(2):
            made = train(miniature, 3, folder=tmp_path)
            assert made.finished and made.updates == run[0].updates
            assert same(made.translator.model, run[0].translator.model)

    def test_what_a_stop_undid_is_made_again(self, run, miniature, tmp_path):
        """Killed after update 4: the newest state is that of update 3."""

        class Killed(BaseException):
            pass

        def die(update, translator):
            if update.step == 4:
                raise Killed

        with pytest.raises(Killed):
            train(miniature, 3, die, folder=tmp_path)
        assert [row.step for row in read_log(tmp_path / "log.jsonl")] == [1, 2, 3, 4]
        with open(tmp_path / "log.jsonl", "a") as file:
            file.write('{"step": 5, "loss"')  # the kill came in the middle of a line
        again, starts = [], []
        second = train(
            miniature, 3, lambda update, _: again.append(update.step), folder=tmp_path,
            start=lambda run, step: starts.append(step),
        )
        assert (starts, again) == ([3], [4, 5])
        assert second.updates == run[0].updates
        assert same(second.translator.model, run[0].translator.model)
        assert [row.step for row in read_log(tmp_path / "log.jsonl")] == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (["training.steps=7"], "training.steps is 5 there, 7 here"),
            (["model.d_ff=31", "task.count=223"], "task.count is 211 there, 223 here"),
            (["model.d_ff=31", "task.count=223"], "model.d_ff is 29 there, 31 here"),
        ],
    )
    def test_other_settings_are_refused_and_named_and_change_nothing(
        self, miniature, tmp_path, change, words
    ):
        train(miniature, 3, folder=tmp_path, stop=stopping(3))
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(ValueError, match=re.escape(words)):
            train(override(miniature, change), 3, folder=tmp_path)
        with pytest.raises(ValueError, match="seed is 3 there, 4 here"):
            train(miniature, 4, folder=tmp_path)
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert after == before and len(before) > 5

    def test_what_was_prepared_for_another_corpus_is_made_anew(
        self, run, miniature, tmp_path, made, laid_out
    ):
        """A run that ended before its first state leaves a tokenizer, but of its own corpus."""
        pairs = made(97, 0)
        laid_out(tmp_path / "data", "multi30k-en-de", pairs, pairs[:7], pairs[:7])
        text = CorpusTask("multi30k-en-de", any_version=True, merges=31)
        other = override(replace(miniature, task=text), ["training.batch_tokens=251"])

        def stop(run, step):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(other, 3, folder=tmp_path, data_dir=tmp_path / "data", start=stop)
        left = Tokenizer.load(tmp_path / "tokenizer.json")
        assert left.vocab_size == 3 + 256 + 31
        assert (tmp_path / "train.ids").exists() and (tmp_path / "cleaning.json").exists()
        second = train(miniature, 3, folder=tmp_path)
        assert second.updates == run[0].updates
        assert not (tmp_path / "train.ids").exists()
        found = Tokenizer.load(tmp_path / "tokenizer.json")
        assert found.to_json() == run[0].translator.tokenizer.to_json() != left.to_json()

    def test_what_was_prepared_for_the_same_is_not_made_twice(
        self, miniature, tmp_path, monkeypatch
    ):
        """Such as the vocabulary of a run that found its model too large for its machine."""
        def stop(run, step):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(miniature, 3, folder=tmp_path, start=stop)
        monkeypatch.setattr(Tokenizer, "train", lambda *_: pytest.fail("learned twice"))
        smaller = override(miniature, ["training.micro_batches=2"])
        assert train(smaller, 4, folder=tmp_path).finished

    def test_what_was_prepared_stays_as_long_as_there_are_states(
        self, run, miniature, tmp_path, monkeypatch
    ):
        """The document tells of where the data lie, which may change; the states need its ids."""
        train(miniature, 3, folder=tmp_path, stop=stopping(3))
        (tmp_path / "task.json").write_text("{}")
        monkeypatch.setattr(Tokenizer, "train", lambda *_: pytest.fail("learned twice"))
        second = train(miniature, 3, folder=tmp_path)
        assert second.finished and second.updates == run[0].updates

    def test_a_damaged_tokenizer_is_refused_by_name(self, miniature, tmp_path):
        train(miniature, 3, folder=tmp_path, stop=stopping(1))
        path = tmp_path / "tokenizer.json"
        path.write_bytes(path.read_bytes()[:101])
        with pytest.raises(ValueError, match=re.escape(f"{path} is no tokenizer")):
            train(miniature, 3, folder=tmp_path)


class TestOneRunPerFolder:
    def test_two_at_once_are_refused_in_one_line(self, miniature, tmp_path):
        code = (
            "import sys; from pathlib import Path; from annotated.files import exclusive\n"
            "with exclusive(Path(sys.argv[1])): print(1, flush=True); sys.stdin.read()"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdout.readline() == b"1\n"
        said = rf"^{re.escape(str(tmp_path))} is in use by another run; wait for its end or choose"
        with pytest.raises(ValueError, match=said):
            train(miniature, 3, folder=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        other.communicate()
        assert train(miniature, 3, folder=tmp_path, stop=stopping(1)).step == 1

    @pytest.mark.parametrize("refused", ["device", "name"])
    def test_what_no_folder_or_device_can_be(self, miniature, tmp_path, refused):
        folder = tmp_path / (b"out-\xff".decode(errors="surrogateescape"))
        with pytest.raises(ValueError) as caught:
            if refused == "name":
                train(miniature, 3, folder=folder)
            else:
                train(miniature, 3, folder=tmp_path / "out", device="mps")
        assert str(caught.value) in (
            "device is 'mps'; expected cpu or cuda",
            f"the folder's name {str(folder)!r} is not UTF-8",
        )
        assert not list(tmp_path.iterdir())


class TestSizes:
    """What no machine has is refused before anything is made, by what can be counted at least."""

    @pytest.mark.parametrize(
        "settings",
        [
            ["model.d_model=1000000000000", "model.heads=1"], ["model.d_ff=1000000000000"],
            ["model.layers=1000000000000"], ["model.d_k=1000000000000"],
            ["training.average=1000000000000", "training.steps=1000000000000000",
             "training.average_every=1"],
        ],
    )
    @pytest.mark.parametrize("kept", [False, True])
    def test_it_says_how_much_and_makes_nothing(
        self, miniature, tmp_path, settings, kept, monkeypatch
    ):
        monkeypatch.setattr(Tokenizer, "train", lambda *_: pytest.fail("began"))
        said = r"^\S+ parameters, \d+ times \(model\.\*, training\.average\), take \S+ GB; the "
        with pytest.raises(ValueError, match=said + r"(disk|machine) has \S+ GB$"):
            train(override(miniature, settings), 3, folder=tmp_path / "out" if kept else None)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", RECIPES)
    def test_parameters_are_counted_as_they_are_made(self, name):
        config = replace(RECIPES[name].model, vocab_size=307, d_model=48, d_ff=29, layers=5)
        made = sum(weight.numel() for weight in Transformer(config).parameters())
        assert count_parameters(config, Transformer) == made

    def test_as_many_processes_as_can_not_share_an_update(self, miniature, tmp_path):
        with pytest.raises(ValueError, match=r"^micro_batches is 1; expected a multiple of 3"):
            train(miniature, 3, folder=tmp_path / "out", world=World(0, 3))
        assert not list(tmp_path.iterdir())


class TestIdentity:
    def test_it_is_the_whole_recipe_and_the_seed(self):
        recipe = RECIPES["wmt14-en-de-base"]
        assert identity(recipe, 0) == identity(recipe, 0) != identity(recipe, 1)
        for change in ("training.steps=7", "task.pairs=7", "model.dropout=0.5"):
            assert identity(override(recipe, [change]), 0) != identity(recipe, 0)
        assert json.loads(json.dumps(identity(recipe, 0)))["recipe"] == "wmt14-en-de-base"


floats = st.floats(allow_nan=False, allow_infinity=False)
updates = st.builds(
    Update, step=st.integers(1, 99), loss=floats, rate=floats, norm=floats,
    tokens=st.integers(1, 10**6), seconds=floats,
)


class TestLog:
    def test_of_a_run_whose_log_was_lost_there_is_no_record(self, run, miniature):
        lost = replace(run[0], updates=run[0].updates[2:])
        said = r"^the log tells of 3 of 5 updates; a record needs them all$"
        with pytest.raises(ValueError, match=said):
            run_record(miniature, 3, lost, Report({}), "…")
        with pytest.raises(ValueError, match="tells of 0 of 5 updates"):
            run_record(miniature, 3, replace(lost, updates=[]), Report({}), "…")

    @given(
        rows=st.lists(st.tuples(updates, st.dictionaries(st.text(), floats, max_size=2))),
        cut=st.integers(0, 99), torn=st.text("{}:\"'5 "),
    )
    def test_it_is_read_as_it_was_written_up_to_the_state(
        self, run, tmp_path_factory, rows, cut, torn
    ):
        path = tmp_path_factory.mktemp("log") / "log.jsonl"
        rows = [(replace(update, step=n), watched) for n, (update, watched) in enumerate(rows, 1)]
        first = Run(run[0].translator)
        with Log(path, first, 0) as log:
            for update, watched in rows:
                log.add(update, watched)
        with open(path, "a") as file:
            file.write(torn)
        step = min(cut, len(rows))
        second = Run(run[0].translator)
        with Log(path, second, step):
            pass
        assert second.updates == [update for update, _ in rows[:step]]
        # Also what isn't compared.
        assert [u.seconds for u in second.updates] == [u.seconds for u in first.updates[:step]]
        assert second.watched == {u.step: watched for u, watched in rows[:step] if watched}
        assert len(path.read_text().splitlines()) == step

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (b'{"step"', ""), (b"\xff", ""), (b"\r", ""), (b"[" * 9999, ""),
            (b"7", "the document is 7, expected"), (b"null", "the document is None, expected"),
            (b'{"step": 2}', "loss is missing"),
            (("step", "2"), "step is '2', expected `int`"),
            (("tokens", None), "tokens is None, expected `int`"),
            (("elapsed", [1]), "elapsed is [1], expected `float`"),
            (("watched", 3), "watched is 3, expected `object`"),
        ],
    )
    def test_a_damaged_line_is_named_with_its_field_and_what_to_do(
        self, miniature, tmp_path, line, said
    ):
        train(miniature, 3, folder=tmp_path)
        path = tmp_path / "log.jsonl"
        first, second, *others = path.read_bytes().splitlines(keepends=True)
        if isinstance(line, tuple):
            name, value = line
            line = json.dumps(json.loads(second) | {name: value}).encode()
        path.write_bytes(b"".join([first, line, b"\n", *others]))
        with pytest.raises(ValueError) as caught:
            train(miniature, 3, folder=tmp_path)
        assert str(caught.value).startswith(f"{path}, line 2 is damaged: {said}")
        assert str(caught.value).endswith("; delete the file to go on without a record")
        path.unlink()
        assert train(miniature, 3, folder=tmp_path).finished

    def test_an_infinite_perplexity_is_read_as_it_was_written(self, run, tmp_path):
        path = tmp_path / "log.jsonl"
        with Log(path, Run(run[0].translator), 0) as log:
            log.add(run[0].updates[0], {"perplexity": math.inf, "accuracy": 0.5})
        assert "Infinity" not in path.read_text()
        again = Run(run[0].translator)
        with Log(path, again, 1):
            assert again.watched == {1: {"perplexity": math.inf, "accuracy": 0.5}}

    def test_a_new_run_begins_a_new_one(self, run, tmp_path):
        path = tmp_path / "log.jsonl"
        path.write_text("not ours\n")
        with Log(path, Run(run[0].translator), 0):
            assert path.read_text() == ""


class TestRecord:
    def test_it_is_valid_and_says_what_happened(self, run, miniature, tmp_path):
        made = run[0]
        report = Report(records.as_metrics({"exact": 9 / 13, "tested": 13}))
        record = run_record(miniature, 3, made, report, "annotated train …")
        path = records.write(record, tmp_path)
        assert records.read(path) == record
        assert path.parent.name == record.experiment == record.recipe == "copy-three"
        assert (record.seed, record.kind, record.precision) == (3, "cpu", "float32")
        assert record.column("step") == [1, 2, 3, 4, 5]
        assert record.column("accuracy") == [w["accuracy"] for w in made.watched.values()]
        columns = map(record.column, ("step", "loss", "rate", "norm"))
        for step, loss, rate, norm in zip(*columns, strict=True):
            update = made.updates[step - 1]
            assert loss == pytest.approx(update.loss, abs=1e-4)
            assert (rate, norm) == pytest.approx((update.rate, update.norm), rel=1e-3)
        tokens = [update.tokens for update in made.updates]
        assert record.tokens_per_update == round(sum(tokens) / 5)
        assert record.seconds == round(made.seconds, 1)
        metrics = {name: metric.value for name, metric in record.metrics.items()}
        spent = sum(update.seconds for update in made.updates) / 5
        assert metrics == {
            "exact": 9 / 13, "tested": 13, "update_seconds": pytest.approx(spent, rel=1e-3),
            "padding": round(made.padding, 4),
        }
        assert record.versions["torch"] == torch.__version__

    def test_it_may_be_of_another_experiment(self, run, miniature, tmp_path):
        half = override(miniature, ["training.precision=bfloat16"])
        record = run_record(half, 3, run[0], Report({}), "…", "no-warmup")
        assert (record.experiment, record.recipe) == ("no-warmup", "copy-three")
        assert record.precision == "bfloat16"
        assert records.write(record, tmp_path).parent == tmp_path / "no-warmup"


RESULTS = files("annotated") / "results"
RECORDED = sorted({path.name for path in RESULTS.iterdir()} & {*RECIPES})


def recorded(name):
    """The recipe as a record's command changes it."""
    for record in records.find(name):
        words = shlex.split(record.command)
        sets = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
        yield record, words, override(recipe_named(name), sets)


class TestRecords:
    @pytest.mark.parametrize("name", RECORDED)
    def test_they_are_of_the_recipe_as_it_is(self, name):
        for record, words, recipe in recorded(name):
            assert record.recipe == name
            made = [["annotated", "train", "--recipe", name], ["annotated", "record", name]]
            assert any(
                words[: len(start) + 2] == [*start, "--seed", str(record.seed)] for start in made
            )
            training = recipe.training
            assert record.column("step")[-1] == training.steps
            rate = learning_rate(
                training.steps, recipe.model.d_model, training.warmup_steps, training.factor
            )
            assert record.curve[-1]["rate"] == pytest.approx(rate, rel=1e-3)
            if isinstance(recipe.task, TextTask):
                assert {"bleu_13a", "bleu_literature", "perplexity"} <= set(record.metrics)
            else:
                groups = recipe.task.groups
                assert 6 in record.column(groups, f"exact_by_{groups}")

    def test_three_seeds_of_the_books_recipe_reach_99_per_cent_and_97_for_every_length(self):
        found = records.find("numbers-en-de")
        assert {0, 1, 2} <= {record.seed for record in found}
        for record in found:
            assert record.value("tested") == 1000 and record.value("exact") >= 0.99
            rows = record.table("exact_by_digits")
            assert {row["digits"] for row in rows if row["exact"] >= 0.97} >= {2, 3, 4, 5, 6}

    def test_all_folders_of_results_can_be_read(self):
        for folder in Path(str(RESULTS)).iterdir():
            if folder.is_dir():
                assert records.find(folder.name)
