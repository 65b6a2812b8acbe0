"""What ablations and controls share: how they run, and their commands."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from annotated import records
from annotated.commands import RecordParser
from annotated.data.batches import Batch
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import Recipe, run_record, train
from annotated.recipes.run import is_watched
from annotated.recipes.task import Report, batches_of
from annotated.records import Record
from annotated.training import Update
from annotated.translation import Translator


def held_out(recipe: Recipe, tokenizer: Tokenizer, count: int) -> list[Batch]:
    """The first examples that the recipe is tested on, as batches to measure on."""
    return batches_of(recipe.task.open().held_out_ids(tokenizer, count), tokenizer)


def run_watched(
    recipe: Recipe, seed: int, experiment: str, command: str, *,
    column: str, look: Callable[[Transformer, Sequence[Batch]], float],
    more: Callable[[Report, Translator], Report],
    build: Callable[[TransformerConfig], Transformer] = Transformer,
) -> Record:
    """A training run as a record, with one `column` more in its curve.

    Wherever the model is watched, `look` measures it on held-out examples.
    `more` adds to what the test of the trained model found.
    """
    seen: dict[int, float] = {}

    def watch(update: Update, translator: Translator) -> None:
        if is_watched(recipe, update.step):
            batches = held_out(recipe, translator.tokenizer, recipe.task.watched)
            seen[update.step] = round(look(translator.model, batches), 4)

    done = train(recipe, seed, watch, build=build)
    report = more(recipe.task.open().test(done.translator), done.translator)
    record = run_record(recipe, seed, done, report, command, experiment)
    curve = [{**row, column: seen[row["step"]]} for row in record.curve]
    return replace(record, tables=record.tables | {"curve": curve})


def main(
    program: str, about: str, names: Iterable[str], run: Callable[[str, int], Record],
    arguments: Sequence[str] | None,
) -> None:
    """One of the named runs from the command line; its record goes to --record."""
    parser = RecordParser(program, about)
    parser.add_argument("name", choices=names)
    given = parser.parse_args(arguments)
    print(records.write(run(given.name, given.seed), given.record))
