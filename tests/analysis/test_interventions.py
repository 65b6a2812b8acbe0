"""Each intervention changes what it names and nothing else; an effect says how sure it is."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.analysis.interventions import (
    cut_heads,
    hide,
    leave_out,
    mute,
    shift_positions,
    swap_vectors,
)
from annotated.model import MultiHeadAttention, record_attention

ENCODER = "encoder.layers.0.self_attention"
SELF = "decoder.layers.1.self_attention"
CROSS = "decoder.layers.1.cross_attention"
HEADS, D_V = 3, 7  # of the small models made by build


@pytest.fixture
def batch(build, sentences, pad):
    config = build().config
    return (
        pad(sentences([7, 3, 5], config), config.pad_id),
        pad(sentences([4, 4, 2], config, seed=1), config.pad_id),
    )


def bits(model):
    """Every weight as integers: unlike ==, tells 0.0 from -0.0 and NaN from NaN."""
    return {name: p.detach().view(torch.int32).clone() for name, p in model.named_parameters()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@settings(max_examples=30, deadline=None)
@given(
    heads=st.integers(1, 5),
    d_v=st.integers(1, 7),
    bias=st.booleans(),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_the_output_is_the_sum_over_the_heads_that_are_left(heads, d_v, bias, seed, data):
    """From the recorded weights alone: out = bias + Σ over heads left of A_i V_i W_i^O."""
    cut = data.draw(st.sets(st.integers(0, heads - 1)))
    torch.manual_seed(seed)
    layer = MultiHeadAttention(11, heads, d_k=5, d_v=d_v, bias=bias).double()
    x, memory = torch.randn(2, 3, 11).double(), torch.randn(2, 13, 11).double()
    with cut_heads(layer, {"": cut}), record_attention(layer) as seen, torch.no_grad():
        out = layer(x, memory)
    with torch.no_grad():
        values = layer.w_v(memory).unflatten(-1, (heads, d_v)).transpose(1, 2)
        rows = layer.w_o.weight.T.unflatten(0, (heads, d_v))
        parts = seen[""] @ values @ rows  # what each head adds, (batch, heads, n, d_model)
        expected = sum((parts[:, i] for i in range(heads) if i not in cut), torch.zeros_like(out))
        expected = expected + (layer.w_o.bias if bias else 0)
    assert (out - expected).abs().max() < 1e-12


def test_only_the_named_heads_of_the_named_layers_change(build):
    model = build()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with cut_heads(model, {ENCODER: [2], CROSS: [0, 1]}):
        after = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, kept in before.items():
        expected = kept.clone()
        if name == f"{ENCODER}.w_o.weight":
            expected[:, 2 * D_V :] = 0
        if name == f"{CROSS}.w_o.weight":
            expected[:, : 2 * D_V] = 0
        assert torch.equal(after[name], expected), name
    assert not torch.equal(before[f"{ENCODER}.w_o.weight"], after[f"{ENCODER}.w_o.weight"])


def test_the_model_answers_otherwise_inside_and_as_before_outside(build, batch):
    model = build()
    with torch.no_grad():
        plain = model(*batch)
        for name in (ENCODER, SELF, CROSS):
            with cut_heads(model, {name: [1]}):
                assert (model(*batch) - plain).abs().max() > 1e-3, name
            assert torch.equal(model(*batch), plain)


def test_the_cut_layer_still_attends_as_it_did(build, batch):
    """What a head looks at stays; what it says is not heard."""
    model = build()
    with record_attention(model) as seen, torch.no_grad():
        model(*batch)
        plain = dict(seen)
        with cut_heads(model, {ENCODER: [0]}):
            model(*batch)
    assert torch.equal(seen[ENCODER], plain[ENCODER])
    later = "encoder.layers.1.self_attention"
    assert not torch.equal(seen[later], plain[later])


def test_a_search_step_by_step_feels_the_cut_as_well(build, batch):
    model = build(torch.float64)
    source, target = batch
    with cut_heads(model, {SELF: [0], CROSS: [1, 2]}), torch.no_grad():
        whole = model(source, target)
        cache = model.start(source, capacity=4)
        steps = [model.step(target[:, t], cache) for t in range(4)]
    assert (torch.stack(steps, 1) - whole).abs().max() < 1e-10


def test_all_heads_cut_leave_the_residual_alone(build, batch):
    """With nothing to add, the sub-layer normalises its input."""
    model = build()
    source, _ = batch
    layer = model.encoder.layers[0]
    x = model.embed(source, "source")
    mask = (source != model.config.pad_id)[:, None, None]
    with cut_heads(model, {ENCODER: range(HEADS)}), torch.no_grad():
        out = layer.sublayer_1(x, layer.self_attention, None, mask)
        assert torch.equal(out, layer.sublayer_1.norm(x))


@pytest.mark.parametrize("leave", [None, RuntimeError, KeyboardInterrupt], ids=str)
def test_every_weight_comes_back_to_the_bit(build, leave):
    model = build()
    with torch.no_grad():  # values that == would let pass
        model.get_submodule(ENCODER).w_o.weight[0, :3] = torch.tensor([-0.0, float("nan"), 1e-42])
    before, places = bits(model), {n: p.data_ptr() for n, p in model.named_parameters()}
    cut = {ENCODER: [0, 2], CROSS: [1]}
    if leave is None:
        with cut_heads(model, cut):
            assert not same(bits(model), before)
    else:
        with pytest.raises(leave), cut_heads(model, cut):
            assert not same(bits(model), before)
            raise leave
    assert same(bits(model), before)
    assert {n: p.data_ptr() for n, p in model.named_parameters()} == places
    assert all(p.requires_grad for p in model.parameters())


def test_blocks_may_be_nested(build):
    model = build()
    before = bits(model)
    with cut_heads(model, {CROSS: [0]}):
        outer = bits(model)
        with cut_heads(model, {CROSS: [2], SELF: [0]}):
            assert (model.get_submodule(CROSS).w_o.weight[:, :D_V] == 0).all()
            assert (model.get_submodule(CROSS).w_o.weight[:, 2 * D_V :] == 0).all()
        assert same(bits(model), outer)
    assert same(bits(model), before)


def test_gradients_flow_through_a_cut_model(build, batch):
    model = build()
    with cut_heads(model, {CROSS: [1]}):
        model(*batch).sin().sum().backward()
    values = model.get_submodule(CROSS).w_v.weight.grad.unflatten(0, (HEADS, D_V))
    assert (values[1] == 0).all()  # nothing that the head says is heard
    assert all(values[head].abs().max() > 0 for head in (0, 2))


def test_nothing_to_cut_changes_nothing(build):
    model = build()
    before = bits(model)
    with cut_heads(model, {}), cut_heads(model, {CROSS: []}):
        assert same(bits(model), before)


@pytest.mark.parametrize(
    "cut, words",
    [
        ({"encoder.layers.2.self_attention": [0]}, ["encoder.layers.2.self_attention", SELF]),
        ({"encoder.layers.0": [0]}, ["'encoder.layers.0'", ENCODER, CROSS]),
        ({"": [0]}, ["''", ENCODER]),
        ({ENCODER: [0], CROSS: [3]}, ["head 3", CROSS, "0 to 2"]),
        ({CROSS: [-1]}, ["head -1", CROSS, "0 to 2"]),
    ],
    ids=str,
)
def test_what_does_not_exist_is_named_and_nothing_is_cut(build, cut, words):
    model = build()
    before = bits(model)
    with pytest.raises(ValueError) as error, cut_heads(model, cut):
        raise AssertionError("the block was entered")
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert same(bits(model), before)


def test_a_model_without_attention_says_so():
    with pytest.raises(ValueError, match="no attention 'x'; the model has none"):
        with cut_heads(torch.nn.Linear(2, 3), {"x": [0]}):
            raise AssertionError("the block was entered")


places = st.lists(st.integers(0, 6), max_size=5)  # of 7 pieces; a place may be named twice


class TestHide:
    @given(places)
    def test_these_places_are_padding_and_no_others(self, where):
        source = torch.arange(10, 24).view(2, 7)
        hidden = hide(source, where, pad_id=3)
        for row in range(2):
            for place in range(7):
                expected = 3 if place in where else 10 + 7 * row + place
                assert hidden[row, place] == expected
        assert torch.equal(source, torch.arange(10, 24).view(2, 7))

    @pytest.mark.parametrize("where", [[0], [4], [2, 6]], ids=str)
    def test_no_attention_looks_there_and_what_stood_there_has_no_effect(
        self, build, sentences, where
    ):
        model = build(pad_id=31)
        one, other = (torch.stack(sentences([7, 7], model.config, seed)) for seed in (0, 1))
        other = one.index_copy(1, torch.tensor(where), other[:, where])
        target = torch.stack(sentences([4, 4], model.config, seed=2))
        with record_attention(model) as seen, torch.no_grad():
            logits = model(hide(one, where, 31), target)
            names = [name for name in seen if "encoder" in name or "cross" in name]
            hidden = torch.zeros(7).bool().index_fill(0, torch.tensor(where), True)
            for name in names:
                assert (seen[name][..., hidden] == 0).all(), name
                assert (seen[name][..., ~hidden] > 0).all(), name
            assert len(names) == 4
            assert not torch.equal(model(one, target), model(other, target))
            assert torch.equal(model(hide(other, where, 31), target), logits)

    @pytest.mark.parametrize("place", [7, -1])
    def test_a_place_that_is_not_there_is_refused(self, place):
        with pytest.raises(ValueError, match=f"^no place {place}; the places are 0 to 6$"):
            hide(torch.ones(2, 7, dtype=torch.int64), [0, place], 0)


class TestSwapVectors:
    @given(places, st.sampled_from([(), (3,), (2, 3)]))
    def test_these_vectors_are_the_others_and_no_more(self, where, lead):
        memory = torch.arange(7.0)[:, None].expand(*lead, 7, 5).contiguous()
        before = memory.clone()
        swapped = swap_vectors(memory, memory + 100, where)
        expected = [100.0 * (place in where) + place for place in range(7)]
        assert swapped.shape == (*lead, 7, 5)
        assert (swapped == torch.tensor(expected)[:, None]).all()
        assert torch.equal(memory, before)

    def test_rows_of_a_batch_get_their_own_vectors(self):
        memory, other = torch.zeros(3, 7, 5), torch.randn(3, 7, 5)
        swapped = swap_vectors(memory, other, [2, 5])
        assert torch.equal(swapped[:, [2, 5]], other[:, [2, 5]])
        assert (swapped[:, [0, 1, 3, 4, 6]] == 0).all()

    def test_what_is_not_there_is_refused(self):
        memory = torch.zeros(3, 7, 5)
        with pytest.raises(ValueError, match="^no place 7; the places are 0 to 6$"):
            swap_vectors(memory, memory, [7])

    def test_memories_of_unequal_shape_are_refused(self):
        """Ours answers, not the run-time check of shapes, which users do not have."""
        memory, other = torch.zeros(3, 7, 5), torch.zeros(3, 11, 5)
        with pytest.raises(ValueError) as error:
            inspect.unwrap(swap_vectors)(memory, other, [0])
        assert str(error.value) == (
            "memory is [3, 7, 5] and other [3, 11, 5]; expected the same shape"
        )


class TestMute:
    def test_what_is_left_of_a_sublayer_is_its_norm(self, build, batch):
        model = build().eval()
        layer = model.decoder.layers[1]
        before, x = model(*batch), torch.randn(2, 5, model.config.d_model)
        with mute(layer.feed_forward):
            assert torch.equal(layer.sublayer_3(x, layer.feed_forward), layer.sublayer_3.norm(x))
            assert not torch.allclose(model(*batch), before)
        assert torch.equal(model(*batch), before)

    def test_several_at_once_and_also_after_an_error(self, build, batch):
        model = build().eval()
        before = model(*batch)
        with pytest.raises(RuntimeError, match="stop"), mute(model.encoder, model.decoder):
            assert not model(*batch).any()
            raise RuntimeError("stop")
        assert torch.equal(model(*batch), before)


class TestLeaveOut:
    @pytest.mark.parametrize("norm", ["post", "pre"])
    @pytest.mark.parametrize("summand", ["x", "box"])
    def test_the_other_summand_is_all_that_is_left(self, summand, norm, build, batch):
        model = build(norm=norm)
        layer = model.encoder.layers[1]
        sublayer, f = layer.sublayer_2, layer.feed_forward
        x, before = torch.randn(2, 5, model.config.d_model), model(*batch)
        if norm == "post":
            left = sublayer.norm(f(x) if summand == "x" else x)
        else:
            left = f(sublayer.norm(x)) if summand == "x" else x
        with leave_out(summand, sublayer):
            torch.testing.assert_close(sublayer(x, f), left)
            assert not torch.allclose(model(*batch), before)
        assert torch.equal(model(*batch), before)

    @pytest.mark.parametrize("summand", ["x", "box"])
    def test_several_at_once_with_their_inputs_and_also_after_an_error(
        self, summand, build, batch
    ):
        model = build()
        layer, before = model.decoder.layers[0], model(*batch)
        x, memory = (torch.randn(2, n, model.config.d_model) for n in (3, 5))
        both = layer.sublayer_2, layer.sublayer_3
        heard = layer.cross_attention(x, memory, None) if summand == "x" else x
        with pytest.raises(RuntimeError, match="stop"), leave_out(summand, *both):
            got = both[0](x, layer.cross_attention, memory, None)
            torch.testing.assert_close(got, both[0].norm(heard))
            raise RuntimeError("stop")
        assert torch.equal(model(*batch), before)

    def test_a_sublayer_has_two_summands(self, build):
        sublayer = build().encoder.layers[0].sublayer_1
        with pytest.raises(ValueError) as caught, leave_out("f", sublayer):
            pass
        assert str(caught.value) == "summand is 'f'; expected 'x' or 'box'"


class TestShiftPositions:
    @pytest.mark.parametrize("use", ["source", "target"])
    def test_one_side_counts_from_there(self, use, build, batch):
        model = build().eval()
        ids = dict(zip(("source", "target"), batch, strict=True))
        other = "target" if use == "source" else "source"
        expected, same = model.embed(ids[use], use, 3), model.embed(ids[other], other)
        before = model(*batch)
        with shift_positions(model, use, 3):
            assert torch.equal(model.embed(ids[use], use), expected)
            assert torch.equal(model.embed(ids[other], other), same)
            assert not torch.allclose(model(*batch), before)
        assert torch.equal(model(*batch), before)

    def test_another_side_is_refused(self, build):
        with pytest.raises(ValueError, match="use is 'memory'; expected 'source' or 'target'"):
            with shift_positions(build(), "memory", 1):
                pass
