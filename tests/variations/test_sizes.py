"""How small a model can be: what is measured of each size."""

import pytest
import torch
from msgspec import structs

from annotated import records
from annotated.analysis.interventions import cut_heads
from annotated.data.numbers import different, pairs
from annotated.experiments import EXPERIMENTS
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import Report, recipe_named
from annotated.records import as_metrics
from annotated.translation import Translator
from annotated.variations import sizes


def test_heads_are_counted_from_0_in_every_attention():
    config = TransformerConfig.tiny(vocab_size=13, d_model=22, d_ff=29, heads=2, layers=3)
    found = sizes.heads_of(Transformer(config))
    assert len(found) == len(set(found)) == 3 * 3 * 2
    assert ("decoder.layers.2.cross_attention", 1) in found
    assert {head for _, head in found} == {0, 1}


def test_what_is_counted_are_right_translations_that_a_cut_changes(monkeypatch):
    monkeypatch.setattr(sizes, "SENTENCES", 23)
    recipe = recipe_named("numbers-en-de")
    translator = Translator.load("numbers-en-de")
    before = [weight.clone() for weight in translator.model.parameters()]
    report = sizes.with_heads_cut(Report({}, {}), translator, recipe, 0)
    assert all(map(torch.equal, before, translator.model.parameters()))
    rows = report.tables["heads_cut"]
    assert [(row["attention"], row["head"]) for row in rows] == sizes.heads_of(translator.model)
    spelled = pairs(different(23, sizes.SEED), "en", "de")
    right = [pair for pair in spelled if translator.translate([pair[0]]) == [pair[1]]]
    assert report.metrics["right_before_a_cut"].value == len(right) > 20
    most = max(rows, key=lambda row: row["changed"])
    with cut_heads(translator.model, {most["attention"]: [most["head"]]}):
        changed = sum(translator.translate([en]) != [de] for en, de in right)
    assert most["changed"] == changed > 0
    weights = sum(weight.numel() for weight in translator.model.parameters())
    assert report.metrics["parameters"].value == weights


@pytest.fixture(scope="module")
def sweep():
    return sizes.recorded(name for name in EXPERIMENTS if name.startswith("size-"))


def test_the_rule_gives_the_model_of_the_book(sweep):
    chosen, model = sizes.smallest(sweep), recipe_named("numbers-en-de").model
    assert (chosen.layers, chosen.heads) == (model.layers, model.heads) == (2, 2)
    assert (chosen.d_model, chosen.d_ff) == (model.d_model, model.d_ff)
    assert len(chosen.runs) == 3 and min(chosen.exact) >= 0.99 and min(chosen.least) >= 0.97
    built = Transformer(model)
    assert chosen.parameters == sum(weight.numel() for weight in built.parameters())


def test_sizes_come_by_parameters_with_the_runs_that_there_are(sweep):
    assert sizes.recorded(["size-2-2-31-7"]) == []
    assert [size.parameters for size in sweep] == sorted(size.parameters for size in sweep)
    for size in sweep:
        name = f"size-{size.layers}-{size.heads}-{size.d_model}-{size.d_ff}"
        assert [run.experiment for run in size.runs] == [name] * len(size.runs)
        assert [run.seed for run in size.runs] == sorted({run.seed for run in size.runs})


def run_of(exact, by_digits, changed):
    """What is read of a record, made up."""
    record = records.find("size-2-2-32-128")[0]
    tables = {
        "exact_by_digits": [{"digits": n, "exact": x} for n, x in enumerate(by_digits, 1)],
        "heads_cut": [{"attention": "a", "head": n, "changed": x} for n, x in enumerate(changed)],
    }
    return structs.replace(record, metrics=as_metrics({"exact": exact}), tables=tables)


def test_the_bar_is_of_all_numbers_and_of_each_length_from_two_digits_on():
    good, short = [1.0, 0.97, 1.0], [0.5, 1.0, 1.0]
    runs = [run_of(0.99, good, [3, 9, 4, 0]), run_of(1.0, short, [3, 3, 3, 3])]
    size = sizes.Size(2, 2, 32, 128, (*runs, runs[0]))
    assert size.reaches and size.passes == [True] * 3
    assert size.exact == [0.99, 1.0, 0.99] and size.least == [0.97, 1.0, 0.97]
    assert size.changed[0] == [9, 4, 3, 0] and size.idle == [0.5, 1.0, 0.5]
    for bad in (run_of(0.989, good, [0]), run_of(0.999, [1.0, 1.0, 0.96], [0])):
        assert not sizes.Size(2, 2, 32, 128, (*runs, bad)).reaches
    assert not sizes.Size(2, 2, 32, 128, (*runs,)).reaches, "three seeds are asked"


def test_the_rule_passes_over_other_proportions_and_what_misses_the_bar():
    runs = 3 * (run_of(0.995, [1.0, 0.99], [0]),)
    low = 3 * (run_of(0.98, [1.0, 0.99], [0]),)

    def made(*numbers, runs=runs, parameters):
        counted = as_metrics({"parameters": parameters})
        runs = [structs.replace(run, metrics=run.metrics | counted) for run in runs]
        return sizes.Size(*numbers, tuple(runs))

    right = made(2, 2, 8, 32, parameters=11)
    others = [
        made(2, 2, 16, 64, parameters=13), made(2, 2, 4, 16, runs=low, parameters=7),
        made(2, 2, 8, 16, parameters=8), made(1, 2, 8, 32, parameters=6),
        made(2, 1, 8, 32, parameters=5),
    ]
    assert sizes.smallest([*others, right]) is right


def test_each_size_of_the_sweep_is_an_experiment_named_by_it():
    names = [name for name in EXPERIMENTS if name.startswith("size-")]
    for name in names:
        model = EXPERIMENTS[name].resolve().model
        assert name == f"size-{model.layers}-{model.heads}-{model.d_model}-{model.d_ff}"
    assert len(names) == 13
