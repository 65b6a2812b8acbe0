"""The commands: train, evaluate, translate, recipes, record, reproduce."""

import contextlib
import hashlib
import io
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import torch
import typer
from tqdm import tqdm

from annotated import files, records
from annotated.commands import MAX_SEED, check_writable
from annotated.data.text import tidy
from annotated.experiments import experiment_named, listing, results_folder
from annotated.jobs import Job
from annotated.recipes import (
    RECIPES,
    Recipe,
    Report,
    Run,
    as_document,
    explained,
    from_document,
    override,
    own_files,
    recipe_named,
    run_record,
    train,
)
from annotated.recipes.run import WATCHES, check_sizes, identity
from annotated.recipes.task import as_text
from annotated.reproduce import PACK, check_device, reproduce, score_and_pack
from annotated.signals import Signals, tolerant_output
from annotated.training import Update, World
from annotated.training.world import local_device
from annotated.translation import Translator
from annotated.translation.checkpoints import CONFIG, save_checkpoint
from annotated.translation.translator import LONGEST

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help='The Transformer of "Attention Is All You Need": train it, test it, use it.',
)

BEST_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def folder(about: str):
    """An option for a folder to write to: a file there is refused before training."""
    return typer.Option(file_okay=False, help=about)


Model = Annotated[str, typer.Option(help="A shipped model's name, or a checkpoint's folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="For scripts: one JSON document, no more.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Where the corpus lies, if not where it is looked for.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting, such as training.steps=100; again for more."),
]


def main() -> None:
    """Run a command; bad input becomes one line on stderr and exit status 2."""
    try:
        status = app(repeated(sys.argv[1:]) or ["--help"], standalone_mode=False)
    except BrokenPipeError:  # as in `annotated translate | head -1`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
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


def repeated(words: list[str]) -> list[str]:
    """`--train a.en a.de` as `--train a.en --train a.de`: typer takes one value at a time."""
    found, option = [], ""
    for word in words:
        if word.startswith("-"):
            option = word if word in ("--train", "--dev", "--test") else ""
        elif option and found[-1] != option:
            found.append(option)
        found.append(word)
    return found


def recipe_to_train(
    name: str | None, own: dict[str, list[str]], source: str, target: str, change: list[str]
) -> Recipe:
    """The recipe of that name, or one like it for a reader's own files, with settings changed."""
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


def _say(error: Exception | str, status: int) -> int:
    print(f"annotated: {' '.join(str(error).split())}", file=sys.stderr)
    return status


@app.command("recipes")
def list_recipes(
    name: Annotated[str | None, typer.Argument(help="Show all settings of this one.")] = None,
) -> None:
    """List the recipes that `train` knows, or the settings of one."""
    if name is None:
        width = 2 + max(map(len, RECIPES))
        for recipe in RECIPES.values():
            print(f"{recipe.name:{width}}{recipe.about}")
        return
    lines = {f"{at}={it.value}": it.about for at, it in explained(recipe_named(name)).items()}
    width = max(map(len, lines))
    for assignment, about in lines.items():
        print(f"{assignment:{width}}  {about}".rstrip())


@app.command("train")
def train_command(
    recipe: Annotated[str | None, typer.Option(help="One of `annotated recipes`.")] = None,
    train_files: Annotated[
        list[str] | None,
        typer.Option("--train", help="Own files, source and target, or one TSV; plain or .gz."),
    ] = None,
    dev_files: Annotated[
        list[str] | None, typer.Option("--dev", help="The same, looked at during training.")
    ] = None,
    test_files: Annotated[
        list[str] | None, typer.Option("--test", help="The same, tested on at the end.")
    ] = None,
    source: Annotated[str, typer.Option(help="Source language of own files, such as en.")] = "",
    target: Annotated[str, typer.Option(help="Target language; de, en, fr have two BLEUs.")] = "",
    out: Annotated[Path | None, folder("Folder for the trained model and its states.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Where chance starts.")] = 0,
    change: Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")
    ] = False,
    device: Device = BEST_DEVICE,
    data_dir: DataDir = None,
    float16: Annotated[bool, typer.Option("--float16", help="Store in half the space.")] = False,
    record: Annotated[Path | None, folder("Folder to write a record to.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The experiment of the record, if not the recipe.")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Train a recipe, keep the model, and test what was kept on what it never saw.

    SIGINT (Ctrl-C) and SIGTERM write a state to go on from with --resume.
    Started by torchrun, its processes train one model together.
    """
    own = {"train": train_files or [], "dev": dev_files or [], "test": test_files or []}
    given = [word for split, paths in own.items() for path in paths
             for word in (f"--{split}", path)]
    given += ["--source", source] * bool(source) + ["--target", target] * bool(target)
    like = ["--recipe", recipe] * bool(recipe)
    chosen = recipe_to_train(recipe, own, source, target, change or [])
    recipe = chosen.name
    chosen.task.open(data_dir)  # what is missing is missed before anything is made
    if name:
        records.check("--name", "experiment", name)  # now rather than after training
    out = out or runs_folder() / (name or recipe) / run_name(chosen, seed)
    with contextlib.ExitStack() as stack:
        stack.enter_context(tolerant_output())
        world = stack.enter_context(World.join(device))
        first, place = world.rank == 0, world.device
        if first:
            check_sizes(chosen, out, world)
            stack.enter_context(files.exclusive(out))
            for target in filter(None, (out, record)):
                check_writable(target)  # fails now rather than after training
            if not resume:
                refuse_a_run(out)
        if first and not quiet:
            print(f"{recipe}: {chosen.about}; {chosen.training.steps} updates. Model: {out}")
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
        dtype = torch.float16 if float16 else torch.float32
        model, tokenizer = run.translator.model, run.translator.tokenizer
        save_checkpoint(out, model, tokenizer, dtype, recipe=as_document(chosen), seed=seed)
        translator = Translator.load(out)
        translator.model.to(place)
        report = chosen.task.open(data_dir, training=False).test(translator)
        if report.translations:
            text = "".join(f"{line}\n" for line in report.translations)
            files.write_atomically(out / "translations.txt", text.encode())
        if record:
            command = ["annotated", "train", *like, *given, "--seed", str(seed)]
            command += [word for assignment in change or [] for word in ("--set", assignment)]
            command += ["--float16"] if float16 else []
            made = run_record(chosen, seed, run, report, shlex.join(command), name, device)
            path = records.write(made, record)
        facts = {"recipe": recipe, "seed": seed, "seconds": round(run.seconds, 1), "out": str(out)}
        tell(report, quiet, facts | ({"cleaning": run.left_out} if run.left_out else {}))
        if record and not quiet:
            print(f"record: {path}")
    return 0


@app.command()
def evaluate(
    model: Model = "numbers-en-de",
    device: Device = BEST_DEVICE,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Test a model on what its recipe holds out, by greedy search."""
    place, translator = local_device(device), Translator.load(model)
    recipe = from_document(translator.notes.get("recipe"), f"the recipe in {model}")
    translator.model.to(place)
    report = recipe.task.open(data_dir, training=False).test(translator)
    tell(report, quiet, {"model": model, "recipe": recipe.name})


@app.command()
def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="One translation each; none: lines of stdin.")
    ] = None,
    model: Model = "numbers-en-de",
) -> None:
    """Translate sentences, one per line; an empty line of stdin stays one."""
    translator = Translator.load(model)
    if sentences:
        for translation in translator.translate(sentences):
            print(translation)
        return
    for lines in lines_as_they_come(sys.stdin):
        asked = [line for line in lines if tidy(line)]
        translations = iter(translator.translate(asked))
        for line in lines:
            print(next(translations) if tidy(line) else "")
        sys.stdout.flush()


BLOCK = 1 << 16  # bytes of stdin read at a time


def lines_as_they_come(stream: io.TextIOWrapper | None) -> Iterator[list[str]]:
    """The lines of a stream of UTF-8, each time all that have arrived by then.

    So a file is translated in large batches, and what a person or a slow
    program writes line by line. In a terminal there is a prompt. ValueError
    names a line that is not UTF-8, or too long to be translated.
    """
    if stream is None:  # closed before the start
        return
    terminal, number, rest = stream.isatty(), 0, b""
    if terminal:
        print("One sentence per line; Ctrl-D ends.", file=sys.stderr)
    while True:
        if terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        block = stream.buffer.read1(BLOCK)
        *whole, rest = (rest + block).split(b"\n")
        if not block and rest:
            whole, rest = [rest], b""
        lines = []
        for line in whole:
            number += 1
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                raise ValueError(f"line {number} of stdin is not UTF-8: {error.reason}") from None
        if len(rest) > 4 * LONGEST:  # no character has more bytes than four
            raise ValueError(f"line {number + 1} of stdin goes on for over {len(rest)} bytes")
        if lines:
            yield lines
        if not block:
            return


@app.command("record")
def record_command(
    name: Annotated[
        str | None, typer.Argument(help="The experiment; none: list all, with what is missing.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")] = 0,
    out: Annotated[
        Path | None, folder("Folder of records; by default a clone's own, or ./results.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default what it is recorded on.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Run a recorded experiment and write its record, or list all experiments."""
    if name is None:
        for line in listing(out):
            print(line)
        return
    experiment, out = experiment_named(name), out or results_folder()
    device = device or next(iter(experiment.least))
    check_device(device)
    if device not in experiment.least:
        raise ValueError(f"{name} is recorded on {', '.join(experiment.least)}, not on {device}")
    check_writable(out)  # fails now rather than after the run
    result = experiment.make(Job(name, seed, device, data_dir))
    print(f"record: {records.write(result.record, out)}")


@app.command("reproduce")
def reproduce_command(
    out: Annotated[Path, folder("Folder for all that is made, and to go on from.")],
    minutes: Annotated[float, typer.Option(help="Time for all of it together.")] = 10.0,
    device: Device = BEST_DEVICE,
    only: Annotated[
        str | None, typer.Option(help="Some experiments, with commas; by default all.")
    ] = None,
    data_dir: DataDir = None,
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
    """Record what is missing, within a time, and pack it; started again it goes on."""
    if score_only:
        for line in score_and_pack(out, pack_to or out / PACK, data_dir):
            print(line)
        return 0
    names = [] if only is None else [name.strip() for name in only.split(",")]
    return reproduce(
        out, device, minutes, only=names, data_dir=data_dir, pack_to=pack_to, commit=commit
    )


def refuse_a_run(out: Path) -> None:
    """A run's work is not written over without being asked to."""
    for left in (*sorted((out / "states").glob("step-*.json")), out / CONFIG):
        if left.exists():
            raise ValueError(
                f"{out} holds a run already ({left.name}); --resume goes on with it, "
                "or choose another --out"
            )


class Stop(Signals):
    """Turns SIGINT and SIGTERM into an answer: called, it says whether to stop.

    Before anyone asks, and the second time, they end the process.
    """

    heeded = False

    def __call__(self) -> bool:
        self.heeded = True
        return self.signal != 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal or not self.heeded:
            raise SystemExit(128 + number)
        self.signal = number


class Progress:
    """Called after each update: a bar with speed and time left, and lines of what is learnt."""

    LINES = 5

    def __init__(self, recipe: Recipe, quiet: bool):
        self.recipe, self.quiet = recipe, quiet or sys.stderr is None
        self.run: Run | None = None
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


def tell(report: Report, quiet: bool, facts: dict) -> None:
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
