"""Recording what is missing, within so many minutes: `annotated reproduce`.

    annotated reproduce --device cuda --minutes 9 --out DIR

The minutes go to those experiments of the registry that have no record in DIR
yet, the most wanted first. Each writes its record as soon as it is made, so
the command may be killed at any time: started again with the same --out it
leaves out what is there and goes on with training where it was. After each,
all that is worth keeping is packed into one small file. What a borrowed
machine may lack (num2words, pooch, sacremoses, Jupyter) is not needed.
"""

import io
import json
import math
import shutil
import tarfile
import time
import traceback
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from msgspec.structs import replace

from annotated import records
from annotated.experiments import EXPERIMENTS, Experiment, experiment_named
from annotated.files import check_writable, read_document, write_atomically, write_json
from annotated.jobs import Job, Result, Unavailable
from annotated.recipes import RECIPES, TextTask
from annotated.records import Record
from annotated.signals import Signals

PACK, LIMIT = "reproduction.tar.gz", 16 * 2**20
PACKING = 2.0  # seconds kept for the last pack

# ---------------------------------------------------------------- the plan


class Clock:
    """The seconds that are left; after a signal there are none."""

    def __init__(self, seconds: float, signals: Signals):
        self.end, self.signals = time.monotonic() + seconds, signals

    def left(self) -> float:
        return 0.0 if self.signals.signal else max(0.0, self.end - time.monotonic())


class Work(NamedTuple):
    """A record that is missing: an experiment and a seed."""

    experiment: Experiment
    seed: int

    @property
    def name(self) -> str:
        """Of its files and folders."""
        return f"{self.experiment.name}-seed{self.seed}"


class Outcome(NamedTuple):
    """How it ended: "done", "unfinished", "skipped" or "failed", and why."""

    state: str
    note: str


def missing(experiments: Sequence[Experiment], device: str, root: Path) -> list[Work]:
    """The work whose record is not in the folder: a first seed of each, then a second, and so on.

    Within a seed as the experiments are ordered.
    """
    work = [Work(e, seed) for e in experiments for seed in e.missing(device, root)]
    return sorted(work, key=lambda one: one.seed)


def plan(work: Sequence[Work], device: str, seconds: float) -> dict[str, float]:
    """Names of the work that fits into the time, each with its seconds.

    From the most wanted on, each that still fits beside those before it gets
    its least; what is left over is shared among those that can use it.
    """
    given: dict[str, float] = {}
    shares: dict[str, float] = {}
    left = seconds
    for one in work:
        least = one.experiment.least[device]
        if least <= left:
            given[one.name], shares[one.name] = least, one.experiment.share
            left -= least
    total = sum(shares.values())
    return {
        name: least + (left * shares[name] / total if total else left)
        for name, least in given.items()
    }


# ---------------------------------------------------------------- the loop


@dataclass(frozen=True)
class Folder:
    """All that is made, and what is needed to go on."""

    path: Path

    @property
    def records(self) -> Path:
        return self.path / "records"

    def states(self, work: Work, device: str) -> Path:
        """Where a training that can be resumed keeps its states."""
        return self.path / "runs" / f"{work.name}-{device}"

    def keep(self, result: Result, commit: str = "") -> Path:
        """Write the record, its translations and the model; returns the record's path."""
        record = result.record
        if record is None:
            raise ValueError(f"there is no record to keep: {result.note}")
        if commit:
            record = replace(record, commit=commit)
        if result.translations:
            path = translations_of(self.path, record)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(list(result.translations), ensure_ascii=False, indent=0)
            write_atomically(path, f"{text}\n".encode())
        place = f"{record.experiment}/{record.filename}"
        if result.save:
            result.save(self.path / "models" / Path(place).with_suffix(""))
        if result.finished:  # what was kept of it before its end
            unfinished = f"{record.experiment}-unfinished/{record.filename}"
            for part in ("records", "translations"):
                (self.path / part / unfinished).unlink(missing_ok=True)
            shutil.rmtree(self.path / "models" / Path(unfinished).with_suffix(""), True)
        return records.write(record, self.records)

    def write_outcome(self, work: Work, outcome: Outcome, seconds: float) -> None:
        """Keep how the work ended, for the summary."""
        (self.path / "outcomes").mkdir(exist_ok=True)
        told = {**outcome._asdict(), "seconds": round(seconds, 1)}
        write_json(self.path / "outcomes" / f"{work.name}.json", told)


def reproduce(
    out: Path,
    device: str,
    minutes: float,
    *,
    only: Sequence[str] = (),
    data_dir: Path | None = None,
    pack_to: Path | None = None,
    commit: str = "",
) -> int:
    """Record what is missing in `out`, within the minutes of this call, and pack what was made.

    out: the folder for all that is made, and to go on from.
    device: "cpu" or "cuda".
    only: names of experiments, by default all.
    data_dir: where corpora lie, if not where they are looked for.
    pack_to: the packed file, by default in `out`.
    commit: the commit this code is at, where git can't say.

    Returns 0; 1 if something failed; 128 + the number of the signal that
    stopped it. Raises ValueError for what can't be meant, before anything is run.
    """
    if not (0 < minutes < math.inf):
        raise ValueError(f"minutes is {minutes}; expected a number above 0")
    check_device(device)
    chosen = [experiment_named(name) for name in only] or list(EXPERIMENTS.values())
    if commit:
        records.check("--commit", "commit", commit)
    folder, pack_to = Folder(out), pack_to or out / PACK
    for needed in (out, pack_to.parent):
        check_writable(needed)
    command = f"annotated reproduce --device {device} --minutes {minutes:g}"
    command += f" --only {','.join(only)}" if only else ""
    failed = False
    with Signals() as signals, open(out / "log.txt", "a", buffering=1) as log:
        clock = Clock(60 * minutes - PACKING, signals)

        def say(text: str) -> None:
            print(text, flush=True)
            log.write(f"{time.strftime('%H:%M:%S')} {text}\n")

        say(command)
        work = missing(chosen, device, folder.records)
        while work and not signals.signal:
            one = work[0]
            seconds = plan(work, device, clock.left()).get(one.name, 0.0)
            work = work[1:]
            begun = time.monotonic()
            outcome = attempt(one, device, seconds, clock, folder, data_dir, commit, say)
            failed |= outcome.state == "failed"
            say(f"{one.name}: {outcome.state}: {outcome.note}")
            folder.write_outcome(one, outcome, time.monotonic() - begun)
            if outcome.state != "skipped":
                pack(out, pack_to, command)  # whatever happens next, this much can be fetched
        for line in pack(out, pack_to, command):
            say(line)
        return 128 + signals.signal if signals.signal else int(failed)


def attempt(
    work: Work, device: str, seconds: float, clock: Clock, folder: Folder,
    data_dir: Path | None, commit: str, say: Callable[[str], None],
) -> Outcome:
    """Run a piece of `work` for so many `seconds` on `device` and keep in `folder` what it made.

    `clock` has the time of all together, `data_dir` is where corpora lie, `commit` goes into the
    record where git can't say, `say` prints a line. What it raises is its outcome, and others
    go on.
    """
    experiment = work.experiment
    if not seconds:
        return Outcome(
            "skipped", f"needs {experiment.least[device]:g} s beside what is wanted more; "
            f"{clock.left():.0f} s are left",
        )
    say(f"{work.name}: {seconds:.0f} s")
    end = time.monotonic() + seconds
    job = Job(
        experiment.name, work.seed, device, data_dir, folder.states(work, device),
        lambda: min(clock.left(), max(0.0, end - time.monotonic())),
        lambda: bool(clock.signals.signal), say,
    )
    try:
        result = experiment.make(job)
        if result.record:
            say(f"record: {folder.keep(result, commit)}")
    except Unavailable as error:
        return Outcome("skipped", str(error))
    except Exception as error:  # a full disk, a full memory, a diverging loss
        say(traceback.format_exc())
        return Outcome("failed", " ".join(f"{type(error).__name__}: {error}".split()))
    if result.finished:
        return Outcome("done", result.note)
    return Outcome("unfinished", f"{result.note}; start again with the same --out to go on")


def check_device(device: str) -> None:
    """ValueError for a device that is neither cpu nor a cuda that is there."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; expected cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device here")


# ---------------------------------------------------------------- the pack

# In order of worth: what does not fit any more is left out from the end. States to go on from are
# never packed: they are many times larger than the model they lead to.
WORTH = (
    "records/**/*.json", "translations/**/*.json", "outcomes/*.json", "log.txt",
    "models/**/config.json", "models/**/tokenizer.json", "models/**/model.safetensors",
    "runs/*/log.jsonl",
)


def pack(out: Path, path: Path, command: str, limit: int = LIMIT) -> list[str]:
    """Write one .tar.gz under `limit` bytes with all of `out` worth keeping; says what it holds.

    It goes to `path`; `command` is noted in it. It has a summary of its own, summary.json, with
    what was left out.
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
    outcomes: dict[str, dict] = {
        file.stem: read_document(file, dict) for file in sorted((out / "outcomes").glob("*.json"))
    }
    summary = {"command": command, "outcomes": outcomes, "left_out": left_out}
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


def score_and_pack(out: Path, pack_to: Path, data_dir: Path | None = None) -> list[str]:
    """Score what is in a folder, and pack it again; in lines what was done."""
    if not (out / "records").is_dir():
        raise ValueError(f"{out} holds no records to score")
    lines = score(out, data_dir) or ["no translations to score"]
    return lines + pack(out, pack_to, "annotated reproduce --score")


def score(out: Path, data_dir: Path | None = None) -> list[str]:
    """§6.1: BLEUs and chrF of every translation in a folder, written into its records.

    For translations made where sacremoses, or the references, were not.
    Returns a line for each record.
    """
    lines = []
    for path in sorted((out / "records").glob("*/*.json")):
        record = records.read(path)
        answers, recipe = translations_of(out, record), RECIPES.get(str(record.recipe))
        if not answers.exists() or recipe is None or not isinstance(recipe.task, TextTask):
            continue
        found, notes = recipe.task.open(data_dir, training=False).scores(
            read_document(answers, list[str])
        )
        lines += notes
        metrics = record.metrics | {score.name: score.metric for score in found}
        records.write(replace(record, metrics=metrics), out / "records")
        lines += [f"{record.experiment}: {score.name} {score.value:.2f}" for score in found]
    return lines
