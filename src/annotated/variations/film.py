"""§5.2: a film of a training: what the model says and can do at each look."""

from msgspec.structs import replace

from annotated.data.numbers import (
    DIGIT_WEIGHTS,
    EXAMPLES,
    different,
    held_out,
    pairs,
    training_side,
)
from annotated.jobs import Job, Unavailable
from annotated.recipes import Numbers, Recipe, recipe_named, run_record, score, train
from annotated.records import Record, Row
from annotated.training import Update
from annotated.translation import Translator

SHOWN = 342  # the book's sentence, never trained on
EACH = 50  # numbers of each number of digits, held out; of two digits there are ten
ASKED = 3  # of each number of digits, held out, and as many others
SEED = 3  # of all draws
DIGITS = range(2, len(DIGIT_WEIGHTS) + 1)


def film(translator: Translator, recipe: Recipe[Numbers]) -> dict[str, float | str]:
    """What `translator` says of 342, and the share right by number of digits, from two on.

    Names → values: "says", "exact_2", … of numbers in the languages of `recipe`.
    """
    task = recipe.task
    (shown,) = task.examples([SHOWN])
    (said,) = translator.translate([shown.source])
    numbers = [n for digits in DIGITS for n in drawn(digits, EACH, unseen=True)]
    result = score(translator, task.examples(numbers))
    exact = {f"exact_{g}": round(right / n, 4) for g, (right, n) in result.by_group.items()}
    return {"says": said, **exact}


def drawn(digits: int, count: int, unseen: bool) -> list[int]:
    """So many numbers of so many `digits`: held out if `unseen`, else such as are trained on."""
    low, high, keep = 10 ** (digits - 1), 10**digits, held_out if unseen else training_side
    return different(count, SEED, lambda n: low <= n < high and keep(n))


def asked_numbers() -> list[int]:
    """The numbers of which a film keeps the answers, by size.

    The book's own, all of one digit, and of each number of digits some that are
    held out of training and some that are not.
    """
    by_length = (drawn(digits, ASKED, unseen) for digits in DIGITS for unseen in (True, False))
    return sorted({*EXAMPLES, 42, *range(10), *(n for some in by_length for n in some)})


def record(job: Job, recipe: str, every: int) -> Record:
    """The training of that `recipe` as a film, with a look `every` so many updates.

    Table "curve" has a row for each look, with the columns of `film`; table
    "answers" what was said of each of `asked_numbers` by then.
    """
    chosen = recipe_named(recipe)
    task, numbers = chosen.task, asked_numbers()
    questions = [example.source for example in task.examples(numbers)]
    curve: list[Row] = []
    answers: list[Row] = []

    def look(update: Update, translator: Translator) -> None:
        if update.step % every:
            return
        curve.append({
            "step": update.step, "loss": round(update.loss, 4),
            **task.watch(translator), **film(translator, chosen),
        })
        says = translator.translate(questions)
        answers.extend(
            {"step": update.step, "number": number, "says": said}
            for number, said in zip(numbers, says, strict=True)
        )
        job.say(f"after {update.step} updates: {curve[-1]['says'] or '(nothing)'}")

    run = train(
        chosen, job.seed, look, data_dir=job.data_dir, device=job.device,
        stop=lambda: job.interrupted() or job.left() <= 0,
    )
    if not run.finished:
        raise Unavailable(f"the time was up after {run.step} of {chosen.training.steps} updates")
    made = run_record(
        chosen, job.seed, run, task.test(run.translator), job.command, job.experiment, job.device
    )
    return replace(made, tables=made.tables | {"curve": curve, "answers": answers})


def looks(recorded: Record) -> list[dict]:
    """The looks of a film that was recorded, in their order.

    Each is its row of the curve, and "answers": by number, written as a text, what was said of it.
    """
    found = {row["step"]: {**row, "answers": {}} for row in recorded.curve}
    for row in recorded.table("answers"):
        found[row["step"]]["answers"][str(row["number"])] = row["says"]
    return list(found.values())


def questions() -> list[dict]:
    """Each of the `asked_numbers` in English and German, and whether it is held out of training."""
    asked = asked_numbers()
    return [
        {"number": number, "english": english, "german": german, "unseen": held_out(number)}
        for number, (english, german) in zip(asked, pairs(asked, "en", "de"), strict=True)
    ]
