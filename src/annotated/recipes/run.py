"""A recipe and a seed become a trained model, with stops in between if need be."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from annotated.data.batches import IdPair, batch_plan, padding_of_lengths, pair_lengths
from annotated.data.files import Folder
from annotated.data.tokenizer import Tokenizer
from annotated.files import write_atomically
from annotated.machine import here_and_now
from annotated.model import Transformer, TransformerConfig
from annotated.recipes.recipe import Recipe, as_document, settings
from annotated.recipes.task import Report, TaskData
from annotated.records import Record, as_metrics
from annotated.training import Trainer, Update
from annotated.training.states import InFolder, InMemory
from annotated.training.world import World
from annotated.translation import Translator
from annotated.translation.checkpoints import check_fit

WATCHES = 20  # how often a model is looked at during its training
PREPARED = "tokenizer.json", "train.ids", "cleaning.json"


@dataclass
class Run:
    """What a training run leaves: the model, its way there, and its time.

    `watched` has, by step, what `TaskData.watch` found. `seconds` counts
    data, updates and looks, of all its starts, not the time in between.
    `left_out` says in words what cleaning did; `padding` is its share of
    the batches of the first epoch (§5.1), 0 in all processes but the first.
    `finished` is False for a run that was asked to stop, after `step`
    updates. Where a log was lost, `updates` lacks those that it told of.
    """

    translator: Translator
    updates: list[Update] = field(default_factory=list)
    watched: dict[int, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)
    padding: float = 0.0
    finished: bool = False
    step: int = 0


def train(
    recipe: Recipe,
    seed: int,
    after: Callable[[Update, Translator], None] = lambda update, translator: None,
    *,
    folder: Path | None = None,
    data_dir: Folder = None,
    device: str = "cpu",
    world: World | None = None,
    stop: Callable[[], bool] = lambda: False,
    start: Callable[[Run, int], None] = lambda run, step: None,
    build: Callable[[TransformerConfig], Transformer] = Transformer,
) -> Run:
    """Data, tokenizer, model, updates: all of it from the recipe and a seed.

    `after` is called after each update with the model as it then is, and
    `start` before the first with the number that were made before. In a
    `folder` the run keeps its states and its log, and goes on from them if
    it was stopped; ValueError if they are of another run, or damaged. `build`
    makes the model, for experiments with another one; not in a folder, whose
    states would pass for the recipe's own.
    """
    if folder and build is not Transformer:
        raise ValueError("build is given together with a folder; expected one of the two")
    begun, world, states = time.perf_counter(), world or World(), InMemory()
    data = recipe.task.open(data_dir)  # whatever is missing is missed before anything is made
    if folder:
        states = InFolder(folder / "states", identity(recipe, seed), writes=world.rank == 0)
        for step in states.steps()[-1:]:
            states.said(states.note(step))  # of another run? Before anything of it is changed
        if world.rank == 0:
            renew(recipe, folder, states)
    tokenizer, pairs, left_out = prepare(data, seed, folder, world)
    torch.manual_seed(seed)
    model = build(recipe.model).to(device)
    check_fit(model, tokenizer, "the tokenizer")
    run = Run(Translator(model, tokenizer), left_out=left_out)
    if world.rank == 0:
        run.padding = padding(recipe, pairs, seed)
    trainer = Trainer(model, recipe.training, seed, states, world)
    trainer.resume()
    path = folder / "log.jsonl" if folder and world.rank == 0 else None
    log = Log(path, run, trainer.step)
    start(run, trainer.step)
    before = run.seconds

    def keep(update: Update) -> None:
        watched = {}
        if world.rank == 0 and is_watched(recipe, update.step):
            watched = data.watch(run.translator)
        run.seconds = before + time.perf_counter() - begun
        log.add(update, watched)
        after(update, run.translator)

    with log:
        run.finished = trainer.fit(pairs, keep, stop)
    model.eval()
    run.step = trainer.step
    run.seconds = before + time.perf_counter() - begun
    return run


def padding(recipe: Recipe, pairs: Sequence[IdPair], seed: int) -> float:
    """§5.1: the share of the first epoch's batches that is padding."""
    training, lengths = recipe.training, pair_lengths(pairs)
    budget = training.batch_tokens // training.micro_batches
    plan = batch_plan(lengths, budget, seed, length_noise=training.length_noise)
    return padding_of_lengths(lengths[places] for places in plan).both


def is_watched(recipe: Recipe, step: int) -> bool:
    """Whether the model is looked at after that update."""
    return step % max(recipe.training.steps // WATCHES, 1) == 0


def identity(recipe: Recipe, seed: int) -> dict[str, Any]:
    """What must agree for a run to go on; where the data lie may change."""
    return {"recipe": recipe.name, "seed": seed, **settings(recipe)}


def renew(recipe: Recipe, folder: Path, states: InFolder) -> None:
    """Forget what was prepared for another task, before there was a state."""
    task = as_document(recipe)["task"]
    for left in folder.glob(".*.part"):  # of a process that was killed while it wrote
        left.unlink()
    path, said = folder / "task.json", (json.dumps(task, indent=1) + "\n").encode()
    if states.steps() or (path.exists() and path.read_bytes() == said):
        return
    for name in PREPARED:
        (folder / name).unlink(missing_ok=True)
    write_atomically(path, said)


def prepare(data: TaskData, seed: int, folder: Path | None, world: World):
    """Tokenizer and pairs of ids: of several processes, the first makes them."""
    if folder and world.rank:
        world.wait()
    path = folder / "tokenizer.json" if folder else None
    if path and path.exists():
        tokenizer = Tokenizer.load(path)
    else:
        tokenizer = data.tokenizer()
        if path:
            write_atomically(path, tokenizer.to_json().encode())
    pairs, left_out = data.training_ids(tokenizer, seed, folder)
    if folder and not world.rank:
        world.wait()
    return tokenizer, pairs, left_out


class Log:
    """One JSON document a line and update: what a record's curve is made of.

    Lines of updates after `step` are of a part that a stop undid: dropped,
    like a line that was cut short.
    """

    def __init__(self, path: Path | None, run: Run, step: int):
        self.run, self.file = run, None
        if path is None:
            return
        rows = read_log(path) if step and path.exists() else []
        kept = [row for row in rows if row["step"] <= step]
        for row in kept:
            self.note(row)
        write_atomically(path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self.file = open(path, "a", encoding="utf-8", buffering=1)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *error) -> None:
        if self.file:
            self.file.close()

    def note(self, row: dict[str, Any]) -> None:
        update = Update(**{name: row[name] for name in Update.__dataclass_fields__})
        self.run.updates.append(update)
        if row["watched"]:
            self.run.watched[update.step] = row["watched"]
        self.run.seconds = row["elapsed"]

    def add(self, update: Update, watched: dict[str, float]) -> None:
        row = {**asdict(update), "elapsed": self.run.seconds, "watched": watched}
        self.note(row)
        if self.file:
            self.file.write(json.dumps(row) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log, but for a last one that was cut short."""
    rows, columns = [], (*Update.__dataclass_fields__, "elapsed", "watched")
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            try:
                row = json.loads(line)
                rows.append({name: row[name] for name in columns})
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{path}, line {number} is damaged; delete the file to go on without a record"
                ) from None
    return rows


def run_record(
    recipe: Recipe, seed: int, run: Run, report: Report, command: str,
    experiment: str | None = None, device: str = "cpu",
) -> Record:
    """A training run as a record: its curve, and all that was measured.

    A point of the curve is a step at which the model was watched, with that
    update's loss and rate. `experiment` is the recipe's name by default.
    Raises ValueError for a run whose log was lost in part.
    """
    if len(run.updates) != run.step:
        raise ValueError(
            f"the log tells of {len(run.updates)} of {run.step} updates; a record needs them all"
        )
    updates = {update.step: update for update in run.updates}
    curve = [
        {"step": step, "loss": round(updates[step].loss, 4),
         "rate": float(f"{updates[step].rate:.4g}"), "norm": float(f"{updates[step].norm:.4g}"),
         **watched}
        for step, watched in run.watched.items()
    ]
    tokens = sum(update.tokens for update in run.updates) / len(run.updates)
    spent = sum(update.seconds for update in run.updates) / len(run.updates)
    metrics = report.metrics | as_metrics({
        "update_seconds": float(f"{spent:.4g}"), "padding": round(run.padding, 4),
    })
    tables = {"curve": curve, **report.tables} if curve else report.tables
    return Record(
        experiment=experiment or recipe.name, command=command, recipe=recipe.name, seed=seed,
        precision=recipe.training.precision, seconds=round(run.seconds, 1),
        tokens_per_update=round(tokens), metrics=metrics, tables=tables, **here_and_now(device),
    )
