"""The commands as readers and scripts meet them: words out, errors in one line, exit status."""

import io
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import entry_points
from importlib.resources import files

import pytest
import torch

import annotated
from annotated import cli, commands, records
from annotated.benchmark import step as benchmark_step
from annotated.data import numbers
from annotated.experiments import EXPERIMENTS, Measurement
from annotated.files import exclusive
from annotated.recipes import (
    RECIPES,
    Copying,
    Run,
    as_document,
    exact,
    from_document,
    override,
    recipe_named,
    settings,
)
from annotated.signals import Stop
from annotated.translation import Translator
from annotated.translation.checkpoints import load_checkpoint, save_checkpoint


@pytest.fixture
def command(monkeypatch, capsys):
    """command("translate", "two") runs main in this process: (status, stdout, stderr)."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["annotated", *map(str, arguments)])
        text = io.BytesIO(stdin if isinstance(stdin, bytes) else stdin.encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text, encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def tiny(monkeypatch, letters):
    """A recipe of two seconds, and tests on few sentences."""
    monkeypatch.setitem(RECIPES, "tiny", letters("tiny", steps=21))


VERBS = ("train", "evaluate", "translate", "recipes", "record", "reproduce")
ARGUMENTS = ("train", "--recipe", "tiny", "--seed", "3")


def log_of(folder):
    """The finished lines of a run's log."""
    path = folder / "log.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def weights_in(folder):
    return (folder / "model.safetensors").read_bytes()


def send_at(patch, step, *numbers):
    """Signals arrive while that update is made known."""
    real = commands.Progress.__call__

    def send(self, update, translator):
        real(self, update, translator)
        if update.step == step:
            for number in numbers:
                signal.raise_signal(number)

    patch.setattr(commands.Progress, "__call__", send)


def assert_refused(result, *words, status=2):
    """Nothing on stdout; on stderr one line that has these words."""
    code, out, err = result
    assert code == status and out == ""
    assert re.fullmatch(r"annotated: [^\n]+\n", err), err
    assert all(word in err for word in words), err


def shell(*arguments, code=None, **options):
    """A process of its own: (status, stdout, stderr)."""
    start = ["-c", code] if code else ["-m", "annotated"]
    # As a user has it, whatever this process was started with.
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        capture_output=True, text=True, encoding="utf-8", timeout=300, **options,
    )
    return done.returncode, done.stdout, done.stderr


class TestTranslate:
    def test_one_sentence(self, command):
        assert command("translate", "two hundred and four") == (0, "zweihundertvier\n", "")

    def test_several_come_one_a_line_in_order(self, command):
        asked = ["four hundred and two", "forty-two", "two hundred and four"]
        status, out, err = command("translate", *asked)
        assert (status, err) == (0, "")
        assert out.splitlines() == ["vierhundertzwei", "zweiundvierzig", "zweihundertvier"]

    @pytest.mark.parametrize("end", ["\n", ""])
    def test_lines_of_stdin(self, command, end):
        given = "forty-two\nthree hundred and forty-two" + end
        expected = "zweiundvierzig\ndreihundertzweiundvierzig\n"
        assert command("translate", stdin=given) == (0, expected, "")

    def test_an_empty_stdin_is_no_sentence(self, command):
        assert command("translate") == (0, "", "")

    @pytest.mark.parametrize("empty", ["", " ", "\t\n"])
    def test_an_empty_sentence_stays_one(self, command, empty):
        result = command("translate", "forty-two", empty, "two")
        assert result == (0, "zweiundvierzig\n\nzwei\n", "")

    @pytest.mark.parametrize("empty", ["", " ", "\r"])
    def test_an_empty_line_stays_one(self, command, empty):
        result = command("translate", stdin=f"forty-two\n{empty}\ntwo\n")
        assert result == (0, "zweiundvierzig\n\nzwei\n", "")

    def test_a_line_that_is_not_utf_8_is_named_and_those_before_it_are_translated(self, command):
        status, out, err = command("translate", stdin=b"forty-two\ntwo\ntwo\xff\nfive\n")
        assert (status, out) == (2, "zweiundvierzig\nzwei\n")
        assert err == "annotated: line 3 of stdin is not UTF-8: invalid start byte\n"

    @pytest.mark.parametrize("end", ["\n", ""])
    def test_an_endless_line_is_named_and_those_before_it_are_translated(self, command, end):
        status, out, err = command("translate", stdin="forty-two\n" + 3_000_000 * "a" + end)
        assert (status, out) == (2, "zweiundvierzig\n")
        assert re.fullmatch(r"annotated: line 2 of stdin goes on for over \d+ bytes\n", err)

    def test_a_long_line_and_odd_characters_have_a_translation(self, command):
        odd = ["two\0three", "\u202etwo", "🙂" * 9, "two\x1b[0m", "two\u2028three", "\r"]
        lines = ["forty-two. " * 909, *odd, "two"]
        status, out, err = command("translate", stdin="\n".join(lines).encode())
        assert (status, err) == (0, "")
        said = out.split("\n")
        assert len(said) == len(lines) + 1 and said[-2:] == ["zwei", ""] and said[6] == ""

    def test_ten_thousand_lines_stream_in_bounded_memory(self, monkeypatch, capsys):
        """Never more is held than a block of stdin, and each block is out before the next."""
        asked, said_before = [], []

        class Quick(Translator):
            def translate(self, sentences, **options):
                said_before.append(capsys.readouterr().out.count("\n"))
                asked.append(len(sentences))
                return [sentence.upper() for sentence in sentences]

        made = Translator.load("numbers-en-de")
        monkeypatch.setattr(
            Translator, "load", lambda name: Quick(made.model, made.tokenizer, made.notes)
        )
        text = "".join(f"line {number} {'word ' * (number % 13)}\n" for number in range(10_000))
        monkeypatch.setattr(sys, "argv", ["annotated", "translate"])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code and sum(asked) == 10_000
        assert len(asked) > 4 and max(asked) * 35 < 3 * cli.BLOCK
        assert said_before == [0, *asked[:-1]]
        assert capsys.readouterr().out.splitlines()[-1].startswith("LINE 9999 ")

    def test_a_beam_and_several_translations(self, command):
        assert command("translate", "--beam", 4, "forty-two") == (0, "zweiundvierzig\n", "")
        result = command("translate", "--beam", 4, "--alpha", 0, "--n-best", 2, "two", "", "three")
        status, out, err = result
        assert (status, err) == (0, "")
        rows = [line.split("\t") for line in out.splitlines()]
        assert [row[0] for row in rows] == ["1", "1", "3", "3"]
        assert (rows[0][2], rows[2][2]) == ("zwei", "drei")
        assert 0 >= float(rows[0][1]) > float(rows[1][1])
        several = command("translate", "--beam", 2, "--n-best", 2, stdin="two\n\nthree\n")
        assert [line.split("\t")[0] for line in several[1].splitlines()] == ["1", "1", "3", "3"]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--n-best", 3], "n_best is 3; expected 1 to beam, 1"),
            (["--beam", 421], "beam is 421; expected at most 420 words"),
            (["--beam", 0], "--beam"), (["--alpha", -1], "--alpha"), (["--n-best", 0], "--n-best"),
        ],
    )
    def test_a_search_that_can_not_be_is_refused(self, command, options, words):
        assert_refused(command("translate", *options, "two"), words)

    def test_a_translation_comes_before_the_input_ends(self):
        process = subprocess.Popen(
            [sys.executable, "-m", "annotated", "translate"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        try:
            for asked, expected in ((b"forty-two\n", b"zweiundvierzig\n"), (b"two\n", b"zwei\n")):
                process.stdin.write(asked)
                process.stdin.flush()
                assert process.stdout.readline() == expected
            assert process.communicate(b"five")[0] == "fünf\n".encode()
        finally:
            process.kill()
        assert process.returncode == 0

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
    def test_a_terminal_gets_a_prompt(self):
        import pty

        here, there = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "annotated", "translate"],
            stdin=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        os.write(here, b"forty-two\n\x04")
        out, err = process.communicate(timeout=60)
        os.close(here)
        os.close(there)
        assert out == b"zweiundvierzig\n"
        assert err.startswith(b"One sentence per line") and err.count(b"> ") == 2

    def test_a_sentence_that_is_no_number_is_translated_somehow(self, command):
        status, out, err = command("translate", "Straße 🙂 \x00 " + "word " * 20)
        assert (status, err) == (0, "") and out.endswith("\n")

    def test_what_is_no_text_is_refused(self, command):
        """A byte of an argument that is not UTF-8 arrives as a lone surrogate."""
        assert_refused(command("translate", "forty\udcff"), "lone surrogate")

    def test_a_model_may_be_a_folder(self, command, tmp_path):
        shutil.copytree(files("annotated") / "weights" / "numbers-en-de", tmp_path / "mine")
        result = command("translate", "--model", tmp_path / "mine", "forty-two")
        assert result == (0, "zweiundvierzig\n", "")


class TestBadInput:
    """What typer itself complains of is in its words, which differ by version; the rest is ours."""

    @pytest.mark.parametrize("verb", ["translate", "evaluate"])
    def test_a_model_that_is_not_there(self, command, verb, tmp_path):
        sentence = ["forty-two"] if verb == "translate" else []
        for model in ("numbers-en-it", tmp_path / "nowhere"):
            result = command(verb, "--model", model, *sentence)
            assert_refused(result, f"no model '{model}'", "neither a folder nor a shipped model")
            assert "(numbers-en-de" in result[2]
        result = command(verb, "--model", tmp_path, *sentence)
        assert_refused(result, f"no checkpoint in {tmp_path}: config.json is missing")

    @pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
    @pytest.mark.parametrize("verb", ["translate", "evaluate"])
    def test_a_checkpoint_that_is_truncated(self, command, verb, name, tmp_path):
        folder = tmp_path / "cut"
        shutil.copytree(files("annotated") / "weights" / "numbers-en-de", folder)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
        sentence = ["forty-two"] if verb == "translate" else []
        assert_refused(command(verb, "--model", folder, *sentence), str(folder / name), "damaged")

    def test_a_checkpoint_without_a_recipe_can_translate_but_not_be_evaluated(
        self, command, tmp_path
    ):
        translator = Translator.load("numbers-en-de")
        save_checkpoint(tmp_path, translator.model, translator.tokenizer)
        assert command("translate", "--model", tmp_path, "forty-two")[:2] == (0, "zweiundvierzig\n")
        result = command("evaluate", "--model", tmp_path)
        assert_refused(result, f"the recipe in {tmp_path}", "task.kind is None")

    def test_a_recipe_that_is_not_there(self, command, tmp_path):
        result = command("train", "--recipe", "numbers-en-it", "--out", tmp_path / "out")
        assert_refused(result, "no recipe 'numbers-en-it'; there are", *RECIPES)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("option", "words"),
        [
            (["--seed", "-1"], ["--seed", "0"]),
            (["--seed", str(2**32)], ["--seed", "4294967295"]),
            (["--seed", "one"], ["--seed", "integer"]),
            (["--sed", "1"], ["--sed", "--seed"]),
            (["--seed"], ["--seed", "argument"]),
            (["more"], ["more"]),
        ],
    )
    def test_a_wrong_option(self, command, tiny, option, words, tmp_path):
        out = tmp_path / "out"
        assert_refused(command("train", "--recipe", "tiny", "--out", out, *option), *words)
        assert not out.exists()

    def test_no_recipe_at_all(self, command):
        assert_refused(command("train"), "--recipe")

    def test_a_command_that_is_not_there(self, command):
        assert_refused(command("translat"), "No such command 'translat'")

    @pytest.mark.parametrize("option", ["--out", "--record"])
    def test_a_file_where_a_folder_should_be_is_refused_before_training(
        self, command, tiny, option, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(commands, "train", lambda *_: pytest.fail("trained for nothing"))
        (tmp_path / "taken").write_text("mine")
        result = command("train", "--recipe", "tiny", option, tmp_path / "taken")
        assert_refused(result, option, str(tmp_path / "taken"), "is a file")
        assert (tmp_path / "taken").read_text() == "mine"

    def test_a_folder_inside_a_file(self, command, tiny, tmp_path):
        (tmp_path / "taken").write_text("mine")
        result = command("train", "--recipe", "tiny", "--out", tmp_path / "taken" / "in")
        assert_refused(result, str(tmp_path / "taken"))

    def test_our_own_faults_are_not_hidden(self, command, monkeypatch):
        """A traceback is what a maintainer needs of them."""
        monkeypatch.setattr("annotated.recipes.RECIPES", {"x": None})
        with pytest.raises(AttributeError):
            command("recipes")


class TestHelp:
    @pytest.mark.parametrize("arguments", [[], ["--help"]])
    def test_nothing_and_help_show_the_commands(self, command, arguments):
        status, out, err = command(*arguments)
        assert (status, err) == (0, "")
        assert all(verb in out for verb in ("train", "evaluate", "translate", "recipes"))

    @pytest.mark.parametrize(
        ("verb", "options"),
        [
            (
                "train",
                ["--recipe", "--out", "--seed", "--set", "--resume", "--device", "--data-dir",
                 "--float16", "--record", "--name", "--quiet"],
            ),
            (
                "evaluate",
                ["--model", "--corpus", "--split", "--beam", "--alpha", "--device", "--data-dir",
                 "--out", "--name", "--quiet"],
            ),
            ("translate", ["--model", "--beam", "--alpha", "--n-best", "sentences"]),
            ("recipes", []),
        ],
    )
    def test_of_a_command(self, command, verb, options):
        status, out, err = command(verb, "--help")
        assert (status, err) == (0, "") and "Usage" in out
        assert all(option.lower() in out.lower() for option in options)

    def test_recipes_are_listed_with_what_they_are(self, command):
        status, out, err = command("recipes")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert len(lines) == len(RECIPES)
        for line, recipe in zip(lines, RECIPES.values(), strict=True):
            assert line.split()[0] == recipe.name and line.endswith(recipe.about)

    @pytest.mark.parametrize("name", RECIPES)
    def test_all_settings_of_one_are_listed_one_a_line(self, command, name):
        status, out, err = command("recipes", name)
        assert (status, err) == (0, "")
        found = settings(RECIPES[name])
        for line, (setting, value) in zip(out.splitlines(), found.items(), strict=True):
            assert line.startswith(f"{setting}={value}") and len(line) <= 120
            assert len(line.split("  ")[-1]) > 3 , "each is explained"

    def test_a_recipe_that_is_not_there_has_none(self, command):
        assert_refused(command("recipes", "numbers"), "no recipe 'numbers'", *RECIPES)


class TestEvaluate:
    @pytest.fixture
    def fifty_three(self, tmp_path):
        """The shipped model, to be tested on fewer sentences than its recipe has."""
        made = Translator.load("numbers-en-de")
        recipe = override(recipe_named("numbers-en-de"), ["task.tested=53"])
        save_checkpoint(tmp_path, made.model, made.tokenizer, recipe=as_document(recipe), seed=0)
        return tmp_path

    def test_words_and_json_say_the_same(self, command, fifty_three):
        status, out, err = command("evaluate", "--model", fifty_three)
        assert (status, err) == (0, "")
        lines = out.splitlines()
        said = {line.split()[0]: float(line.split()[1]) for line in lines[:3]}
        assert said["tested"] == 53 and said["exact"] >= 52 / 53 - 1e-5
        status, out, err = command("evaluate", "--model", fifty_three, "--quiet")
        assert (status, err) == (0, "")
        (line,) = out.splitlines()
        found = json.loads(line)
        assert set(found) == {
            "model", "recipe", "beam", "alpha", "metrics", "tables", "notes"
        }
        rows = found["tables"]["exact_by_digits"]
        assert [row["digits"] for row in rows] == sorted(row["digits"] for row in rows)
        assert len(rows) == len(lines) - 3 >= 5 and all(0 <= row["exact"] <= 1 for row in rows)
        assert (found["model"], found["recipe"]) == (str(fifty_three), "numbers-en-de")
        values = {name: metric["value"] for name, metric in found["metrics"].items()}
        assert said == pytest.approx(values, rel=1e-5) and 1 < values["perplexity"] < 1.3

    def test_a_checkpoint_is_tested_as_its_own_recipe_says_not_as_todays_table(
        self, command, fifty_three, monkeypatch
    ):
        whole = command("evaluate", "--model", fifty_three, "--quiet")
        monkeypatch.setitem(RECIPES, "numbers-en-de", override(RECIPES["copy"], []))
        assert command("evaluate", "--model", fifty_three, "--quiet") == whole
        monkeypatch.delitem(RECIPES, "numbers-en-de")
        assert command("evaluate", "--model", fifty_three, "--quiet") == whole

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"kind": "poems"}, ["task.kind is 'poems'"]),
            ({"tested": 10**9}, ["tested is 1000000000"]), ({"tested": "53"}, ["task.tested"]),
            ({"thousands": [-1]}, ["thousands is (-1,)"]), ({"longest": 7}, ["'task.longest'"]),
        ],
    )
    def test_a_recipe_that_can_not_be_is_refused_by_field(
        self, command, fifty_three, change, words
    ):
        made = Translator.load(fifty_three)
        recipe = made.notes["recipe"] | {"task": made.notes["recipe"]["task"] | change}
        save_checkpoint(fifty_three, made.model, made.tokenizer, recipe=recipe)
        result = command("evaluate", "--model", fifty_three)
        assert_refused(result, f"the recipe in {fifty_three}", *words)


class TestTrain:
    def test_quiet_is_exactly_one_json_document(self, command, tiny, tmp_path):
        out = tmp_path / "new" / "out"
        status, said, err = command(
            "train", "--recipe", "tiny", "--seed", 3, "--out", out, "--quiet",
            "--record", tmp_path / "records",
        )
        assert (status, err) == (0, "")
        (line,) = said.splitlines()
        found = json.loads(line)
        assert (found["recipe"], found["seed"], found["out"]) == ("tiny", 3, str(out))
        assert found["metrics"]["tested"] == {"value": 23}
        assert set(found["metrics"]) == {"exact", "tested", "perplexity"}
        assert {row["letters"] for row in found["tables"]["exact_by_letters"]} <= {1, 2, 3}
        # The model that was kept is the one that was tested.
        model, _, notes = load_checkpoint(out)
        assert notes == {"recipe": as_document(RECIPES["tiny"]), "seed": 3}
        assert model.config.d_model == 22
        again = json.loads(command("evaluate", "--model", out, "--quiet")[1])
        assert again["metrics"] == found["metrics"]
        (path,) = (tmp_path / "records").rglob("*.json")
        record = records.read(path)
        assert record.command == "annotated train --recipe tiny --seed 3"
        assert record.column("step") == list(range(1, 22))
        assert record.value("exact") == found["metrics"]["exact"]["value"]
        rows = log_of(out)
        assert [row["step"] for row in rows] == list(range(1, 22))
        assert set(rows[0]) == {
            "step", "loss", "rate", "norm", "tokens", "seconds", "elapsed", "watched",
        }
        assert found["seconds"] >= round(rows[-1]["elapsed"], 1) > 0

    def test_a_reader_sees_a_bar_and_lines_they_understand(self, command, tiny, tmp_path):
        status, out, err = command("train", "--recipe", "tiny", "--out", tmp_path)
        assert status == 0
        lines = out.splitlines()
        assert lines[0] == f"tiny: three letters at most; 21 updates. Model: {tmp_path}"
        padding = r"(\d+\.\d)% of the places in the first epoch's batches are padding"
        assert 0 < float(re.fullmatch(padding, lines[1])[1]) < 50
        watched = [re.fullmatch(r"after (\d+) updates: accuracy (0|1|0\.\d+)", line)
                   for line in lines[2:7]]
        assert [int(match[1]) for match in watched] == [4, 8, 12, 16, 20]
        assert re.fullmatch(r"trained in \d+\.\d s", lines[7])
        assert re.fullmatch(r"exact +(0|1|0\.\d+)", lines[8]) and lines[9].split()[1] == "23"
        assert re.fullmatch(r"perplexity +\d+\.\d+", lines[10])
        row = r"exact_by_letters: letters [123], exact [01]\S*"
        assert lines[11:] and all(re.fullmatch(row, line) for line in lines[11:])
        # The last state of the bar: all updates, time taken and left, tokens a second, the loss.
        last = err.rstrip().split("\r")[-1]
        bar = r"100%.* 21/21 \[\d\d:\d\d<00:00, .*updates.*, (\d+) tokens/s, loss \d\.\d\d\]"
        speed = int(re.search(bar, last)[1])
        tokens = sum(row["tokens"] for row in log_of(tmp_path))
        assert 0 < speed <= tokens / sum(row["seconds"] for row in log_of(tmp_path))
        assert err.endswith("\n")

    def test_the_same_seed_gives_the_same_files_and_float16_half_the_size(
        self, command, tiny, tmp_path
    ):
        for name, *options in (("a",), ("b",), ("c", "--seed", 1), ("d", "--float16")):
            arguments = ["train", "--recipe", "tiny", "--quiet", "--out", tmp_path / name]
            assert command(*arguments, *options)[0] == 0
        a, b, c, d = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abcd")
        assert a == b != c
        assert len(d) < 0.6 * len(a)
        half, whole = (load_checkpoint(tmp_path / name)[0] for name in "da")
        assert torch.equal(half.embedding.weight, whole.embedding.weight.half().float())

    def test_what_is_tested_at_the_end_is_what_was_kept(self, command, tiny, tmp_path, monkeypatch):
        """Not the model before it was rounded to float16."""
        tested, real = [], exact.score
        monkeypatch.setattr(exact, "score", lambda *given: tested.append(given[0]) or real(*given))
        arguments = ["train", "--recipe", "tiny", "--quiet", "--float16", "--out", tmp_path]
        assert command(*arguments)[0] == 0
        kept = load_checkpoint(tmp_path)[0].parameters()
        for one, other in zip(tested[-1].model.parameters(), kept, strict=True):
            assert torch.equal(one, other)

    def test_without_a_folder_it_goes_where_runs_go(self, command, tiny, tmp_path, monkeypatch):
        monkeypatch.setenv("ANNOTATED_RUNS", str(tmp_path / "runs"))
        status, out, _ = command("train", "--recipe", "tiny", "--seed", 7, "--quiet")
        folder = tmp_path / "runs" / "tiny" / "seed7"
        assert status == 0 and json.loads(out)["out"] == str(folder)
        assert load_checkpoint(folder)[2]["seed"] == 7

    def test_which_is_the_users_cache_by_default(self, monkeypatch, tmp_path):
        monkeypatch.delenv("ANNOTATED_RUNS", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        folder = commands.runs_folder()
        assert folder.parts[-2:] == ("annotated", "runs") and not folder.exists()
        if sys.platform == "linux":
            assert folder == tmp_path / "annotated" / "runs"

    def test_a_loss_that_is_not_finite_ends_it_in_one_line_with_status_1(
        self, command, tiny, tmp_path, monkeypatch
    ):
        def broken(logits, labels, *_):
            return logits.sum() * math.nan, labels.numel() * torch.ones((), dtype=torch.int64)

        monkeypatch.setattr("annotated.training.trainer.label_smoothed_loss", broken)
        result = command("train", "--recipe", "tiny", "--out", tmp_path, "--quiet")
        assert_refused(result, "step 1: the loss is nan", "rate", status=1)
        status, _, err = command("train", "--recipe", "tiny", "--out", tmp_path)
        assert status == 1 and err.splitlines()[-1].startswith("annotated: step 1: the loss is nan")
        assert_refused(command("translate", "--model", tmp_path, "a b"), "config.json is missing")


class TestSettings:
    def test_they_are_changed_kept_in_the_model_and_written_in_the_record(
        self, command, tiny, tmp_path
    ):
        out, folder = tmp_path / "out", tmp_path / "records"
        status, said, err = command(
            "train", "--recipe", "tiny", "--out", out, "--set", "training.steps=3",
            "--set", "training.betas=(0.5, 0.75)", "--set", "model.d_ff=31", "--record", folder,
            "--name", "other-betas",
        )
        assert status == 0 and "; 3 updates." in said.splitlines()[0]
        assert [row["step"] for row in log_of(out)] == [1, 2, 3]
        model, _, notes = load_checkpoint(out)
        assert model.config.d_ff == 31
        given = ["training.steps=3", "training.betas=(0.5, 0.75)", "model.d_ff=31"]
        assert from_document(notes["recipe"], "it") == override(RECIPES["tiny"], given)
        (path,) = folder.rglob("*.json")
        record = records.read(path)
        assert path.parent.name == record.experiment == "other-betas"
        assert said.splitlines()[-1] == f"record: {path}"
        # As it is typed in a shell.
        words = shlex.split(record.command)
        sets = [word for assignment in given for word in ("--set", assignment)]
        assert words == ["annotated", "train", "--recipe", "tiny", "--seed", "0", *sets]
        assert record.command.endswith(
            "--set training.steps=3 --set 'training.betas=(0.5, 0.75)' --set model.d_ff=31"
        )
        # And it is evaluated as the recipe it was.
        assert command("evaluate", "--model", out, "--quiet")[0] == 0

    def test_a_name_without_a_folder_is_part_of_the_path(
        self, command, tiny, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("ANNOTATED_RUNS", str(tmp_path))
        options = ["--name", "short", "--set", "training.steps=1", "--quiet"]
        assert command("train", "--recipe", "tiny", *options)[0] == 0
        (folder,) = (tmp_path / "short").iterdir()
        assert re.fullmatch(r"seed0-[0-9a-f]{8}", folder.name), "--set makes another folder"
        assert (folder / "config.json").exists()
        plain = override(recipe_named("tiny"), [])
        assert commands.run_name(plain, 7) == "seed7"
        changed = (override(plain, [f"training.steps={steps}"]) for steps in (1, 2, 3))
        names = {commands.run_name(recipe, 0) for recipe in changed}
        assert folder.name in names and len(names) == 3

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--set", "training.steps=ten"], ["training.steps is 'ten'", "type int"]),
            (["--set", "steps=10"], ["no setting 'steps'", "training.steps"]),
            (["--set", "training.steps"], ["--set takes name=value"]),
            (["--set", "model.heads=0"], ["heads is 0", "expected"]),
            (["--set", "training.steps=0"], ["steps is 0", "expected at least 1"]),
            (["--name", "Other Betas"], ["--name: experiment is 'Other Betas'", "hyphens"]),
            (["--name", "../elsewhere"], ["--name", "hyphens"]),
            (["--set", "model.pad_id=5"], ["tiny has no setting 'model.pad_id'"]),
            (["--set", "training.betas=(1.0, 1.0)"], ["betas is (1.0, 1.0); expected two numbers"]),
            (["--set", "training.eps=-1"], ["eps is -1.0; expected more than 0"]),
            (["--set", "training.length_noise=-1"], ["length_noise is -1.0; expected at least 0"]),
            (["--set", "model.layers=1000000000000"], ["parameters", "GB; the disk has"]),
            (["--device", "gpu"], ["device is 'gpu'", "cpu or cuda"]),
        ],
    )
    def test_what_can_not_be_is_refused_before_anything_is_written(
        self, command, tiny, options, words, tmp_path
    ):
        out = tmp_path / "out"
        assert_refused(command("train", "--recipe", "tiny", "--out", out, *options), *words)
        assert not out.exists()

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
    @pytest.mark.parametrize("verb", [("train", "--recipe", "tiny"), ("evaluate",)])
    def test_cuda_where_there_is_none(self, command, tiny, verb):
        result = command(*verb, "--device", "cuda")
        assert_refused(result, "device is cuda, but torch sees 0 CUDA devices here")

    def test_more_processes_than_devices(self, command, tiny, monkeypatch, tmp_path):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
        monkeypatch.setenv("LOCAL_RANK", "3")
        result = command("train", "--recipe", "tiny", "--device", "cuda", "--out", tmp_path)
        assert_refused(result, "3 CUDA devices", "none for process 3")

    def test_data_that_is_not_there(self, command, tmp_path):
        arguments = ["train", "--recipe", "multi30k-en-de", "--quiet", "--out", tmp_path / "out"]
        result = command(*arguments, "--data-dir", tmp_path / "nowhere")
        assert_refused(result, "data_dir must be a folder", str(tmp_path / "nowhere"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, letters):
    """The folder of a run without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", letters("tiny", steps=21))
        patch.setattr(sys, "argv", ["annotated", *ARGUMENTS, "--out", str(folder), "--quiet"])
        with pytest.raises(SystemExit):
            cli.main()
    return folder


class TestResume:
    """A run that was stopped goes on, and ends as the one that was not."""

    def test_a_model_whose_states_are_gone_is_not_trained_over(self, command, tiny, tmp_path):
        assert command(*ARGUMENTS, "--out", tmp_path)[0] == 0
        before = weights_in(tmp_path)
        shutil.rmtree(tmp_path / "states")
        result = command(*ARGUMENTS, "--out", tmp_path, "--resume")
        assert_refused(result, str(tmp_path), "config.json", "no state to go on from")
        assert weights_in(tmp_path) == before

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("quiet", [[], ["--quiet"]])
    def test_after_a_signal(self, command, tiny, tmp_path, monkeypatch, whole, number, quiet):
        with monkeypatch.context() as patch:
            send_at(patch, 4, number)
            status, out, err = command(*ARGUMENTS, "--out", tmp_path, *quiet)
        assert status == 128 + number and "Traceback" not in err
        if quiet:
            assert (out, err) == ("", "")
        else:
            assert out.splitlines()[-1] == "stopped after 4 of 21 updates; --resume goes on"
            assert err.endswith("\n"), "the prompt needs its own line"
        assert (tmp_path / "states" / "step-00000004.json").exists()
        assert not (tmp_path / "config.json").exists()
        result = command("translate", "--model", tmp_path, "a b")
        assert_refused(result, "config.json is missing")

        status, out, err = command(*ARGUMENTS, "--out", tmp_path, "--resume", *quiet)
        assert status == 0
        assert "step" not in err and len(log_of(tmp_path)) == 21
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            assert (tmp_path / name).read_bytes() == (whole / name).read_bytes(), name
        if quiet:
            assert err == "" and out.count("\n") == 1
            assert json.loads(out)["metrics"]["tested"]["value"] == 23
        else:  # looks are counted from the start: five lines in all, one before the stop
            seen = [line.split()[1] for line in out.splitlines() if line.startswith("after")]
            assert seen == ["8", "12", "16", "20"]

    def test_a_second_signal_does_not_wait_for_the_update(
        self, command, tiny, tmp_path, monkeypatch, whole
    ):
        with monkeypatch.context() as patch:
            send_at(patch, 3, signal.SIGTERM, signal.SIGTERM)
            status, out, err = command(*ARGUMENTS, "--out", tmp_path)
        assert status == 143 and "Traceback" not in err and err.endswith("\n")
        assert [row["step"] for row in log_of(tmp_path)] == [1, 2, 3]
        assert command(*ARGUMENTS, "--out", tmp_path, "--resume", "--quiet")[0] == 0
        assert weights_in(tmp_path) == weights_in(whole)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_before_the_first_update_it_ends_at_once(
        self, command, tiny, tmp_path, monkeypatch, whole, number
    ):
        real = Copying.training

        def interrupted(self, seed):
            signal.raise_signal(number)
            return real(self, seed)

        with monkeypatch.context() as patch:
            patch.setattr(Copying, "training", interrupted)
            status, out, err = command(*ARGUMENTS, "--out", tmp_path, "--quiet")
        assert (status, out, err) == (128 + number, "", "")
        assert not list((tmp_path / "states").iterdir())
        # There is nothing to lose: the same command may be given again, without --resume.
        assert command(*ARGUMENTS, "--out", tmp_path, "--quiet")[0] == 0
        assert weights_in(tmp_path) == weights_in(whole)

    @pytest.mark.parametrize("call", [1, 2, 3])
    def test_while_the_model_is_written(
        self, command, tiny, tmp_path, monkeypatch, whole, call
    ):
        calls, real = itertools.count(1), annotated.files.write_atomically

        def interrupted(path, data):
            with pytest.MonkeyPatch.context() as patch:
                if next(calls) == call:
                    patch.setattr(os, "fsync", interrupt)
                real(path, data)

        def interrupt(handle):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("annotated.translation.checkpoints.write_atomically", interrupted)
            status, out, err = command(*ARGUMENTS, "--out", tmp_path, "--quiet")
        assert (status, out, err) == (130, "", "")
        names = {path.name for path in tmp_path.iterdir()}
        assert not {"model.safetensors", "config.json"} & names
        assert not [name for name in names if name.endswith(".part")]
        assert_refused(command("translate", "--model", tmp_path, "a b"), "config.json is missing")
        assert command(*ARGUMENTS, "--out", tmp_path, "--resume", "--quiet")[0] == 0
        assert weights_in(tmp_path) == weights_in(whole)

    def test_a_folder_with_a_run_is_refused_without_it(
        self, command, tiny, tmp_path, monkeypatch, whole
    ):
        before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
        result = command(*ARGUMENTS, "--out", whole, "--quiet")
        assert_refused(result, f"{whole} holds a run already", "--resume goes on", "another --out")
        assert before == {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
        with monkeypatch.context() as patch:  # one that was stopped, too
            send_at(patch, 2, signal.SIGTERM)
            assert command(*ARGUMENTS, "--out", tmp_path, "--quiet")[0] == 143
        result = command(*ARGUMENTS, "--out", tmp_path, "--quiet")
        assert_refused(result, "holds a run already (step-00000", "--resume goes on")

    def test_a_folder_in_which_another_trains_is_refused(self, command, tiny, tmp_path):
        with exclusive(tmp_path):  # by this process: of another, test_run.py
            result = shell("train", "--recipe", "copy", "--out", str(tmp_path))
        assert_refused(result, f"{tmp_path} is in use by another run")
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]

    def test_a_folder_whose_name_is_no_text_is_refused(self, command, tiny, tmp_path):
        name = b"out-\xff".decode(errors="surrogateescape")
        assert_refused(command(*ARGUMENTS, "--out", tmp_path / name), "is not UTF-8")
        assert not list(tmp_path.iterdir())

    def test_a_model_without_states_is_refused_too(self, command, tiny, tmp_path):
        shutil.copytree(files("annotated") / "weights" / "numbers-en-de", tmp_path / "mine")
        result = command(*ARGUMENTS, "--out", tmp_path / "mine")
        assert_refused(result, "holds a run already (config.json)")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--set", "training.steps=23"], ["training.steps is 21 there, 23 here"]),
            (["--set", "model.d_ff=31"], ["model.d_ff is 29 there, 31 here"]),
            (["--seed", "4"], ["seed is 3 there, 4 here"]),
            (["--recipe", "copy"], ["recipe is 'tiny' there, 'copy' here"]),
        ],
    )
    def test_other_settings_are_refused_and_named(self, command, tiny, whole, options, words):
        before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
        result = command(*ARGUMENTS, "--out", whole, "--resume", "--quiet", *options)
        assert_refused(result, "is of another run", *words)
        assert before == {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}

    def test_a_finished_run_is_tested_again_and_stays_the_same(self, command, tiny, whole):
        before = weights_in(whole)
        status, out, err = command(*ARGUMENTS, "--out", whole, "--resume", "--quiet")
        assert (status, err) == (0, "") and json.loads(out)["metrics"]["tested"]["value"] == 23
        assert weights_in(whole) == before and len(log_of(whole)) == 21

    def test_where_there_is_no_run_one_begins(self, command, tiny, tmp_path, whole):
        """So that a script may give the same command each time."""
        assert command(*ARGUMENTS, "--out", tmp_path, "--resume", "--quiet")[0] == 0
        assert weights_in(tmp_path) == weights_in(whole)


class TestStop:
    def test_a_process_that_stops_because_another_was_asked_to_has_not_finished(
        self, command, tiny, monkeypatch, tmp_path
    ):
        """It ends as if it had been sent SIGTERM itself: neither well nor with a fault."""
        def stopped(*_, **__):
            return Run(Translator.load("numbers-en-de"), step=7)

        monkeypatch.setattr(commands, "train", stopped)
        status, out, err = command(*ARGUMENTS, "--out", tmp_path)
        assert (status, err) == (143, "")
        assert out.splitlines()[-1] == "stopped after 7 of 21 updates; --resume goes on"

    def test_handlers_are_put_back(self):
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with Stop() as stop:
            for number in (signal.SIGINT, signal.SIGTERM):
                assert signal.getsignal(number) == stop.receive
            assert not stop()
            signal.raise_signal(signal.SIGTERM)
            assert stop() and stop.signal == signal.SIGTERM
        assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def test_a_measurement_in_rounds_is_recorded_as_far_as_it_came(
        self, command, monkeypatch, tmp_path
    ):
        """Half an hour on a quiet machine is not lost; the first round is not enough."""
        def measured(job, rounds):
            assert not job.interrupted()
            if rounds:
                signal.raise_signal(signal.SIGINT)
            assert job.interrupted() == bool(rounds)
            return job.record(
                recipe=None, precision="float32", seconds=1.0, tokens_per_update=None,
                tables={}, metrics=records.as_metrics({"rounds": rounds}),
            )

        monkeypatch.setattr(benchmark_step, "measured", measured, raising=False)
        monkeypatch.setitem(EXPERIMENTS, "rounds", Measurement(
            name="rounds", function="annotated.benchmark.step:measured", arguments={"rounds": 3},
        ))
        status, out, err = command("record", "rounds", "--out", tmp_path)
        assert (status, err) == (0, "") and out.startswith("record: ")
        (record,) = records.find("rounds", root=tmp_path)
        assert record.value("rounds") == 3

    def test_outside_the_main_thread_signals_are_left_alone(self):
        found = []

        def use():
            with Stop() as stop:
                found.append(stop())

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert found == [False]


class TestProcesses:
    """As installed: no test hook, no checked shapes, a process for each."""

    def test_translate_works_without_a_network(self):
        """Any use of a socket, even to look up a name, raises."""
        code = """
import sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"network: {event} {arguments}")

sys.addaudithook(refuse)
import socket
try:
    socket.create_connection(("127.0.0.1", 9))
except RuntimeError:
    pass
else:
    raise SystemExit("the hook does not work")
sys.argv[0] = "annotated"
from annotated.cli import main
main()
"""
        status, out, err = shell("translate", "two hundred and four", "forty-two", code=code)
        assert (status, out, err) == (0, "zweihundertvier\nzweiundvierzig\n", "")

    def test_stdin_to_stdout_in_utf8_whatever_the_locale(self):
        environment = {**os.environ, "LC_ALL": "C"}
        status, out, err = shell("translate", input="thirty\nfive\n", env=environment)
        assert (status, out, err) == (0, "dreißig\nfünf\n", "")

    def test_a_reader_of_stdout_may_leave(self):
        """As in `annotated translate < numbers | head -1`."""
        code = """
import os, sys
from annotated.cli import main
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
sys.argv = ["annotated", "translate", *["forty-two"] * 7]
main()
"""
        status, out, err = shell(code=code)
        assert status != 0 and "Traceback" not in err

    def test_readers_of_train_may_leave_and_nothing_is_lost(self, tmp_path):
        """A closed pipe for stdout, a full disk for stderr: only words are lost."""
        code = """
import os, sys
from annotated import cli
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
cli.main()
"""
        sets = ["task.count=211", "task.tested=23", "task.watched=7", "training.steps=4",
                "training.average=1", "model.d_model=22",
                "model.d_ff=29", "model.heads=2", "model.layers=1"]
        arguments = ["train", "--recipe", "copy", "--out", str(tmp_path / "out")]
        arguments += [word for assignment in sets for word in ("--set", assignment)]
        status, out, err = shell(*arguments, "--record", str(tmp_path / "records"), code=code)
        assert status == 0
        assert len(log_of(tmp_path / "out")) == 4 and load_checkpoint(tmp_path / "out")
        (path,) = (tmp_path / "records").rglob("*.json")
        assert records.read(path).recipe == "copy"

    def test_an_error_is_one_line_and_status_2(self):
        assert_refused(shell("train", "--recipe", "copy", "--seed", "-1"), "--seed")

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
    def test_signals_in_the_middle_of_training(self, tmp_path):
        """Stopped by one, gone on, stopped by the other, gone on to the end."""
        code = "from annotated import cli; cli.main()"
        sets = ["task.count=997", "task.tested=23", "task.watched=7",
                "training.steps=199", "training.average_every=50",
                "model.d_model=22", "model.d_ff=29", "model.heads=2", "model.layers=1"]
        arguments = ["train", "--recipe", "copy", "--out", str(tmp_path), "--resume"]
        arguments += [word for assignment in sets for word in ("--set", assignment)]
        done = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                start_new_session=True,
            )
            try:
                while len(log_of(tmp_path)) <= done and process.poll() is None:
                    time.sleep(0.05)
                process.send_signal(number)
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
            assert process.returncode == 128 + number, err
            assert "Traceback" not in err and err.endswith("\n")
            before, done = done, len(log_of(tmp_path))
            assert before < done < 199
            assert out.startswith("copy: letters to repeat")
            assert out.endswith(f"stopped after {done} of 199 updates; --resume goes on\n")
            assert (tmp_path / "states" / f"step-{done:08d}.json").exists()
        status, out, err = shell(*arguments, "--quiet", code=code)
        assert (status, err) == (0, "") and json.loads(out)["metrics"]["tested"]["value"] == 23
        rows = log_of(tmp_path)
        assert [row["step"] for row in rows] == list(range(1, 200))

    def test_started_by_torchrun_it_speaks_once_and_saves_once(self, tmp_path):
        code = tmp_path / "run.py"
        code.write_text(
            "from annotated import cli\n"
            "from annotated.translation import checkpoints\n"
            "real = checkpoints.write_atomically\n"
            "checkpoints.write_atomically = lambda p, d: print('writes', p.name) or real(p, d)\n"
            "cli.main()"
        )
        sets = ["task.count=211", "task.tested=23", "task.watched=7",
                "training.steps=4", "training.average=2",
                "training.average_every=2", "training.micro_batches=2", "model.d_model=22",
                "model.d_ff=29", "model.heads=2", "model.layers=1"]
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
             str(code), "train", "--recipe", "copy", "--out", str(tmp_path / "out"),
             *(word for assignment in sets for word in ("--set", assignment))],
            capture_output=True, text=True, encoding="utf-8", timeout=300,
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout.splitlines()
        for start in ("copy: letters", "after 4 updates", "trained in", "writes .config.json.part"):
            assert sum(line.startswith(start) for line in said) == 1, start
        assert sum(line.startswith("exact ") for line in said) == 1
        assert done.stderr.count("4/4") >= 1
        assert [row["step"] for row in log_of(tmp_path / "out")] == [1, 2, 3, 4]
        assert load_checkpoint(tmp_path / "out")[2]["recipe"]["name"] == "copy"
        assert not list((tmp_path / "out").rglob("*.part"))

    def test_the_installed_command_is_main(self):
        (script,) = entry_points(group="console_scripts", name="annotated")
        assert script.value == "annotated.__main__:main"
        status, out, err = shell("recipes", code="from annotated.__main__ import main; main()")
        assert status == 0 and "numbers-en-de" in out and err == ""

    def test_help_records_and_the_papers_numbers_need_no_torch(self):
        """In under half a second where nothing else runs; here only what is imported is held."""
        code = (
            "import sys; sys.argv[1:] = ['train', '--help']\n"
            "from annotated import paper, records\n"
            "from annotated.cli import main\n"
            "try: main()\n"
            "except SystemExit: print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
        )
        status, out, err = shell(code=code)
        assert (status, err) == (0, "") and out.splitlines()[-1] == "[]"

    def test_ctrl_c_while_torch_is_imported_is_no_traceback(self):
        code = (
            "import signal, sys\n"
            "class Interrupt:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'torch': signal.raise_signal(signal.SIGINT)\n"
            "sys.meta_path.insert(0, Interrupt())\n"
            "sys.argv = ['annotated', 'translate', 'two']\n"
            "from annotated.__main__ import main; main()"
        )
        status, out, err = shell(code=code)
        assert status == 130 and "Traceback" not in err and out == ""

    @pytest.mark.parametrize("words", [(), *((verb,) for verb in VERBS)])
    def test_each_help_fits_a_screen(self, command, words, monkeypatch):
        """A terminal of a hundred columns and fifty lines."""
        monkeypatch.setenv("COLUMNS", "100")
        status, out, err = command(*words, "--help")
        assert status == 0 and len(out.splitlines()) <= 50, out


def test_what_the_front_page_shows_is_what_comes_out(command):
    status, out, _ = command("translate", numbers.spell(204, "en"))
    assert (status, out.strip()) == (0, numbers.spell(204, "de"))
