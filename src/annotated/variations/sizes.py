"""§6.2 in miniature: how small a model can be, and how much of it then matters."""

from dataclasses import replace
from typing import cast

from torch import nn

from annotated.analysis.interventions import cut_heads
from annotated.data.numbers import different, pairs
from annotated.model import MultiHeadAttention
from annotated.recipes import Recipe
from annotated.recipes.task import Report
from annotated.records import as_metrics
from annotated.translation import Translator

SENTENCES = 300  # held out, translated with each head cut
SEED = 0  # of their draw


def heads_of(model: nn.Module) -> list[tuple[str, int]]:
    """Each attention of the model with each of its heads, from 0."""
    return [
        (name, head)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention) for head in range(module.heads)
    ]


def with_heads_cut(report: Report, translator: Translator, recipe: Recipe, seed: int) -> Report:
    """The report with what each head is worth, and the number of parameters.

    Of `SENTENCES` numbers held out, in words: how many right translations of
    `translator` change when one head is cut. `recipe` says the languages; the
    `seed` of the training has no say.
    """
    task, model = recipe.task, cast(nn.Module, translator.model)
    spelled = pairs(different(SENTENCES, SEED), task.source, task.target)
    whole = translator.translate([source for source, _ in spelled])
    right = [pair for pair, answer in zip(spelled, whole, strict=True) if answer == pair[1]]
    sources = [source for source, _ in right]
    rows = []
    for name, head in heads_of(model):
        with cut_heads(model, {name: [head]}):
            answers = translator.translate(sources)
        changed = sum(answer != target for answer, (_, target) in zip(answers, right, strict=True))
        rows.append({"attention": name, "head": head, "changed": changed})
    more = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "right_before_a_cut": len(right),
    }
    return replace(
        report, metrics=report.metrics | as_metrics(more),
        tables=report.tables | {"heads_cut": rows},
    )
