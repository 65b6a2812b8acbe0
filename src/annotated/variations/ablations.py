"""§5.3-5.4: what the numbers recipe's ablations measure besides exact match."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from annotated.analysis.scores import perplexity, token_probabilities
from annotated.recipes import Recipe
from annotated.recipes.task import Report, batches_of
from annotated.records import as_metrics
from annotated.translation import Translator

BINS = 100  # of the histogram of token probabilities


def histogram(values: Float[Tensor, " tokens"]) -> list[float]:
    """The share of values from 0 to 1 in each of `BINS` equal bins."""
    counts = torch.histc(values.double(), BINS, 0, 1)
    return (counts / len(values)).tolist()


def confidence(report: Report, translator: Translator, recipe: Recipe, seed: int) -> Report:
    """The report with token probabilities, and the perplexity of what was trained on.

    `translator` was trained by `recipe` from `seed`. The probabilities are of the right tokens
    of what is held out: their histogram and median.
    """
    model, tokenizer = translator.model, translator.tokenizer
    data, tested = recipe.task.open(), int(report.metrics["tested"].value)
    seen = batches_of(data.training_ids(tokenizer, seed)[0][:tested], tokenizer)
    unseen = batches_of(data.held_out_ids(tokenizer, tested), tokenizer)
    right = token_probabilities(model, unseen)
    more = {
        "perplexity_trained": round(perplexity(model, seen), 4),
        "median_token_probability": round(right.median().item(), 4),
    }
    bins = [
        {"from": i / BINS, "share": round(share, 5)} for i, share in enumerate(histogram(right))
    ]
    return replace(
        report, metrics=report.metrics | as_metrics(more),
        tables=report.tables | {"token_probabilities": bins},
    )
