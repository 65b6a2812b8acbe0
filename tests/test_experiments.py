"""The registry has every recorded experiment, and each can be made."""

import ast
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

import pytest

from annotated import cli, records
from annotated.data import numbers
from annotated.experiments import (
    EXPERIMENTS,
    Measurement,
    Training,
    experiment_named,
    listing,
    results_folder,
)
from annotated.jobs import Job, Unavailable
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import RECIPES, settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "book").glob("*.ipynb"))
TRAININGS = [e for e in EXPERIMENTS.values() if isinstance(e, Training)]
NUMBERS = [e.name for e in TRAININGS if e.recipe.startswith("numbers-")]


def named_on(page: Path) -> list[list[str]]:
    """For each text in the page's code, the experiments that it can be the name of.

    A text with {…} in it can be many; of these at least one is read.
    """
    found = []
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if "%pip" in source:  # the first cell, no Python
            continue
        for node in ast.walk(ast.parse(source)):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            if all(isinstance(p, ast.FormattedValue) or isinstance(p, ast.Constant) for p in parts):
                pattern = "".join(
                    re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts
                )
                whole = re.compile(pattern if re.search("[a-z]", pattern) else "-")
                found.append([name for name in EXPERIMENTS if whole.fullmatch(name)])
    return [names for names in found if names]


class TestRegistry:
    def test_every_folder_of_results_is_of_an_experiment(self):
        folders = {folder.name for folder in results_folder().iterdir() if folder.is_dir()}
        assert folders and folders <= set(EXPERIMENTS)

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
    def test_every_experiment_that_a_page_reads_names_the_page(self, page):
        reads = "records.find(" in page.read_text(encoding="utf-8")
        groups = named_on(page) if reads else []
        assert bool(groups) == reads
        for names in groups:
            naming = [name for name in names if page.stem in EXPERIMENTS[name].pages]
            recipe = len(names) == 1 and names[0] in RECIPES
            assert naming or recipe, f"{names} are read, but {page.stem} is not among their pages"
        there = {name for names in groups for name in names}
        wanting = {e.name for e in EXPERIMENTS.values() if page.stem in e.pages}
        assert wanting <= there, "a page that an experiment names does not read it"

    def test_the_pages_that_are_named_are_there(self):
        named = {page for experiment in EXPERIMENTS.values() for page in experiment.pages}
        assert named <= {page.stem for page in PAGES}

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_what_an_entry_names_is_there(self, name):
        entry = EXPERIMENTS[name]
        records.check(name, "experiment", name)
        assert entry.seeds >= 1 and set(entry.least) <= {"cpu", "cuda"} and entry.least
        if isinstance(entry, Measurement):
            assert callable(resolve_name(entry.function))
            assert entry.arguments.get("recipe", "copy") in RECIPES
            return
        assert issubclass(resolve_name(entry.model), Transformer)
        for function in filter(None, (entry.column, entry.film, entry.measures)):
            assert callable(resolve_name(function))
        before, after = settings(RECIPES[entry.recipe]), settings(entry.resolve())
        changed = {key for key in before if before[key] != after[key]}
        named = {change.partition("=")[0] for change in entry.changes}
        assert changed <= named and len(named) == len(entry.changes)

    def test_no_two_are_the_same(self):
        kinds = [(e.resolve(), e.model, e.column, e.measures) for e in TRAININGS]
        assert all(kinds.count(kind) == 1 for kind in kinds)

    @pytest.mark.parametrize("kind", ["control", "ablation"])
    def test_four_ways_to_begin_differ_in_warm_up_and_norms_alone(self, kind):
        names = ("none", "no-warmup", "pre-norm", "pre-norm-no-warmup")
        made = [EXPERIMENTS[f"{kind}-{name}"].resolve() for name in names]
        assert [m.training.steps for m in made] == [600] * 4
        assert [m.training.warmup for m in made] == [True, False, True, False]
        assert [m.model.norm for m in made] == ["post", "post", "pre", "pre"]

    def test_a_control_changes_the_model_or_a_setting(self):
        for entry in TRAININGS:
            assert entry.model == Training.model or not entry.changes
            assert entry.without == "nothing" or entry.name.startswith("control-")

    def test_an_unknown_one_is_answered_with_those_there_are(self):
        with pytest.raises(ValueError, match="^no experiment 'steps'; there are step-base-float32"):
            experiment_named("steps")

    def test_the_list_needs_no_torch(self):
        script = (
            "import sys; from annotated import experiments; experiments.listing()\n"
            "print(len(experiments.EXPERIMENTS), 'torch' in sys.modules)"
        )
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == [str(len(EXPERIMENTS)), "False"]


class TestMissing:
    def test_nothing_that_a_page_reads_is_missing_in_the_package(self):
        wanting = {e.name: e.missing("cpu") for e in EXPERIMENTS.values() if e.pages}
        assert not any(wanting.values())

    def test_seeds_without_a_record_of_that_kind_of_device(self, tmp_path):
        entry = EXPERIMENTS["numbers-en-de"]
        assert entry.missing("cpu", tmp_path) == entry.missing("cuda", tmp_path) == [0, 1, 2]
        (made,) = records.find("numbers-en-de", seed=1)
        records.write(made, tmp_path)
        assert entry.missing("cpu", tmp_path) == [0, 2]
        assert entry.missing("cuda", tmp_path) == [0, 1, 2]
        assert EXPERIMENTS["attention-additive"].missing("cuda", tmp_path) == []

    def test_the_list_says_what_is_there_and_what_is_not(self, tmp_path):
        (made,) = records.find("numbers-en-de", seed=1)
        records.write(made, tmp_path)
        rows = {tuple(line.split()[:2]): line for line in listing(tmp_path)}
        assert len(rows) == 1 + sum(len(e.least) for e in EXPERIMENTS.values())
        assert rows["numbers-en-de", "AMD"].split()[3:] == [
            "1", "0", "2", "05-2-hardware-and-schedule",
        ]
        assert rows["attention-additive", "cpu"].split() == [
            "attention-additive", "cpu", "-", "0", "03-2-study-additive-attention",
        ]

    def test_a_damaged_record_is_not_taken_for_a_missing_one(self, tmp_path):
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "x-seed0.json").write_text("{")
        with pytest.raises(ValueError, match="not a JSON document"):
            EXPERIMENTS["copy"].missing("cpu", tmp_path)


class TestJob:
    def test_its_command_makes_it_again(self):
        assert Job("copy", 3).command == "annotated record copy --seed 3"
        assert Job("copy", 0, "cuda").command == "annotated record copy --seed 0 --device cuda"

    def test_it_has_all_the_time_there_is(self):
        assert Job("copy").left() == math.inf and not Job("copy").interrupted()


@pytest.fixture(scope="module")
def tokenizer():
    """One for all, whichever numbers a training leaves out."""
    return RECIPES["numbers-en-de"].task.tokenizer()


@pytest.fixture
def miniature(monkeypatch, tokenizer):
    """`miniature(name)` is that training with little of everything."""

    def shrink(name: str) -> Training:
        entry = EXPERIMENTS[name]
        whole = RECIPES[entry.recipe]
        training = replace(
            whole.training, steps=3, warmup_steps=2, batch_tokens=211, average=2, average_every=1
        )
        model = TransformerConfig.tiny(
            d_model=22, d_ff=29, heads=2, layers=1, dropout=whole.model.dropout
        )
        task = replace(whole.task, count=199, tested=7, watched=2, longer=3)
        recipe = replace(whole, task=task, model=model, training=training)
        monkeypatch.setitem(RECIPES, entry.recipe, recipe)
        monkeypatch.setattr("annotated.variations.controls.same_bag", lambda: [(204, 402)])
        monkeypatch.setattr("annotated.variations.sizes.SENTENCES", 7)
        monkeypatch.setattr(type(task), "tokenizer", lambda self: tokenizer)
        large = ("training.steps=", "task.count=")
        return replace(entry, changes=tuple(c for c in entry.changes if not c.startswith(large)))

    return shrink


class TestTraining:
    @pytest.mark.parametrize("name", NUMBERS)
    def test_each_of_the_numbers_can_be_made(self, name, miniature, tmp_path):
        entry, told = miniature(name), []
        result = entry.make(Job(name, 3, say=told.append))
        record = result.record
        assert records.read(records.write(record, tmp_path)) == record
        assert result.finished and result.note in told
        assert (record.experiment, record.recipe, record.seed) == (name, entry.recipe, 3)
        assert record.command == f"annotated record {name} --seed 3"
        assert record.column("step") == [1, 2, 3]
        assert record.value("tested") == 7 and 0 <= record.value("exact") <= 1
        for shipped in records.find(name)[:1]:  # its shape is that of the records that are there
            assert set(record.metrics) >= set(shipped.metrics)
            assert {t: set(rows[0]) for t, rows in record.tables.items()} == {
                t: set(rows[0]) for t, rows in shipped.tables.items()
            }

    def test_a_column_of_the_curve_is_what_its_function_gives(self, miniature):
        first, second = (
            miniature(name).make(Job(name)).record for name in ("ablation-none", "control-none")
        )
        assert all(0 <= x <= 1.0001 for x in first.column("memory_cosine"))
        assert all(0 <= x <= 1 for x in second.column("token_accuracy"))
        assert len(set(second.column("token_accuracy"))) > 1

    def test_a_film_is_more_columns_of_the_curve(self, miniature):
        curve = miniature("numbers-en-de").make(Job("numbers-en-de")).record.curve
        assert all(isinstance(row["says"], str) for row in curve)
        assert all(0 <= row[f"exact_{digits}"] <= 1 for row in curve for digits in range(2, 7))

    def test_it_is_trained_as_it_is_named(self, miniature):
        losses = {
            name: tuple(miniature(name).make(Job(name)).record.column("loss"))
            for name in ("control-none", "control-no-scale", "control-pre-norm")
        }
        assert len(set(losses.values())) == 3
        again = miniature("control-none").make(Job("control-none")).record
        assert tuple(again.column("loss")) == losses["control-none"]

    def test_with_another_model_nothing_is_left_of_an_unfinished_run(self, miniature, tmp_path):
        job = Job("control-no-scale", folder=tmp_path / "states", left=lambda: 0.0)
        result = miniature("control-no-scale").make(job)
        assert (result.record, result.finished) == (None, False)
        assert result.note == "1 of 3 updates" and not (tmp_path / "states").exists()

    def test_files_that_are_missing_are_said_before_training(self, tmp_path, monkeypatch):
        monkeypatch.delenv("ANNOTATED_DATA", raising=False)
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(Unavailable, match="multi30k/train.en is in no data folder"):
            EXPERIMENTS["multi30k-en-de"].make(Job("multi30k-en-de", data_dir=tmp_path))

    def test_so_is_a_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "num2words", None)
        for spelled in (numbers._words, numbers._tail):  # by tests before this one
            spelled.cache_clear()
        with pytest.raises(Unavailable, match="num2words"):
            EXPERIMENTS["numbers-en-de"].make(Job("numbers-en-de"))


class TestCommand:
    """`annotated record`, as one calls it."""

    def test_without_a_name_it_lists(self, capsys):
        cli.record_command()
        assert capsys.readouterr().out.splitlines() == listing()

    def test_it_writes_the_record(self, miniature, monkeypatch, tmp_path, capsys):
        entry = miniature("numbers-en-fr")
        monkeypatch.setitem(EXPERIMENTS, entry.name, entry)
        cli.record_command("numbers-en-fr", seed=5, out=tmp_path)
        (made,) = records.find("numbers-en-fr", root=tmp_path)
        assert (made.seed, made.kind) == (5, "cpu")
        path = tmp_path / made.experiment / made.filename
        assert capsys.readouterr().out.splitlines()[-1] == f"record: {path}"

    @pytest.mark.parametrize(("given", "said"), [
        (("steps",), "^no experiment 'steps'; there are step-base-float32"),
        (("step-base-float32", 0, None, "cuda"), "cuda"),
        (("step-base-bfloat16", 0, None, "cpu"), "^step-base-bfloat16 is recorded on cuda, not "),
    ])
    def test_what_can_not_be_meant_is_refused_before_anything(self, given, said, tmp_path):
        name, *more = given
        with pytest.raises(ValueError, match=said):
            cli.record_command(name, *(more[:1] or [0]), tmp_path / "new", *more[2:])
        assert not (tmp_path / "new").exists()


class TestFolder:
    def test_a_clone_keeps_records_in_the_package(self):
        assert results_folder() == ROOT / "src" / "annotated" / "results"

    def test_elsewhere_they_go_into_a_folder_here(self, monkeypatch, tmp_path):
        monkeypatch.setattr(records, "__file__", str(tmp_path / "site-packages" / "records.py"))
        assert results_folder() == Path("results")
