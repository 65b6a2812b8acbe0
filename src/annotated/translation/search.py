"""§6.1: from a distribution at each step to a sentence."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annotated.model.contract import Seq2Seq
from annotated.model.evaluating import evaluating


@dataclass
class Hypothesis:
    """A translation: its ids, and the sum of their log-probabilities.

    `tokens` are without BOS and EOS; `log_probability` includes EOS where
    the model said it.
    """

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0


@torch.inference_mode()
def greedy_search(
    model: Seq2Seq,
    source: Int[Tensor, "batch m"],
    *,
    memory: Float[Tensor, "batch m d_model"] | None = None,
    extra_length: int = 50,
) -> list[Hypothesis]:
    """§6.1 without a beam: the likeliest word at every step, until EOS.

    A sentence of k `source` tokens gets at most k + extra_length, EOS included.
    Sentences that have ended leave the batch. `memory` stands in for the
    encoder's output: for interventions. Learned positions end the rest at
    the `model`'s max_length. ValueError for an extra_length below 0.
    """
    ids, limit = model.config, limits(model, source, extra_length)
    longest = max(limit.tolist(), default=0)
    result = [Hypothesis() for _ in source]
    row = limit.nonzero()[:, 0]  # all but empty ones with nothing extra
    token = torch.full_like(row, ids.bos_id)
    with evaluating(model):
        cache = model.start(source, longest, memory)
        if len(row) < len(source):
            cache.select(row)
        for length in range(1, longest + 1):
            log_p = model.step(token, cache).log_softmax(-1)
            log_p, token = log_p.max(-1)
            going = (token != ids.eos_id) & (length < limit[row])
            _extend(result, row, token, log_p, ids.eos_id)
            if not going.all():
                row, token = row[going], token[going]
                cache.select(going.nonzero()[:, 0])
            if not len(row):
                break
    return result


def limits(
    model: Seq2Seq, source: Int[Tensor, "batch m"], extra_length: int
) -> Int[Tensor, " batch"]:
    """§6.1: how long each translation may get, from its own source's length."""
    if extra_length < 0:
        raise ValueError(f"extra_length is {extra_length}; expected at least 0")
    limit = (source != model.config.pad_id).sum(1) + extra_length
    most = model.config.max_length  # of learned positions
    return limit if most is None else limit.clamp(max=most)


def _extend(result, rows, tokens, log_p, eos_id: int) -> None:
    for row, token, lp in zip(rows.tolist(), tokens.tolist(), log_p.tolist()):
        result[row].log_probability += lp
        if token != eos_id:
            result[row].tokens.append(token)
