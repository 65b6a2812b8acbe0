"""The commands as readers and scripts meet them: words out, errors in one line, exit status."""

import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import pytest
import torch

import annotated
from annotated import cli, records
from annotated.data import numbers
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, Copying, Recipe
from annotated.training import TrainingConfig, load_checkpoint, save_checkpoint
from annotated.translation import Translator

TINY = Recipe(
    "tiny", "three letters at most",
    Copying(count=211, longest=3),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1),
    TrainingConfig(
        steps=21, batch_tokens=61, spread=6.0, warmup_steps=3, average=2, average_every=2
    ),
)  # fmt: skip


@pytest.fixture
def command(monkeypatch, capsys):
    """command("translate", "two") runs main in this process: (status, stdout, stderr)."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["annotated", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def tiny(monkeypatch):
    """A recipe of two seconds, and tests on few sentences."""
    monkeypatch.setitem(RECIPES, "tiny", TINY)
    monkeypatch.setattr(cli, "TESTED", 23)
    monkeypatch.setattr(cli, "WATCHED", 11)


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
    )  # fmt: skip
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
    def test_an_empty_sentence_is_refused(self, command, empty):
        result = command("translate", "forty-two", empty)
        assert_refused(result, "sentence 2 is empty", "expected at least one word")

    def test_so_is_an_empty_line(self, command):
        result = command("translate", stdin="forty-two\n\ntwo\n")
        assert_refused(result, "sentence 2 is empty")

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
        assert_refused(result, "none noted in the checkpoint", *RECIPES)

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
        monkeypatch.setattr(cli, "train", lambda *_: pytest.fail("trained for nothing"))
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
        monkeypatch.setattr(cli, "RECIPES", {"x": None})
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
            ("train", ["--recipe", "--out", "--seed", "--float16", "--record", "--quiet"]),
            ("evaluate", ["--model", "--quiet"]),
            ("translate", ["--model", "sentences"]),
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


class TestEvaluate:
    def test_words(self, command, monkeypatch):
        monkeypatch.setattr(cli, "TESTED", 53)
        status, out, err = command("evaluate")
        assert (status, err) == (0, "")
        right, total = map(int, re.match(r"(\d+) of (\d+) held-out sentences", out).groups())
        assert total == 53 and right >= 52 and f"({right / 53:.1%})" in out
        rows = re.findall(r"^ +(\d+) digits: (\d+) of (\d+)$", out, re.MULTILINE)
        assert sum(int(total) for *_, total in rows) == 53
        assert [int(digits) for digits, *_ in rows] == sorted(int(digits) for digits, *_ in rows)

    def test_quiet_is_exactly_one_json_document(self, command, monkeypatch):
        monkeypatch.setattr(cli, "TESTED", 53)
        status, out, err = command("evaluate", "--quiet")
        assert (status, err) == (0, "")
        (line,) = out.splitlines()
        found = json.loads(line)
        assert (found["model"], found["recipe"]) == ("numbers-en-de", "numbers-en-de")
        assert found["accuracy"] == found["right"] / found["total"] and found["total"] == 53
        assert sum(group["total"] for group in found["by_digits"].values()) == 53
        assert sum(group["right"] for group in found["by_digits"].values()) == found["right"]


class TestTrain:
    def test_quiet_is_exactly_one_json_document(self, command, tiny, tmp_path):
        out = tmp_path / "new" / "out"
        status, said, err = command(
            "train", "--recipe", "tiny", "--seed", 3, "--out", out, "--quiet",
            "--record", tmp_path / "records",
        )  # fmt: skip
        assert (status, err) == (0, "")
        (line,) = said.splitlines()
        found = json.loads(line)
        assert (found["recipe"], found["seed"], found["out"]) == ("tiny", 3, str(out))
        assert found["total"] == 23 and set(found["by_letters"]) <= {"1", "2", "3"}
        # The model that was kept is the one that was tested.
        model, _, notes = load_checkpoint(out)
        assert notes == {"recipe": "tiny", "seed": 3}
        assert model.config.d_model == 22
        again = json.loads(command("evaluate", "--model", out, "--quiet")[1])
        assert (again["right"], again["total"]) == (found["right"], found["total"])
        (path,) = (tmp_path / "records").rglob("*.json")
        record = records.read(path)
        assert record.command == "annotated train --recipe tiny --seed 3"
        assert record.column("step") == list(range(1, 22))
        assert record.metrics["exact"]["value"] == found["accuracy"]

    def test_a_reader_sees_a_bar_and_lines_they_understand(self, command, tiny, tmp_path):
        status, out, err = command("train", "--recipe", "tiny", "--out", tmp_path)
        assert status == 0
        lines = out.splitlines()
        assert lines[0] == f"tiny: three letters at most; 21 updates. Model: {tmp_path}"
        watched = [re.fullmatch(r"after (\d+) updates: (\d+)% of 11 unseen sentences right", line)
                   for line in lines[1:6]]  # fmt: skip
        assert [int(match[1]) for match in watched] == [4, 8, 12, 16, 20]
        assert re.fullmatch(r"trained in \d+\.\d s", lines[6])
        assert re.fullmatch(r"\d+ of 23 held-out sentences exactly right \(.*%\)", lines[7])
        assert all(re.fullmatch(r"   [123] letters: \d+ of \d+", line) for line in lines[8:])
        # The last state of the bar: all updates, time taken and left, the loss.
        last = err.rstrip().split("\r")[-1]
        assert re.search(r"100%.* 21/21 \[\d\d:\d\d<00:00, .*updates.*loss \d\.\d\d\]", last)
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
        tested, real = [], cli.score
        monkeypatch.setattr(cli, "score", lambda *given: tested.append(given[0]) or real(*given))
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
        folder = cli.runs_folder()
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
        assert list(tmp_path.iterdir()) == []


class TestInterruption:
    def test_in_the_middle_of_training(self, command, tiny, tmp_path, monkeypatch):
        real = cli.Watch.__call__

        def interrupt(self, update, translator):
            real(self, update, translator)
            if update.step == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(cli.Watch, "__call__", interrupt)
        status, _, err = command("train", "--recipe", "tiny", "--out", tmp_path)
        assert status == 130
        assert "Traceback" not in err and err.endswith("\n"), "the prompt needs its own line"
        assert list(tmp_path.iterdir()) == []
        result = command("translate", "--model", tmp_path, "a b")
        assert_refused(result, "config.json is missing")

    @pytest.mark.parametrize("call", [1, 2, 3])
    def test_while_the_model_is_written(self, command, tiny, tmp_path, monkeypatch, call):
        calls, real = [], os.fsync

        def interrupt(handle):
            calls.append(handle)
            if len(calls) == call:
                raise KeyboardInterrupt
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupt)
            status, out, err = command("train", "--recipe", "tiny", "--out", tmp_path, "--quiet")
        assert (status, out, err) == (130, "", "")
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["model.safetensors", "tokenizer.json"][: call - 1]
        assert_refused(command("translate", "--model", tmp_path, "a b"), "config.json is missing")


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

    def test_an_error_is_one_line_and_status_2(self):
        assert_refused(shell("train", "--recipe", "copy", "--seed", "-1"), "--seed")

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
    def test_ctrl_c(self, tmp_path):
        process = subprocess.Popen(
            [sys.executable, "-m", "annotated", "train", "--recipe", "copy", "--out", tmp_path],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", bufsize=0,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
        try:
            seen = ""
            while "loss" not in seen:  # the first update is done
                seen += (more := process.stderr.read(1))
                assert more, seen
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "Traceback" not in seen + err and err.endswith("\n")
        assert out.startswith("copy: ")
        assert list(tmp_path.iterdir()) == []

    def test_the_installed_command_is_main(self):
        (script,) = entry_points(group="console_scripts", name="annotated")
        assert script.value == "annotated.cli:main" and script.load() is cli.main
        main = Path(annotated.__file__).with_name("__main__.py").read_text()
        assert "from annotated.cli import main" in main


def test_what_the_front_page_shows_is_what_comes_out(command):
    status, out, _ = command("translate", numbers.spell(204, "en"))
    assert (status, out.strip()) == (0, numbers.spell(204, "de"))
