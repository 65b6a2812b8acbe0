"""Training a recipe from a random seed, resumable: `train`, its log and its record."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from annotated.data.batches import IdPair, batch_plan, padding_of_lengths, pair_lengths
from annotated.data.files import Folder
from annotated.data.tokenizer import Tokenizer
from annotated.files import decoded, exclusive, write_atomically
from annotated.machine import disk_size, here_and_now, memory_size
from annotated.model import Transformer, TransformerConfig
from annotated.recipes.recipe import Recipe, as_document, settings
from annotated.recipes.task import Report, TaskData
from annotated.records import Record, as_metrics
from annotated.training import Trainer, Update
from annotated.training.states import KEPT, InFolder, InMemory, States
from annotated.training.world import World, local_device
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
    """Train a recipe's model from a random seed, on from where an earlier start was stopped.

    `after` is called after each update, with the model as it then is; `start`
    before the first, with the number of updates made by earlier starts; `stop`
    says after an update whether to end there. In a `folder` the run keeps its
    states and its log, and goes on from them. `data_dir` is where a corpus
    lies that is not where it is looked for. `device` is cpu or cuda, `world`
    the processes that train together. `build` makes the model, for experiments
    with another one; not in a folder, whose states would pass for the recipe's
    own. Raises ValueError for a recipe that can't be trained here, for states of
    another run or damaged ones, and for a folder that another run has.
    """
    if folder and build is not Transformer:
        raise ValueError("build is given together with a folder; expected one of the two")
    begun, device = time.perf_counter(), local_device(device)
    world = world or World(device=device)
    check_sizes(recipe, folder, world, build)
    data = recipe.task.open(data_dir)  # whatever is missing is missed before anything is made
    first = world.rank == 0
    with exclusive(folder) if folder and first else nullcontext():
        states: States = InMemory()
        if folder:
            states = kept = InFolder(folder / "states", identity(recipe, seed), writes=first)
            if first:
                kept.check_same_run()  # before anything of another is changed
        tokenizer, pairs, left_out = prepare(recipe, data, seed, folder, world)
        torch.manual_seed(seed)
        model = build(recipe.model).to(device)
        check_fit(model, tokenizer, "the tokenizer")
        run = Run(Translator(model, tokenizer, search=recipe.search), left_out=left_out)
        if first:
            run.padding = padding(recipe, pairs, seed)
        trainer = Trainer(model, recipe.training, seed, states, world)
        trainer.resume()
        path = folder / "log.jsonl" if folder and first else None
        with Log(path, run, trainer.step) as log:
            start(run, trainer.step)
            before = run.seconds

            def observe(update: Update) -> None:
                looked_at = first and is_watched(recipe, update.step)
                watched = data.watch(run.translator) if looked_at else {}
                run.seconds = before + time.perf_counter() - begun
                log.add(update, watched)
                after(update, run.translator)

            run.finished = trainer.fit(pairs, observe, stop)
    model.eval()
    run.step = trainer.step
    run.seconds = before + time.perf_counter() - begun
    return run


def check_sizes(
    recipe: Recipe, folder: Path | None, world: World,
    build: Callable[[TransformerConfig], Transformer] = Transformer,
) -> None:
    """ValueError for a recipe that can't be trained here, before anything is made for it.

    Its special ids must be the tokenizer's, its micro-batches fit the processes of `world`, the
    memory of the model that `build` makes the machine. Counted are weights, gradients and
    Adam's two moments, and the checkpoints to average, on disk if there is a `folder`.
    """
    recipe.training.check_processes(world.size)
    expected = (Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id)
    found = (recipe.model.pad_id, recipe.model.bos_id, recipe.model.eos_id)
    if found != expected:
        raise ValueError(f"the tokenizer has pad, bos, eos {expected}; the model expects {found}")
    parameters = count_parameters(recipe.model, build)
    averaged, in_memory = len(recipe.training.averaged()), 4
    if folder:
        check_room(parameters, averaged + 3 * KEPT, "the disk", disk_size(folder))
    else:
        in_memory += averaged
    check_room(parameters, in_memory, "the machine", memory_size(world.device))


def count_parameters(
    config: TransformerConfig, build: Callable[[TransformerConfig], Transformer]
) -> int | float:
    """The number of parameters, without making them; infinite beyond what PyTorch can count."""
    try:
        with torch.device("meta"):
            one, two = (
                sum(weight.numel() for weight in build(replace(config, layers=n)).parameters())
                for n in (1, 2)
            )
    except (RuntimeError, TypeError, OverflowError):
        return math.inf
    return one + (config.layers - 1) * (two - one)


def check_room(parameters: int | float, copies: int, where: str, there: int) -> None:
    """ValueError if so many float32 `copies` of the `parameters` have no room.

    `where` names the memory or disk, `there` is its room in bytes.
    """
    needed = 4 * parameters * copies
    if needed > there:
        raise ValueError(
            f"{parameters:.3g} parameters, {copies} times (model.*, training.average), take "
            f"{needed / 1e9:.3g} GB; {where} has {there / 1e9:.3g} GB"
        )


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
    """What must agree for a run to go on; where the data lie, and the search, may change."""
    kept = {n: value for n, value in settings(recipe).items() if not n.startswith("search.")}
    return {"recipe": recipe.name, "seed": seed, **kept}


def renew(recipe: Recipe, folder: Path, states: bool) -> None:
    """Delete what was prepared for another task, unless there are `states` that need it."""
    task = as_document(recipe)["task"]
    for left in folder.glob(".*.part"):  # of a process that was killed while it wrote
        left.unlink()
    path, wanted = folder / "task.json", (json.dumps(task, indent=1) + "\n").encode()
    if states or (path.exists() and path.read_bytes() == wanted):
        return
    for name in PREPARED:
        (folder / name).unlink(missing_ok=True)
    write_atomically(path, wanted)


def prepare(
    recipe: Recipe, data: TaskData, seed: int, folder: Path | None, world: World
) -> tuple[Tokenizer, Sequence[IdPair], list[str]]:
    """The tokenizer, the training pairs as ids, and in words what cleaning left out.

    All of `recipe`'s `data`, made-up pairs from the random `seed`; `world` are the processes.
    In a `folder` they are made once: by the first process, and by one more on each machine that
    does not see the first's folder. ValueError where one has other data than the first.
    """
    turn = 0 if world.rank == 0 else 1 if world.local_rank == 0 else 2
    for now in range(3) if folder else [turn]:
        if now == turn:
            prepared = read_or_make(recipe, data, seed, folder)
        if folder:
            world.wait()
    tokenizer, pairs, _ = prepared
    digest = hashlib.sha256(tokenizer.to_json().encode() + pair_lengths(pairs).tobytes())
    sums = world.each(int(digest.hexdigest()[:12], 16))
    for rank, other in enumerate(sums):
        if other != sums[0]:
            raise ValueError(f"process {rank} has another vocabulary or other pairs than the first")
    return prepared


def read_or_make(recipe: Recipe, data: TaskData, seed: int, folder: Path | None):
    """What `prepare` returns for `recipe`, `data`, `seed`, from `folder` as far as it is there."""
    if folder is None:
        tokenizer = data.tokenizer()
    else:
        renew(recipe, folder, states=any((folder / "states").glob("step-*.json")))
        path = folder / "tokenizer.json"
        if not path.exists():
            write_atomically(path, data.tokenizer().to_json().encode())
        tokenizer = Tokenizer.load(path)
    return tokenizer, *data.training_ids(tokenizer, seed, folder)


@dataclass(frozen=True)
class LogRow(Update):
    """A line of the log: an update, the run's seconds up to it, what `TaskData.watch` found."""

    elapsed: float
    watched: dict[str, float | str]  # JSON has no number for infinity


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
        kept = [row for row in rows if row.step <= step]
        for row in kept:
            self.append(row)
        lines = (json.dumps(asdict(row)) + "\n" for row in kept)
        write_atomically(path, "".join(lines).encode())
        self.file = open(path, "a", encoding="utf-8", buffering=1)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *error) -> None:
        if self.file:
            self.file.close()

    def append(self, row: LogRow) -> None:
        """Add a row to the run."""
        update = Update(**{name: getattr(row, name) for name in Update.__dataclass_fields__})
        self.run.updates.append(update)
        if row.watched:
            self.run.watched[update.step] = {n: float(x) for n, x in row.watched.items()}
        self.run.seconds = row.elapsed

    def add(self, update: Update, watched: dict[str, float]) -> None:
        """Add an update to the run and to the file."""
        written = {name: x if math.isfinite(x) else str(x) for name, x in watched.items()}
        row = LogRow(**asdict(update), elapsed=self.run.seconds, watched=written)
        self.append(row)
        if self.file:
            self.file.write(json.dumps(asdict(row)) + "\n")


def read_log(path: Path) -> list[LogRow]:
    """The rows of a log, but for a last one that was cut short."""
    rows: list[LogRow] = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            try:
                rows.append(decoded(line, LogRow, f"{path}, line {number}"))
            except ValueError as error:
                raise ValueError(f"{error}; delete the file to go on without a record") from None
    return rows


def run_record(
    recipe: Recipe, seed: int, run: Run, report: Report, command: str,
    experiment: str | None = None, device: str = "cpu",
) -> Record:
    """A training `run` of `recipe` and `seed` as a record: its curve, and its `report`.

    `command` made it, on `device`. A point of the curve is a step at which the model was
    watched, with that update's loss and rate. `experiment` is the recipe's name by default.
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
