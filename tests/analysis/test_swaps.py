"""A swap of one memory vector changes the translation there, nearly always."""

import pytest
import torch

from annotated.analysis.interventions import Swap
from annotated.analysis.swaps import Case, memory_of, swap_case, swap_cases
from annotated.data import numbers
from annotated.translation import Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


class TestCases:
    def test_of_50_random_ones_at_least_95_per_cent_are_exact(self, translator):
        cases = swap_cases(translator, 50, seed=0)
        assert len(cases) == 50
        assert sum(case.exact for case in cases) >= 0.95 * 50, [c for c in cases if not c.exact]
        assert len({case.number for case in cases}) > 25
        for case in cases:
            assert numbers.held_out(case.number) and case.number != case.other
            digits = [str(case.number), str(case.other)]
            assert len(digits[0]) == len(digits[1])
            assert sum(a != b for a, b in zip(*digits, strict=True)) == 1
            assert len(case.swap.places) == 1

    def test_they_follow_from_the_seed(self, translator):
        one = swap_cases(translator, 5, seed=1)
        assert one == swap_cases(translator, 5, seed=1) != swap_cases(translator, 5, seed=2)

    def test_342_and_346(self, translator):
        case = swap_case(translator, 342, 346)
        assert case.swap == Swap([5], "dreihundertzweiundvierzig", "dreihundertsechsundvierzig")
        assert case.exact

    @pytest.mark.parametrize(
        "other", [342, 2, 204, 347_000, 351, pytest.param(243, id="two pieces apart")]
    )
    def test_numbers_that_are_not_one_piece_apart_are_no_case(self, translator, other):
        assert swap_case(translator, 342, other) is None

    @pytest.mark.parametrize(
        ("before", "after", "exact"),
        [
            ("zweiundvierzig", "sechsundvierzig", True),
            ("zweiundvierzig", "zweiundvierzig", False),
            ("zweiundvierzig", "sechsundvierzi", False),
            ("sechsundvierzig", "sechsundvierzig", False),
            ("zweiundvierzig", "Sechsundvierzig", False),
        ],
    )
    def test_exact_is_to_the_letter_before_and_after(self, before, after, exact):
        assert Case(42, 46, Swap([2], before, after)).exact is exact


def test_memory_is_the_encoders_output_eos_included(translator):
    tokenizer, model = translator.tokenizer, translator.model
    ids = torch.tensor([[*tokenizer.encode("forty-two"), tokenizer.eos_id]])
    memory = memory_of(translator, "forty-two")
    assert memory.shape == (4, model.config.d_model)
    torch.testing.assert_close(memory, model.encode(ids)[0].detach())
