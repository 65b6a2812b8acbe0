"""`annotated reproduce`: planned to the minute, killed and started again, packed small."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated import records, reproduce
from annotated.benchmark.step import Product, Rate
from annotated.data.corpora import TextCorpus
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, TextTask
from annotated.reproduce import (
    STAGES,
    Clock,
    Job,
    Outcome,
    Stage,
    affordable,
    pack,
    plan,
    score,
    stages_named,
    state_of,
    train_and_test,
)
from annotated.translation import Translator

RUN = reproduce.reproduce
ROOT = Path(__file__).resolve().parents[1]
LACKING = """
import sys
for name in ("num2words", "pooch", "sacremoses", "IPython", "ipykernel", "nbformat", "beartype"):
    sys.modules[name] = None
"""
MINIATURE_ONLY = """
import sys
from annotated.cli import main
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, Copying, Recipe
from annotated.training import TrainingConfig
RECIPES["copy"] = Recipe("copy", "letters", Copying(count=211, longest=3),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1),
    TrainingConfig(steps=307, batch_tokens=61, length_noise=6.0, warmup_steps=3, average=2,
        average_every=15))
sys.argv[1:1] = ["reproduce"]
main()
"""


@pytest.fixture(scope="session")
def miniature(letters):
    """Three letters at most, 41 updates."""
    return letters("copy-three", steps=41, average_every=5)


@pytest.fixture
def named(monkeypatch):
    """`named(name, run, …)` puts stages in place of the real ones."""
    stages: dict[str, Stage] = {}
    monkeypatch.setattr(reproduce, "STAGES", stages)

    def add(name, run, least=1.0, share=1.0):
        stages[name] = Stage(name, f"stage {name}", run, {"cpu": least, "cuda": least}, share)
        return stages[name]

    return add


@pytest.fixture
def job(tmp_path):
    """A job of so many seconds, in a folder of its own; what it says is in its list."""

    def make(seconds=60.0, out=None, **changed):
        said: list[str] = []
        given = dict(
            out=out or tmp_path / "out", device="cpu", seed=0, seconds=seconds,
            clock=Clock(1000.0), data_dir=None, command="c", commit="", say=said.append,
        )
        return Job(**given | changed)

    return make


def a_record(job, experiment, **metrics):
    """Some valid record."""
    return records.Record(
        experiment=experiment, command=job.command, recipe=None, seed=job.seed, commit="unknown",
        device="Some CPU", kind="cpu", threads=1, versions={"x": "1"}, precision="float32",
        seconds=1.0, tokens_per_update=None, tables={}, date=date(2026, 1, 2),
        metrics=records.as_metrics(metrics),
    )


def inside(path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive.getmembers()}


class TestPlan:
    LEAST = (12.0, 45.0, 20.0, 180.0)

    def stages(self):
        return [
            Stage(str(n), "", lambda job: None, {"cpu": n, "cuda": 1.0}, share)
            for n, share in zip(self.LEAST, (1.0, 2.0, 3.0, 4.0), strict=True)
        ]

    def test_where_all_fit_what_is_over_is_shared(self):
        found = plan(self.stages(), "cpu", 357.0)
        assert found == {"12.0": 22.0, "45.0": 65.0, "20.0": 50.0, "180.0": 220.0}
        assert sum(plan(self.stages(), "cuda", 40.0).values()) == pytest.approx(40)

    @pytest.mark.parametrize(
        ("seconds", "kept"),
        [(257.0, 4), (256.9, 3), (77.0, 3), (76.9, 2), (32.0, 2), (31.9, 1), (12.0, 1), (0.0, 0)],
    )
    def test_the_longest_is_left_out_first(self, seconds, kept):
        found = plan(self.stages(), "cpu", seconds)
        assert sorted(map(float, found)) == sorted(self.LEAST)[:kept]

    @given(st.lists(st.floats(0.1, 100), max_size=7), st.floats(0, 300))
    def test_never_too_much_never_too_little(self, least, seconds):
        stages = [
            Stage(str(i), "", lambda job: None, {"cpu": n}, 1.0 + i) for i, n in enumerate(least)
        ]
        found = plan(stages, "cpu", seconds)
        assert all(found[s.name] >= s.least["cpu"] for s in stages if s.name in found)
        assert sum(found.values()) == pytest.approx(seconds if found else 0)
        if not found:
            assert all(n > seconds for n in least)

    def test_stages_keep_their_order_and_unknown_ones_are_named(self):
        assert [s.name for s in stages_named([])] == list(STAGES)
        assert [s.name for s in stages_named(["numbers", "step-base"])] == ["step-base", "numbers"]
        with pytest.raises(ValueError, match=r"^no stage 'x'; there are step-base, step-big, "):
            stages_named(["step-base", "x"])

    def test_a_budget_is_what_the_time_allows(self):
        quick, slow = (Rate((Product(1000, 2e9 / rate),)) for rate in (7e14, 5e10))
        assert affordable("base", quick, 10.0) == affordable("big", quick, 10.0) == 25_000
        assert 64 <= affordable("big", slow, 60.0) < affordable("base", slow, 60.0) < 2000
        assert affordable("base", slow, 0.0) >= 64
        assert affordable("base", slow, 1e6) == 25_000


class TestClock:
    def test_it_runs_out(self):
        assert Clock(0.0).left() == 0 < Clock(5.0).left() <= 5

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_leaves_no_time_and_a_second_interrupts(self, number):
        before = signal.getsignal(number)
        with Clock(1000.0) as clock:
            os.kill(os.getpid(), number)
            assert clock.left() == 0 and clock.signal == number
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
                time.sleep(5)
        assert signal.getsignal(number) is before

    def test_a_stage_has_its_own_time_within_it(self, job):
        assert 0 < job(5.0).left() <= 5
        assert job(5.0, clock=Clock(0.0)).left() == 0


class TestReproduce:
    def test_stages_run_in_turn_and_their_records_are_there_at_once(self, named, tmp_path, capsys):
        seen = []

        def first(job):
            job.keep(a_record(job, "first", x=1))
            return Outcome("done", "one")

        def second(job):
            seen.append(sorted(p.name for p in (job.out / "records").iterdir()))
            seen.append("records/first/some-cpu-seed0.json" in inside(job.out / reproduce.PACK))
            return Outcome("done", "two")

        named("first", first)
        named("second", second)
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert seen == [["first"], True]
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "annotated reproduce --device cpu --minutes 1 --seed 0"
        assert "first: done: one" in said and "second: done: two" in said
        assert "second: done: two" in (tmp_path / "log.txt").read_text()
        assert (state_of(tmp_path, "first"), state_of(tmp_path, "third")) == ("done", None)

    def test_what_is_done_is_not_run_again_and_the_rest_is(self, named, tmp_path, capsys):
        runs, outcomes = [], {"b": ["unfinished", "done"], "c": ["failed", "done"]}

        def run(job):
            name = "abc"[len(runs) % 3]
            runs.append(name)
            return Outcome(outcomes[name].pop(0) if name in outcomes else "done", "")

        for name in "abc":
            named(name, run)
        assert RUN(tmp_path, "cpu", 1.0) == 1  # c failed
        assert runs == ["a", "b", "c"]
        runs.append("a")  # so that run() counts on from b
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert runs[4:] == ["b", "c"]
        assert RUN(tmp_path, "cpu", 1.0) == 0 and len(runs) == 6
        assert capsys.readouterr().out.count("a: done before") == 2

    def test_a_stage_that_fails_says_why_and_the_others_go_on(self, named, tmp_path, capsys):
        def fails(job):
            raise FloatingPointError("step 3: the loss is nan")

        named("fails", fails)
        named("works", lambda job: Outcome("done", "fine"))
        assert RUN(tmp_path, "cpu", 1.0) == 1
        out = capsys.readouterr().out
        assert "fails: failed: FloatingPointError: step 3: the loss is nan" in out
        assert "works: done: fine" in out and "Traceback" in (tmp_path / "log.txt").read_text()

    def test_time_that_is_left_goes_to_the_next(self, named, tmp_path):
        given = {}

        def run(job):
            given[len(given)] = job.seconds
            return Outcome("done", "")

        named("a", run, least=5.0)
        named("b", run, least=5.0)
        RUN(tmp_path, "cpu", 1.0)
        assert given[0] == pytest.approx(29, abs=1)
        assert given[1] == pytest.approx(58, abs=2)

    def test_a_stage_that_can_not_fit_says_so(self, named, tmp_path, capsys):
        ran = []
        named("long", lambda job: ran.append("long"), least=100.0)
        named("short", lambda job: ran.append("short") or Outcome("done", ""), least=10.0)
        assert RUN(tmp_path, "cpu", 1.0) == 0
        said = capsys.readouterr().out
        assert "long: skipped: needs 100 s beside the stages before it; 58 s are left" in said
        assert ran == ["short"]

    def test_a_signal_ends_it_and_packs(self, named, tmp_path):
        def interrupted(job):
            os.kill(os.getpid(), signal.SIGTERM)
            return Outcome("unfinished", f"{job.left():.0f} s left")

        named("a", interrupted)
        named("b", lambda job: pytest.fail("not to be run"))
        assert RUN(tmp_path, "cpu", 1.0) == 128 + signal.SIGTERM
        summary = json.loads(inside(tmp_path / reproduce.PACK)["summary.json"])
        assert summary["stages"]["a"]["note"] == "0 s left" and "b" not in summary["stages"]

    def test_commit_and_translations_are_kept(self, named, tmp_path):
        def run(job):
            job.keep(a_record(job, "texts"), ["ein Hund", "zwei\nKatzen", ""])
            return Outcome("done", "")

        named("a", run)
        RUN(tmp_path, "cpu", 1.0, commit="0123abcd", pack_to=tmp_path / "elsewhere.tar.gz")
        (record,) = records.find("texts", root=tmp_path / "records")
        assert record.commit == "0123abcd"
        kept = inside(tmp_path / "elsewhere.tar.gz")["translations/texts/some-cpu-seed0.json"]
        assert json.loads(kept) == ["ein Hund", "zwei\nKatzen", ""]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (dict(device="tpu"), r"^device is 'tpu'; expected cpu or cuda$"),
            (dict(minutes=0.0), r"^minutes is 0.0; expected a number above 0$"),
            (dict(minutes=float("nan")), r"^minutes is nan; expected"),
            (dict(stages=["x"]), r"^no stage 'x'; there are a$"),
        ],
    )
    def test_what_can_not_be_meant_is_refused_before_anything(
        self, named, tmp_path, changed, message
    ):
        named("a", lambda job: pytest.fail("not to be run"))
        given = dict(out=tmp_path / "out", device="cpu", minutes=1.0) | changed
        with pytest.raises(ValueError, match=message):
            RUN(given.pop("out"), given.pop("device"), given.pop("minutes"), **given)
        assert not (tmp_path / "out").exists()

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
    def test_cuda_where_there_is_none(self, tmp_path):
        with pytest.raises(ValueError, match=r"^device is cuda, but torch sees no CUDA device"):
            RUN(tmp_path, "cuda", 1.0)

    def test_another_seed_needs_another_folder(self, named, tmp_path):
        named("a", lambda job: Outcome("done", ""))
        RUN(tmp_path, "cpu", 1.0, seed=1)
        with pytest.raises(ValueError, match=r"with device cpu, seed 1, not device cpu, seed 2; "):
            RUN(tmp_path, "cpu", 1.0, seed=2)


class TestTraining:
    def test_to_the_end(self, job, miniature):
        here = job()
        outcome = train_and_test(miniature, here)
        assert outcome.state == "done" and "of 1000 held-out sentences" in outcome.note
        (record,) = records.find("copy-three", root=here.out / "records")
        assert record.recipe == "copy-three" and record.command == "c"
        assert record.value("updates") == record.value("updates_planned") == 41
        assert len(record.curve) == 20 and 0 <= record.value("exact") <= 1
        kept = Translator.load(here.out / "models" / "copy-three")
        assert kept.notes == {"recipe": "copy-three", "seed": 0, "updates": 41}

    def test_time_up_leaves_a_tested_model_and_the_next_call_goes_on(self, job, miniature):
        out = job().out
        first = job(seconds=0.0)
        outcome = train_and_test(miniature, first)
        assert outcome == Outcome(
            "unfinished", "1 of 41 updates; start again with the same --out to go on"
        )
        (record,) = records.find("copy-three-unfinished", root=out / "records")
        assert record.value("updates") == 1
        assert record.value("updates_planned") == 41
        second = job()
        assert train_and_test(miniature, second).state == "done"
        assert "going on after 1 of 41 updates" in second.say.__self__
        assert [p.name for p in (out / "records").iterdir()] == ["copy-three"]
        assert [p.name for p in (out / "models").iterdir()] == ["copy-three"]
        (record,) = records.find("copy-three", root=out / "records")
        assert record.value("updates") == 41

    def test_in_two_parts_it_is_the_same_model(self, job, miniature, tmp_path):
        train_and_test(miniature, job(seconds=0.0))
        train_and_test(miniature, job())
        whole = job(out=tmp_path / "whole")
        train_and_test(miniature, whole)
        one, other = (
            Translator.load(out / "models" / "copy-three").model for out in (job().out, whole.out)
        )
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)

    def test_after_a_signal_nothing_more_is_measured(self, job, miniature):
        here = job()
        here.clock.signal = signal.SIGINT
        assert train_and_test(miniature, here).state == "unfinished"
        assert not (here.out / "records").exists()


class TestStages:
    def test_steps_leave_a_record_with_the_rate_beside_them(self, job, monkeypatch):
        small = TransformerConfig(vocab_size=53, d_model=22, d_ff=29, heads=2, layers=1)
        monkeypatch.setattr(TransformerConfig, "base", classmethod(lambda cls: small))
        monkeypatch.setattr(reproduce, "affordable", lambda *_: 101)
        here = job(seconds=12.0)  # two of them for the rate; the rest is room on a busy machine
        outcome = STAGES["step-base"].run(here)
        assert outcome.state == "done" and "of 101 + 101 tokens in float32" in outcome.note
        (record,) = records.find("step-base-float32", root=here.out / "records")
        value = {name: metric.value for name, metric in record.metrics.items()}
        expected = value["flops_per_second"] / value["matrix_flops_per_second"]
        assert value["utilisation"] == pytest.approx(expected, rel=1e-3)
        assert sum(point["matrix_size"] is None for point in record.curve) >= 3

    def test_steps_on_too_slow_a_machine_say_so(self, job, monkeypatch):
        rate = Rate((Product(100, 2e6 / 1e9),))  # a billion operations a second
        monkeypatch.setattr(reproduce, "matrix_rate", lambda *_: rate)
        monkeypatch.setattr(reproduce, "step_time", lambda *_, **__: pytest.fail("not to be run"))
        outcome = STAGES["step-big"].run(job(seconds=60.0))
        assert outcome.state == "skipped"
        assert outcome.note.startswith("too slow a machine: an update of 97 + 97 tokens would take")

    def test_numbers_become_letters_where_their_speller_is_missing(self, job, monkeypatch):
        trained = []
        monkeypatch.setattr(
            reproduce, "train_and_test",
            lambda recipe, job: trained.append(recipe.name) or Outcome("done", ""),
        )
        STAGES["numbers"].run(job())
        monkeypatch.setitem(sys.modules, "num2words", None)
        STAGES["numbers"].run(here := job())
        assert trained == ["numbers-en-de", "copy"]
        assert "num2words is not installed" in here.say.__self__[0]

    def test_captions_that_are_not_there_are_said(self, job, tmp_path, monkeypatch):
        monkeypatch.delenv("ANNOTATED_DATA", raising=False)
        monkeypatch.setitem(sys.modules, "pooch", None)
        outcome = STAGES["multi30k"].run(job(data_dir=tmp_path))
        assert outcome.state == "skipped"
        assert outcome.note.startswith("multi30k/train.en is in no data folder")

    def test_captions_are_read_from_the_folder_named(self, job, tmp_path, monkeypatch):
        asked = []
        monkeypatch.setattr(TextTask, "open", lambda self, data_dir: asked.append(data_dir))
        monkeypatch.setattr(
            reproduce, "train_and_test",
            lambda recipe, job: asked.append((recipe.name, job.data_dir)) or Outcome("done", ""),
        )
        STAGES["multi30k"].run(job(data_dir=tmp_path))
        assert asked == [tmp_path, ("multi30k-en-de", tmp_path)]


class TestPack:
    def fill(self, out, sizes):
        for name, size in sizes.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))

    def test_what_matters_goes_in_and_states_do_not(self, tmp_path):
        self.fill(
            tmp_path,
            {
                "records/a/x.json": 100, "translations/a/x.json": 100, "log.txt": 100,
                "models/a/model.safetensors": 100, "runs/a/log.jsonl": 100,
                "runs/a/states/step-1.model.safetensors": 100, "runs/a/train.ids": 100,
            },
        )
        (said,) = pack(tmp_path, tmp_path / "p.tar.gz", "c")
        found = inside(tmp_path / "p.tar.gz")
        assert set(found) == {
            "summary.json", "records/a/x.json", "translations/a/x.json", "log.txt",
            "models/a/model.safetensors", "runs/a/log.jsonl",
        }
        assert all(found[n] == (tmp_path / n).read_bytes() for n in found)
        assert said.endswith("6 files)") and str(tmp_path / "p.tar.gz") in said

    def test_it_stays_under_its_limit_and_says_what_is_missing(self, tmp_path):
        self.fill(
            tmp_path,
            {
                "records/a/x.json": 30_000, "models/a/model.safetensors": 300_000,
                "models/b/model.safetensors": 40_000, "runs/a/log.jsonl": 20_000,
            },
        )
        said = pack(tmp_path, tmp_path / "p.tar.gz", "c", limit=200_000)
        assert (tmp_path / "p.tar.gz").stat().st_size < 200_000
        assert said[1:] == ["left out of it, too large: models/a/model.safetensors"]
        found = inside(tmp_path / "p.tar.gz")
        assert json.loads(found["summary.json"])["left_out"] == ["models/a/model.safetensors"]
        assert {"records/a/x.json", "models/b/model.safetensors", "runs/a/log.jsonl"} < set(found)

    def test_the_limit_is_what_a_borrowed_machine_gives_back(self):
        assert reproduce.LIMIT == 16 * 1024 * 1024


class TestScore:
    ANSWERS = ["Ein Hund läuft über die Wiese .", "Zwei Frauen sitzen auf einer Bank ."]

    @pytest.fixture
    def out(self, job, monkeypatch):
        """A folder with translations that have no score yet; four words of each are right."""
        references = [
            ("a", ["Ein Hund läuft über die Wiese."]), ("b", ["Zwei Frauen sitzen auf der Bank."])
        ]
        monkeypatch.setattr(TextCorpus, "references", lambda self, split: references)
        monkeypatch.setattr(TextCorpus, "pairs", lambda self, split: [("a", "b")])
        here = job()
        made = replace(a_record(here, "multi30k-en-de", tested=2), recipe="multi30k-en-de")
        here.keep(made, self.ANSWERS)
        here.keep(a_record(here, "step-base"))
        return here.out

    def test_both_scores_are_added_to_the_record(self, out):
        lines = score(out)
        (record,) = records.find("multi30k-en-de", root=out / "records")
        assert record.value("tested") == 2
        for name in ("bleu_13a", "bleu_literature"):
            assert 50 < record.value(name) < 100
        assert [line.split()[1] for line in lines] == ["bleu_13a", "bleu_literature"]
        assert score(out) == lines

    def test_by_the_command(self, out, capsys):
        assert reproduce.reproduce_command(out, score_only=True) == 0
        said = capsys.readouterr().out
        assert "multi30k-en-de: bleu_literature" in said and "packed: " in said
        name = "records/multi30k-en-de/some-cpu-seed0.json"
        assert b"bleu_literature" in inside(out / reproduce.PACK)[name]

    def test_the_recipe_names_a_corpus_of_sentences(self):
        assert isinstance(RECIPES["multi30k-en-de"].task, TextTask)


def started(*command, **variables) -> subprocess.Popen:
    """A process of its own, of one thread, that knows of no data folder."""
    environment = {
        name: value for name, value in os.environ.items() if name != "ANNOTATED_DATA"
    } | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **variables}
    return subprocess.Popen(
        list(map(str, command)),
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


class TestCommand:
    @pytest.fixture
    def poor_python(self, tmp_path):
        """This Python without what a borrowed machine lacks, as a program."""
        (tmp_path / "lacking").mkdir()
        (tmp_path / "lacking" / "sitecustomize.py").write_text(LACKING)
        program = tmp_path / "python"
        path = f'PYTHONPATH="$PYTHONPATH:{tmp_path}/lacking"'
        program.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" "$@"\n')
        program.chmod(0o755)
        return program

    def test_a_minute_on_a_cpu_without_what_a_gpu_machine_lacks(self, tmp_path, poor_python):
        out, work = tmp_path / "out", tmp_path / "work"
        begun = time.monotonic()
        process = started(
            "sh", ROOT / "tools" / "gpu_run.sh", 1, out, "--device", "cpu", "--commit", "0123abcd",
            PYTHON=str(poor_python), WORK=str(work),
        )
        said, _ = process.communicate(timeout=240)
        spent = time.monotonic() - begun
        assert process.returncode == 0, said
        assert spent < 150, f"{spent:.0f} s for a minute\n{said}"
        assert "multi30k: skipped: needs" in said
        assert "numbers-en-de-" not in said and "ImportError" not in said
        assert [path.name for path in out.iterdir()] == [reproduce.PACK]
        assert (out / reproduce.PACK).stat().st_size < reproduce.LIMIT
        found = inside(out / reproduce.PACK)
        kept = {name: data for name, data in found.items() if name.startswith("records/")}
        experiments = {name.split("/")[1] for name in kept}
        assert experiments
        ended = json.loads(found["summary.json"])["stages"]
        named = {"step-base": {"step-base-float32"}, "numbers": {"copy", "copy-unfinished"}}
        for stage, possible in named.items():  # on a machine too busy for both, one says so
            busy = ended[stage]["state"] == "skipped" and "are left" in ended[stage]["note"]
            assert experiments & possible or busy, said
        for name, data in kept.items():
            record = records.read(work / "run" / name)
            assert record.command == "annotated reproduce --device cpu --minutes 1 --seed 0"
            assert record.commit == "0123abcd" and (work / "run" / name).read_bytes() == data

    def test_the_script_says_how_it_is_called(self):
        process = started("sh", ROOT / "tools" / "gpu_run.sh", 1)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 2 and said.startswith("usage: sh tools/gpu_run.sh MINUTES OUT")

    def test_killed_and_started_again(self, tmp_path):
        command = (
            sys.executable, "-c", LACKING + MINIATURE_ONLY, "--device", "cpu", "--minutes", 3,
            "--stages", "numbers", "--out", tmp_path,
        )
        process = started(*command)
        log = tmp_path / "runs" / "copy" / "log.jsonl"
        states = tmp_path / "runs" / "copy" / "states"
        try:
            waited = time.monotonic()
            while len(list(states.glob("step-*.json"))) < 2 and time.monotonic() < waited + 100:
                assert process.poll() is None, process.stdout.read()
                time.sleep(0.02)
        finally:
            process.kill()  # SIGKILL
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        kept = max(json.loads(p.read_text())["step"] for p in states.glob("step-*.json"))
        assert 15 <= kept < 307 and log.exists()
        assert not (tmp_path / "records").exists() and state_of(tmp_path, "numbers") is None
        process = started(*command)
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said
        assert f"going on after {kept} of 307 updates" in said
        assert "numbers: done:" in said
        steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
        assert steps == list(range(1, 308))
        (record,) = records.find("copy", root=tmp_path / "records")
        assert record.value("updates") == 307
        process = started(*command)
        said, _ = process.communicate(timeout=100)
        assert process.returncode == 0 and "numbers: done before" in said
        assert (tmp_path / reproduce.PACK).exists()
