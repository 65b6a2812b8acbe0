"""What is suspected of a measured exponent is run by itself, and is what the layers run."""

import pytest
import torch

from annotated import records
from annotated.complexity import causes
from annotated.complexity.causes import STEPPING, Literal, part_runs, passes
from annotated.complexity.counting import run_counts
from annotated.complexity.layers import Convolution, SeparableConvolution
from annotated.complexity.table_1 import K
from annotated.jobs import Job
from annotated.model import scaled_dot_product_attention

CPU = torch.device("cpu")


def test_passes_are_with_and_without_the_gradients_of_all_that_is_given():
    x, w = torch.randn(3, 5), torch.randn(5, 2)
    made = passes(torch.matmul, x, w)
    torch.testing.assert_close(made[0](), x @ w)
    to_x, to_w = made[1]()
    torch.testing.assert_close(to_x, torch.ones(3, 2) @ w.T)
    torch.testing.assert_close(to_w, x.T @ torch.ones(3, 2))


class TestParts:
    def test_the_product_has_the_multiply_adds_of_the_convolution(self):
        runs = part_runs(CPU, 11, (6,))
        counts = {part: run_counts(run)[0] for (part, _, _, back), run in runs.items() if not back}
        assert counts["convolution"] == counts["product"] == Convolution(6, K).cost(11).mixing
        assert counts["each component alone"] + counts["d × d matrix"] == (
            SeparableConvolution(6, K).cost(11).mixing
        )

    def test_both_passes_of_every_part_at_every_width(self):
        runs = part_runs(CPU, 5, (2, 6))
        assert len(runs) == 4 * 2 * 2
        for (_, n, d, back), run in runs.items():
            given = run()
            shapes = [x.shape for x in given] if back else [given.shape]
            assert shapes[0][:2] == (1, n) and (back or shapes == [(1, n, d)])


class TestLiteral:
    @pytest.mark.parametrize("way", ["fresh", "reused"])
    def test_it_is_the_formula(self, way):
        made = Literal(3, 7, CPU)
        expected, _ = scaled_dot_product_attention(made.q, made.k, made.v)
        torch.testing.assert_close(getattr(made, way)(), expected)

    def test_what_is_reused_is_given_again(self):
        made = Literal(2, 5, CPU)
        assert made.reused().data_ptr() == made.reused().data_ptr()
        assert made.fresh().data_ptr() != made.mixed.data_ptr()
        assert made.bytes == 2 * 5 * 5 * 4


def test_the_record_holds_what_was_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr(causes, "LEAST", 0.0)
    record = causes.record(
        Job("table-1-causes", 3), steps=3, n=5, heads=2, small=(2, 6), widths=(4,),
        lengths=(3, 7), rounds=3,
    )
    assert records.read(records.write(record, tmp_path)) == record
    assert {r["way"] for r in record.table("steps")} == set(STEPPING)
    assert len(record.table("steps")) == 3 * 3 * 2 * 2
    assert len(record.table("parts")) == 3 * 4 * 2 and len(record.table("memory")) == 3 * 2 * 2
    for name in ("steps", "parts", "memory"):
        middles = record.table(f"{name}_seconds")
        for row in middles:
            taken = [
                s["seconds"] for s in record.table(name)
                if all(s[key] == row[key] for key in row if not key.startswith("seconds"))
            ]
            assert len(taken) == 3 and row["seconds"] == pytest.approx(sorted(taken)[1], rel=1e-4)
