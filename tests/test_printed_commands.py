"""Every training command that a page prints is one that runs: CI runs it small."""

import json
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from annotated import cli
from annotated.recipes import Recipe, TextTask, from_document, override, recipe_named
from annotated.translation.checkpoints import load_checkpoint

ROOT = Path(__file__).resolve().parents[1]
HARDWARE = "05-2-hardware-and-schedule.ipynb"


def markdown(path: Path) -> str:
    """What a reader reads of a page, without its code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@dataclass(frozen=True)
class Command:
    """`annotated train` with its options, and what stands before it on its line."""

    page: str
    before: str
    options: str

    def __str__(self):
        return f"{self.page}: {self.options}"

    @property
    def words(self) -> list[str]:
        return shlex.split(self.options, comments=True)

    @property
    def recipe(self) -> Recipe:
        """The recipe as the command changes it, if all it says can be understood."""
        train = typer.main.get_command(cli.app).commands["train"]
        given = train.make_context("train", self.words, resilient_parsing=False).params
        return override(recipe_named(given["recipe"]), given["change"] or [])

    @property
    def processes(self) -> int:
        """As many as torchrun is to start."""
        found = re.search(r"torchrun.*--nproc[-_]per[-_]node[ =](\d+)", self.before)
        return int(found[1]) if found else 1


def commands(text: str, page: str) -> list[Command]:
    """In fenced blocks and between backquotes; one that ends in "…" or has no option is a name."""
    lines = text.replace("\\\n", " ")
    found = re.finditer(r"([^`\n]*)\bannotated train([^`\n]*)", lines)
    return [
        Command(page, match[1], match[2].strip())
        for match in found
        if match[2].strip().startswith("--") and "…" not in match[2]
    ]


BOOK = ROOT / "book"
PAGES = [ROOT / "README.md", *sorted(BOOK.glob("*.md")), *sorted(BOOK.glob("*.ipynb"))]
PRINTED = [command for page in PAGES for command in commands(markdown(page), page.name)]
SMALL = {
    command.options: command for command in PRINTED
    if command.page == HARDWARE and not isinstance(command.recipe.task, TextTask)
}


def test_commands_are_found_where_a_reader_finds_them():
    text = (
        "Run `annotated train --recipe copy --seed 1`, or `annotated train` …\n```\n"
        ".venv/bin/annotated train --recipe copy  # quick\n"
        "torchrun --nproc-per-node 8 -m annotated train --recipe copy \\\n    --quiet\n```\n"
        "and `annotated train --recipe …` with any."
    )
    found = commands(text, "page")
    assert [command.words for command in found] == [
        ["--recipe", "copy", "--seed", "1"], ["--recipe", "copy"], ["--recipe", "copy", "--quiet"],
    ]
    assert [command.processes for command in found] == [1, 1, 8]
    assert all(command.recipe == recipe_named("copy") for command in found)


@pytest.mark.parametrize(
    "options", ["--recipe copy --sed 1", "--recipe kopy", "--recipe copy --set training.step=5"]
)
def test_a_command_with_a_fault_is_noticed(options):
    with pytest.raises(Exception, match="--sed|kopy|training.step"):
        _ = Command("page", "", options).recipe


@pytest.mark.parametrize("command", dict.fromkeys(PRINTED), ids=str)
def test_each_one_printed_can_be_given(command):
    recipe = command.recipe
    assert recipe.name in command.options
    assert recipe.training.micro_batches % command.processes == 0


def test_the_front_page_and_the_page_on_hardware_print_one():
    assert {"README.md", "index.md", HARDWARE} <= {command.page for command in PRINTED}
    assert SMALL, f"{HARDWARE} prints no command that can run without the reader's own data"


@pytest.mark.parametrize("command", SMALL.values(), ids=str)
def test_the_one_on_the_page_on_hardware_runs(command, monkeypatch, tmp_path, capsys):
    """As printed, but with a small model, few sentences, few updates, and a folder of its own."""
    sets = ["task.count=97", "task.tested=11", "task.watched=5",
            "training.steps=3", "training.average=2",
            "training.average_every=1", "model.d_model=32", "model.d_ff=29"]
    small = [word for assignment in sets for word in ("--set", assignment)]
    words = ["annotated", "train", *command.words, *small, "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    assert re.search(r"^tested +11$", out, re.MULTILINE) or (
        json.loads(out)["metrics"]["tested"]["value"] == 11
    )
    model, _, notes = load_checkpoint(tmp_path)
    recipe = from_document(notes["recipe"], tmp_path)
    assert model.config == recipe.model and recipe.model.d_model == 32
    assert recipe.name == command.recipe.name and recipe.training.steps == 3
