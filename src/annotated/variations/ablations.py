"""§5.3-5.4: the numbers recipe with one thing changed, to see what it was there for.

    python -m annotated.variations.ablations no-warmup --seed 0 --record FOLDER

trains one of `ABLATIONS` and writes a record of it, named "ablation-" and its
name. What is set by each could be given to `annotated train --set` as well;
this measures more of the model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annotated.data.batches import Batch
from annotated.recipes import RECIPES, Recipe, override
from annotated.recipes.corpus import Report, batches_of
from annotated.recipes.exact import TESTED, encoded
from annotated.records import Record
from annotated.training.evaluating import evaluating
from annotated.training.perplexity import perplexity
from annotated.translation import Translator
from annotated.variations import experiment

PROGRAM = "python -m annotated.variations.ablations"
RECIPE = "numbers-en-de"
FEW = "corpus.count=300"  # so that 500 updates see each pair more than a hundred times
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
BINS = 100  # of the histogram of confidence


def ablation(name: str) -> Recipe:
    """The recipe with the settings of that name; ValueError for an unknown one."""
    if name not in ABLATIONS:
        raise ValueError(f"no ablation {name!r}; there are {', '.join(ABLATIONS)}")
    return override(RECIPES[RECIPE], ABLATIONS[name])


@torch.no_grad()
def confidence(model: nn.Module, batches: Iterable[Batch]) -> Float[Tensor, " tokens"]:
    """§5.4: the probability given to each right piece, those before it given.

    EOS counts as a piece, padding does not. No dropout.
    """
    found = []
    with evaluating(model):
        for batch in batches:
            p = model(batch.source, batch.target).softmax(-1)
            right = p.gather(-1, batch.labels[..., None])[..., 0]
            found.append(right[batch.labels != model.config.pad_id])
    return torch.cat(found)


@torch.no_grad()
def alikeness(model: nn.Module, batches: Iterable[Batch]) -> float:
    """§5.3: the mean cosine between the memory's vectors, over all pairs of pieces.

    Pieces of all sentences, padding left out. 1: all vectors point the same
    way, so the decoder can't tell what it reads; 0: they point anywhere.
    """
    found = []
    with evaluating(model):
        for batch in batches:
            memory = model.encode(batch.source)
            found.append(memory[batch.source != model.config.pad_id])
    unit = nn.functional.normalize(torch.cat(found), dim=-1)
    return unit.mean(0).square().sum().item()


def histogram(values: Float[Tensor, " tokens"]) -> list[float]:
    """The share of values from 0 to 1 in each of `BINS` equal bins."""
    counts = torch.histc(values.double(), BINS, 0, 1)
    return (counts / len(values)).tolist()


def measured(report: Report, model: nn.Module, seen: Sequence[Batch],
             unseen: Sequence[Batch]) -> Report:
    """The report with confidence on what is held out, and perplexity on what is not."""
    right = confidence(model, unseen)
    shares = {
        f"p_right_{number / BINS:.2f}": {"value": round(share, 5)}
        for number, share in enumerate(histogram(right)) if share
    }
    more = {
        "perplexity_trained": {"value": round(perplexity(model, seen), 4)},
        "p_right_median": {"value": round(right.median().item(), 4)},
    }
    return replace(report, metrics=report.metrics | more | shares)


def run(name: str, seed: int) -> Record:
    """Train an ablation, with a point of the curve wherever it is watched."""
    recipe = ablation(name)

    def more(report: Report, translator: Translator) -> Report:
        model, tokenizer = translator.model, translator.tokenizer
        trained_on = encoded(recipe.corpus.training(seed)[:TESTED], tokenizer)
        unseen = experiment.held_out(recipe, tokenizer, TESTED)
        return measured(report, model, batches_of(trained_on, tokenizer), unseen)

    return experiment.run_watched(
        recipe, seed, f"ablation-{name}", f"{PROGRAM} {name} --seed {seed}",
        column="alike", look=alikeness, more=more,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """One run from the command line."""
    about = "Train the numbers recipe with one thing changed, and keep a record of it."
    experiment.main(PROGRAM, about, ABLATIONS, run, arguments)


if __name__ == "__main__":
    main()
