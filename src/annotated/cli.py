"""The commands: train, evaluate, translate, recipes."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm import tqdm

from annotated import records
from annotated.recipes import RECIPES, Recipe, Score, recipe_named, run_record, score, train
from annotated.training import Update
from annotated.training.checkpoints import check_writable, save_checkpoint
from annotated.translation import Translator

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help='The Transformer of "Attention Is All You Need": train it, test it, use it.',
)

TESTED, TEST_SEED = 1000, 1_000_000  # held-out examples a report rests on, and their seed
WATCHED = 100  # examples translated during training, for the lines that show progress
MAX_SEED = 2**32 - 1  # all generators take it


def folder(about: str):
    """An option for a folder to write to: a file there is refused before training."""
    return typer.Option(file_okay=False, help=about)


Model = Annotated[str, typer.Option(help="A shipped model's name, or a checkpoint's folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="For scripts: one JSON document, no more.")]


def main() -> None:
    """Run a command; bad input becomes one line on stderr and exit status 2."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (ValueError, OSError) as error:
        status = _say(error, 2)
    except FloatingPointError as error:
        status = _say(error, 1)
    except typer.Abort:  # Ctrl-C, in some versions of typer; others return 130 themselves
        status = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # wrong usage; the class differs by version
            raise
        status = _say(error.format_message(), 2)
    sys.exit(status)


def _say(error: Exception | str, status: int) -> int:
    print(f"annotated: {' '.join(str(error).split())}", file=sys.stderr)
    return status


@app.command("recipes")
def list_recipes() -> None:
    """List the recipes that `train` knows."""
    for recipe in RECIPES.values():
        print(f"{recipe.name:24}{recipe.about}")


@app.command("train")
def train_command(
    recipe: Annotated[str, typer.Option(help="One of `annotated recipes`.")],
    out: Annotated[Path | None, folder("Folder for the trained model.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Where chance starts.")] = 0,
    float16: Annotated[bool, typer.Option("--float16", help="Store in half the space.")] = False,
    record: Annotated[Path | None, folder("Folder to write a record to.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a recipe, keep the model, and test what was kept on what it never saw."""
    chosen = recipe_named(recipe)
    out = out or runs_folder() / recipe / f"seed{seed}"
    for target in filter(None, (out, record)):
        check_writable(target)  # fails now rather than after training
    if not quiet:
        print(f"{recipe}: {chosen.about}; {chosen.training.steps} updates. Model: {out}")
    watch = Watch(chosen, quiet)
    with watch.bar:
        run = train(chosen, seed, watch)
    dtype = torch.float16 if float16 else torch.float32
    model, tokenizer = run.translator.model, run.translator.tokenizer
    save_checkpoint(out, model, tokenizer, dtype, recipe=recipe, seed=seed)
    result = score(Translator.load(out), chosen.corpus.held_out(TESTED, TEST_SEED))
    facts = {"recipe": recipe, "seed": seed, "seconds": round(run.seconds, 1), "out": str(out)}
    report(chosen, result, quiet, facts)
    if record:
        command = f"annotated train --recipe {recipe} --seed {seed}"
        command += " --float16" if float16 else ""
        made = run_record(chosen, seed, run, result, command, watch.accuracy)
        path = records.write(made, record)
        if not quiet:
            print(f"record: {path}")


@app.command()
def evaluate(model: Model = "numbers-en-de", quiet: Quiet = False) -> None:
    """Test a model on what its recipe holds out, by greedy search."""
    translator = Translator.load(model)
    recipe = recipe_named(str(translator.notes.get("recipe", "(none noted in the checkpoint)")))
    result = score(translator, recipe.corpus.held_out(TESTED, TEST_SEED))
    report(recipe, result, quiet, {"model": model, "recipe": recipe.name})


@app.command()
def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="One translation each; none: lines of stdin.")
    ] = None,
    model: Model = "numbers-en-de",
) -> None:
    """Translate sentences, one line each."""
    if not sentences:
        sentences = [line.rstrip("\n") for line in sys.stdin or ()]
    for translation in Translator.load(model).translate(sentences):
        print(translation)


class Watch:
    """Called after each update: a bar with the time left, and what is learnt.

    ``accuracy`` keeps the share of held-out examples right, by step.
    """

    def __init__(self, recipe: Recipe, quiet: bool):
        self.steps = recipe.training.steps
        self.every = max(self.steps // 20, 1)
        self.examples = recipe.corpus.held_out(WATCHED, TEST_SEED)
        self.accuracy: dict[int, float] = {}
        self.bar = tqdm(
            total=self.steps, unit=" updates", file=sys.stderr, dynamic_ncols=True,
            disable=quiet or sys.stderr is None,
        )

    def __call__(self, update: Update, translator: Translator) -> None:
        self.bar.set_postfix_str(f"loss {update.loss:.2f}", refresh=False)
        self.bar.update()
        if update.step % self.every == 0:
            self.accuracy[update.step] = score(translator, self.examples).accuracy
        if update.step % (4 * self.every) == 0 and not self.bar.disable:
            right = self.accuracy[update.step]
            line = f"after {update.step} updates: {right:.0%} of {WATCHED} unseen sentences right"
            with contextlib.suppress(BrokenPipeError):  # `| head` must not cost the model
                self.bar.write(line, file=sys.stdout)


def report(recipe: Recipe, result: Score, quiet: bool, facts: dict) -> None:
    """The score in words, or as one JSON document."""
    groups = recipe.corpus.groups
    if quiet:
        by_group = {key: {"right": r, "total": t} for key, (r, t) in result.by_group.items()}
        print(json.dumps({
            **facts, "right": result.right, "total": result.total,
            "accuracy": result.accuracy, f"by_{groups}": by_group,
        }, ensure_ascii=False))
        return
    if "seconds" in facts:
        print(f"trained in {facts['seconds']} s")
    print(f"{result.right} of {result.total} held-out sentences exactly right "
          f"({result.accuracy:.1%})")
    for key, (right, total) in result.by_group.items():
        print(f"  {key:2} {groups}: {right} of {total}")


def runs_folder() -> Path:
    """Where runs go: $ANNOTATED_RUNS, or the user's cache."""
    if folder := os.environ.get("ANNOTATED_RUNS"):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("annotated") / "runs"
