"""Scores of a model on sentences it was not trained on: §6.2, and token by token."""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annotated.data.batches import Batch
from annotated.model.contract import Seq2Seq
from annotated.model.evaluating import evaluating
from annotated.training.loss import label_smoothed_loss


@torch.no_grad()
def perplexity(model: Seq2Seq, batches: Iterable[Batch]) -> float:
    """§6.2: e to the mean loss of a token, in nats, without smoothing.

    Tokens are pieces of the vocabulary, EOS among them and padding not, as in
    Table 3; each counts the same, so how they are batched changes nothing. No
    dropout; the model's mode comes back. A model that knows nothing has its
    vocabulary's size, a perfect one 1; a loss too large for e to the power of
    it gives inf. Raises ValueError if there are no tokens.
    """
    loss, tokens, device = 0.0, 0, next(model.parameters()).device
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            total, count = label_smoothed_loss(
                model(batch.source, batch.target),
                batch.labels, 0.0, model.config.pad_id,
            )
            loss += total.item()
            tokens += int(count)
    if not tokens:
        raise ValueError("there are no tokens to measure perplexity on")
    return torch.tensor(loss / tokens, dtype=torch.float64).exp().item()


@torch.no_grad()
def token_accuracy(model: Seq2Seq, batches: Iterable[Batch]) -> float:
    """§3.2.3: the share of tokens that are the likeliest, all before them given right.

    This is what training sees (teacher forcing), and no translation. EOS
    counts, padding does not. No dropout; the model's mode comes back. Raises
    ValueError if there are no tokens.
    """
    wrong, tokens, device = 0, 0, next(model.parameters()).device
    pad_id = model.config.pad_id
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            logits = model(batch.source, batch.target)
            wrong += int(wrong_tokens(logits, batch.labels, pad_id).sum())
            tokens += int((batch.labels != pad_id).sum())
    if not tokens:
        raise ValueError("there are no tokens to measure accuracy on")
    return (tokens - wrong) / tokens


def wrong_tokens(
    logits: Float[Tensor, "batch n vocab"], labels: Int[Tensor, "batch n"], pad_id: int
) -> Bool[Tensor, "batch n"]:
    """Where the likeliest token is not the right one, and the right one is not padding."""
    return (logits.argmax(-1) != labels) & (labels != pad_id)


def probability_of_right(
    logits: Float[Tensor, "batch n vocab"], labels: Int[Tensor, "batch n"]
) -> Float[Tensor, "batch n"]:
    """§5.4: the probability that the logits give each label, padding included."""
    return logits.softmax(-1).gather(-1, labels[..., None])[..., 0]


@torch.no_grad()
def token_probabilities(model: Seq2Seq, batches: Iterable[Batch]) -> Float[Tensor, " tokens"]:
    """§5.4: the probability given to each right token, all before it given right.

    EOS counts, padding does not. No dropout; the model's mode comes back.
    """
    found = []
    with evaluating(model):
        for batch in batches:
            p = probability_of_right(model(batch.source, batch.target), batch.labels)
            found.append(p[batch.labels != model.config.pad_id])
    return torch.cat(found)


@torch.no_grad()
def memory_cosine(model: Seq2Seq, batches: Iterable[Batch]) -> float:
    """§5.3: the mean cosine between the memory's vectors, over all pairs of pieces.

    Pieces of all sentences, padding left out. 1: all vectors point the same
    way, so the decoder can't tell what it reads; 0: they point anywhere.
    """
    found = []
    with evaluating(model):
        for batch in batches:
            memory = model.encode(batch.source)
            found.append(memory[batch.source != model.config.pad_id])
    unit = nn.functional.normalize(torch.cat(found), dim=-1)
    return unit.mean(0).square().sum().item()
