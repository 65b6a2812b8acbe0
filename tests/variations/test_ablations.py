"""What an ablation measures besides exact match is what it says."""

import pytest
import torch

from annotated import records
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import RECIPES, Recipe, Report
from annotated.translation import Translator
from annotated.variations.ablations import BINS, confidence, histogram


def untrained(recipe: Recipe) -> Translator:
    """A model of random weights with the recipe's tokenizer."""
    torch.manual_seed(0)
    tokenizer = recipe.task.open().tokenizer()
    small = TransformerConfig.tiny(
        vocab_size=tokenizer.vocab_size, d_model=22, d_ff=29, heads=2, layers=1
    )
    return Translator(Transformer(small), tokenizer)


class TestHistogram:
    def test_shares_of_equal_bins_with_both_ends(self):
        values = torch.tensor([0.0, 0.009, 0.011, 0.501, 0.905, 0.905, 1.0])
        shares = histogram(values)
        assert len(shares) == BINS and sum(shares) == pytest.approx(1)
        assert {i: share for i, share in enumerate(shares) if share} == {
            place: pytest.approx(sevenths / 7)
            for place, sevenths in ((0, 2), (1, 1), (50, 1), (90, 2), (99, 1))
        }


class TestConfidence:
    def test_it_adds_the_probabilities_of_right_tokens_and_what_was_trained_on(self):
        recipe = RECIPES["copy"]
        translator = untrained(recipe)
        before = Report(records.as_metrics({"tested": 23, "old": 7.0}), {"a": []})
        after = confidence(before, translator, recipe, 3)
        assert after.metrics["old"].value == 7.0 and after.tables["a"] == []
        rows = after.tables["token_probabilities"]
        assert [row["from"] for row in rows] == [i / BINS for i in range(BINS)]
        assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-3)
        assert 0 < after.metrics["median_token_probability"].value < 0.5
        vocabulary = translator.model.config.vocab_size
        assert 1 < after.metrics["perplexity_trained"].value < 4 * vocabulary

    def test_the_seed_is_that_of_what_was_trained_on(self):
        recipe = RECIPES["copy"]
        translator = untrained(recipe)
        before = Report(records.as_metrics({"tested": 23}))
        one, again, other = (confidence(before, translator, recipe, seed) for seed in (3, 3, 4))
        assert one == again
        name = "perplexity_trained"
        assert one.metrics[name] != other.metrics[name] and one.tables == other.tables
