"""§3: the whole model and its configuration."""

import dataclasses

import pytest
import torch
from torch import nn

from annotated.model import Transformer, TransformerConfig

SOURCE, TARGET = (
    torch.tensor([[5, 3, 7], [2, 9, 4]]),
    torch.tensor([[1, 4, 6, 8, 9], [1, 7, 7, 5, 3]]),
)


class TestConfig:
    def test_defaults_are_the_papers_base_model(self):
        config = TransformerConfig.base()
        assert config == TransformerConfig()
        assert dataclasses.asdict(config) == {
            "vocab_size": 37_000,
            "d_model": 512,
            "d_ff": 2048,
            "heads": 8,
            "d_k": None,
            "d_v": None,
            "layers": 6,
            "dropout": 0.1,
            "pad_id": 0,
            "bos_id": 1,
            "eos_id": 2,
            "positions": "sinusoidal",
            "max_length": None,
            "norm": "post",
            "attention": "scaled-dot-product",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "activation": "relu",
            "tie": True,
        }

    def test_big_differs_where_table_3_says_so(self):
        base, big = (dataclasses.asdict(c) for c in (TransformerConfig(), TransformerConfig.big()))
        assert {k: v for k, v in big.items() if v != base[k]} == {
            "d_model": 1024,
            "d_ff": 4096,
            "heads": 16,
            "dropout": 0.3,
        }

    def test_tiny_is_small_and_otherwise_the_paper(self):
        base, tiny = (
            dataclasses.asdict(c) for c in (TransformerConfig(), TransformerConfig.tiny())
        )
        different = {k for k, v in tiny.items() if v != base[k]}
        assert different <= {"vocab_size", "d_model", "d_ff", "heads", "layers"}
        assert tiny["d_model"] < base["d_model"]
        assert tiny["layers"] < base["layers"]

    @pytest.mark.parametrize("name", ["base", "big", "tiny"])
    def test_any_field_may_be_overridden(self, name):
        config = getattr(TransformerConfig, name)(vocab_size=101, dropout=0.0, norm="pre", heads=2)
        assert (config.vocab_size, config.dropout, config.norm, config.heads) == (101, 0, "pre", 2)

    def test_frozen_and_replaceable(self):
        config = TransformerConfig()
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.heads = 4
        row = dataclasses.replace(config, heads=1, d_k=512, d_v=512)
        assert (row.heads, row.d_k, row.d_v, row.d_model) == (1, 512, 512, 512)
        assert config.heads == 8
        assert dataclasses.replace(row, heads=8, d_k=None, d_v=None) == config
        assert len({config, TransformerConfig(), row}) == 2

    def test_every_deviation_from_the_paper_is_named_as_one(self):
        text = TransformerConfig.__doc__.split("Not in the paper:")[1]
        for word in ("pre", "halves", "attention_bias", "attention_dropout", "activation", "tie"):
            assert word in text


class TestModel:
    def test_ids_in_logits_out(self, build, variant):
        model = build(**variant)
        logits = model(SOURCE, TARGET)
        assert logits.shape == (2, 5, 37)
        assert logits.dtype == torch.float32
        assert (logits < 0).any()  # neither probabilities nor
        assert (logits.logsumexp(-1).abs() > 1e-3).any()  # their logarithms

    def test_forward_is_encode_then_decode(self, build, variant):
        model = build(**variant)
        memory = model.encode(SOURCE)
        assert memory.shape == (2, 3, 22)
        assert torch.equal(model.decode(TARGET, memory, SOURCE), model(SOURCE, TARGET))

    def test_one_word_sentences(self, build, variant):
        model = build(**variant)
        assert model(SOURCE[:, :1], TARGET[:1, :1].expand(2, 1)).shape == (2, 1, 37)

    def test_rows_of_a_batch_do_not_mix(self, build, variant):
        model = build(torch.float64, **variant)
        together = model(SOURCE, TARGET)
        for row in range(2):
            alone = model(SOURCE[row : row + 1], TARGET[row : row + 1])
            assert (together[row : row + 1] - alone).abs().max() < 1e-12
        swapped = model(SOURCE.flip(0), TARGET.flip(0))
        assert (swapped.flip(0) - together).abs().max() < 1e-12

    def test_the_memory_of_another_sentence_gives_another_answer(self, build):
        model = build()
        swapped = model.decode(TARGET, model.encode(SOURCE.flip(0)), SOURCE.flip(0))
        assert (swapped - model(SOURCE, TARGET)).abs().max() > 1e-2

    def test_every_parameter_is_trained(self, build, variant):
        model = build(**variant).train()
        model(SOURCE, TARGET).logsumexp(-1).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            # a bias of the keys moves every score of a query alike: softmax doesn't see it
            if not name.endswith("w_k.bias"):
                assert parameter.grad.abs().max() > 0, name

    def test_seed_decides_the_weights(self, build):
        one, same, other = build(seed=1), build(seed=1), build(seed=2)
        assert torch.equal(one(SOURCE, TARGET), same(SOURCE, TARGET))
        assert not torch.equal(one(SOURCE, TARGET), other(SOURCE, TARGET))

    def test_initialisation(self):
        """The paper states none; ours is in the docstrings and here."""
        torch.manual_seed(0)
        model = Transformer(TransformerConfig.tiny(vocab_size=1009, attention_bias=True))
        d_model = model.config.d_model
        assert model.embedding.weight.std().item() == pytest.approx(d_model**-0.5, rel=0.02)
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                assert (module.weight == 1).all()
                assert (module.bias == 0).all()
            if isinstance(module, nn.Linear):
                bound = (6 / (module.in_features + module.out_features)) ** 0.5
                assert module.weight.abs().max() <= bound
                assert module.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
                assert (module.bias == 0).all()

    def test_nothing_in_a_pass_waits_for_the_device(self):
        """On the meta device there are no values, so whoever asks for one fails."""
        with torch.device("meta"):
            model = Transformer(TransformerConfig.tiny(vocab_size=101))
            source, target = (torch.ones(3, n, dtype=torch.int64) for n in (7, 5))
            logits = model(source, target)
            cache = model.start(source, capacity=2)
            step = model.step(target[:, 0], cache)
        assert logits.shape == (3, 5, 101)
        assert step.shape == (3, 101)
        assert logits.device.type == step.device.type == "meta"

    def test_bfloat16_comes_close_to_float32(self, build):
        model = build()
        expected = model(SOURCE, TARGET)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = model(SOURCE, TARGET)
        half = model.to(torch.bfloat16)(SOURCE, TARGET)
        for logits in (mixed, half):
            assert logits.isfinite().all()
            assert (logits.float() - expected).abs().mean() < 0.05 * expected.std()
