"""An entry of the kind `Training`, run: trained as far as there is time, tested, recorded."""

import time
from functools import partial
from pathlib import Path
from pkgutil import resolve_name

import torch
from msgspec.structs import replace

from annotated.experiments.entries import Training
from annotated.jobs import Job, Result, Unavailable
from annotated.model import Transformer
from annotated.recipes import Recipe, Run, as_document, run_record, train
from annotated.recipes.run import is_watched
from annotated.recipes.task import as_text, batches_of
from annotated.records import as_metrics
from annotated.training import Update
from annotated.translation import Translator
from annotated.translation.checkpoints import save_checkpoint

TESTING = {"cpu": 0.2, "cuda": 0.1}  # the share of a run's time that is kept for its test…
TESTING_AT_MOST = 60.0  # … in seconds


def train_and_test(entry: Training, job: Job) -> Result:
    """Train, from where an earlier start was if the job has a folder, and test what is there then.

    When the time is up before the training's end, the model as it is is
    tested all the same, not averaged, under the name "…-unfinished". An entry
    with another model, or with more columns in its curve, can't go on
    later: of it nothing is left.
    """
    recipe = entry.resolve()
    try:
        data = recipe.task.open(job.data_dir)
    except FileNotFoundError as error:
        raise Unavailable(str(error)) from None
    tail = min(TESTING_AT_MOST, TESTING[job.device] * job.left())
    look = Look(entry, recipe, job)
    resumable = entry.model == Training.model and not (entry.column or entry.film)
    run = train(
        recipe, job.seed, look.after, folder=job.folder if resumable else None,
        data_dir=job.data_dir, device=job.device, stop=lambda: job.left() <= tail,
        start=look.start, build=resolve_name(entry.model),
    )
    done, steps = run.step, recipe.training.steps
    short = f"{done} of {steps} updates"
    if not run.finished and (job.interrupted() or not resumable):
        return Result(None, short, finished=False)
    report = data.test(run.translator)
    if entry.measures:
        report = resolve_name(entry.measures)(report, run.translator, recipe, job.seed)
    name = entry.name if run.finished else f"{entry.name}-unfinished"
    record = run_record(recipe, job.seed, run, report, job.command, name, job.device)
    if entry.column or entry.film:
        curve = [row | look.seen[row["step"]] for row in record.curve]
        record = replace(record, tables=record.tables | {"curve": curve})
    if not run.finished:
        metrics = as_metrics({"updates": done, "updates_planned": steps})
        record = replace(record, metrics=record.metrics | metrics)
    for line in report.lines():
        job.say(line)
    return Result(
        record, report.lines()[0] if run.finished else short, run.finished, report.translations,
        partial(save, recipe, job.seed, run),
    )


def save(recipe: Recipe, seed: int, run: Run, folder: Path) -> None:
    """Write the model of a `run` of `recipe` and `seed` into `folder`, in half precision."""
    model, tokenizer = run.translator.model, run.translator.tokenizer
    assert isinstance(model, Transformer), "the entries name classes of it"
    save_checkpoint(
        folder, model, tokenizer, torch.float16,
        recipe=as_document(recipe), seed=seed, updates=run.step,
    )


class Look:
    """What is measured and said wherever the recipe watches its model."""

    def __init__(self, entry: Training, recipe: Recipe, job: Job):
        self.recipe, self.job = recipe, job
        self.function = resolve_name(entry.column) if entry.column else None
        self.film = resolve_name(entry.film) if entry.film else None
        self.seen: dict[int, dict[str, float | str]] = {}

    def start(self, run: Run, step: int) -> None:
        """Before the first update; `step` of them were made by earlier starts."""
        self.run, self.begun, self.tokens = run, time.perf_counter(), 0
        for line in run.left_out:
            self.job.say(line)
        if step:
            self.job.say(f"going on after {step} of {self.recipe.training.steps} updates")

    def after(self, update: Update, translator: Translator) -> None:
        """After each update."""
        self.tokens += update.tokens
        if not is_watched(self.recipe, update.step):
            return
        seen = self.seen[update.step] = {}
        if self.film:
            seen.update(self.film(translator, self.recipe))
        if self.function:
            tokenizer, task = translator.tokenizer, self.recipe.task
            batches = batches_of(task.open().held_out_ids(tokenizer, task.watched), tokenizer)
            seen[self.function.__name__] = round(self.function(translator.model, batches), 4)
        speed = self.tokens / (time.perf_counter() - self.begun)
        told = as_text(self.run.watched[update.step])
        self.job.say(f"after {update.step} updates: {told}, {speed:.0f} tokens/s")
