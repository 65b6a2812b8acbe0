"""§3.4-3.5: one matrix used three times, and vectors for positions."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from annotated.model import (
    LearnedPositions,
    TiedEmbedding,
    Transformer,
    TransformerConfig,
    sinusoidal_encoding,
)

few = settings(max_examples=25, deadline=None)
even = st.sampled_from([2, 6, 10, 22, 26, 512])


@pytest.fixture(scope="session")
def float64_table():
    """sinusoidal_encoding where the default dtype, which it comes in, is float64."""

    def table(*args):
        torch.set_default_dtype(torch.float64)
        try:
            return sinusoidal_encoding(*args)
        finally:
            torch.set_default_dtype(torch.float32)

    return table


def closed_form(n, d_model):
    """§3.5 as it is printed, one number at a time."""
    table = torch.empty(n, d_model, dtype=torch.float64)
    for pos in range(n):
        for i in range(d_model // 2):
            table[pos, 2 * i] = math.sin(pos / 10000 ** (2 * i / d_model))
            table[pos, 2 * i + 1] = math.cos(pos / 10000 ** (2 * i / d_model))
    return table


class TestEmbedding:
    def test_input_is_scaled_and_logits_are_not(self):
        embedding = TiedEmbedding(11, 5)
        ids, x = torch.tensor([[3, 7, 3]]), torch.randn(2, 3, 5)
        assert torch.allclose(embedding(ids), embedding.weight[ids] * math.sqrt(5))
        assert torch.allclose(embedding.logits(x), x @ embedding.weight.T, atol=1e-6)
        assert torch.allclose(embedding.logits(x[0, 0]), embedding.weight @ x[0, 0], atol=1e-6)

    @pytest.mark.parametrize("d_model", [64, 512])
    def test_words_enter_at_unit_scale_beside_positions_of_root_one_half(self, d_model):
        torch.manual_seed(0)
        embedding = TiedEmbedding(1009, d_model)
        words = embedding(torch.arange(1009)[None])
        assert words.square().mean().sqrt().item() == pytest.approx(1, rel=0.02)
        positions = sinusoidal_encoding(101, d_model)
        assert positions.square().mean().sqrt().item() == pytest.approx(0.70711, rel=1e-4)

    def test_without_the_factor_the_position_drowns_the_word(self):
        torch.manual_seed(0)
        words = TiedEmbedding(1009, 512).weight.square().mean().sqrt().item()
        positions = sinusoidal_encoding(101, 512).square().mean().sqrt().item()
        assert words == pytest.approx(512**-0.5, rel=0.02)  # 0.044
        assert positions > 15 * words

    def test_logits_start_at_unit_scale(self):
        torch.manual_seed(0)
        model = Transformer(TransformerConfig.tiny(vocab_size=509)).eval()
        logits = model(torch.randint(3, 509, (5, 7)), torch.randint(3, 509, (5, 11)))
        assert logits.std().item() == pytest.approx(1, rel=0.15)

    def test_model_input_is_words_plus_positions(self, build):
        model = build(dropout=0.5)
        entering = []
        for stack in (model.encoder, model.decoder):
            stack.layers[0].register_forward_pre_hook(lambda _, args: entering.append(args[0]))
        source, target = torch.tensor([[5, 3, 7]]), torch.tensor([[1, 5, 3, 9, 9]])
        with torch.no_grad():
            model(source, target)
        for ids, x in zip((source, target), entering, strict=True):
            expected = model.embedding.weight[ids] * math.sqrt(22)
            expected = expected + sinusoidal_encoding(ids.shape[1], 22)
            assert torch.allclose(x, expected, atol=1e-6)


class TestTying:
    def test_one_parameter_counted_once(self, build):
        model = build()
        tables = [p for p in model.parameters() if 37 in p.shape]
        assert len(tables) == 1
        assert tables[0] is model.embedding.weight
        assert tables[0].shape == (37, 22)
        assert [name for name, p in model.state_dict().items() if 37 in p.shape] == [
            "embedding.weight"
        ]

    def test_gradient_is_the_sum_of_three_contributions(self, build):
        model = build(torch.float64)
        source, target = torch.tensor([[5, 3, 7, 3]]), torch.tensor([[1, 5, 3]])
        vectors, outputs = [], []
        model.embedding.register_forward_hook(lambda *call: vectors.append(call[-1]))
        model.decoder.register_forward_hook(lambda *call: outputs.append(call[-1]))
        logits = model(source, target)
        loss = F.cross_entropy(logits[0], torch.tensor([5, 3, 2]))
        wanted = (model.embedding.weight, *vectors, logits)
        whole, by_source, by_target, by_logits = torch.autograd.grad(loss, wanted)
        parts = [
            torch.zeros_like(whole).index_add(0, ids[0], math.sqrt(22) * gradient[0])
            for ids, gradient in ((source, by_source), (target, by_target))
        ]
        parts.append(by_logits[0].T @ outputs[0][0])
        assert all(part.abs().max() > 1e-3 for part in parts)
        assert (sum(parts) - whole).abs().max() < 1e-12

    def test_one_update_moves_input_and_output_together(self, build):
        model = build().train()
        source, target = torch.tensor([[5, 3]]), torch.tensor([[1, 4]])
        before = model.embedding.weight.detach().clone()
        model(source, target).logsumexp(-1).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        words = model.embedding(torch.arange(37)[None])[0] / math.sqrt(22)
        logits = model.embedding.logits(torch.eye(22)).T
        assert (words - before).abs().max() > 1e-3
        assert torch.allclose(words, logits, atol=1e-6)

    def test_survives_saving_loading_copying_and_casting(self, build, tmp_path):
        model = build()
        save_file(model.state_dict(), tmp_path / "model.safetensors")
        loaded = build(seed=5)
        loaded.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=True)
        source, target = torch.tensor([[5, 3]]), torch.tensor([[1, 4, 6]])
        expected = model(source, target)
        for other in (loaded, copy.deepcopy(model), copy.deepcopy(model).double().float()):
            assert torch.equal(other(source, target), expected)
            assert sum(p.numel() for p in other.parameters()) == sum(
                p.numel() for p in model.parameters()
            )
            with torch.no_grad():  # still one matrix: a change reaches all three uses
                other.embedding.weight.zero_()
            assert (other(source, target) == 0).all()
            assert (other.embedding(source) == 0).all()

    def test_is_still_one_after_a_move_to_another_device(self, build):
        model = build().to("meta")
        tables = [p for p in model.parameters() if 37 in p.shape]
        assert len(tables) == 1 and tables[0].device.type == "meta"
        assert all(model.matrix(use).weight is tables[0] for use in ("source", "target", "output"))

    def test_untied_has_three_matrices(self, build):
        """Not in the paper: tie=False."""
        tied, untied = build(), build(tie=False)
        tables = [p for p in untied.parameters() if 37 in p.shape]
        assert len(tables) == 3
        assert len({p.data_ptr() for p in tables}) == 3
        total = [sum(p.numel() for p in m.parameters()) for m in (tied, untied)]
        assert total[1] - total[0] == 2 * 37 * 22
        untied(torch.tensor([[5, 3]]), torch.tensor([[1, 4]])).logsumexp(-1).sum().backward()
        seen = {tuple(p.grad.abs().sum(1).nonzero().flatten().tolist()) for p in tables}
        assert seen == {(3, 5), (1, 4), tuple(range(37))}

    def test_untied_with_three_equal_matrices_is_tied(self, build):
        tied, untied = build(torch.float64), build(torch.float64, tie=False)
        missing, unexpected = untied.load_state_dict(tied.state_dict(), strict=False)
        assert len(missing) == 2
        assert not unexpected
        with torch.no_grad():
            for table in (p for p in untied.parameters() if 37 in p.shape):
                table.copy_(tied.embedding.weight)
        source, target = torch.tensor([[5, 3, 7]]), torch.tensor([[1, 4]])
        assert torch.equal(tied(source, target), untied(source, target))


class TestSinusoids:
    def test_reference_values(self, float64_table):
        table = float64_table(5, 512)
        assert table[0].tolist() == [0.0, 1.0] * 256
        assert table[1, 0].item() == pytest.approx(0.8414710, abs=5e-8)
        assert table[1, 1].item() == pytest.approx(0.5403023, abs=5e-8)
        assert table[3, 4].item() == pytest.approx(0.3427818, abs=5e-8)
        assert table[3, 5].item() == pytest.approx(-0.9394150, abs=5e-8)

    def test_values_in_the_default_dtype_are_those_of_float64_rounded(self):
        table = sinusoidal_encoding(2003, 22)
        assert table.dtype == torch.float32
        assert torch.equal(table, closed_form(2003, 22).float())

    @few
    @given(n=st.integers(1, 40), d_model=even)
    def test_equals_the_formula_as_printed(self, float64_table, n, d_model):
        expected = closed_form(n, d_model)
        assert (float64_table(n, d_model) - expected).abs().max() < 1e-12

    @few
    @given(n=st.integers(1, 400), d_model=even)
    def test_every_position_has_squared_length_half_the_width(self, float64_table, n, d_model):
        lengths = float64_table(n, d_model).square().sum(-1)
        assert (lengths - d_model / 2).abs().max() < 1e-10

    @few
    @given(d_model=even, k=st.integers(0, 60))
    def test_a_shift_is_one_rotation_for_every_position(self, float64_table, d_model, k):
        table = float64_table(101 + k, d_model)
        rotation = torch.zeros(d_model, d_model, dtype=torch.float64)
        for i in range(d_model // 2):
            angle = k * 10000 ** (-2 * i / d_model)
            cos, sin = math.cos(angle), math.sin(angle)
            pair = slice(2 * i, 2 * i + 2)
            rotation[pair, pair] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        assert (table[:101] @ rotation.T - table[k:]).abs().max() < 1e-12
        identity = torch.eye(d_model, dtype=torch.float64)
        assert (rotation @ rotation.T - identity).abs().max() < 1e-12

    def test_the_product_of_two_positions_depends_on_their_distance_only(self, float64_table):
        table = float64_table(101, 512)
        products = (table[:-5] * table[5:]).sum(-1)
        assert products[0].item() == pytest.approx(189.5967, abs=5e-5)
        assert (products - products[0]).abs().max() < 1e-10

    @few
    @given(n=st.integers(1, 40), d_model=even)
    def test_halves_are_the_same_channels_sines_first(self, float64_table, n, d_model):
        """Not in the paper: positions="sinusoidal-halves"."""
        paper, halves = float64_table(n, d_model), float64_table(n, d_model, "halves")
        assert torch.equal(halves[:, : d_model // 2], paper[:, 0::2])
        assert torch.equal(halves[:, d_model // 2 :], paper[:, 1::2])

    def test_halves_are_the_released_codes_only_at_the_first_frequency(self, float64_table):
        """tensor2tensor's frequencies fall by 10000^(1/(d/2 - 1)), the paper's by 10000^(2/d)."""
        pairs = torch.arange(256, dtype=torch.float64)
        released, ours = 10000 ** (-pairs / 255), 10000 ** (-2 * pairs / 512)
        assert (released[0] / released[1]).item() == pytest.approx(1.036779, abs=5e-7)
        assert (ours[0] / ours[1]).item() == pytest.approx(1.036633, abs=5e-7)
        halves = float64_table(101, 512, "halves")[:, :256]
        position = torch.arange(101, dtype=torch.float64)[:, None]
        assert (halves - (position * ours).sin()).abs().max() < 1e-12
        theirs = (position * released).sin()
        assert (halves[:, 0] - theirs[:, 0]).abs().max() < 1e-12
        assert (halves - theirs).abs().max() > 0.01

    def test_the_model_uses_the_layout_that_its_configuration_names(self, build):
        order = [*range(0, 22, 2), *range(1, 22, 2)]
        paper, halves = build(), build(positions="sinusoidal-halves")
        with torch.no_grad():
            paper.embedding.weight.zero_()
            halves.embedding.weight.zero_()
        entering = []
        for model in (paper, halves):
            model.encoder.layers[0].register_forward_pre_hook(
                lambda _, args: entering.append(args[0])
            )
            model.encode(torch.tensor([[5, 3, 7]]))
        assert torch.equal(entering[0][..., order], entering[1])
        assert not torch.equal(*entering)

    def test_is_no_parameter_and_is_not_saved(self, build):
        model = build()
        assert not list(model.positions.parameters())
        assert not any("position" in name for name in model.state_dict())

    def test_inputs_may_be_of_any_length(self, build):
        model = build(layers=1)
        entering = []
        model.encoder.layers[0].register_forward_pre_hook(lambda _, args: entering.append(args[0]))
        with torch.no_grad():
            model.embedding.weight.zero_()
            model.encode(torch.full((1, 1217), 5))
            one_by_one = torch.cat([model.positions(1, start) for start in (0, 511, 512, 1216)])
        expected = closed_form(1217, 22).float()
        assert torch.equal(entering[0][0], expected)
        assert torch.equal(one_by_one, expected[[0, 511, 512, 1216]])

    @pytest.mark.parametrize("d_model", [1, 7, 513])
    def test_odd_width_is_refused(self, d_model):
        with pytest.raises(ValueError, match=f"{d_model}.*odd|odd.*{d_model}"):
            sinusoidal_encoding(5, d_model)

    def test_unknown_layout_is_refused(self):
        with pytest.raises(ValueError, match="interleave"):
            sinusoidal_encoding(5, 6, "interleave")


class TestLearnedPositions:
    """Table 3, row E."""

    def test_one_trained_vector_a_position(self):
        positions = LearnedPositions(13, 22)
        assert [tuple(p.shape) for p in positions.parameters()] == [(13, 22)]
        assert torch.equal(positions(5), positions.weight[:5])
        assert torch.equal(positions(2, start=11), positions.weight[11:])

    def test_they_begin_as_large_as_the_sinusoids_that_they_replace(self):
        torch.manual_seed(0)
        weight = LearnedPositions(1009, 22).weight.detach()
        assert float(weight.square().mean()) == pytest.approx(1 / 2, abs=0.03)
        assert float(weight.mean()) == pytest.approx(0, abs=0.03)

    def test_both_stacks_use_them(self, build):
        model = build(positions="learned", max_length=13)
        model(torch.tensor([[5, 3, 7]]), torch.tensor([[1, 4]])).logsumexp(-1).sum().backward()
        used = model.positions.weight.grad.abs().sum(-1).nonzero().flatten().tolist()
        assert used == [0, 1, 2]

    def test_any_width_will_do(self, build):
        model = build(positions="learned", max_length=13, d_model=23)
        assert model(torch.tensor([[5, 3]]), torch.tensor([[1]])).shape == (1, 1, 37)
