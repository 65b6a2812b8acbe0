"""§6.2 in miniature: how small a model can be, and how much of it then matters."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from torch import nn

from annotated import records
from annotated.analysis.interventions import attentions, cut_heads
from annotated.data.numbers import different, pairs
from annotated.recipes import Recipe
from annotated.recipes.task import Report
from annotated.records import Record, as_metrics
from annotated.translation import Translator

SENTENCES = 300  # held out, translated with each head cut
SEED = 0  # of their draw
BAR, EACH = 0.99, 0.97  # shares translated: of all numbers, of each number of digits from 2 on
IDLE = 3  # of about 300 right translations: a head whose cut changes no more of them


@dataclass(frozen=True)
class Size:
    """A size of the sweep with the runs that are recorded, one per seed."""

    layers: int
    heads: int
    d_model: int
    d_ff: int
    runs: tuple[Record, ...]

    @property
    def parameters(self) -> int:
        """The number of the model's weights."""
        return int(self.runs[0].value("parameters"))

    @property
    def exact(self) -> list[float]:
        """For each run, the share of unseen numbers translated exactly."""
        return [run.value("exact") for run in self.runs]

    @property
    def least(self) -> list[float]:
        """For each run, the same of the number of digits, from 2 on, where it is smallest."""
        tables = [run.table("exact_by_digits") for run in self.runs]
        return [min(row["exact"] for row in rows if row["digits"] >= 2) for rows in tables]

    @cached_property
    def changed(self) -> list[list[int]]:
        """For each run, how many translations each head's cut changes, the most first."""
        return [sorted(run.column("changed", "heads_cut"), reverse=True) for run in self.runs]

    @property
    def idle(self) -> list[float]:
        """For each run, the share of heads whose cut changes at most `IDLE` translations."""
        return [sum(n <= IDLE for n in changed) / len(changed) for changed in self.changed]

    @property
    def passes(self) -> list[bool]:
        """For each run, whether it reaches the bar, `BAR` in all and `EACH` by digits."""
        return [
            exact >= BAR and least >= EACH
            for exact, least in zip(self.exact, self.least, strict=True)
        ]

    @property
    def reaches(self) -> bool:
        """Whether all of three seeds reach the bar."""
        return len(self.runs) == 3 and all(self.passes)


def recorded(names: Iterable[str]) -> list[Size]:
    """The sizes "size-LAYERS-HEADS-DMODEL-DFF" that have a record, by number of parameters."""
    found = []
    for name in names:
        try:
            runs = tuple(sorted(records.find(name), key=lambda run: run.seed))
        except records.NoRecords:
            continue
        layers, heads, d_model, d_ff = map(int, name.split("-")[1:])
        found.append(Size(layers, heads, d_model, d_ff, runs))
    return sorted(found, key=lambda size: (size.parameters, size.heads))


def smallest(sizes: Iterable[Size]) -> Size:
    """The rule of the book's model: of two layers, two heads and d_ff = 4 d_model the smallest
    that reaches the bar.
    """
    like_ours = [
        size for size in sizes
        if (size.layers, size.heads, size.d_ff) == (2, 2, 4 * size.d_model) and size.reaches
    ]
    return min(like_ours, key=lambda size: size.parameters)


def heads_of(model: nn.Module) -> list[tuple[str, int]]:
    """Each attention of the model with each of its heads, from 0."""
    return [
        (name, head)
        for name, attention in attentions(model).items() for head in range(attention.heads)
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
