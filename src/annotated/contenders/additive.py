"""§3.2.1: additive attention, the older of the two scores that the paper compares."""

from jaxtyping import Bool, Float
from torch import Tensor

from annotated.model.attention import masked_softmax
from annotated.model.checks import check_mask


def additive_attention(
    query: Float[Tensor, "*batch n d_q"],
    key: Float[Tensor, "*batch m d_k"],
    value: Float[Tensor, "*batch m d_v"],
    w_q: Float[Tensor, "d_q d_a"],
    w_k: Float[Tensor, "d_k d_a"],
    w: Float[Tensor, " d_a"],
    mask: Bool[Tensor, "*#batch #n #m"] | None = None,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n m"]]:
    """§3.2.1: softmax of w · tanh(q W_q + k W_k), times V; and the weights.

    The score of Bahdanau et al. (2015), a network with one hidden layer of
    d_a units; `w_q`, `w_k` and `w` are its parameters. The rest is as
    in `scaled_dot_product_attention`: each `query` mixes the `value` of every
    `key`; `mask` broadcasts to (*batch, n, m) and True may attend; ValueError
    if it does not fit. Each row of the weights sums to 1, or is zero where
    nothing is allowed.
    """
    check_mask(mask, query, key)
    # One vector of d_a numbers for each pair; in place, so that it is once.
    pairs = (query @ w_q)[..., :, None, :] + (key @ w_k)[..., None, :, :]
    weights = masked_softmax(pairs.tanh_() @ w, mask)
    return weights @ value, weights
