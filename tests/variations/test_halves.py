"""Halves of Figure 1, alone: who sees whom, and how many parameters are left."""

import pytest
import torch

from annotated.analysis.visibility import visibility
from annotated.model import Transformer, TransformerConfig
from annotated.variations.halves import DecoderAlone, EncoderAlone

SMALL = dict(vocab_size=37, d_model=22, d_ff=29, heads=2, layers=2, dropout=0.0)
CONFIGS = [
    TransformerConfig(**SMALL),
    TransformerConfig(**SMALL, norm="pre", positions="learned", max_length=11,
                      attention_bias=True, activation="gelu"),
]
HALVES = [EncoderAlone, DecoderAlone]


def made(half, config):
    torch.manual_seed(0)
    return half(config).double().eval()


def count(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize("config", CONFIGS, ids=["paper", "later habits"])
class TestHalves:
    @pytest.mark.parametrize("half", HALVES)
    def test_logits_for_every_position(self, half, config):
        assert made(half, config)(torch.randint(3, 37, (3, 7))).shape == (3, 7, 37)

    def test_all_see_all_in_the_one_and_none_a_later_one_in_the_other(self, config):
        x = torch.randn(1, 7, 22, dtype=torch.float64)
        mask = torch.ones(1, 1, 1, 7).bool()
        stacks = {half: made(half, config).stack for half in HALVES}
        seen = {half: visibility(lambda x, stack=stack: stack(x, mask), x) > 0
                for half, stack in stacks.items()}
        assert seen[EncoderAlone].all()
        assert torch.equal(seen[DecoderAlone], torch.ones(7, 7).tril().bool())

    @pytest.mark.parametrize("half", HALVES)
    def test_a_sentence_alone_is_as_in_a_padded_batch(self, half, config):
        model, ids = made(half, config), torch.randint(3, 37, (1, 5))
        padded = torch.cat([ids, torch.full((1, 2), config.pad_id)], 1)
        torch.testing.assert_close(model(padded)[:, :5], model(ids))

    def test_the_encoder_alone_is_the_encoder_of_the_whole(self, config):
        half = made(EncoderAlone, config)
        whole = Transformer(config).double().eval()
        whole.load_state_dict(
            {name.replace("stack", "encoder"): value for name, value in half.state_dict().items()},
            strict=False,
        )
        ids = torch.randint(3, 37, (2, 7))
        logits = whole.embedding.logits(whole.encode(ids))
        torch.testing.assert_close(half(ids), logits)

    def test_the_whole_has_both_and_attention_to_the_memory(self, config):
        whole, encoder, decoder = (count(kind(config)) for kind in (Transformer, *HALVES))
        assert encoder == decoder
        layer = Transformer(config).decoder.layers[0]
        shared = count(encoder_parts := EncoderAlone(config).embedding)
        shared += count(EncoderAlone(config).positions)
        between = config.layers * (count(layer.cross_attention) + count(layer.sublayer_2.norm))
        assert encoder_parts.weight.shape == (37, 22)
        assert whole == encoder + decoder - shared + between


def test_the_mask_is_all_that_sets_them_apart():
    encoder, decoder = (made(half, CONFIGS[0]) for half in HALVES)
    decoder.load_state_dict(encoder.state_dict())
    ids = torch.randint(3, 37, (1, 7))
    assert not torch.allclose(encoder(ids)[0, 0], decoder(ids)[0, 0])
    torch.testing.assert_close(encoder(ids[:, :1]), decoder(ids[:, :1]))
