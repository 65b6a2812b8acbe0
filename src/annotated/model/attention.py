"""§3.2: attention, from one formula to many heads.

Masks are boolean everywhere, and True means *may attend*. They are made from
token ids or lengths, never from values, and combine with `&`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annotated.model.checks import check_causal, check_heads, check_mask

# Shapes that signatures of §3 share: n queries, m keys, h heads.
Vectors = Float[Tensor, "batch n d_model"]
Memory = Float[Tensor, "batch m d_model"]
Queries = Float[Tensor, "batch h n d_k"]
Keys = Float[Tensor, "batch h m d_k"]
Values = Float[Tensor, "batch h m d_v"]
Mask = Bool[Tensor, "*#batch #n #m"] | None


def causal_mask(n: int, device=None) -> Bool[Tensor, "{n} {n}"]:
    """§3.2.3: position i may attend to positions 0 … i, itself included."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def padding_mask(
    ids: Int[Tensor, "batch m"], pad_id: int
) -> Bool[Tensor, "batch 1 1 m"]:
    """Keys that are tokens, not padding; the ones: any head, any query."""
    return rearrange(ids != pad_id, "batch m -> batch 1 1 m")


def masked_softmax(
    scores: Float[Tensor, "*batch n m"], mask: Mask = None
) -> Float[Tensor, "*batch n m"]:
    """Softmax over the keys a query may attend to, in float32 at least.

    A query that may attend to nothing gets zero weights, and so a zero
    output and finite gradients. The fill is the most negative number of the
    dtype: an infinity would turn such a row into NaN.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.softmax(-1, dtype=dtype).to(scores.dtype)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1, dtype=dtype).masked_fill(~mask, 0.0)
    return weights.to(scores.dtype)


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch n d_k"],
    key: Float[Tensor, "*batch m d_k"],
    value: Float[Tensor, "*batch m d_v"],
    mask: Bool[Tensor, "*#batch #n #m"] | None = None,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n m"]]:
    """§3.2.1, eq. 1: softmax(Q Kᵀ / √d_k) V, and the weights it used.

    Each `query` is compared with every `key`; the weights mix the `value`s.
    `mask` broadcasts to the scores, (*batch, n, m); True may attend.
    Raises ValueError for a mask that is not boolean or does not fit.
    Each row of the weights sums to 1, or is zero where nothing is allowed.
    """
    check_mask(mask, query, key)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """§3.2.2: h attentions of width d_k side by side, then one projection.

    `x` (batch, n, d_model) asks, `memory` (batch, m, d_model) answers;
    without `memory`, x answers itself. The output is (batch, n, d_model).
    `causal`: position i attends to positions 0 … i only (§3.2.3).
    d_k and d_v default to d_model / heads; ValueError if that is no integer.
    Not in the paper: `bias` of the projections, `dropout` of weights.
    """

    def __init__(
        self, d_model: int, heads: int, d_k: int | None = None,
        d_v: int | None = None, *, causal: bool = False, bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        d_k, d_v = head_widths(d_model, heads, d_k, d_v)
        self.heads, self.causal, self.dropout_p = heads, causal, dropout
        self.w_q = nn.Linear(d_model, heads * d_k, bias)
        self.w_k = nn.Linear(d_model, heads * d_k, bias)
        self.w_v = nn.Linear(d_model, heads * d_v, bias)
        self.w_o = nn.Linear(heads * d_v, d_model, bias)
        self.record = None  # set by record_attention, for its duration

    def forward(
        self, x: Vectors, memory: Memory | None = None, mask: Mask = None
    ) -> Vectors:
        own = memory is None
        keys, values = self.keys_values(x if own else memory)
        return self.attend(x, keys, values, mask, own)

    def keys_values(self, memory: Memory) -> tuple[Keys, Values]:
        """K Wᴷ and V Wⱽ, split into heads: what a decoder may keep."""
        return self.split(self.w_k(memory)), self.split(self.w_v(memory))

    def split(self, x: Tensor) -> Tensor:
        return rearrange(x, "b n (h d) -> b h n d", h=self.heads)

    def prepare(
        self, query: Queries, keys: Keys, mask: Mask, own: bool
    ) -> tuple[Queries, Keys, Mask]:
        """What is compared, and what may be seen; here as it comes.

        Another attention overrides this. `query` (batch, h, n, d_k) meets
        `keys` (batch, h, m, d_k) where `mask` is True. If the keys are of the
        queries' own sequence (`own`), these are the last n of its m
        positions: all of them in training, the newest in a step of search.
        """
        return query, keys, mask

    def attend(
        self, x: Vectors, keys: Keys, values: Values, mask: Mask = None,
        own: bool = False,
    ) -> Vectors:
        """Q from x, against `keys` and `values` that are already projected.

        `mask` and `own` as in `prepare`.
        """
        query = self.split(self.w_q(x))
        check_mask(mask, query, keys)
        query, keys, mask = self.prepare(query, keys, mask, own)
        check_causal(self.causal, query, keys)
        n = query.shape[-2]
        causal = False if n == 1 else self.causal  # the newest sees all
        p = self.dropout_p if self.training else 0.0
        if causal and (self.record or mask is not None):
            seen = causal_mask(n, query.device)
            mask, causal = seen if mask is None else seen & mask, False
        if self.record:
            _, weights = scaled_dot_product_attention(
                query, keys, values, mask
            )
            self.record(weights.detach())
            heads = F.dropout(weights, p) @ values
        else:  # the same answer from one fused kernel, without the weights
            heads = F.scaled_dot_product_attention(
                query, keys, values, mask, p, is_causal=causal
            )
        return self.w_o(rearrange(heads, "b h n d -> b n (h d)"))


def head_widths(
    d_model: int, heads: int, d_k: int | None, d_v: int | None
) -> tuple[int, int]:
    """d_k and d_v, which are d_model / heads where they are not given."""
    check_heads(d_model, heads, d_k, d_v)
    return d_k or d_model // heads, d_v or d_model // heads


# What a configuration may name. Another attention is one class and one name.
ATTENTIONS = {"scaled-dot-product": MultiHeadAttention}


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect every layer's attention weights from the model's own forward.

    Yields a dict that fills as the model runs: module name → weights
    (batch, heads, n, m) of its latest call, detached, before dropout.
    Inside the block the literal formula runs in place of the fused kernel.
    """
    recorded: dict[str, Tensor] = {}
    layers = [
        (name, layer, layer.record) for name, layer in model.named_modules()
        if isinstance(layer, MultiHeadAttention)
    ]
    try:
        for name, layer, _ in layers:
            layer.record = lambda w, name=name: recorded.update({name: w})
        yield recorded
    finally:
        for _, layer, before in layers:
            layer.record = before
