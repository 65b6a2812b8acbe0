"""Another attention enters as one class and one name: both paths, causality and the cache hold."""

import dataclasses
import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    record_attention,
    scaled_dot_product_attention,
)
from annotated.model.attention import ATTENTIONS
from annotated.translation.search import greedy_search

WIDTH = 3


class Rotary(MultiHeadAttention):
    """Su et al. (2021): each pair of a query's and a key's components turns with its position."""

    def prepare(self, query, keys, mask, own):
        if own:
            n, m = query.shape[-2], keys.shape[-2]
            query, keys = turned(query, range(m - n, m)), turned(keys, range(m))
        return query, keys, mask


def turned(x, positions):
    half = x.shape[-1] // 2
    speed = 100 ** -(torch.arange(half).to(x) / half)
    angle = torch.tensor([*positions]).to(x)[:, None] * speed
    a, b = x[..., :half], x[..., half:]
    sin, cos = angle.sin(), angle.cos()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Banded(MultiHeadAttention):
    """§4, restricted self-attention: a position sees those that are less than WIDTH away."""

    def prepare(self, query, keys, mask, own):
        if own:
            n, m = query.shape[-2], keys.shape[-2]
            apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
            near = apart.abs() < WIDTH
            mask = near if mask is None else near & mask
        return query, keys, mask


class Unscaled(MultiHeadAttention):
    def prepare(self, query, keys, mask, own):
        return query * math.sqrt(query.shape[-1]), keys, mask


OTHERS = {"rotary": Rotary, "banded": Banded, "unscaled": Unscaled}
SIZES = dict(d_k=4, d_v=7)  # rotary pairs need an even d_k
NORMS = ["post", "pre"]


@pytest.fixture(autouse=True)
def named(monkeypatch):
    for name, kind in OTHERS.items():
        monkeypatch.setitem(ATTENTIONS, name, kind)


@pytest.fixture(params=OTHERS)
def other(request):
    return request.param


def made(kind, seed=0, **options):
    torch.manual_seed(seed)
    return kind(22, 3, 4, 7, **options).double().eval()


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def assert_close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


class TestAttention:
    @settings(max_examples=25, deadline=None)
    @given(
        n=st.sampled_from([1, 2, 5, 7]), m=st.sampled_from([1, 3, 11]), seed=st.integers(0, 2**31),
        causal=st.booleans(), cross=st.booleans(), masked=st.booleans(),
    )
    @pytest.mark.parametrize("kind", OTHERS.values())
    def test_two_paths_one_answer(self, kind, n, m, seed, causal, cross, masked):
        attention = made(kind, causal=causal and not cross)
        x, memory = normal(2, n, 22, seed=seed), normal(2, m, 22) if cross else None
        keys = m if cross else n
        mask = torch.rand(2, 1, 1, keys, generator=torch.Generator().manual_seed(seed)) < 0.7
        given = x, memory, mask if masked else None
        fused = attention(*given)
        with record_attention(attention) as seen:
            assert_close(attention(*given), fused)
        if causal and not cross:
            assert (seen[""][..., ~causal_mask(n)] == 0).all()
        if masked:
            assert (seen[""].masked_select(~mask) == 0).all()

    @pytest.mark.parametrize("kind", OTHERS.values())
    def test_it_is_another_answer_of_the_same_parameters(self, kind):
        plain, attention = made(MultiHeadAttention), made(kind)
        assert all(map(torch.equal, plain.parameters(), attention.parameters()))
        x = normal(2, 7, 22)
        assert (attention(x) - plain(x)).abs().max() > 1e-3

    @pytest.mark.parametrize("kind", [Rotary, Banded])
    def test_a_memory_has_no_positions(self, kind):
        plain, attention = made(MultiHeadAttention), made(kind)
        x, memory = normal(2, 7, 22), normal(2, 11, 22, seed=1)
        assert torch.equal(attention(x, memory), plain(x, memory))

    def test_rotary_scores_depend_on_the_distance_alone(self):
        attention, vector = made(Rotary), normal(1, 1, 22)
        with record_attention(attention) as seen:
            attention(vector.expand(1, 7, 22))
        scores = seen[""].log()
        scores = scores - scores.diagonal(dim1=-2, dim2=-1)[..., None]  # to itself it is the same
        for away in range(-6, 7):
            line = scores.diagonal(away, -2, -1)
            assert_close(line, line[..., :1].expand_as(line))
        assert (scores[0, :, 0] - scores[0, :, 0, :1]).abs()[:, 1:].min() > 1e-6

    def test_rotary_is_the_formula_on_turned_vectors(self):
        attention, x = made(Rotary), normal(2, 5, 22)
        keys, values = attention.keys_values(x)
        query, at = attention.split(attention.w_q(x)), range(5)
        expected, _ = scaled_dot_product_attention(turned(query, at), turned(keys, at), values)
        assert_close(attention(x), attention.w_o(expected.transpose(1, 2).flatten(2)))

    @pytest.mark.parametrize("causal", [False, True])
    def test_a_band_is_as_wide_as_it_says(self, causal):
        with record_attention(attention := made(Banded, causal=causal)) as seen:
            attention(normal(1, 7, 22))
        i, j = torch.arange(7)[:, None], torch.arange(7)
        allowed = (i - j).abs() < WIDTH
        assert torch.equal(seen[""][0, 0] > 0, allowed & (j <= i) if causal else allowed)


class TestModel:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("recorded", [False, True])
    def test_a_step_with_the_cache_is_the_whole_computed_again(self, build, other, norm, recorded):
        model = build(torch.float64, attention=other, norm=norm, **SIZES)
        source = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
        target = torch.randint(3, 37, (2, 11), generator=torch.Generator().manual_seed(0))
        cache = model.start(source, 11)
        with record_attention(model) if recorded else nullcontext():
            whole = model(source, target)
            for t in range(11):
                assert_close(model.step(target[:, t], cache), whole[:, t])
                if t == 4:  # rows change places on the way
                    cache.select(torch.tensor([1, 0]))
                    target, whole = target.flip(0), whole.flip(0)

    @pytest.mark.parametrize("training", [False, True])
    def test_no_logit_depends_on_what_comes_after_it(self, build, other, training):
        model = build(torch.float64, attention=other, dropout=0.0, **SIZES).train(training)
        source = torch.tensor([[5, 6, 7]])
        memory, mask = model.encode(source).detach(), torch.ones(1, 1, 1, 3, dtype=torch.bool)
        y = model.embed(torch.tensor([[1, 4, 6, 8, 9]]), "target").detach()
        seen = torch.autograd.functional.jacobian(
            lambda y: model.logits(model.decoder(y, memory, mask)), y
        )
        assert torch.equal(seen.abs().sum((0, 2, 3, 5)) > 0, causal_mask(5))

    def test_two_layers_of_a_band_reach_twice_as_far(self, build):
        model = build(torch.float64, attention="banded", norm="pre", **SIZES)
        x = normal(1, 11, 22)
        mask = torch.ones(1, 1, 1, 11, dtype=torch.bool)
        seen = torch.autograd.functional.jacobian(lambda x: model.encoder(x, mask), x)
        i, j = torch.arange(11)[:, None], torch.arange(11)
        expected = (i - j).abs() <= 2 * (WIDTH - 1)
        assert torch.equal(seen.abs().sum((0, 2, 3, 5)) > 0, expected)

    def test_padding_changes_nothing(self, build, other):
        model = build(torch.float64, attention=other, **SIZES)
        source, target = torch.tensor([[5, 6, 2, 0, 0]]), torch.tensor([[1, 4, 7]])
        assert_close(model(source, target), model(source[:, :3], target))

    def test_rows_of_a_search_are_independent(self, build, other):
        model = build(torch.float64, attention=other, **SIZES)
        source = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
        found = greedy_search(model, source, extra_length=7)
        for row, together in zip(source, found, strict=True):
            (alone,) = greedy_search(model, row[row != 0][None], extra_length=7)
            assert alone.tokens == together.tokens

    def test_each_attention_is_of_the_named_class(self, build, other):
        model = build(attention=other, **SIZES)
        attentions = {
            name: module for name, module in model.named_modules()
            if isinstance(module, MultiHeadAttention)
        }
        assert {type(a) for a in attentions.values()} == {OTHERS[other]}
        assert len(attentions) == 3 * 2
        for name, attention in attentions.items():
            assert attention.causal == (name.startswith("decoder") and "self" in name)


class TestName:
    def test_a_checkpoint_holds_the_name_and_loads_the_class(self, tmp_path, other):
        from annotated.data.tokenizer import Tokenizer
        from annotated.translation.checkpoints import load_checkpoint, save_checkpoint

        tokenizer = Tokenizer.train(["one two three"], merges=3)
        config = TransformerConfig.tiny(
            vocab_size=tokenizer.vocab_size, d_model=22, d_ff=29, heads=3, layers=1,
            attention=other, **SIZES,
        )
        torch.manual_seed(0)
        model = Transformer(config).eval()
        save_checkpoint(tmp_path / "other", model, tokenizer, recipe="copy", seed=0)
        loaded = load_checkpoint(tmp_path / "other")[0]
        assert loaded.config == config
        assert type(loaded.encoder.layers[0].self_attention) is OTHERS[other]
        source = torch.tensor([[7, 8, 2]])
        assert torch.equal(loaded.eval()(source, source), model(source, source))

    def test_an_unknown_name_is_answered_with_those_there_are(self):
        with pytest.raises(ValueError, match="attention is 'linear'.*'scaled-dot-.*'rotary'"):
            TransformerConfig(attention="linear")

    def test_the_default_is_the_papers(self):
        assert TransformerConfig().attention == "scaled-dot-product"
        assert ATTENTIONS["scaled-dot-product"] is MultiHeadAttention
        (field,) = [f for f in dataclasses.fields(TransformerConfig) if f.name == "attention"]
        assert field.type in (str, "str")
