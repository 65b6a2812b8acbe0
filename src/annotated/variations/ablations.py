"""§5.3-5.4: the numbers recipe with one thing changed, to see what it was there for.

    python -m annotated.variations.ablations no-warmup --seed 0 --record FOLDER

trains one of `ABLATIONS` and writes a record of it, named "ablation-" and its
name. What is set by each could be given to `annotated train --set` as well;
this measures more of the model.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annotated.analysis.scores import memory_cosine, perplexity, token_probabilities
from annotated.data.batches import Batch
from annotated.recipes import RECIPES, Recipe, override
from annotated.recipes.task import Report, batches_of
from annotated.records import Record, as_metrics
from annotated.translation import Translator
from annotated.variations import experiment

PROGRAM = "python -m annotated.variations.ablations"
RECIPE = "numbers-en-de"
FEW = "task.count=300"  # so that 500 updates see each pair more than a hundred times
ABLATIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "no-warmup": ("training.warmup=false",),
    "pre-norm": ("model.norm=pre",),
    "pre-norm-no-warmup": ("model.norm=pre", "training.warmup=false"),
    "no-warmup-long": ("training.warmup=false", "training.steps=2000"),
    "no-smoothing": ("training.label_smoothing=0",),
    "no-dropout": ("model.dropout=0",),
    "few": (FEW,),
    "few-no-dropout": (FEW, "model.dropout=0"),
}
BINS = 100  # of the histogram of token_probabilities


def ablation(name: str) -> Recipe:
    """The recipe with the settings of that name; ValueError for an unknown one."""
    if name not in ABLATIONS:
        raise ValueError(f"no ablation {name!r}; there are {', '.join(ABLATIONS)}")
    return override(RECIPES[RECIPE], ABLATIONS[name])


def histogram(values: Float[Tensor, " tokens"]) -> list[float]:
    """The share of values from 0 to 1 in each of `BINS` equal bins."""
    counts = torch.histc(values.double(), BINS, 0, 1)
    return (counts / len(values)).tolist()


def measured(report: Report, model: nn.Module, seen: Sequence[Batch],
             unseen: Sequence[Batch]) -> Report:
    """The report with confidence on what is held out, and perplexity on what is not."""
    right = token_probabilities(model, unseen)
    bins = [
        {"from": i / BINS, "share": round(share, 5)} for i, share in enumerate(histogram(right))
    ]
    more = {
        "perplexity_trained": round(perplexity(model, seen), 4),
        "median_token_probability": round(right.median().item(), 4),
    }
    return replace(
        report, metrics=report.metrics | as_metrics(more),
        tables=report.tables | {"token_probabilities": bins},
    )


def run(name: str, seed: int) -> Record:
    """Train an ablation, with a point of the curve wherever it is watched."""
    recipe = ablation(name)

    def more(report: Report, translator: Translator) -> Report:
        model, tokenizer = translator.model, translator.tokenizer
        tested = int(report.metrics["tested"].value)
        trained_on = recipe.task.open().training_ids(tokenizer, seed)[0][:tested]
        unseen = experiment.held_out(recipe, tokenizer, tested)
        return measured(report, model, batches_of(trained_on, tokenizer), unseen)

    return experiment.run_watched(
        recipe, seed, f"ablation-{name}", f"{PROGRAM} {name} --seed {seed}",
        column="memory_cosine", look=memory_cosine, more=more,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """One run from the command line."""
    about = "Train the numbers recipe with one thing changed, and keep a record of it."
    experiment.main(PROGRAM, about, ABLATIONS, run, arguments)


if __name__ == "__main__":
    main()
