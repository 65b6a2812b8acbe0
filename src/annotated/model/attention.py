"""§3.2: attention, from one formula to many heads.

Masks are boolean everywhere, and True means *may attend*. They are made from
token ids or lengths, never from values, and combine with ``&``.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def causal_mask(n: int, device=None) -> Bool[Tensor, "{n} {n}"]:
    """§3.2.3: position i may attend to positions 0 … i, itself included."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def padding_mask(
    ids: Int[Tensor, "batch m"], pad_id: int
) -> Bool[Tensor, "batch 1 1 m"]:
    """Keys that are tokens, not padding; the ones stand for heads, queries."""
    return rearrange(ids != pad_id, "batch m -> batch 1 1 m")


def masked_softmax(
    scores: Float[Tensor, "*batch n m"],
    mask: Bool[Tensor, "*#batch #n #m"] | None = None,
) -> Float[Tensor, "*batch n m"]:
    """Softmax over the keys a query may attend to, in float32 at least.

    A query that may attend to nothing gets zero weights, and so a zero
    output and finite gradients. The fill is the most negative number of the
    dtype: an infinity would turn such a row into NaN.
    """
    if mask is None:
        weights = scores.softmax(-1, dtype=_accumulation_dtype(scores))
    else:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=_accumulation_dtype(scores))
        weights = weights.masked_fill(~mask, 0.0)
    return weights.to(scores.dtype)


def _accumulation_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch n d_k"],
    key: Float[Tensor, "*batch m d_k"],
    value: Float[Tensor, "*batch m d_v"],
    mask: Bool[Tensor, "*#batch #n #m"] | None = None,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n m"]]:
    """§3.2.1, eq. 1: softmax(Q Kᵀ / √d_k) V, and the weights it used.

    ``mask`` broadcasts to the scores, (*batch, n, m); True may attend.
    Raises ValueError for a mask that is not boolean or does not fit.
    Each row of the weights sums to 1, or is zero where nothing is allowed.
    """
    check_mask(mask, query, key)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


def check_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> None:
    """Refuse a mask that is not boolean or does not fit query and key."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask has dtype {mask.dtype}; expected torch.bool, True = may attend"
        )
    scores = (*query.shape[:-1], key.shape[-2])
    fits = 2 <= mask.dim() <= len(scores) and all(
        m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores))
    )
    if not fits:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected one that "
            f"broadcasts to (*batch, queries, keys) = {scores}"
        )


class MultiHeadAttention(nn.Module):
    """§3.2.2: h attentions of width d_k side by side, then one projection.

    ``x`` (batch, n, d_model) asks, ``memory`` (batch, m, d_model) answers;
    without ``memory``, x answers itself. The output is (batch, n, d_model).
    d_k and d_v default to d_model / heads; ValueError if that is no integer.
    Not in the paper: ``bias`` on the four projections, ``dropout`` of weights.
    """

    def __init__(
        self, d_model: int, heads: int, d_k: int | None = None,
        d_v: int | None = None, *, bias: bool = False, dropout: float = 0.0,
    ):
        super().__init__()
        d_k, d_v = head_widths(d_model, heads, d_k, d_v)
        self.heads, self.dropout = heads, dropout
        self.w_q = nn.Linear(d_model, heads * d_k, bias)
        self.w_k = nn.Linear(d_model, heads * d_k, bias)
        self.w_v = nn.Linear(d_model, heads * d_v, bias)
        self.w_o = nn.Linear(heads * d_v, d_model, bias)
        self.record = None  # set by record_attention, for its duration

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        memory: Float[Tensor, "batch m d_model"] | None = None,
        mask: Bool[Tensor, "*#batch #n #m"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch n d_model"]:
        keys, values = self.keys_values(x if memory is None else memory)
        return self.attend(x, keys, values, mask, causal)

    def keys_values(
        self, memory: Float[Tensor, "batch m d_model"]
    ) -> tuple[Float[Tensor, "batch h m d_k"], Float[Tensor, "batch h m d_v"]]:
        """K Wᴷ and V Wⱽ, split into heads: what a decoder may keep."""
        return self.split(self.w_k(memory)), self.split(self.w_v(memory))

    def split(self, x: Tensor) -> Tensor:
        return rearrange(x, "b n (h d) -> b h n d", h=self.heads)

    def attend(
        self,
        x: Float[Tensor, "batch n d_model"],
        keys: Float[Tensor, "batch h m d_k"],
        values: Float[Tensor, "batch h m d_v"],
        mask: Bool[Tensor, "*#batch #n #m"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch n d_model"]:
        """Q from x, against keys and values that are already projected."""
        query, p = self.split(self.w_q(x)), self.dropout * self.training
        check_mask(mask, query, keys)
        if causal and query.shape[-2] != keys.shape[-2]:
            raise ValueError(
                f"causal attention of {query.shape[-2]} queries to "
                f"{keys.shape[-2]} keys; expected as many keys as queries"
            )
        if causal and (self.record or mask is not None):
            seen = causal_mask(query.shape[-2], query.device)
            mask, causal = seen if mask is None else seen & mask, False
        if self.record:
            _, weights = scaled_dot_product_attention(query, keys, values, mask)
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
    if heads < 1:
        raise ValueError(f"heads is {heads}; expected at least 1")
    if (d_k is None or d_v is None) and d_model % heads:
        raise ValueError(
            f"d_model={d_model} is not divisible by heads={heads}; "
            "give d_k and d_v, or choose heads that divide d_model"
        )
    d_k, d_v = d_k or d_model // heads, d_v or d_model // heads
    return d_k, d_v


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect every layer's attention weights from the model's own forward.

    Yields a dict that fills as the model runs: module name → weights
    (batch, heads, n, m) of its latest call, detached, before dropout.
    Inside the block the literal formula runs in place of the fused kernel.
    """
    recorded: dict[str, Tensor] = {}
    layers = {
        name: module for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    before = {name: layer.record for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            layer.record = lambda w, name=name: recorded.update({name: w})
        yield recorded
    finally:
        for name, layer in layers.items():
            layer.record = before[name]
