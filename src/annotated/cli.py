"""The commands: train, evaluate, translate, recipes."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm import tqdm

from annotated.recipes import RECIPES, Recipe, Score, recipe_named, score, train
from annotated.training import Update
from annotated.training.checkpoints import save_checkpoint
from annotated.translation import Translator

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The Transformer of “Attention Is All You Need”: train it, test it, use it.",
)

TESTED, TEST_SEED = 1000, 1_000_000  # held-out examples a report rests on, and their seed
WATCHED = 100  # examples translated during training, for the lines that show progress

Model = Annotated[str, typer.Option(help="A shipped model's name, or a checkpoint's folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="For scripts: one JSON document, no more.")]


def main() -> None:
    """Run a command; bad input becomes one line on stderr and exit status 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        sys.exit(_say(error, 2))
    except FloatingPointError as error:
        sys.exit(_say(error, 1))


def _say(error: Exception, status: int) -> int:
    print(f"annotated: {' '.join(str(error).split())}", file=sys.stderr)
    return status


@app.command("recipes")
def list_recipes() -> None:
    """List the recipes that `train` knows."""
    for recipe in RECIPES.values():
        print(f"{recipe.name:16}{recipe.about}")


@app.command("train")
def train_command(
    recipe: Annotated[str, typer.Option(help="One of `annotated recipes`.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the trained model.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Where all random choices start.")] = 0,
    float16: Annotated[bool, typer.Option("--float16", help="Store in half the space.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a recipe, keep the model, and test what was kept on what it never saw."""
    chosen = recipe_named(recipe)
    out = out or runs_folder() / recipe / f"seed{seed}"
    out.mkdir(parents=True, exist_ok=True)  # fails now rather than after training
    if not quiet:
        print(f"{recipe}: {chosen.about}; {chosen.training.steps} updates. Model: {out}")
    run = train(chosen, seed, (lambda *_: None) if quiet else progress(chosen))
    model, tokenizer = run.translator.model, run.translator.tokenizer
    dtype = torch.float16 if float16 else torch.float32
    save_checkpoint(out, model, tokenizer, dtype, recipe=recipe, seed=seed)
    result = score(Translator.load(out), chosen.corpus.held_out(TESTED, TEST_SEED))
    facts = {"recipe": recipe, "seed": seed, "seconds": round(run.seconds, 1), "out": str(out)}
    report(chosen, result, quiet, facts)


@app.command()
def evaluate(model: Model = "numbers-en-de", quiet: Quiet = False) -> None:
    """Test a model on what its recipe holds out, by greedy search."""
    translator = Translator.load(model)
    recipe = recipe_named(translator.notes.get("recipe", "(none noted in the checkpoint)"))
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
        sentences = [line.rstrip("\n") for line in sys.stdin]
    for translation in Translator.load(model).translate(sentences):
        print(translation)


def progress(recipe: Recipe) -> Callable[[Update, Translator], None]:
    """A bar with the time left, and now and then a line on what is learnt."""
    steps = recipe.training.steps
    examples = recipe.corpus.held_out(WATCHED, TEST_SEED)
    bar = tqdm(total=steps, unit=" updates", file=sys.stderr, dynamic_ncols=True)

    def after(update: Update, translator: Translator) -> None:
        bar.set_postfix_str(f"loss {update.loss:.2f}", refresh=False)
        bar.update()
        if update.step % max(steps // 5, 1) == 0:
            right = score(translator, examples).right
            bar.write(
                f"after {update.step} updates: {right} of {WATCHED} unseen sentences right",
                file=sys.stdout,
            )
        if update.step == steps:
            bar.close()

    return after


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
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("annotated") / "runs"
