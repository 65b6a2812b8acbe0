"""A run that was stopped, killed or damaged ends bit for bit as one that never was."""

import json
import os
import pickle
import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from annotated.model import Transformer, TransformerConfig
from annotated.recipes import Copying, Recipe, train
from annotated.training import Trainer, TrainingConfig
from annotated.training.states import MODEL, MOMENTS, InFolder

SIZES = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 1}
# States after 1, 3, 5 and 7 updates.
CONFIG = TrainingConfig(
    steps=7, batch_tokens=122, micro_batches=2, warmup_steps=5, factor=0.5, average=3,
    average_every=2,
)
RUN = {"recipe": "none", "seed": 5}


def corpus(count=53):
    rng = random.Random(0)
    sources = [[rng.randrange(3, 37) for _ in range(rng.randint(1, 11))] for _ in range(count)]
    return [(source, source[::-1]) for source in sources]


def trainer(folder, weights=0, config=CONFIG, run=RUN):
    """As a new process makes it. The weights it begins with must not matter when it resumes."""
    torch.manual_seed(weights)
    model = Transformer(TransformerConfig(**SIZES, dropout=0.3))
    return Trainer(model, config, seed=5, states=InFolder(folder, run))


def tree(folder):
    """Every file under a folder with its bytes."""
    folder = Path(folder)
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def values(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """Of a run that nothing stopped: updates, final weights, files."""
    folder, updates = tmp_path_factory.mktemp("never"), []
    whole = trainer(folder)
    assert whole.fit(corpus(), updates.append) is True
    return updates, values(whole.model), tree(folder)


def assert_ends_as(never, folder, updates):
    """Go on to the end in a new process's place, and compare with the run that nothing stopped.

    `updates` are those made before; what a stop undid may be made again, and must be the same.
    """
    last = trainer(folder, weights=1 if InFolder(folder, RUN).steps() else 0)
    done = {update.step: update for update in updates}
    assert last.fit(corpus(), lambda update: done.__setitem__(update.step, update)) is True
    assert [done[step] for step in range(1, 8)] == never[0]
    assert same(values(last.model), never[1])
    found = tree(folder)
    assert {name for name in never[2] if "00005.adam" not in name} <= found.keys()
    # A stop after update 6 left a state that the other run has not, and is newer than that of 5.
    others = {
        name for name in found.keys() - never[2].keys() if not name.startswith("step-00000006")
    }
    assert others == set()
    assert all(found[name] == data for name, data in never[2].items() if name in found)


class Killed(BaseException):
    """As KeyboardInterrupt, which would end pytest if it came out."""


class TestResume:
    @pytest.mark.parametrize("step", range(1, 7))
    def test_after_a_stop(self, never, tmp_path, step):
        first, updates = trainer(tmp_path), []
        assert first.fit(corpus(), updates.append, lambda: first.step == step) is False
        assert InFolder(tmp_path, RUN).steps()[-1] == step == len(updates)
        assert updates == never[0][:step]
        second = trainer(tmp_path, weights=1)
        second.resume()
        assert second.step == step and same(values(second.model), values(first.model))
        assert_ends_as(never, tmp_path, updates)

    def test_after_a_stop_at_every_update(self, never, tmp_path):
        updates, finished = [], False
        for weights in range(7):
            assert finished is False
            one = trainer(tmp_path, weights)
            finished = one.fit(corpus(), updates.append, lambda: True)
        assert finished is True and updates == never[0]
        assert_ends_as(never, tmp_path, updates)

    @pytest.mark.parametrize("step", range(1, 8))
    def test_after_an_end_without_a_state(self, never, tmp_path, step):
        """What came after the last state is made again, the same."""
        updates = []

        def after(update):
            updates.append(update)
            if update.step == step:
                raise Killed

        with pytest.raises(Killed):
            trainer(tmp_path).fit(corpus(), after)
        assert len(updates) == step
        assert InFolder(tmp_path, RUN).steps()[-1:] == [s for s in (1, 3, 5) if s < step][-1:]
        assert_ends_as(never, tmp_path, updates)

    def test_of_a_finished_run_is_its_mean_and_no_update(self, never, tmp_path):
        assert_ends_as(never, tmp_path, [])
        again, updates = trainer(tmp_path, weights=2), []
        assert again.fit(corpus(), updates.append) is True
        assert updates == [] and same(values(again.model), never[1])
        assert tree(tmp_path) == never[2]

    def test_a_trainer_that_is_further_on_does_not_go_back(self, tmp_path):
        one = trainer(tmp_path)
        one.fit(corpus(), stop=lambda: one.step == 3)
        batches = next(one.updates(corpus()))
        one.update(*batches)
        ahead = values(one.model)
        one.resume()
        assert one.step == 4 and same(values(one.model), ahead)

    def test_nothing_is_unpickled(self, never, tmp_path, monkeypatch):
        one = trainer(tmp_path)
        one.fit(corpus(), stop=lambda: one.step == 4)

        def refuse(*arguments, **named):
            raise AssertionError("a pickle")

        for owner, name in [
            (torch, "load"), (torch, "save"), (pickle, "load"), (pickle, "loads"), (pickle, "dump"),
            (pickle, "dumps"), (pickle, "Unpickler"), (pickle, "Pickler"),
        ]:
            monkeypatch.setattr(owner, name, refuse)
        assert_ends_as(never, tmp_path, never[0][:4])

    def test_a_checkpoint_to_average_that_is_damaged_is_named_and_costs_nothing(
        self, never, tmp_path
    ):
        assert_ends_as(never, tmp_path, [])
        path = tmp_path / "step-00000003.model.safetensors"
        good = path.read_bytes()
        path.write_bytes(good[:-1])
        late = trainer(tmp_path)
        with pytest.raises(ValueError, match=rf"{path}.*is truncated or damaged"):
            late.fit(corpus())
        path.write_bytes(good)
        assert late.fit(corpus()) is True and same(values(late.model), never[1])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)


class TestDamage:
    @pytest.mark.parametrize("ending", ["model.safetensors", "adam.safetensors", "json"])
    @pytest.mark.parametrize(
        "harm", [flip, lambda path: path.write_bytes(path.read_bytes()[:-2]), Path.unlink]
    )
    def test_it_is_refused_by_name_and_the_state_before_does(self, never, tmp_path, ending, harm):
        one, updates = trainer(tmp_path), []
        one.fit(corpus(), updates.append, lambda: one.step == 6)
        path = tmp_path / f"step-00000006.{ending}"
        if ending == "json":  # its blanks may change, its middle is a sum or the run
            data = path.read_bytes()
            path.write_bytes(data.strip() + b" " * (len(data) - len(data.strip())))
        harm(path)
        if ending == "json" and not path.exists():  # then there is no such state
            assert InFolder(tmp_path, RUN).steps() == [3, 5]
        else:
            two = trainer(tmp_path, weights=1)
            before = values(two.model)
            with pytest.raises(ValueError) as caught:
                two.fit(corpus())
            assert str(tmp_path / "step-00000006.") in str(caught.value)
            assert two.step == 0 and same(values(two.model), before)
        for left in tmp_path.glob("step-00000006.*"):
            left.unlink()
        assert_ends_as(never, tmp_path, updates)

    @pytest.mark.parametrize("change", [{"seed": 6}, {"recipe": "other"}])
    def test_a_state_of_another_run_is_refused(self, tmp_path, change):
        one = trainer(tmp_path)
        one.fit(corpus(), stop=lambda: one.step == 2)
        two = trainer(tmp_path, run=RUN | change)
        with pytest.raises(ValueError, match=rf"{tmp_path / 'step-00000002.json'} is of another"):
            two.fit(corpus())
        assert two.step == 0

    def test_so_is_one_of_another_version(self, tmp_path):
        one = trainer(tmp_path)
        one.fit(corpus(), stop=lambda: one.step == 2)
        path = tmp_path / "step-00000002.json"
        path.write_text(path.read_text().replace('"version": 1', '"version": 0'))
        with pytest.raises(
            ValueError, match=rf"^{path} has version 0; this package reads version 1"
        ):
            trainer(tmp_path).fit(corpus())

    def test_a_full_disk_ends_the_run_and_costs_what_came_after_the_last_state(
        self, never, tmp_path, monkeypatch
    ):
        calls, real, updates = [], os.fsync, []

        def fsync(handle):
            calls.append(handle)
            if len(calls) == 8:  # of the third state, the second file
                raise OSError(28, "No space left on device")
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match=r"step-00000005.adam.*No space left on device"):
                trainer(tmp_path).fit(corpus(), updates.append)
        assert len(updates) == 5 and InFolder(tmp_path, RUN).steps() == [1, 3]
        assert_ends_as(never, tmp_path, updates)


# A whole recipe: with the tokenizer, the log, and looks at the model on the way.
RECIPE = Recipe(
    "miniature", "three letters at most",
    Copying(count=101, longest=3),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1, dropout=0.3),
    replace(CONFIG, batch_tokens=62),
)


def log_of(folder):
    """The lines of a run's log without what a clock said."""
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for row in rows:
        assert row.pop("seconds") > 0 and row.pop("elapsed") > 0
    return rows


class TestRecipe:
    def test_stopped_and_resumed_it_leaves_the_files_of_one_that_was_not(self, tmp_path):
        whole, parts = tmp_path / "whole", tmp_path / "parts"
        one = train(RECIPE, 3, folder=whole)
        assert one.finished and [update.step for update in one.updates] == list(range(1, 8))
        runs, starts = [], []
        for stop in (2, 5, 9):
            steps = []
            runs.append(
                train(
                    RECIPE, 3, lambda update, translator, steps=steps: steps.append(update.step),
                    folder=parts, stop=lambda steps=steps, stop=stop: steps[-1] == stop,
                    start=lambda run, step: starts.append((len(run.updates), step)),
                )
            )
        assert [run.finished for run in runs] == [False, False, True]
        assert starts == [(0, 0), (2, 2), (5, 5)]
        assert runs[2].updates == one.updates and runs[2].watched == one.watched
        assert set(one.watched) == set(range(1, 8))
        assert same(*(values(run.translator.model) for run in (one, runs[2])))
        assert log_of(parts) == log_of(whole)
        ours, theirs = tree(parts), tree(whole)
        assert ours.pop("log.jsonl") and theirs.pop("log.jsonl")
        assert ours == theirs
        assert runs[0].seconds < runs[1].seconds < runs[2].seconds

    @pytest.mark.parametrize("cut", [b"", b'{"step": 6, "lo', b'{"step": 6, "loss"}\n'[:-1]])
    def test_of_its_log_only_the_lines_behind_the_state_count(self, tmp_path, cut):
        steps = []
        train(
            RECIPE, 3, lambda update, translator: steps.append(update.step), folder=tmp_path,
            stop=lambda: steps[-1] == 5,
        )
        expected = log_of(tmp_path)
        with open(tmp_path / "log.jsonl", "ab") as file:  # as a kill two updates later leaves it
            row = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)[-1]
            file.write(row.replace(b'"step": 5', b'"step": 6') + cut)
        run = train(RECIPE, 3, folder=tmp_path)
        rows = log_of(tmp_path)
        assert [row["step"] for row in rows] == list(range(1, 8)) and rows[:5] == expected
        assert [update.step for update in run.updates] == list(range(1, 8))

    def test_another_seed_or_setting_is_another_run(self, tmp_path):
        train(RECIPE, 3, folder=tmp_path, stop=lambda: True)
        before = tree(tmp_path)
        path = tmp_path / "states" / "step-00000001.json"
        other = replace(RECIPE, training=replace(RECIPE.training, factor=0.25))
        for recipe, seed, said in [
            (RECIPE, 4, "seed is 3 there, 4 here"),
            (other, 3, "training.factor is 0.5 there, 0.25 here"),
        ]:
            with pytest.raises(ValueError) as caught:
                train(recipe, seed, folder=tmp_path)
            assert str(caught.value) == f"{path} is of another run: {said}"
            assert tree(tmp_path) == before


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What ten SIGKILLs left: where they fell, the runs they hit, and one that none did."""
    base = tmp_path_factory.mktemp("killed")
    seed = 1 if os.environ.get("CI") == "true" else int(time.time())
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("running.py"), "kill", base, str(seed), "10"],
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout) | {"seed": seed}
    return found, base / "never", [base / str(n) for n in range(found["folders"])]


class TestKill:
    """Property 7 of the design, by SIGKILL."""

    def test_they_fell_ten_times_by_the_clock_and_within_writes(self, killed):
        points = killed[0]["points"]
        assert len(points) == 10
        assert points.count("by the clock") == 4
        writes = {"half a file"} | {f"{when} {what}" for when in ("before", "after")
                                    for what in ("fsync", "replace", "unlink")}
        assert sum(point in writes for point in points) >= 2, killed[0]

    def test_states_and_mean_are_those_of_the_run_that_was_not_killed(self, killed):
        found, never, folders = killed
        expected = tree(never)
        assert expected.pop("log.jsonl")
        assert sorted(name for name in expected if "adam" in name) == [
            "states/step-00000010.adam.safetensors", "states/step-00000013.adam.safetensors"
        ]
        assert "mean.safetensors" in expected
        for folder in folders:
            ours = tree(folder)
            assert ours.pop("log.jsonl")
            for name in [name for name in ours if name.startswith(".")]:
                # What write_atomically had begun in the run's own folder; none among the states.
                if name == ".lock":
                    continue
                assert re.fullmatch(r"\.(task|tokenizer|log)\.jsonl?\.\w+\.part", name)
                del ours[name]
            assert ours == expected, found

    def test_the_log_has_every_update_once(self, killed):
        found, never, folders = killed
        expected = log_of(never)
        assert [row["step"] for row in expected] == list(range(1, 14))
        assert all({"loss", "norm", "rate", "tokens", "watched"} <= row.keys() for row in expected)
        for folder in folders:
            assert log_of(folder) == expected, found

    def test_moments_are_kept_for_the_newest_states(self, killed):
        states = InFolder(killed[2][0] / "states", {}, writes=False)
        assert states.steps() == [7, 10, 13]
        for step, part, kept in [(7, MODEL, True), (7, MOMENTS, False), (10, MOMENTS, True)]:
            assert states.path(step, part).exists() is kept
