"""How small a model can be: what is measured of each size."""

import torch

from annotated.analysis.interventions import cut_heads
from annotated.data.numbers import different, pairs
from annotated.experiments import EXPERIMENTS
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import Report, recipe_named
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


def test_each_size_of_the_sweep_is_an_experiment_named_by_it():
    names = [name for name in EXPERIMENTS if name.startswith("size-")]
    for name in names:
        model = EXPERIMENTS[name].resolve().model
        assert name == f"size-{model.layers}-{model.heads}-{model.d_model}-{model.d_ff}"
    assert len(names) == 20
