"""§5.4: the label-smoothed loss."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def label_smoothed_loss(
    logits: Float[Tensor, "*batch vocab"],
    target: Int[Tensor, "*batch"],
    epsilon: float,
    pad_id: int,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """§5.4: cross-entropy of `logits` with (1-ε)·[k = target] + ε/V, in nats.

    Returns the sum over tokens of `target` that are not padding (`pad_id`),
    and their number: an update divides once, however many batches it adds up.
    The paper gives no formula; this is the one of the work it cites.
    `epsilon` is ε; 0 is the plain loss.
    """
    token = target != pad_id
    target = target.masked_fill(~token, 0)  # pad_id may be no word: -100
    # a NaN at a pad would pass through the softmax into the gradient
    logits = logits.masked_fill(~token[..., None], 0.0)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_p = logits.log_softmax(-1, dtype=dtype)
    right = log_p.gather(-1, target[..., None])[..., 0]
    # a word without probability has an infinite mean, and 0 · ∞ is NaN
    mean = log_p.mean(-1) if epsilon else 0.0
    loss = -(1 - epsilon) * right - epsilon * mean
    return (loss * token).sum(), token.sum()
