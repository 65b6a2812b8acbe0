"""What the commands do once their options are read: train and test, and tell of it."""

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import cast

import torch
from torch import nn
from tqdm import tqdm

from annotated import files, records
from annotated.data.corpora import TEXT_CORPORA, text_corpus
from annotated.machine import here_and_now
from annotated.model import Transformer
from annotated.recipes import (
    RECIPES,
    CorpusTask,
    Numbers,
    Recipe,
    Report,
    Run,
    Task,
    TextTask,
    as_document,
    from_document,
    override,
    own_files,
    recipe_named,
    run_record,
    train,
)
from annotated.recipes.run import WATCHES, check_sizes, identity
from annotated.recipes.task import TaskData, as_text
from annotated.recipes.text import TextData
from annotated.signals import Stop, tolerant_output
from annotated.training import Update, World
from annotated.training.world import local_device
from annotated.translation import Translator
from annotated.translation.checkpoints import CONFIG, save_checkpoint


def best_device() -> str:
    """"cuda" where torch sees a CUDA device, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_and_test(
    chosen: Recipe, seed: int, command: str, *, out: Path | None, resume: bool,
    device: str | None, data_dir: Path | None, float16: bool, record: Path | None,
    name: str | None, quiet: bool,
) -> int:
    """The exit status of training a recipe, keeping the model, and testing what was kept.

    `chosen` is trained from the random `seed` on `device`, with its files in `data_dir`; the
    model, its states and its log go to `out`, which is gone on from with `resume`. Weights are
    stored in half precision with `float16`. A `record` of the experiment `name` says that
    `command` made it. `quiet` prints one JSON document and no more.
    Raises ValueError before anything is made for what can't be meant.
    """
    device = device or best_device()
    chosen.task.open(data_dir)  # what is missing is missed before anything is made
    if name:
        records.check("--name", "experiment", name)  # now rather than after training
    out = out or runs_folder() / (name or chosen.name) / run_name(chosen, seed)
    with contextlib.ExitStack() as stack:
        stack.enter_context(tolerant_output())
        world = stack.enter_context(World.join(device))
        first, place = world.rank == 0, world.device
        if first:
            check_sizes(chosen, out, world)
            stack.enter_context(files.exclusive(out))
            for target in filter(None, (out, record)):
                files.check_writable(target)  # fails now rather than after training
            refuse_a_run(out, resume)
        if first and not quiet:
            print(f"{chosen.name}: {chosen.about}; {chosen.training.steps} updates. Model: {out}")
        world.wait()
        with Stop() as stop, Progress(chosen, quiet or not first) as progress:
            run = train(
                chosen, seed, progress, folder=out, data_dir=data_dir, device=place, world=world,
                stop=stop, start=progress.start,
            )
        if not run.finished:
            if first and not quiet:
                done, all_of_them = run.step, chosen.training.steps
                print(f"stopped after {done} of {all_of_them} updates; --resume goes on")
            # Without a signal of its own it stopped for another process, which had one: for
            # those who wait it was ended too. 0 would be a finished run, 1 a failed one.
            return 128 + (stop.signal or signal.SIGTERM)
        if not first:
            return 0
        model, tokenizer = run.translator.model, run.translator.tokenizer
        assert isinstance(model, Transformer), "train builds one where nothing else is asked"
        dtype = torch.float16 if float16 else torch.float32
        save_checkpoint(out, model, tokenizer, dtype, recipe=as_document(chosen), seed=seed)
        translator = Translator.load(out)
        cast(nn.Module, translator.model).to(place)
        report = chosen.task.open(data_dir, training=False).test(translator)
        if report.translations:
            text = "".join(f"{line}\n" for line in report.translations)
            files.write_atomically(out / "translations.txt", text.encode())
        if record:
            made = run_record(chosen, seed, run, report, command, name, device)
            path = records.write(made, record)
        facts = {"recipe": chosen.name, "seed": seed}
        facts |= {"seconds": round(run.seconds, 1), "out": str(out)}
        print_report(report, quiet, facts | ({"cleaning": run.left_out} if run.left_out else {}))
        if record and not quiet:
            print(f"record: {path}")
    return 0


def evaluate(
    model: str, *, corpus: str | None, split: str | None, beam: int | None, alpha: float | None,
    device: str | None, data_dir: Path | None, out: Path | None, name: str | None, quiet: bool,
    command: str,
) -> None:
    """Test a `model` on what its recipe holds out, or on a `split` of another `corpus`.

    Its files are in `data_dir` or where they are found; `beam` and `alpha` as in `beam_search`, by
    default the recipe's, `device` cpu or cuda, the best there is by default. A record of the
    experiment `name` goes to the folder `out`, and says that `command` made it; `quiet` prints JSON
    alone.
    """
    place, translator = local_device(device or best_device()), Translator.load(model)
    recipe = from_document(translator.notes.get("recipe"), f"the recipe in {model}")
    data = held_out(recipe.task, corpus, split, data_dir)
    about = [] if corpus is None and split is None else ["on", corpus, split]
    name = name or records.name_of("evaluate", recipe.name, *filter(None, about))
    if out:
        records.check("--name", "experiment", name)  # now rather than after the test
        files.check_writable(out)
    translator.search = translator.asked(beam, alpha)
    cast(nn.Module, translator.model).to(place)
    begun = time.perf_counter()
    report = data.test(translator)
    search = {"beam": translator.search.beam, "alpha": translator.search.alpha}
    print_report(report, quiet, {"model": model, "recipe": recipe.name, **search})
    if out:
        made = records.Record(
            experiment=name, command=command, recipe=recipe.name,
            seed=translator.notes.get("seed", 0), precision="float32",
            seconds=round(time.perf_counter() - begun, 1), tokens_per_update=None,
            metrics=report.metrics | records.as_metrics(search), tables=report.tables,
            **here_and_now(place.partition(":")[0]),
        )
        path = records.write(made, out)
        if not quiet:
            print(f"record: {path}")


def held_out(
    task: Task, corpus: str | None, split: str | None, data_dir: Path | None
) -> TaskData:
    """What a model is tested on: its own `task`'s, or a `split` of another `corpus`.

    A corpus without languages ("multi30k") is the one of the task's languages; files are looked
    for in `data_dir`. ValueError for one that there is not.
    """
    if corpus is None and split is None:
        return task.open(data_dir, training=False)
    if corpus == "numbers" or (corpus is None and not isinstance(task, TextTask)):
        if split is not None:
            raise ValueError(f"--split is {split}; these sentences are made, and have no splits")
        own = task if isinstance(task, Numbers) else Numbers(*languages_of(task))
        return own.open(data_dir, training=False)
    if corpus is None:
        found = cast(TextTask, task).text_corpus(data_dir)
    else:
        whole = corpus if corpus in TEXT_CORPORA else "-".join((corpus, *languages_of(task)))
        any_version = getattr(task, "any_version", False)
        found = text_corpus(whole, data_dir, any_version=any_version)
    text = task if isinstance(task, TextTask) else CorpusTask(found.name)
    return TextData(text, found.tested_on(split) if split else found, training=False)


def languages_of(task: Task) -> tuple[str, str]:
    """Source and target language of a task; English and German where it doesn't say."""
    if isinstance(task, TextTask):
        corpus = task.text_corpus()
        return corpus.source or "en", corpus.target or "de"
    return getattr(task, "source", "en"), getattr(task, "target", "de")


def recipe_to_train(
    name: str | None, own: dict[str, list[str]], source: str, target: str, change: list[str]
) -> Recipe:
    """The recipe of that `name`, or one like it for a reader's own files, with settings changed.

    `own` has the paths of each split, `source` and `target` are their languages, and `change`
    the assignments of --set.
    """
    missing = [f"--{split}" for split, paths in own.items() if not paths]
    if len(missing) == len(own):
        if name is None:
            raise ValueError("--recipe is missing: one of `annotated recipes`, or --train, --dev "
                             "and --test for files of your own")
        if source or target:
            raise ValueError("--source and --target go with --train, --dev and --test")
        return override(recipe_named(name), change)
    if missing:
        raise ValueError(f"{missing[0]} is missing: files of your own are --train, --dev, --test")
    like = recipe_named(name) if name else None
    return override(own_files(**own, source=source, target=target, like=like), change)


def refuse_a_run(out: Path, resume: bool) -> None:
    """A run's work is not written over without being asked to, nor begun anew by --resume."""
    states = sorted((out / "states").glob("step-*.json"))
    if resume and (out / CONFIG).exists() and not states:
        raise ValueError(
            f"{out} holds a model ({CONFIG}) but no state to go on from; choose another --out"
        )
    for left in (*states, out / CONFIG):
        if left.exists() and not resume:
            raise ValueError(
                f"{out} holds a run already ({left.name}); --resume goes on with it, "
                "or choose another --out"
            )


class Progress:
    """Called after each update: a bar with speed and time left, and lines of what is learnt."""

    LINES = 5

    def __init__(self, recipe: Recipe, quiet: bool):
        self.recipe, self.quiet = recipe, quiet or sys.stderr is None
        self.bar = tqdm(disable=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def start(self, run: Run, step: int) -> None:
        """The first update is about to begin; `step` of them were made before."""
        self.run, self.begun, self.tokens = run, time.perf_counter(), 0
        if not self.quiet:
            waste = f"{run.padding:.1%} of the places in the first epoch's batches are padding"
            print(*run.left_out, waste, sep="\n")
        self.bar = tqdm(
            total=self.recipe.training.steps, initial=step, unit=" updates", file=sys.stderr,
            dynamic_ncols=True, disable=self.quiet,
        )

    def __call__(self, update: Update, translator: Translator) -> None:
        self.tokens += update.tokens
        speed = self.tokens / (time.perf_counter() - self.begun)
        self.bar.set_postfix_str(f"{speed:.0f} tokens/s, loss {update.loss:.2f}", refresh=False)
        self.bar.update()
        watched = self.run.watched
        in_turn = len(watched) % (WATCHES // self.LINES) == 0
        if update.step in watched and in_turn and not self.quiet:
            found = as_text(watched[update.step])
            self.bar.write(f"after {update.step} updates: {found}", file=sys.stdout)


def print_report(report: Report, quiet: bool, facts: dict) -> None:
    """What a test found in words, or as one JSON document."""
    if quiet:
        print(json.dumps({**facts, **report.document()}, ensure_ascii=False))
        return
    if "seconds" in facts:
        print(f"trained in {facts['seconds']} s")
    for line in report.lines():
        print(line)


def run_name(recipe: Recipe, seed: int) -> str:
    """A folder's name for a run: other settings than the recipe's own have another."""
    if recipe == RECIPES.get(recipe.name):
        return f"seed{seed}"
    ours = json.dumps(identity(recipe, seed))
    return f"seed{seed}-{hashlib.sha256(ours.encode()).hexdigest()[:8]}"


def runs_folder() -> Path:
    """Where runs go: $ANNOTATED_RUNS, or the user's cache."""
    if folder := os.environ.get("ANNOTATED_RUNS"):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("annotated") / "runs"
