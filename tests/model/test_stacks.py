"""§3.1, §5.4: sub-layers, where dropout and norms stand, and PyTorch's own stacks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.model import (
    MultiHeadAttention,
    Sublayer,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    sinusoidal_encoding,
)

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_norm(x, norm):
    """Biased variance, ε inside the root."""
    variance = x.var(-1, correction=0, keepdim=True)
    x = (x - x.mean(-1, keepdim=True)) / (variance + norm.eps).sqrt()
    return x * norm.weight + norm.bias


def shaken(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.double()


class TestSublayer:
    def test_post_norm_is_the_default(self):
        sublayer, x = shaken(Sublayer(7, 0.0)), normal(2, 3, 7)
        expected = layer_norm(x + x.sin(), sublayer.norm)
        assert torch.allclose(sublayer(x, torch.sin), expected, rtol=0, atol=1e-12)

    def test_pre_norm(self):
        """Not in the paper: norm="pre"."""
        sublayer, x = shaken(Sublayer(7, 0.0, "pre")), normal(2, 3, 7)
        expected = x + layer_norm(x, sublayer.norm).sin()
        assert torch.allclose(sublayer(x, torch.sin), expected, rtol=0, atol=1e-12)

    @NORMS
    def test_dropout_falls_on_the_output_of_f_only(self, norm):
        sublayer, x = shaken(Sublayer(7, 0.4, norm)), normal(2, 3, 7)
        inner = []
        torch.manual_seed(1)
        output = sublayer(x, lambda y: inner.append(y) or y.sin())
        torch.manual_seed(1)
        dropped = nn.functional.dropout(inner[0].sin(), 0.4)
        assert (dropped == 0).any()
        expected = x + dropped if norm == "pre" else layer_norm(x + dropped, sublayer.norm)
        assert torch.allclose(output, expected, rtol=0, atol=1e-12)


class RandomNumbers(TorchDispatchMode):
    """Collects the shape of every tensor that random numbers are drawn for."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        name = function.name()
        if any(word in name for word in ("bernoulli", "dropout", "rand", "uniform", "normal_")):
            first = output[0] if isinstance(output, tuple) else output
            self.shapes.append(tuple(first.shape))
        return output


class TestDropout:
    def drawn(self, config, training=True):
        """Shapes of what is dropped in one pass; m = 13, n = 11, and no value is computed."""
        with torch.device("meta"):
            model = Transformer(config).train(training)
            source, target = (torch.ones(2, n, dtype=torch.int64) for n in (13, 11))
            with RandomNumbers() as random:
                model(source, target)
        return random.shapes

    @NORMS
    def test_base_has_exactly_32_places(self, norm):
        shapes = self.drawn(TransformerConfig.base(norm=norm))
        # embedding and two sub-layers a layer; embedding and three sub-layers a layer. All are
        # d_model wide: none is attention weights (n x m) or hidden layer (d_ff wide).
        assert shapes == [(2, 13, 512)] * (1 + 6 * 2) + [(2, 11, 512)] * (1 + 6 * 3)
        assert len(shapes) == 32

    def test_none_in_eval_mode(self):
        assert self.drawn(TransformerConfig.base(), training=False) == []

    def test_rates_are_the_papers(self):
        with torch.device("meta"):
            for config, rate in ((TransformerConfig.base(), 0.1), (TransformerConfig.big(), 0.3)):
                model = Transformer(config)
                rates = [m.p for m in model.modules() if isinstance(m, nn.Dropout)]
                assert set(rates) == {rate}
                assert len(rates) >= 31  # 30 sub-layers; both stacks may share the embedding's

    def test_places_follow_the_configured_rate(self, build):
        model = build(dropout=0.5).train()
        source, target = torch.tensor([[5, 3]]), torch.tensor([[1, 4]])
        assert not torch.equal(model(source, target), model(source, target))
        still = build(dropout=0.0).train()
        assert torch.equal(still(source, target), still(source, target))
        assert torch.equal(still(source, target), still.eval()(source, target))

    def test_eval_is_deterministic(self, build, variant):
        model = build(**variant | {"dropout": 0.5, "attention_dropout": 0.5})
        source, target = torch.tensor([[5, 4, 7]]), torch.tensor([[1, 4]])
        assert torch.equal(model(source, target), model(source, target))

    def test_attention_dropout_is_one_place_more_for_each_attention(self, build):
        """Not in the paper: attention_dropout."""
        model = build(dropout=0.0, attention_dropout=0.5).train()
        source, target = torch.tensor([[5, 4, 7]]), torch.tensor([[1, 4]])
        assert not torch.equal(model(source, target), model(source, target))
        assert {
            module.dropout_p for module in model.modules()
            if isinstance(module, MultiHeadAttention)
        } == {0.5}


class TestNorms:
    def norms(self, model):
        return [m for m in model.modules() if isinstance(m, nn.LayerNorm)]

    def test_base_has_30_and_pre_norm_two_final_ones_more(self):
        with torch.device("meta"):
            assert len(self.norms(Transformer(TransformerConfig.base()))) == 30
            pre = Transformer(TransformerConfig.base(norm="pre"))
            assert len(self.norms(pre)) == 32
            assert len(self.norms(nn.Transformer(512, batch_first=True))) == 32
        assert isinstance(pre.encoder.norm, nn.LayerNorm)
        assert isinstance(pre.decoder.norm, nn.LayerNorm)

    @NORMS
    def test_both_stacks_end_with_mean_zero_and_variance_one(self, build, norm):
        model = build(torch.float64, shake=False, norm=norm)
        ends = []
        for stack in (model.encoder, model.decoder):
            stack.register_forward_hook(lambda *call: ends.append(call[-1]))
        model(torch.tensor([[5, 3, 7], [2, 9, 0]]), torch.tensor([[1, 4], [1, 11]]))
        assert len(ends) == 2
        for end in ends:
            assert end.mean(-1).abs().max() < 1e-10
            assert (end.var(-1, correction=0) - 1).abs().max() < 1e-4  # ε makes it a little less

    def test_every_post_norm_layer_ends_with_mean_zero_and_variance_one(self, build):
        model = build(torch.float64, shake=False)
        ends = []
        for layer in (*model.encoder.layers, *model.decoder.layers):
            layer.register_forward_hook(lambda *call: ends.append(call[-1]))
        model(torch.tensor([[5, 3, 7]]), torch.tensor([[1, 4]]))
        assert len(ends) == 4
        for end in ends:
            assert end.mean(-1).abs().max() < 1e-10
            assert (end.var(-1, correction=0) - 1).abs().max() < 1e-4


class TestStacks:
    def test_layers_and_their_parts_are_named_as_in_the_paper(self, build):
        model = build()
        assert len(model.encoder.layers) == len(model.decoder.layers) == 2
        assert [name for name, _ in model.encoder.layers[0].named_children()] == [
            "self_attention",
            "feed_forward",
            "sublayer_1",
            "sublayer_2",
        ]
        assert [name for name, _ in model.decoder.layers[0].named_children()] == [
            "self_attention",
            "cross_attention",
            "feed_forward",
            "sublayer_1",
            "sublayer_2",
            "sublayer_3",
        ]

    def test_layers_share_nothing(self, build):
        model = build()
        names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        assert len(names) == len(list(model.parameters()))

    @NORMS
    def test_every_decoder_layer_reads_the_end_of_the_encoder(self, build, norm):
        model = build(norm=norm, layers=3)
        memories = []
        for layer in model.decoder.layers:
            for linear in (layer.cross_attention.w_k, layer.cross_attention.w_v):
                linear.register_forward_pre_hook(lambda _, args: memories.append(args[0]))
        source = torch.tensor([[5, 3, 7]])
        model(source, torch.tensor([[1, 4]]))
        assert len(memories) == 6
        assert all(torch.equal(memory, model.encode(source)) for memory in memories)

    @NORMS
    def test_the_memory_is_what_the_last_encoder_layer_gives(self, build, norm):
        model = build(norm=norm, layers=3)
        given = []
        for layer in model.encoder.layers:
            layer.register_forward_hook(lambda *call: given.append(call[-1]))
        memory = model.encode(torch.tensor([[5, 3, 7]]))
        assert len(given) == 3
        assert torch.equal(memory, model.encoder.norm(given[-1]))
        assert norm == "pre" or torch.equal(memory, given[-1])

    @NORMS
    @pytest.mark.parametrize("lost", [0, 1])
    def test_a_lower_encoder_layer_is_heard_only_through_the_last(self, build, norm, lost):
        """Its output zeroed, the decoder has another memory; given the old one, it has all."""
        model = build(norm=norm, layers=3)
        source, target = torch.tensor([[5, 3, 7]]), torch.tensor([[1, 4]])
        # clones: the numbers alone, without anything else that an encoder might hand on
        memory, logits = model.encode(source).clone(), model(source, target)
        model.encoder.layers[lost].register_forward_hook(lambda *call: torch.zeros_like(call[-1]))
        changed = model.encode(source).clone()
        assert (changed - memory).abs().max() > 1e-2
        assert (model(source, target) - logits).abs().max() > 1e-2
        assert torch.equal(model(source, target), model.decode(target, changed, source))
        model.encoder.register_forward_hook(lambda *call: memory)
        assert torch.equal(model(source, target), logits)

    @settings(max_examples=15, deadline=None)
    @given(n=st.integers(2, 11), seed=st.integers(0, 2**31))
    @NORMS
    def test_without_positions_the_encoder_does_not_know_the_order(self, build, norm, n, seed):
        model = build(torch.float64, norm=norm, positions="learned", max_length=11)
        torch.manual_seed(seed)
        ids, order = torch.randint(3, 37, (1, n)), torch.randperm(n)
        with torch.no_grad():
            model.positions.weight.zero_()
            memory, permuted = model.encode(ids), model.encode(ids[:, order])
        assert (memory[:, order] - permuted).abs().max() < 1e-12

    def test_with_positions_it_does(self, build):
        model, ids = build(torch.float64), torch.tensor([[5, 3, 7]])
        memory, permuted = model.encode(ids), model.encode(ids.flip(1))
        assert (memory.flip(1) - permuted).abs().max() > 1e-2


class TestPyTorchStacks:
    """Our weights copied into nn.Transformer's parts. One layer deep, they are its layers."""

    def pair(self, build, norm, activation, bias, layers):
        ours = build(
            torch.float64,
            norm=norm,
            activation=activation,
            attention_bias=bias,
            layers=layers,
            d_model=22,
            heads=11,
            d_k=None,
            d_v=None,
        )
        options = {
            "dropout": 0.0,
            "activation": activation,
            "batch_first": True,
            "norm_first": norm == "pre",
            "dtype": torch.float64,
        }
        end = [nn.LayerNorm(22, dtype=torch.float64) if norm == "pre" else None for _ in "ed"]
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(22, 11, 29, **options),
            layers,
            end[0],
            enable_nested_tensor=False,
        )
        decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(22, 11, 29, **options), layers, end[1]
        )
        with torch.no_grad():
            for mine, theirs in ((ours.encoder, encoder), (ours.decoder, decoder)):
                for a, b in zip(mine.layers, theirs.layers, strict=True):
                    self.copy_layer(a, b)
                if norm == "pre":
                    theirs.norm.load_state_dict(mine.norm.state_dict())
        return ours, encoder, decoder  # in train mode, without dropout: no inference path

    def copy_layer(self, ours, theirs):
        theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())
        self.copy_attention(ours.self_attention, theirs.self_attn)
        if hasattr(ours, "cross_attention"):
            self.copy_attention(ours.cross_attention, theirs.multihead_attn)
            theirs.norm3.load_state_dict(ours.sublayer_3.norm.state_dict())
        theirs.norm1.load_state_dict(ours.sublayer_1.norm.state_dict())
        theirs.norm2.load_state_dict(ours.sublayer_2.norm.state_dict())

    def copy_attention(self, ours, theirs):
        stacked = (ours.w_q, ours.w_k, ours.w_v)
        theirs.in_proj_weight.copy_(torch.cat([w.weight for w in stacked]))
        theirs.out_proj.weight.copy_(ours.w_o.weight)
        if ours.w_q.bias is None:
            theirs.in_proj_bias.zero_()
            theirs.out_proj.bias.zero_()
        else:
            theirs.in_proj_bias.copy_(torch.cat([w.bias for w in stacked]))
            theirs.out_proj.bias.copy_(ours.w_o.bias)

    @NORMS
    @pytest.mark.parametrize("activation", ["relu", "gelu"])
    @pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
    @pytest.mark.parametrize("layers", [1, 3], ids=["layer", "stack"])
    def test_same_memory_same_logits_same_gradients(
        self, build, sentences, pad, norm, activation, bias, layers
    ):
        ours, encoder, decoder = self.pair(build, norm, activation, bias, layers)
        source = pad(sentences([7, 3, 5], ours.config), ours.config.pad_id)
        target = pad(sentences([5, 5, 2], ours.config, seed=1), ours.config.pad_id)

        def enter(ids):
            vectors = ours.embedding.weight[ids] * 22**0.5
            return vectors + sinusoidal_encoding(ids.shape[1], 22).double()

        padded = ~padding_mask(source, ours.config.pad_id)[:, 0, 0]
        memory = encoder(enter(source), src_key_padding_mask=padded)
        output = decoder(
            enter(target),
            memory,
            tgt_mask=~causal_mask(5),
            memory_key_padding_mask=padded,
        )
        logits = output @ ours.embedding.weight.T
        for mine, theirs in ((ours.encode(source), memory), (ours(source, target), logits)):
            difference = (mine - theirs).abs()
            assert difference.max() < 1e-11, f"max {difference.max()}, mean {difference.mean()}"
        direction = normal(3, 5, 37)
        (mine,) = torch.autograd.grad(
            (ours(source, target) * direction).sum(), ours.embedding.weight
        )
        (theirs,) = torch.autograd.grad((logits * direction).sum(), ours.embedding.weight)
        difference = (mine - theirs).abs()
        assert difference.max() < 1e-9, f"max {difference.max()}, mean {difference.mean()}"
