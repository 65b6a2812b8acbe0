"""§6.1: from a distribution at each step to a sentence."""

from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annotated.model.contract import Cache, Seq2Seq
from annotated.model.evaluating import evaluating


@dataclass
class Hypothesis:
    """A translation: its ids, and the sum of their log-probabilities.

    `tokens` are without BOS and EOS; `log_probability` includes EOS where
    the model said it. `penalty` is `length_penalty` where a search has one.
    """

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0
    penalty: float = 1.0

    @property
    def score(self) -> float:
        """§6.1: what hypotheses are ranked by; without penalty their sum."""
        return self.log_probability / self.penalty


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


def length_penalty(length, alpha: float):
    """§6.1: ((5 + length) / 6)^α, where `length` counts EOS.

    The paper gives α = 0.6, and its reference the formula. Log-probabilities
    are negative, so that with α > 0 a long hypothesis gains by the division.
    """
    return ((5 + length) / 6) ** alpha


class Beams(NamedTuple):
    """For each sentence some hypotheses; −∞ where there is none.

    `tokens` begin with BOS, and are filled up by EOS. `score` is what a
    hypothesis has if it ends where it is.
    """

    tokens: Int[Tensor, "sentences width length"]
    log_probability: Float[Tensor, "sentences width"]
    score: Float[Tensor, "sentences width"]

    def only(self, which: Bool[Tensor, "sentences width"]) -> "Beams":
        """Those hypotheses, and −∞ in the places of the others."""
        tokens, *numbers = self
        return Beams(tokens, *(x.masked_fill(~which, -inf) for x in numbers))

    def of(self, sentences: Int[Tensor, " some"]) -> "Beams":
        """The hypotheses of those sentences alone."""
        return Beams(*(x[sentences] for x in self))


@torch.inference_mode()
def beam_search(
    model: Seq2Seq, source: Int[Tensor, "batch m"], *,
    memory: Float[Tensor, "batch m d_model"] | None = None, beam: int = 4,
    alpha: float = 0.6, extra_length: int = 50, n_best: int = 1,
) -> list[list[Hypothesis]]:
    """§6.1: of each sentence of `source` the `n_best`, the best first.

    At each step every live hypothesis is continued by every word, and the
    `beam` likeliest of all these are kept: those that end are finished, the
    others live on. It ends with EOS, or at the limit that `greedy_search`
    has, too. A sentence leaves the batch once no live hypothesis can win.
    `model`, `memory`, `extra_length` as there, `alpha` for the penalty.
    ValueError if not 1 ≤ n_best ≤ beam ≤ vocabulary, or for alpha < 0.
    """
    check_search(beam, alpha, n_best)
    limit, eos_id = limits(model, source, extra_length), model.config.eos_id
    result = [[Hypothesis()] for _ in source]
    with evaluating(model):
        cache, row, live, finished = beginning(model, source, memory, limit)
        while len(row):
            logits = model.step(live.tokens[..., -1].flatten(), cache)
            best, parent = continued(live, logits, beam, alpha)
            ends = ended(best, limit[row], eos_id)
            live = best.only(~ends)
            finished = ranked(finished, best.only(ends), eos_id)
            going = can_win(live, finished, limit[row], alpha, n_best)
            for place in (~going).nonzero()[:, 0].tolist():
                found = hypotheses(finished, place, eos_id, alpha)
                result[int(row[place])] = found[:n_best]
            on = going.nonzero()[:, 0]
            row, live, finished = row[on], live.of(on), finished.of(on)
            cache.select(parent[on].flatten())
    return result


def check_search(beam: int, alpha: float, n_best: int) -> None:
    if beam < 1:
        raise ValueError(f"beam is {beam}; expected at least 1")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best is {n_best}; expected 1 to beam, {beam}")
    if not (isfinite(alpha) and alpha >= 0):  # `can_win` rests on it
        raise ValueError(f"alpha is {alpha}; expected a number from 0")


def beginning(
    model: Seq2Seq, source: Int[Tensor, "batch m"],
    memory: Float[Tensor, "batch m d_model"] | None,
    limit: Int[Tensor, " batch"],
) -> tuple[Cache, Int[Tensor, " sentences"], Beams, Beams]:
    """A cache, and one live hypothesis a sentence: BOS. None is finished.

    `model`, `source`, `memory` are those of the search. Sentences whose
    `limit` is 0 are left out; the second that is returned are the others.
    """
    cache = model.start(source, max(limit.tolist(), default=0), memory)
    row = limit.nonzero()[:, 0]
    cache.select(row)
    bos = torch.full_like(row, model.config.bos_id)[:, None, None]
    nothing = torch.zeros(len(row), 1, device=row.device)
    live = Beams(bos, nothing, nothing)
    return cache, row, live, Beams(*(x[:, :0] for x in live))


def continued(
    live: Beams, logits: Float[Tensor, "rows vocab"], beam: int, alpha: float
) -> tuple[Beams, Int[Tensor, "sentences beam"]]:
    """The `beam` likeliest hypotheses that are one word longer.

    With each the row of `logits`, the next word's, that it continues. `live`
    are those that it may; `alpha` is for their score.
    """
    (sentences, width, length), vocab = live.tokens.shape, logits.shape[1]
    if beam > vocab:
        raise ValueError(f"beam is {beam}; expected at most {vocab} words")
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_p = logits.log_softmax(-1, dtype=dtype).view(sentences, width, vocab)
    total = live.log_probability[..., None] + log_p
    total, place = total.flatten(1).topk(beam)
    first = width * torch.arange(sentences, device=place.device)
    parent, word = first[:, None] + place // vocab, place % vocab
    before = live.tokens.flatten(0, 1)[parent]
    tokens = torch.cat([before, word[..., None]], -1)
    return Beams(tokens, total, total / length_penalty(length, alpha)), parent


def ended(
    best: Beams, limit: Int[Tensor, " sentences"], eos_id: int
) -> Bool[Tensor, "sentences width"]:
    """Which hypotheses have said EOS, or as many words as they may."""
    said = best.tokens.shape[-1] - 1  # BOS is not said
    return (best.tokens[..., -1] == eos_id) | (limit[:, None] <= said)


def ranked(finished: Beams, new: Beams, eos_id: int) -> Beams:
    """What is `finished` and what is `new`: the best, as many as are new.

    By score, falling; where two are equal, the older comes first.
    """
    tokens = F.pad(finished.tokens, (0, 1), value=eos_id)
    old = finished._replace(tokens=tokens)
    both = Beams(*(torch.cat(parts, 1) for parts in zip(old, new)))
    order = both.score.argsort(stable=True, dim=1, descending=True)
    order = order[:, : new.score.shape[1]]
    sentence = torch.arange(len(order), device=order.device)[:, None]
    return Beams(*(x[sentence, order] for x in both))


def can_win(
    live: Beams, finished: Beams, limit: Int[Tensor, " sentences"],
    alpha: float, n_best: int,
) -> Bool[Tensor, " sentences"]:
    """Whether a `live` hypothesis may still become one of the `n_best`.

    Its sum is ≤ 0 and can only fall: no word has a log-probability above 0.
    The penalty is greatest at the `limit`, since `alpha` ≥ 0. So whatever a
    live hypothesis becomes, its score is at most its sum now over the
    penalty at the limit: a sum not closer to 0, divided by no more. Where
    the `n_best`-th of those `finished` has as much, nothing can change.
    """
    greatest = length_penalty(limit.double(), alpha)
    most = live.log_probability.amax(1) / greatest
    return most > finished.score[:, n_best - 1]


def hypotheses(
    finished: Beams, sentence: int, eos_id: int, alpha: float
) -> list[Hypothesis]:
    """The `finished` hypotheses of one `sentence`, in their order.

    Without what follows `eos_id`; `alpha` is for their penalty. One that
    says nothing, and has no score, if the model gives no numbers.
    """
    found = []
    tokens, log_probability, _ = (x[sentence].tolist() for x in finished)
    for (_, *said), total in zip(tokens, log_probability):
        if total != -inf:  # else there is none
            words = said[: said.index(eos_id)] if eos_id in said else said
            length = min(len(words) + 1, len(said))
            penalty = length_penalty(length, alpha)
            found.append(Hypothesis(words, total, penalty))
    return found or [Hypothesis([], nan)]
