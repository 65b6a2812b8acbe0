"""FLOPs by formula against PyTorch's own count, and the paper's arithmetic."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from annotated import paper
from annotated.benchmark import paper_cost, work
from annotated.model import Transformer, TransformerConfig

SMALL = dict(vocab_size=53, d_model=22, d_ff=29, heads=2, layers=3)


def counted(config, sentences, source, target, backward):
    """What PyTorch counts; the unfused kernel is made of products that it knows."""
    model = Transformer(config)
    ids = [torch.randint(3, config.vocab_size, (sentences, n)) for n in (source, target)]
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits = model(*ids)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


CONFIGS = {
    "small": TransformerConfig(**SMALL),
    "widths": TransformerConfig(**SMALL | dict(heads=3), d_k=7, d_v=5),
    "pre": TransformerConfig(**SMALL, norm="pre", activation="gelu", attention_bias=True),
    "untied": TransformerConfig(**SMALL, tie=False, positions="learned", max_length=23),
}


class TestWork:
    @pytest.mark.parametrize("name", CONFIGS)
    @pytest.mark.parametrize("shape", [(3, 11, 7), (1, 1, 1), (2, 5, 13)])
    def test_it_is_exactly_what_pytorch_counts(self, name, shape):
        config = CONFIGS[name]
        found = work(config, *shape)
        assert found.forward == counted(config, *shape, backward=False)
        assert found.update == counted(config, *shape, backward=True)

    @settings(max_examples=20)
    @given(
        st.sampled_from([1, 2, 3]), st.integers(1, 5), st.integers(1, 13), st.integers(1, 13),
        st.integers(1, 9), st.integers(1, 9), st.integers(3, 31),
    )
    def test_whatever_the_sizes(self, heads, sentences, source, target, d_k, d_v, d_ff):
        config = TransformerConfig(
            vocab_size=53, d_model=14, d_ff=d_ff, heads=heads, layers=2, d_k=d_k, d_v=d_v
        )
        shape = sentences, source, target
        assert work(config, *shape).update == counted(config, *shape, backward=True)

    def test_each_part_grows_as_it_must(self):
        config = TransformerConfig.base()
        one, longer, more = (work(config, *s) for s in ((5, 7, 11), (5, 14, 22), (10, 7, 11)))
        assert [b / a for a, b in zip(one, longer, strict=True)] == [2, 4, 2, 2]
        assert [b / a for a, b in zip(one, more, strict=True)] == [2, 2, 2, 2]

    def test_attention_is_little_of_it_at_the_length_of_sentences(self):
        found = work(TransformerConfig.base(), 1000, 25, 25)
        assert 0 < found.attention / sum(found) < 0.02

    @pytest.mark.parametrize("shape", [(0, 3, 3), (3, 0, 3), (3, 3, -1)])
    def test_nothing_to_count_is_refused(self, shape):
        with pytest.raises(ValueError, match=r"^\w+ is (0|-1); expected at least 1$"):
            work(TransformerConfig.base(), *shape)


class TestPaperCost:
    def test_table_2_follows_from_the_days(self):
        for name, digits in (("base", "3.3e+18"), ("big", "2.3e+19")):
            cost = paper_cost(name)
            assert f"{cost.from_days:.1e}" == f"{cost.printed:.1e}" == digits
            run = paper.RUNS[name]
            seconds = run.days * 86_400
            assert cost.from_days == seconds * run.gpus * 9.5e12

    def test_of_base_it_does_not_follow_from_the_steps(self):
        base, big = paper_cost("base"), paper_cost("big")
        assert base.from_steps == pytest.approx(100_000 * 0.4 * 8 * 9.5e12)
        assert f"{base.from_steps:.1e}" == "3.0e+18" != f"{base.printed:.1e}"
        assert big.from_steps == pytest.approx(300_000 * 1.0 * 8 * 9.5e12)
        assert f"{big.from_steps:.1e}" == f"{big.printed:.1e}"

    @pytest.mark.parametrize(
        ("name", "rule", "share"), [("base", 9.4e17, 0.29), ("big", 9.6e18, 0.42)]
    )
    def test_the_work_is_a_part_of_the_capacity(self, name, rule, share):
        cost = paper_cost(name)
        assert cost.share == pytest.approx(share, abs=0.005)
        # six FLOPs for each token and weight of a matrix, attention left out
        config = getattr(TransformerConfig, name)()
        steps = getattr(paper.TRAINING, f"{name}_steps")
        without = work(config, 1000, 25, 25)._replace(attention=0).update * steps
        assert without == pytest.approx(rule, rel=0.006)
        assert cost.counted > without

    def test_longer_sentences_cost_more_attention(self):
        assert paper_cost("base", 50).counted > paper_cost("base", 25).counted

    def test_another_name_is_refused(self):
        with pytest.raises(ValueError, match=r"^name is 'huge'; expected 'base' or 'big'$"):
            paper_cost("huge")
