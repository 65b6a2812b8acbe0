"""Table 3's parameter column, to the last parameter (facts: 40 960 rows, attention biases)."""

import pytest
import torch
from torch import nn

from annotated.model import Transformer, TransformerConfig

# row: its configuration, the column in the paper (millions), ours with and without biases in the
# attention projections. With 40 960 embedding rows and biases all ten round to the paper's number.
TABLE_3 = {
    "base": ({}, 65, 65_110_016, 65_073_152),
    "B d_k=16": ({"d_k": 16}, 58, 58_018_304, 57_995_264),
    "B d_k=32": ({"d_k": 32}, 60, 60_382_208, 60_354_560),
    "C N=2": ({"layers": 2}, 36, 35_684_352, 35_672_064),
    "C N=4": ({"layers": 4}, 50, 50_397_184, 50_372_608),
    "C N=8": ({"layers": 8}, 80, 79_822_848, 79_773_696),
    "C d=256": ({"d_model": 256, "d_k": 32, "d_v": 32}, 28, 27_848_704, 27_830_272),
    "C d=1024": ({"d_model": 1024, "d_k": 128, "d_v": 128}, 168, 167_944_192, 167_870_464),
    "C d_ff=1024": ({"d_ff": 1024}, 53, 52_514_816, 52_477_952),
    "C d_ff=4096": ({"d_ff": 4096}, 90, 90_300_416, 90_263_552),
}
ROWS = pytest.mark.parametrize("row, paper, biased, unbiased", TABLE_3.values(), ids=TABLE_3)


def count(module):
    return sum(p.numel() for p in module.parameters())


def parameters(**overrides):
    with torch.device("meta"):  # shapes without memory
        return count(Transformer(TransformerConfig.base(**overrides)))


@ROWS
def test_with_attention_biases_every_row_rounds_to_the_papers_number(row, paper, biased, unbiased):
    assert parameters(vocab_size=40_960, attention_bias=True, **row) == biased
    assert round(biased / 1e6) == paper


@ROWS
def test_without_attention_biases(row, paper, biased, unbiased):
    assert parameters(vocab_size=40_960, **row) == unbiased
    # this is what tells that the released code had biases: one row misses without them
    assert (round(unbiased / 1e6) == paper) == (row != {"d_ff": 1024})


@ROWS
def test_a_vocabulary_of_37_000_gives_no_row_of_the_table(row, paper, biased, unbiased):
    assert round(parameters(**row) / 1e6) != paper


def test_base_with_the_vocabulary_of_the_text():
    assert parameters() == 63_045_632


def test_big_is_not_reproduced_and_we_say_so():
    with torch.device("meta"):
        for vocabulary, biases, expected in (
            (37_000, False, 214_171_648),
            (40_960, False, 218_226_688),
            (40_960, True, 218_300_416),
        ):
            config = TransformerConfig.big(vocab_size=vocabulary, attention_bias=biases)
            assert count(Transformer(config)) == expected
            assert round(expected / 1e6) != 213


@pytest.mark.parametrize("heads", [1, 4, 16, 32])
def test_rows_a_have_as_many_as_base(heads):
    width = 512 // heads
    assert parameters(heads=heads, d_k=width, d_v=width) == parameters()


def test_row_e_adds_one_vector_a_position():
    learned = parameters(positions="learned", max_length=101)
    assert learned - parameters() == 101 * 512


def test_three_matrices_in_place_of_one():
    assert parameters(tie=False) == 100_933_632


def test_blocks_of_base():
    with torch.device("meta"):
        model = Transformer(TransformerConfig.base())
        layer = model.decoder.layers[0]
    assert count(layer.cross_attention) == 1_048_576
    assert count(layer.feed_forward) == 2_099_712
    assert count(layer.sublayer_1.norm) == 1024
    assert count(model.encoder.layers[5]) == 3_150_336
    assert count(layer) == 4_199_936
    assert count(model.encoder) + count(model.decoder) == 44_101_632


def test_pytorchs_transformer_has_two_norms_more():
    with torch.device("meta"):
        ours = Transformer(TransformerConfig.base(attention_bias=True))
        theirs = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True)
    assert count(theirs) - (count(ours.encoder) + count(ours.decoder)) == 2 * 2 * 512
