"""The commands: train, evaluate, translate, recipes, record, reproduce."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

# What needs PyTorch is imported by the command that needs it: --help answers at once, and Ctrl-C
# while PyTorch is being imported ends a command like any other.
from annotated import files, records

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help='The Transformer of "Attention Is All You Need": train it, test it, use it.',
)

MAX_SEED = 2**32 - 1  # all generators take it
BLOCK = 1 << 16  # bytes of stdin read at a time
LONGEST = 1 << 20  # bytes of a line of stdin


def folder(about: str):
    """An option for a folder to write to: a file there is refused before training."""
    return typer.Option(file_okay=False, help=about)


Model = Annotated[str, typer.Option(help="Name of a shipped model, or folder of a checkpoint.")]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print one JSON document and no more.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda if there is one.")]
Beam = Annotated[
    int | None, typer.Option(min=1, help="Hypotheses per step; 1: greedy. Default: the model's.")
]
Alpha = Annotated[
    float | None, typer.Option(min=0, help="α of the length penalty. Default: the model's.")
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of corpora; default: $ANNOTATED_DATA, then the cache.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a recipe setting, NAME=VALUE; repeatable."),
]


def main() -> None:
    """Run a command; bad input becomes one line on stderr and exit status 2."""
    try:
        status = app(repeated(sys.argv[1:]) or ["--help"], standalone_mode=False)
    except BrokenPipeError:  # as in `annotated translate | head -1`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except (ValueError, OSError) as error:
        status = _fail(error, 2)
    except FloatingPointError as error:
        status = _fail(error, 1)
    except (typer.Abort, KeyboardInterrupt):  # Ctrl-C; some versions return 130 themselves
        status = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # wrong usage; the class differs by version
            raise
        status = _fail(error.format_message(), 2)
    sys.exit(status)


def repeated(words: list[str]) -> list[str]:
    """`--train a.en a.de` as `--train a.en --train a.de`: typer takes one value at a time."""
    found: list[str] = []
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word if word in ("--train", "--dev", "--test") else ""
        elif option and found[-1] != option:
            found.append(option)
        found.append(word)
    return found


def _fail(error: Exception | str, status: int) -> int:
    print(f"annotated: {' '.join(str(error).split())}", file=sys.stderr)
    return status


@app.command("recipes")
def list_recipes(
    name: Annotated[str | None, typer.Argument(help="Show all settings of this one.")] = None,
) -> None:
    """List the recipes that train knows, or the settings of one."""
    from annotated.recipes import RECIPES, explained, recipe_named

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
        typer.Option("--train", help="Own files: two, or one TSV."),
    ] = None,
    dev_files: Annotated[
        list[str] | None, typer.Option("--dev", help="The same, looked at during training.")
    ] = None,
    test_files: Annotated[
        list[str] | None, typer.Option("--test", help="The same, tested on at the end.")
    ] = None,
    source: Annotated[str, typer.Option(help="Source language, such as en.")] = "",
    target: Annotated[str, typer.Option(help="Target language; en, de, fr: both BLEUs.")] = "",
    out: Annotated[Path | None, folder("Folder for the trained model and its states.")] = None,
    seed: Seed = 0,
    change: Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")
    ] = False,
    device: Device = None,
    data_dir: DataDir = None,
    float16: Annotated[
        bool, typer.Option("--float16", help="Store weights in half precision.")
    ] = False,
    record: Annotated[Path | None, folder("Folder to write a record to.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The experiment of the record, if not the recipe.")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Train a recipe, keep the model, and test it on sentences held out.

    SIGINT (Ctrl-C) and SIGTERM write a state to go on from with --resume.
    Started by torchrun, its processes train one model together.
    """
    from annotated.commands import recipe_to_train, train_and_test

    own = {"train": train_files or [], "dev": dev_files or [], "test": test_files or []}
    chosen = recipe_to_train(recipe, own, source, target, change or [])
    given: dict[str, Sequence[str | None]] = {
        "--recipe": [recipe], **{f"--{split}": paths for split, paths in own.items()},
        "--source": [source], "--target": [target], "--seed": [str(seed)], "--set": change or [],
    }
    words = [word for option, values in given.items() for v in values if v for word in (option, v)]
    words += ["--float16"] if float16 else []
    return train_and_test(
        chosen, seed, shlex.join(["annotated", "train", *words]), out=out, resume=resume,
        device=device, data_dir=data_dir, float16=float16, record=record, name=name, quiet=quiet,
    )


@app.command()
def evaluate(
    model: Model = "numbers-en-de",
    corpus: Annotated[
        str | None, typer.Option(help="multi30k, tatoeba, newstest, numbers; default: its own.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which part of it, such as test_2016_flickr.")
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    device: Device = None,
    data_dir: DataDir = None,
    out: Annotated[Path | None, folder("Folder to write a record to.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The record's experiment; default: evaluate-….")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Test a model on what its recipe holds out, or on another corpus."""
    from annotated import commands

    given = {"--corpus": corpus, "--split": split, "--beam": beam, "--alpha": alpha}
    words = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    made = ["annotated", "evaluate", "--model", Path(model).name, *words]  # no machine's folders
    commands.evaluate(
        model, corpus=corpus, split=split, beam=beam, alpha=alpha, device=device,
        data_dir=data_dir, out=out, name=name, quiet=quiet, command=shlex.join(made),
    )


@app.command()
def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences; none: the lines of stdin.")
    ] = None,
    model: Model = "numbers-en-de",
    beam: Beam = None,
    alpha: Alpha = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, help="Several of each: number of the line, score, translation."),
    ] = None,
) -> None:
    """Translate sentences, one per line; empty lines stay empty."""
    from annotated.translation import Translator

    translator, done = Translator.load(model), 0
    for lines in [sentences] if sentences else lines_as_they_come(sys.stdin):
        if n_best is None:
            said = translator.translate(lines, beam=beam, alpha=alpha)
        else:
            several = translator.n_best(lines, n_best, beam=beam, alpha=alpha)
            said = [
                f"{number}\t{each.score:.4f}\t{each.text}"
                for number, found in enumerate(several, done + 1) for each in found
            ]
        for line in said:
            print(line)
        sys.stdout.flush()  # before the next block is read, in which there may be a fault
        done += len(lines)


def lines_as_they_come(stream: Any) -> Iterator[list[str]]:
    """The lines of a text stream of UTF-8, each time all that have arrived by then.

    `stream` is sys.stdin, or None where that is closed. So a file is translated
    in large batches, and what a person or a slow program writes line by line.
    In a terminal there is a prompt. ValueError names a line that is not UTF-8,
    or too long to be one; those before it are given first.
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
        lines, fault = [], ""
        for line in whole:
            number += 1
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                fault = f"line {number} of stdin is not UTF-8: {error.reason}"
                break
        if not fault and len(rest) > LONGEST:
            fault = f"line {number + 1} of stdin goes on for over {len(rest)} bytes"
        if lines:
            yield lines
        if fault:
            raise ValueError(fault)
        if not block:
            return


@app.command("record")
def record_command(
    name: Annotated[
        str | None, typer.Argument(help="The experiment; none: list them, and what is missing.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, folder("Folder of records; by default a clone's own, or ./results.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default what it is recorded on.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Run a recorded experiment and write its record, or list all experiments."""
    from annotated.experiments import experiment_named, listing, results_folder
    from annotated.jobs import Job
    from annotated.reproduce import check_device
    from annotated.signals import Stop

    if name is None:
        for line in listing(out):
            print(line)
        return
    experiment, out = experiment_named(name), out or results_folder()
    device = device or next(iter(experiment.least))
    check_device(device)
    if device not in experiment.least:
        raise ValueError(f"{name} is recorded on {', '.join(experiment.least)}, not on {device}")
    files.check_writable(out)  # fails now rather than after the run
    with Stop() as stop:  # what is measured in rounds ends after a round, and is recorded
        result = experiment.make(Job(name, seed, device, data_dir, interrupted=stop))
    if result.record is None:
        raise ValueError(f"{name} left no record: {result.note}")
    print(f"record: {records.write(result.record, out)}")


@app.command("reproduce")
def reproduce_command(
    out: Annotated[Path, folder("Folder for all that is made, and to go on from.")],
    minutes: Annotated[float, typer.Option(help="Time for all of it together.")] = 10.0,
    device: Device = None,
    only: Annotated[
        str | None, typer.Option(help="Some experiments, comma-separated; default: all.")
    ] = None,
    data_dir: DataDir = None,
    pack_to: Annotated[
        Path | None,
        typer.Option("--pack", dir_okay=False, help="The packed file; default: in --out."),
    ] = None,
    commit: Annotated[
        str, typer.Option(help="The commit this code is at, where git can't say.")
    ] = "",
    score_only: Annotated[
        bool, typer.Option("--score", help="Only score the translations in --out, and pack again.")
    ] = False,
) -> int:
    """Record what is missing within a time limit, and pack it; started again it goes on."""
    from annotated.commands import best_device
    from annotated.reproduce import PACK, reproduce, score_and_pack

    if score_only:
        for line in score_and_pack(out, pack_to or out / PACK, data_dir):
            print(line)
        return 0
    names = [] if only is None else [name.strip() for name in only.split(",")]
    return reproduce(
        out, device or best_device(), minutes, only=names, data_dir=data_dir, pack_to=pack_to,
        commit=commit,
    )


