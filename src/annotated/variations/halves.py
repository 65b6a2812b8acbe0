"""Figure 1 with one half left out: the encoder alone, as in BERT; the decoder alone, as in GPT.

Not in the paper. Both are made of its parts. Without attention to a memory a
layer of the decoder is one of the encoder with a causal mask.
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.model import Encoder, TiedEmbedding, TransformerConfig, padding_mask
from annotated.model.stacks import build_attention
from annotated.model.transformer import build_positions


class EncoderAlone(nn.Module):
    """The left half of Figure 1, read by the matrix of its embedding.

    Logits (batch, n, vocab) at t are for the word at t: each position sees
    all others, so it can say which word was hidden there.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocab_size, config.d_model)
        self.positions = build_positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.stack = Encoder(config)

    def forward(
        self, ids: Int[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n vocab"]:
        x = self.embedding(ids) + self.positions(ids.shape[1])
        mask = padding_mask(ids, self.config.pad_id)
        x = self.stack(self.dropout(x), mask)
        return self.embedding.logits(x)


class DecoderAlone(EncoderAlone):
    """The right half of Figure 1, without its attention to the memory.

    Logits at t are for the word after t: no position sees a later one.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        for layer in self.stack.layers:
            layer.self_attention = build_attention(config, causal=True)
