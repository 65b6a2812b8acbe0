"""Hugging Face's Marian, another post-norm Transformer: the same parameters, the same answers."""

import pytest
import torch
from torch import nn

from annotated.model import Transformer, TransformerConfig

# Ours -> theirs, in a decoder layer; the last norm of an encoder layer is its second.
NAMES = {
    "self_attention": "self_attn", "cross_attention": "encoder_attn",
    "w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj",
    "feed_forward.w_1": "fc1", "feed_forward.w_2": "fc2",
    "sublayer_1.norm": "self_attn_layer_norm", "sublayer_3.norm": "final_layer_norm",
    "embedding": "shared",
}
# Marian's settings that make it the paper's, beside sizes.
OURS = {"positions": "sinusoidal-halves", "attention_bias": True}
SIZES = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 11, "layers": 3, "dropout": 0.0}


def theirs(name: str) -> str:
    """The parameter of a MarianMTModel that is ours of this name."""
    second = "encoder_attn_layer_norm" if name.startswith("decoder") else "final_layer_norm"
    for old, new in {**NAMES, "sublayer_2.norm": second}.items():
        name = name.replace(old, new)
    return f"model.{name}"


@pytest.fixture(scope="module", params=["relu", "gelu"])
def both(request):
    """Our model and theirs, with our parameters in both."""
    transformers = pytest.importorskip("transformers", reason="no transformers: install .[peers]")
    torch.manual_seed(0)
    ours = Transformer(TransformerConfig(**SIZES, **OURS, activation=request.param)).eval()
    with torch.no_grad():
        for parameter in ours.parameters():  # no bias at 0, no norm at 1
            parameter.add_(0.3 * torch.randn_like(parameter))
    layers, heads, d_ff = SIZES["layers"], SIZES["heads"], SIZES["d_ff"]
    marian = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=SIZES["vocab_size"], d_model=SIZES["d_model"],
        encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=d_ff,
        decoder_layers=layers, decoder_attention_heads=heads, decoder_ffn_dim=d_ff,
        activation_function=request.param, scale_embedding=True, max_position_embeddings=64,
        dropout=0.0, pad_token_id=0, decoder_start_token_id=1,
        eos_token_id=2, forced_eos_token_id=2,
    )).eval()
    state = marian.state_dict()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            assert state[theirs(name)].shape == parameter.shape
            state[theirs(name)].copy_(parameter)
    return ours, marian


SOURCE = torch.tensor([[5, 7, 9, 4, 2], [8, 3, 2, 0, 0]])
TARGET = torch.tensor([[1, 4, 6], [1, 9, 0]])


def run(ours, marian):
    mask = (SOURCE != 0).long()  # theirs: 1 may attend
    answer = marian(input_ids=SOURCE, attention_mask=mask, decoder_input_ids=TARGET)
    return ours(SOURCE, TARGET), answer.logits


def test_nothing_of_theirs_is_left_but_positions_and_a_bias_of_zeros(both):
    ours, marian = both
    filled = {theirs(name) for name, _ in ours.named_parameters()}
    assert set(dict(marian.named_parameters())) == filled | {
        "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight",
    }
    assert (marian.final_logits_bias == 0).all()
    assert sum(isinstance(module, nn.LayerNorm) for module in marian.modules()) == 15


def test_positions_are_all_sines_then_all_cosines(both):
    ours, marian = both
    table = marian.model.decoder.embed_positions.weight
    torch.testing.assert_close(ours.positions(len(table)), table.detach(), atol=1e-6, rtol=0)


def test_same_logits_on_a_padded_batch(both):
    mine, other = run(*both)
    real = TARGET != 0  # what a padded place says is nobody's
    assert mine[real].std() > 1  # not all alike, so that equal means something
    torch.testing.assert_close(mine[real], other[real], atol=1e-4, rtol=1e-5)


def test_same_gradients(both):
    ours, marian = both
    real = TARGET != 0
    for logits in run(*both):
        logits[real].log_softmax(-1)[:, 5].sum().backward()
    state = dict(marian.named_parameters())
    for name, parameter in ours.named_parameters():
        other = state[theirs(name)].grad
        torch.testing.assert_close(parameter.grad, other, atol=1e-3, rtol=1e-3)
    for model in both:
        model.zero_grad()
