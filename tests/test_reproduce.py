"""`annotated reproduce`: planned to the minute, killed and started again, packed small."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated import cli, records, reproduce
from annotated.data.corpora import TextCorpus
from annotated.experiments import Experiment, Training
from annotated.jobs import Job, Result, Unavailable
from annotated.recipes import RECIPES, TextTask
from annotated.reproduce import Clock, Folder, Work, attempt, missing, pack, plan, score
from annotated.signals import Signals
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
from annotated.experiments import EXPERIMENTS, Training
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, Copying, Recipe
from annotated.training import TrainingConfig
RECIPES["copy"] = Recipe("copy", "letters", Copying(count=211, longest=3, tested=7, watched=2),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1),
    TrainingConfig(steps=307, batch_tokens=61, length_noise=6.0, warmup_steps=3, average=2,
        average_every=15))
EXPERIMENTS["copy"] = Training(name="copy", recipe="copy", least={"cpu": 20.0}, share=1.0)
sys.argv[1:1] = ["reproduce"]
main()
"""


@dataclass(frozen=True, kw_only=True)
class Fake(Experiment):
    """An experiment that runs a function of the job."""

    run: Any = None

    def make(self, job):
        return self.run(job)


@pytest.fixture
def named(monkeypatch):
    """`named(name, run, …)` puts experiments in place of the real ones."""
    table: dict[str, Experiment] = {}
    monkeypatch.setattr("annotated.experiments.table.EXPERIMENTS", table)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", table)

    def add(name, run, least=1.0, share=1.0, **more):
        table[name] = Fake(name=name, run=run, least={"cpu": least}, share=share, **more)
        return table[name]

    return add


@pytest.fixture
def miniature(letters, monkeypatch):
    """An experiment: three letters at most, 41 updates."""
    recipe = letters("copy-three", steps=41, average_every=5)
    monkeypatch.setitem(RECIPES, recipe.name, recipe)
    return Training(name="copy-three", recipe=recipe.name)


def a_record(job, **fields):
    """Some valid record."""
    given = dict(
        experiment=job.experiment, command=job.command, recipe=None, seed=job.seed,
        commit="unknown", device="Some CPU", kind="cpu", threads=1, versions={"x": "1"},
        precision="float32", seconds=1.0, tokens_per_update=None, tables={}, metrics={},
        date=date(2026, 1, 2),
    )
    return records.Record(**given | fields)


def done(job):
    return Result(a_record(job), "fine")


def outcome(out, name) -> dict:
    return json.loads((out / "outcomes" / f"{name}.json").read_text())


def inside(path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive.getmembers()}


class TestPlan:
    def work(self, *least, share=1.0):
        experiments = (
            Fake(name=f"e{i}", least={"cpu": n, "cuda": 1.0}, share=share * (i + 1))
            for i, n in enumerate(least)
        )
        return [Work(experiment, 0) for experiment in experiments]

    def test_where_all_fit_what_is_over_is_shared(self):
        work = self.work(12.0, 45.0, 20.0, 180.0)
        found = plan(work, "cpu", 357.0)
        assert found == {
            "e0-seed0": 22.0, "e1-seed0": 65.0, "e2-seed0": 50.0, "e3-seed0": 220.0,
        }
        assert sum(plan(work, "cuda", 40.0).values()) == pytest.approx(40)

    def test_what_is_wanted_most_comes_first_and_shorter_work_fills_the_rest(self):
        work = self.work(100.0, 80.0, 30.0, share=0.0)
        assert [*plan(work, "cpu", 99.0)] == ["e1-seed0"]
        assert [*plan(work, "cpu", 100.0)] == ["e0-seed0"]
        assert [*plan(work, "cpu", 130.0)] == ["e0-seed0", "e2-seed0"]
        assert plan(work, "cpu", 29.0) == {}

    @given(st.lists(st.floats(0.1, 100), max_size=7), st.floats(0, 300))
    def test_never_too_much_never_too_little(self, least, seconds):
        work = self.work(*least)
        found = plan(work, "cpu", seconds)
        assert all(found[w.name] >= n for w, n in zip(work, least) if w.name in found)
        assert sum(found.values()) == pytest.approx(seconds if found else 0)
        if not found:
            assert all(n > seconds for n in least)

    def test_a_first_seed_of_each_comes_before_a_second(self, tmp_path):
        experiments = [Fake(name=name, seeds=n, run=done) for name, n in (("a", 2), ("b", 3))]
        names = [work.name for work in missing(experiments, "cpu", tmp_path)]
        assert names == ["a-seed0", "b-seed0", "a-seed1", "b-seed1", "b-seed2"]
        records.write(a_record(Job("b", 1)), tmp_path)
        names = [work.name for work in missing(experiments, "cpu", tmp_path)]
        assert names == ["a-seed0", "b-seed0", "a-seed1", "b-seed2"]
        assert missing(experiments, "cuda", tmp_path) == []


class TestClock:
    def test_it_runs_out(self):
        assert Clock(0.0, Signals()).left() == 0 < Clock(5.0, Signals()).left() <= 5

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_leaves_no_time_and_a_second_interrupts(self, number):
        before = signal.getsignal(number)
        with Signals() as signals:
            clock = Clock(1000.0, signals)
            os.kill(os.getpid(), number)
            assert clock.left() == 0 and signals.signal == number
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
                time.sleep(5)
        assert signal.getsignal(number) is before


class TestReproduce:
    def test_experiments_run_in_turn_and_their_records_are_there_at_once(
        self, named, tmp_path, capsys
    ):
        seen = []

        def second(job):
            seen.append(sorted(p.name for p in (tmp_path / "records").iterdir()))
            seen.append("records/first/some-cpu-seed0.json" in inside(tmp_path / reproduce.PACK))
            return done(job)

        named("first", done)
        named("second", second)
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert seen == [["first"], True]
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "annotated reproduce --device cpu --minutes 1"
        assert "first-seed0: done: fine" in said and "second-seed0: done: fine" in said
        assert "second-seed0: done: fine" in (tmp_path / "log.txt").read_text()
        assert outcome(tmp_path, "first-seed0")["state"] == "done"
        (record,) = records.find("first", root=tmp_path / "records")
        assert record.command == "annotated record first --seed 0"

    def test_what_is_recorded_is_not_run_again_and_the_rest_is(self, named, tmp_path):
        runs, fails = [], ["b", "c"]

        def run(job):
            runs.append(job.experiment)
            if job.experiment not in fails:
                return done(job)
            fails.remove(job.experiment)
            if job.experiment == "c":
                raise OSError("no")
            return Result(None, "1 of 2", finished=False)

        for name in "abc":
            named(name, run)
        assert RUN(tmp_path, "cpu", 1.0) == 1  # c failed
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert runs == ["a", "b", "c", "b", "c"]

    def test_what_fails_says_why_and_the_others_go_on(self, named, tmp_path, capsys):
        def fails(job):
            raise FloatingPointError("step 3: the loss is nan")

        named("fails", fails)
        named("works", done)
        assert RUN(tmp_path, "cpu", 1.0) == 1
        out = capsys.readouterr().out
        assert "fails-seed0: failed: FloatingPointError: step 3: the loss is nan" in out
        assert "works-seed0: done: fine" in out
        assert "Traceback" in (tmp_path / "log.txt").read_text()

    def test_what_is_not_here_is_skipped_and_no_failure(self, named, tmp_path, capsys):
        def lacks(job):
            raise Unavailable("train.en is in no data folder")

        named("lacks", lacks)
        assert RUN(tmp_path, "cpu", 1.0) == 0
        assert "lacks-seed0: skipped: train.en is in no data folder" in capsys.readouterr().out

    def test_time_that_is_left_goes_to_the_next(self, named, tmp_path):
        given = []

        def run(job):
            given.append(job.left())
            return done(job)

        named("a", run, least=5.0)
        named("b", run, least=5.0)
        RUN(tmp_path, "cpu", 1.0)
        assert given == [pytest.approx(29, abs=1), pytest.approx(58, abs=2)]

    def test_what_can_not_fit_says_so(self, named, tmp_path, capsys):
        named("long", lambda job: pytest.fail("not to be run"), least=100.0)
        named("short", done, least=10.0)
        assert RUN(tmp_path, "cpu", 1.0) == 0
        said = capsys.readouterr().out
        assert "long-seed0: skipped: needs 100 s beside what is wanted more; 58 s are left" in said
        assert "short-seed0: done" in said

    def test_a_signal_ends_it_and_packs(self, named, tmp_path):
        def interrupted(job):
            os.kill(os.getpid(), signal.SIGTERM)
            assert job.interrupted()
            return Result(None, f"{job.left():.0f} s left", finished=False)

        named("a", interrupted)
        named("b", lambda job: pytest.fail("not to be run"))
        assert RUN(tmp_path, "cpu", 1.0) == 128 + signal.SIGTERM
        outcomes = json.loads(inside(tmp_path / reproduce.PACK)["summary.json"])["outcomes"]
        assert outcomes["a-seed0"]["note"].startswith("0 s left; start again with the same --out")
        assert "b-seed0" not in outcomes

    def test_commit_and_translations_are_kept(self, named, tmp_path):
        texts = ["ein Hund", "zwei\nKatzen", ""]
        named("texts", lambda job: Result(a_record(job), "", translations=texts))
        RUN(tmp_path, "cpu", 1.0, commit="0123abcd", pack_to=tmp_path / "elsewhere.tar.gz")
        (record,) = records.find("texts", root=tmp_path / "records")
        assert record.commit == "0123abcd"
        kept = inside(tmp_path / "elsewhere.tar.gz")["translations/texts/some-cpu-seed0.json"]
        assert json.loads(kept) == texts

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (dict(device="tpu"), r"^device is 'tpu'; expected cpu or cuda$"),
            (dict(minutes=0.0), r"^minutes is 0.0; expected a number above 0$"),
            (dict(minutes=float("nan")), r"^minutes is nan; expected"),
            (dict(only=["x"]), r"^no experiment 'x'; there are a$"),
            (dict(only=["", ""]), r"^no experiment ''; there are a$"),
            (dict(commit="v1.0"), r"^--commit: commit is 'v1.0', expected 7 to 40 hexadecimal"),
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

    def test_a_damaged_record_is_named(self, named, tmp_path):
        named("a", done)
        RUN(tmp_path, "cpu", 1.0)
        (path,) = (tmp_path / "records").rglob("*.json")
        path.write_text("[]")
        with pytest.raises(ValueError, match=rf"^{path}: the document is \[\], expected"):
            RUN(tmp_path, "cpu", 1.0)


class TestTraining:
    """An entry of the registry, as `attempt` runs it."""

    @pytest.fixture
    def run(self, tmp_path):
        """`run(entry, seconds)` is the outcome, and what was said."""

        def run(entry, seconds=900.0, out=tmp_path, signalled=0):
            said, signals = [], Signals()
            signals.signal = signalled
            clock = Clock(1000.0, signals)
            found = attempt(
                Work(entry, 0), "cpu", seconds, clock, Folder(out), None, "", said.append
            )
            return found, said

        return run

    def test_to_the_end(self, run, miniature, tmp_path):
        found, _ = run(miniature)
        assert found.state == "done" and found.note.startswith("exact ")
        (record,) = records.find("copy-three", root=tmp_path / "records")
        assert record.recipe == "copy-three"
        assert record.command == "annotated record copy-three --seed 0"
        assert len(record.curve) == 20 and 0 <= record.value("exact") <= 1
        name = Path(record.filename).stem
        kept = Translator.load(tmp_path / "models" / "copy-three" / name)
        assert kept.notes["updates"] == 41 and kept.notes["seed"] == 0

    def test_time_up_leaves_a_tested_model_and_the_next_call_goes_on(
        self, run, miniature, tmp_path
    ):
        found, _ = run(miniature, 1e-9)
        assert found == (
            "unfinished", "1 of 41 updates; start again with the same --out to go on"
        )
        (record,) = records.find("copy-three-unfinished", root=tmp_path / "records")
        assert (record.value("updates"), record.value("updates_planned")) == (1, 41)
        assert missing([miniature], "cpu", tmp_path / "records") == [Work(miniature, 0)]
        found, said = run(miniature)
        assert found.state == "done" and "going on after 1 of 41 updates" in said
        for part in ("records", "models"):
            left = [path for path in (tmp_path / part).rglob("*") if path.is_file()]
            assert {path.relative_to(tmp_path / part).parts[0] for path in left} == {"copy-three"}
        assert missing([miniature], "cpu", tmp_path / "records") == []

    def test_in_two_parts_it_is_the_same_model(self, run, miniature, tmp_path):
        run(miniature, 1e-9)
        run(miniature)
        run(miniature, out=tmp_path / "whole")
        one, other = (
            Translator.load(next((out / "models" / "copy-three").iterdir())).model
            for out in (tmp_path, tmp_path / "whole")
        )
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)

    def test_after_a_signal_nothing_more_is_measured(self, run, miniature, tmp_path):
        found, _ = run(miniature, signalled=signal.SIGINT)
        assert found.state == "unfinished" and not (tmp_path / "records").exists()


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
    def out(self, tmp_path, monkeypatch):
        """A folder with translations that have no score yet; four words of each are right."""
        references = [
            ("a", ["Ein Hund läuft über die Wiese."]), ("b", ["Zwei Frauen sitzen auf der Bank."])
        ]
        monkeypatch.setattr(TextCorpus, "references", lambda self, split: references)
        monkeypatch.setattr(TextCorpus, "pairs", lambda self, split: [("a", "b")])
        made = a_record(
            Job("multi30k-en-de"), recipe="multi30k-en-de",
            metrics=records.as_metrics({"tested": 2}),
        )
        Folder(tmp_path).keep(Result(made, "", translations=self.ANSWERS))
        Folder(tmp_path).keep(Result(a_record(Job("step-base-float32")), ""))
        return tmp_path

    def test_both_scores_are_added_to_the_record(self, out):
        lines = score(out)
        (record,) = records.find("multi30k-en-de", root=out / "records")
        assert record.value("tested") == 2
        for name in ("bleu_13a", "bleu_literature"):
            assert 50 < record.value(name) < 100
        assert [line.split()[1] for line in lines] == ["bleu_13a", "chrf", "bleu_literature"]
        assert score(out) == lines

    def test_by_the_command(self, out, capsys):
        assert cli.reproduce_command(out, score_only=True) == 0
        said = capsys.readouterr().out
        assert "multi30k-en-de: bleu_literature" in said and "packed: " in said
        name = "records/multi30k-en-de/some-cpu-seed0.json"
        assert b"bleu_literature" in inside(out / reproduce.PACK)[name]

    def test_a_folder_without_records_is_named(self, tmp_path):
        with pytest.raises(ValueError, match=r"new holds no records to score$"):
            cli.reproduce_command(tmp_path / "new", score_only=True)
        assert not (tmp_path / "new").exists()

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

    @pytest.mark.weekly
    def test_a_minute_on_a_cpu_without_what_a_gpu_machine_lacks(self, tmp_path, poor_python):
        out, work = tmp_path / "out", tmp_path / "work"
        begun = time.monotonic()
        process = started(
            "sh", ROOT / "tools" / "gpu_run.sh", 1, out, "--device", "cpu", "--commit", "0123abcd",
            "--only", "numbers-en-de,copy,step-base-float32",
            PYTHON=str(poor_python), WORK=str(work),
        )
        said, _ = process.communicate(timeout=240)
        spent = time.monotonic() - begun
        assert process.returncode == 0, said
        assert spent < 150, f"{spent:.0f} s for a minute\n{said}"
        assert [path.name for path in out.iterdir()] == [reproduce.PACK]
        assert (out / reproduce.PACK).stat().st_size < reproduce.LIMIT
        found = inside(out / reproduce.PACK)
        ended = json.loads(found["summary.json"])["outcomes"]
        assert "ImportError" not in said and "failed" not in {e["state"] for e in ended.values()}
        assert "num2words" in ended["numbers-en-de-seed0"]["note"]
        kept = {name: data for name, data in found.items() if name.startswith("records/")}
        experiments = {name.split("/")[1] for name in kept}
        assert experiments
        for name in ("step-base-float32", "copy"):  # on a machine too busy for both, one says so
            note = ended[f"{name}-seed0"]
            busy = note["state"] == "skipped" and "are left" in note["note"]
            assert experiments & {name, f"{name}-unfinished"} or busy, said
        for name, data in kept.items():
            record = records.read(work / "run" / name)
            experiment = record.experiment.removesuffix("-unfinished")
            assert record.command == f"annotated record {experiment} --seed {record.seed}"
            assert record.commit == "0123abcd" and (work / "run" / name).read_bytes() == data

    def test_the_script_says_how_it_is_called(self):
        process = started("sh", ROOT / "tools" / "gpu_run.sh", 1)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 2 and said.startswith("usage: sh tools/gpu_run.sh MINUTES OUT")

    def test_killed_and_started_again(self, tmp_path):
        command = (
            sys.executable, "-c", LACKING + MINIATURE_ONLY, "--device", "cpu", "--minutes", 3,
            "--only", "copy", "--out", tmp_path,
        )
        process = started(*command)
        log = tmp_path / "runs" / "copy-seed0-cpu" / "log.jsonl"
        states = log.parent / "states"
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
        assert not (tmp_path / "records").exists()
        process = started(*command)
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said
        assert f"going on after {kept} of 307 updates" in said
        assert "copy-seed0: done:" in said
        steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
        assert steps == list(range(1, 308))
        (record,) = records.find("copy", root=tmp_path / "records")
        assert record.column("step")[-1] == 300
        process = started(*command)
        said, _ = process.communicate(timeout=100)
        assert process.returncode == 0 and "copy-seed0" not in said
        assert (tmp_path / reproduce.PACK).exists()
