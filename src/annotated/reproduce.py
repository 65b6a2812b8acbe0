"""Every number that needs a machine, in one command: `annotated reproduce`.

    annotated reproduce --device cuda --minutes 9 --out DIR

The minutes are divided among named stages. Each writes its records as soon as
they are made, so the command may be killed at any time: started again with
the same --out it leaves out what is done and goes on with training where it
was. At the end, and after each stage, all that is worth keeping is packed
into one small file. What a borrowed machine may lack (num2words, pooch,
sacremoses, Jupyter) is not needed.
"""

import io
import json
import math
import shutil
import tarfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer
from msgspec.structs import replace

from annotated import paper, records
from annotated.benchmark.flops import work
from annotated.benchmark.step import DTYPES, Rate, matrix_rate, step_record, step_time
from annotated.commands import MAX_SEED, check_writable
from annotated.files import read_document, write_atomically, write_json
from annotated.model import TransformerConfig
from annotated.recipes import RECIPES, Recipe, Run, TextTask, as_document, run_record, train
from annotated.recipes.task import as_text
from annotated.records import Record
from annotated.signals import Signals
from annotated.training import Update
from annotated.translation import Translator
from annotated.translation.checkpoints import save_checkpoint

PACK, LIMIT = "reproduction.tar.gz", 16 * 2**20
PACKING = 2.0  # seconds kept for the last pack
CPU_MICRO_BATCH = 4096  # tokens a side: more of base's logits would not fit a laptop

# ---------------------------------------------------------------- the time


class Clock(Signals):
    """The seconds that are left; after SIGINT or SIGTERM there are none."""

    def __init__(self, seconds: float):
        super().__init__()
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return 0.0 if self.signal else max(0.0, self.end - time.monotonic())


class Outcome(NamedTuple):
    """How a stage ended: "done", "unfinished", "skipped" or "failed", and why."""

    state: str
    note: str


@dataclass(frozen=True)
class Job:
    """What a stage is given: where, on what, from which seed, for how long."""

    out: Path
    device: str
    seed: int
    seconds: float
    clock: Clock
    data_dir: Path | None
    command: str
    commit: str
    say: Callable[[str], None]
    begun: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds of this stage that are left."""
        return min(self.clock.left(), max(0.0, self.begun + self.seconds - time.monotonic()))

    def keep(self, record: Record, translations: Sequence[str] = ()) -> None:
        """Write a record now, and the translations that its scores are of."""
        if self.commit:
            record = replace(record, commit=self.commit)
        if translations:
            path = translations_of(self.out, record)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(list(translations), ensure_ascii=False, indent=0)
            write_atomically(path, f"{text}\n".encode())
        self.say(f"record: {records.write(record, self.out / 'records')}")


@dataclass(frozen=True)
class Stage:
    """A part of the reproduction.

    `least` is the seconds below which it isn't begun, by device; `share`
    weighs it against others when there is more.
    """

    name: str
    about: str
    run: Callable[[Job], Outcome]
    least: dict[str, float]
    share: float


def plan(stages: Iterable[Stage], device: str, seconds: float) -> dict[str, float]:
    """Stage -> seconds; stages that don't fit are left out, the longest first.

    Each gets its least and a share of what is then left over. The sum is
    `seconds`, or nothing fits.
    """
    chosen = list(stages)
    while chosen and sum(stage.least[device] for stage in chosen) > seconds:
        chosen.remove(max(chosen, key=lambda stage: stage.least[device]))
    over = seconds - sum(stage.least[device] for stage in chosen)
    shares = sum(stage.share for stage in chosen)
    return {stage.name: stage.least[device] + over * stage.share / shares for stage in chosen}


# -------------------------------------------------------------- the stages


def time_steps(model: str) -> Callable[[Job], Outcome]:
    """§5.2: step time, tokens per second and utilisation of "base" or "big".

    In bfloat16 on a GPU, float32 on a CPU. The budget is the paper's, or as
    much of it as the time allows.
    """

    def run(job: Job) -> Outcome:
        precision = "bfloat16" if job.device == "cuda" else "float32"
        rate = matrix_rate(job.device, DTYPES[precision], min(5.0, job.left() / 6))
        budget, left = affordable(model, rate, job.left()), job.left()
        if 4 * (one := expected(model, rate, budget)) > left:
            return Outcome(
                "skipped",
                f"too slow a machine: an update of {budget} + {budget} tokens would take about "
                f"{one:.3g} s, and four of them are the least; {left:.0f} s are left",
            )
        on_cpu = job.device == "cpu"
        steps = step_time(
            model, job.device, precision, budget, seconds=job.left(), seed=job.seed,
            micro_batches=math.ceil(budget / CPU_MICRO_BATCH) if on_cpu else 1,
        )
        made = step_record(
            steps, rate, experiment=f"step-{model}-{precision}", command=job.command, seed=job.seed
        )
        job.keep(made)
        return Outcome(
            "done",
            f"{made.value('step_seconds'):.3g} s an update of {budget} + {budget} tokens in "
            f"{precision}, {made.value('target_tokens_per_second'):.0f} target tokens/s, "
            f"{made.value('utilisation'):.0%} of the measured {rate.best / 1e12:.3g} TFLOP/s",
        )

    return run


def affordable(model: str, rate: Rate, seconds: float) -> int:
    """The paper's budget of tokens a side, halved until eight updates fit; at least 64."""
    budget = paper.TRAINING.target_tokens
    while budget >= 128 and 8 * expected(model, rate, budget) > seconds:
        budget //= 2
    return budget


def expected(model: str, rate: Rate, budget: int) -> float:
    """Seconds of an update at a third of the matrix rate, which is a guess."""
    config = getattr(TransformerConfig, model)()
    return work(config, max(1, budget // 25), 25, 25).update / (rate.best / 3)


def numbers(job: Job) -> Outcome:
    """The embedded default: needs no file; letters where num2words isn't there."""
    name = "numbers-en-de"
    try:
        import num2words  # noqa: F401
    except ImportError:
        job.say("num2words is not installed: the recipe copy in place of numbers-en-de")
        name = "copy"
    return train_and_test(RECIPES[name], job)


def multi30k(job: Job) -> Outcome:
    """§6.1: captions to the end, with both BLEUs where sacremoses is."""
    recipe = RECIPES["multi30k-en-de"]
    try:
        recipe.task.open(job.data_dir)
    except FileNotFoundError as error:
        return Outcome("skipped", str(error))
    return train_and_test(recipe, job)


TESTING = {"cpu": 0.2, "cuda": 0.1}  # the share of a stage's time kept for its test…
TESTING_AT_MOST = 60.0  # … in seconds


def train_and_test(recipe: Recipe, job: Job) -> Outcome:
    """Train on from where an earlier start was, and test what is there then.

    When the time is up before the training's end, the model as it is is
    tested all the same, not averaged, under the name "…-unfinished".
    """
    tail = min(TESTING_AT_MOST, TESTING[job.device] * job.seconds)
    watch, folder = Watch(recipe, job), job.out / "runs" / recipe.name
    check_writable(folder)
    run = train(
        recipe, job.seed, watch, folder=folder, data_dir=job.data_dir, device=job.device,
        stop=lambda: job.left() <= tail, start=watch.start,
    )
    done, steps = run.step, recipe.training.steps
    short = f"{done} of {steps} updates; start again with the same --out to go on"
    if job.clock.signal:
        return Outcome("unfinished", short)
    unfinished = f"{recipe.name}-unfinished"
    name = recipe.name if run.finished else unfinished
    report = recipe.task.open(job.data_dir, training=False).test(run.translator)
    made = run_record(recipe, job.seed, run, report, job.command, name, job.device)
    counted = records.as_metrics({"updates": done, "updates_planned": steps})
    job.keep(replace(made, metrics=made.metrics | counted), report.translations)
    save_checkpoint(
        job.out / "models" / name, run.translator.model, run.translator.tokenizer,
        torch.float16, recipe=as_document(recipe), seed=job.seed, updates=done,
    )
    for line in report.lines():
        job.say(line)
    if not run.finished:
        return Outcome("unfinished", short)
    for part in ("records", "translations", "models"):
        shutil.rmtree(job.out / part / unfinished, ignore_errors=True)
    return Outcome("done", report.lines()[0])


class Watch:
    """Says now and then what is learnt, with the speed so far."""

    def __init__(self, recipe: Recipe, job: Job):
        self.recipe, self.job = recipe, job
        self.run: Run | None = None

    def start(self, run: Run, step: int) -> None:
        """Before the first update; `step` of them were made by earlier starts."""
        self.run, self.begun, self.tokens = run, time.perf_counter(), 0
        for line in run.left_out:
            self.job.say(line)
        if step:
            self.job.say(f"going on after {step} of {self.recipe.training.steps} updates")

    def __call__(self, update: Update, translator: Translator) -> None:
        self.tokens += update.tokens
        if watched := self.run.watched.get(update.step):
            speed = self.tokens / (time.perf_counter() - self.begun)
            self.job.say(
                f"after {update.step} updates: {as_text(watched)}, {speed:.0f} tokens/s"
            )


STAGES = {
    stage.name: stage
    for stage in (
        Stage(
            "step-base", "time of a training step of the base model, beside the matrix rate",
            time_steps("base"), {"cpu": 12.0, "cuda": 20.0}, 0.1,
        ),
        Stage(
            "step-big", "the same of the big model",
            time_steps("big"), {"cpu": 45.0, "cuda": 25.0}, 0.1,
        ),
        Stage(
            "numbers", "the embedded default: numbers in words, trained and tested",
            numbers, {"cpu": 20.0, "cuda": 30.0}, 0.3,
        ),
        Stage(
            "multi30k", "captions, English to German, with BLEU",
            multi30k, {"cpu": 180.0, "cuda": 90.0}, 1.0,
        ),
    )
}


def stages_named(names: Iterable[str]) -> list[Stage]:
    """The stages in their own order; ValueError for an unknown one."""
    asked = list(names)
    for name in asked:
        if name not in STAGES:
            raise ValueError(f"no stage {name!r}; there are {', '.join(STAGES)}")
    return [stage for stage in STAGES.values() if stage.name in asked] or list(STAGES.values())


# ------------------------------------------------------------- the command


def reproduce(
    out: Path,
    device: str,
    minutes: float,
    *,
    stages: Sequence[str] = (),
    seed: int = 0,
    data_dir: Path | None = None,
    pack_to: Path | None = None,
    commit: str = "",
) -> int:
    """Run the stages, within the minutes, and pack what they made.

    The minutes are those of this call. Returns 0; 1 if a stage failed;
    128 + the number of the signal that stopped it. Raises ValueError for what
    can't be meant, before anything is run.
    """
    if not (0 < minutes < math.inf):
        raise ValueError(f"minutes is {minutes}; expected a number above 0")
    check_device(device)
    chosen = stages_named(stages)
    check_writable(out)
    check_same_run(out, {"device": device, "seed": seed})
    pack_to = pack_to or out / PACK
    check_writable(pack_to.parent)
    command = f"annotated reproduce --device {device} --minutes {minutes:g} --seed {seed}"
    command += f" --stages {','.join(stages)}" if stages else ""
    with Clock(60 * minutes - PACKING) as clock, open(out / "log.txt", "a", buffering=1) as log:

        def say(text: str) -> None:
            print(text, flush=True)
            log.write(f"{time.strftime('%H:%M:%S')} {text}\n")

        say(command)
        for place, stage in enumerate(chosen):
            if state_of(out, stage.name) == "done":
                say(f"{stage.name}: done before")
                continue
            if clock.signal:
                break
            rest = [s for s in chosen[place:] if state_of(out, s.name) != "done"]
            seconds = plan(rest, device, clock.left()).get(stage.name, 0.0)
            job = Job(out, device, seed, seconds, clock, data_dir, command, commit, say)
            outcome = attempt(stage, job)
            say(f"{stage.name}: {outcome.state}: {outcome.note}")
            note = {**outcome._asdict(), "seconds": round(time.monotonic() - job.begun, 1)}
            (out / "stages").mkdir(exist_ok=True)
            write_json(out / "stages" / f"{stage.name}.json", note)
            if outcome.state != "skipped":
                pack(out, pack_to, command)  # whatever happens next, this much can be fetched
        for line in pack(out, pack_to, command):
            say(line)
        if clock.signal:
            return 128 + clock.signal
        return int(any(state_of(out, stage.name) == "failed" for stage in chosen))


def check_device(device: str) -> None:
    """ValueError for a device that is neither cpu nor a cuda that is there."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; expected cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device here")


def check_same_run(out: Path, about: dict[str, Any]) -> None:
    """A folder is of one device and seed; ValueError for another's."""
    path = out / "about.json"
    if not path.exists():
        write_json(path, about)
    there = json.loads(path.read_text(encoding="utf-8"))
    if there != about:
        raise ValueError(
            f"{out} holds a reproduction with {_words(there)}, not {_words(about)}; "
            "choose another --out"
        )


def _words(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def attempt(stage: Stage, job: Job) -> Outcome:
    """Run a stage: what it raises is its outcome, and the others go on."""
    if not job.seconds:
        least = stage.least[job.device]
        return Outcome(
            "skipped",
            f"needs {least:g} s beside the stages before it; {job.clock.left():.0f} s are left",
        )
    job.say(f"{stage.name}: {stage.about}; {job.seconds:.0f} s")
    try:
        return stage.run(job)
    except Exception as error:  # a full disk, a full memory, a diverging loss
        job.say(traceback.format_exc())
        return Outcome("failed", " ".join(f"{type(error).__name__}: {error}".split()))


def state_of(out: Path, stage: str) -> str | None:
    """How the stage ended in an earlier start or this one; None if not at all."""
    path = out / "stages" / f"{stage}.json"
    return json.loads(path.read_text(encoding="utf-8"))["state"] if path.exists() else None


# ---------------------------------------------------------------- the pack

# In order of worth: what does not fit any more is left out from the end. States to go on from are
# never packed: they are many times larger than the model they lead to.
WORTH = (
    "about.json", "records/**/*.json", "translations/**/*.json", "stages/*.json", "log.txt",
    "models/**/config.json", "models/**/tokenizer.json", "models/**/model.safetensors",
    "runs/*/log.jsonl",
)


def pack(out: Path, path: Path, command: str, limit: int = LIMIT) -> list[str]:
    """One .tar.gz under `limit` bytes with all that is worth keeping; says what it holds.

    It has a summary of its own, summary.json, with what was left out.
    """
    chosen, left_out, size = [], [], 64 * 1024
    for file in (file for pattern in WORTH for file in sorted(out.glob(pattern))):
        packed = len(zlib.compress(file.read_bytes(), 6)) + 1024  # with its header
        size += packed
        if size < limit:
            chosen.append(file)
        else:
            size -= packed
            left_out.append(str(file.relative_to(out)))
    stages = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted((out / "stages").glob("*.json"))
    }
    summary = {"command": command, "stages": stages, "left_out": left_out}
    write_json(out / "summary.json", summary)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file in (out / "summary.json", *chosen):
            archive.add(file, file.relative_to(out).as_posix())
    if buffer.tell() > limit:
        raise ValueError(f"{path} would have {buffer.tell()} bytes; expected at most {limit}")
    write_atomically(path, buffer.getvalue())
    said = [f"packed: {path} ({buffer.tell()} bytes, {len(chosen) + 1} files)"]
    return said + [f"left out of it, too large: {name}" for name in left_out]


def translations_of(out: Path, record: Record) -> Path:
    """Where the translations that a record's scores are of are kept."""
    return out / "translations" / record.experiment / record.filename


def score(out: Path, data_dir: Path | None = None) -> list[str]:
    """§6.1: both BLEUs of every translation in a folder, written into its records.

    For translations made where sacremoses, or the references, were not.
    Returns a line for each record.
    """
    lines = []
    for path in sorted((out / "records").glob("*/*.json")):
        record = records.read(path)
        answers, recipe = translations_of(out, record), RECIPES.get(str(record.recipe))
        if not answers.exists() or recipe is None or not isinstance(recipe.task, TextTask):
            continue
        found, notes = recipe.task.open(data_dir, training=False).bleus(
            read_document(answers, list[str])
        )
        lines += notes
        metrics = record.metrics | {bleu.name: bleu.metric for bleu in found}
        records.write(replace(record, metrics=metrics), out / "records")
        lines += [f"{record.experiment}: {bleu.name} {bleu.value:.2f}" for bleu in found]
    return lines


def reproduce_command(
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for all that is made, and to go on from.")
    ],
    minutes: Annotated[float, typer.Option(help="Time for all stages together.")] = 10.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = (
        "cuda" if torch.cuda.is_available() else "cpu"
    ),
    stages: Annotated[
        str, typer.Option(help=f"Some of them, with commas: {','.join(STAGES)}.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Where chance starts.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the corpora lie, if not where they are looked for.")
    ] = None,
    pack_to: Annotated[
        Path | None,
        typer.Option("--pack", dir_okay=False, help=f"The packed file, if not {PACK} in --out."),
    ] = None,
    commit: Annotated[
        str, typer.Option(help="The commit this code is at, where git can't say.")
    ] = "",
    score_only: Annotated[
        bool, typer.Option("--score", help="Only score the translations in --out, and pack again.")
    ] = False,
) -> int:
    """Make every record that needs a machine, within a time, and pack them.

    Killed and started again with the same --out, it goes on.
    """
    if score_only:
        for line in score(out, data_dir) or ["no translations to score"]:
            print(line)
        for line in pack(out, pack_to or out / PACK, "annotated reproduce --score"):
            print(line)
        return 0
    names = [name.strip() for name in stages.split(",") if name.strip()]
    return reproduce(
        out, device, minutes, stages=names, seed=seed, data_dir=data_dir, pack_to=pack_to,
        commit=commit,
    )
