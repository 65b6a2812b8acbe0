"""§5.2-5.4: one update, and many of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor, nn

from annotated.data.batches import Batch, Pair, collate, token_batches
from annotated.training.loss import label_smoothed_loss
from annotated.training.schedule import learning_rate


@dataclass(frozen=True)
class TrainingConfig:
    """§5.1-5.4: the defaults are the paper's base run.

    ``batch_tokens`` is the budget on each side, padding included; lengths in
    a batch differ by about ``spread`` (``token_batches``). At the end
    the model is the mean of its last ``average`` checkpoints (§6.1), taken
    ``average_every`` updates apart: the base run's 10 minutes of 0.4 s.
    Not in the paper: ``factor``, which multiplies the learning rate.
    """

    steps: int = 100_000
    batch_tokens: int = 25_000
    spread: float = 1.0
    warmup_steps: int = 4000
    factor: float = 1.0
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    average: int = 5
    average_every: int = 1500

    def __post_init__(self):
        for name in (
            "steps", "batch_tokens", "warmup_steps", "average", "average_every"
        ):
            if getattr(self, name) < 1:
                value = getattr(self, name)
                raise ValueError(f"{name} is {value}; expected at least 1")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing is {self.label_smoothing}; expected 0 to 1"
            )


@dataclass(frozen=True)
class Update:
    """What one update was: loss in nats a token, smoothed and before it."""

    step: int
    loss: float
    rate: float
    tokens: int


@torch.no_grad()
def average_(model: nn.Module, checkpoints: Sequence[Sequence[Tensor]]) -> None:
    """§6.1: set each parameter to its mean over the checkpoints, in place.

    A checkpoint lists the values of model.parameters(), a tied one once.
    """
    for parameter, *values in zip(model.parameters(), *checkpoints, strict=True):
        parameter.copy_(torch.stack(values).mean(0))


class Trainer:
    """§5.2-5.4: Adam under the schedule, on the label-smoothed loss.

    ``model(source, target)`` must give logits; ``config`` of the model needs
    d_model, pad_id, bos_id and eos_id.
    """

    def __init__(self, model: nn.Module, config: TrainingConfig):
        self.model, self.config, self.step = model, config, 0
        self.adam = torch.optim.Adam(
            model.parameters(), betas=config.betas, eps=config.eps, fused=True
        )

    def update(self, batch: Batch) -> Update:
        """§5.3-5.4: one step of the schedule and of Adam on one batch.

        Raises FloatingPointError for a loss that is not finite, before it
        reaches the weights.
        """
        ids, config = self.model.config, self.config
        self.step += 1
        rate = learning_rate(
            self.step, ids.d_model, config.warmup_steps, config.factor
        )
        self.model.train()
        logits = self.model(batch.source, batch.target)
        total, tokens = label_smoothed_loss(
            logits, batch.labels, config.label_smoothing, ids.pad_id
        )
        loss = total / tokens
        if not loss.isfinite():
            raise FloatingPointError(
                f"step {self.step}: the loss is {loss.item()}, rate {rate:.3g}"
            )
        self.adam.zero_grad()
        loss.backward()
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        return Update(self.step, loss.item(), rate, int(tokens))

    def fit(
        self,
        pairs: Sequence[Pair],
        seed: int,
        after: Callable[[Update], None] = lambda update: None,
    ) -> None:
        """§5.2, §6.1: ``config.steps`` updates, then the mean of the last.

        ``after`` is called after each update. Raises ValueError if they are
        all done already.
        """
        steps, checkpoints = self.config.steps, []
        if self.step >= steps:
            raise ValueError(f"{self.step} of {steps} updates are done already")
        for batch in islice(self.batches(pairs, seed), steps - self.step):
            after(self.update(batch))
            left = steps - self.step
            turn, rest = divmod(left, self.config.average_every)
            if not rest and turn < self.config.average:
                weights = self.model.parameters()
                checkpoints.append([w.detach().clone() for w in weights])
        average_(self.model, checkpoints)

    def batches(self, pairs: Sequence[Pair], seed: int) -> Iterator[Batch]:
        """§5.1: batches of token_batches, epoch after epoch, without end."""
        if not pairs:
            raise ValueError("there are no sentence pairs to train on")
        ids, config = self.model.config, self.config
        for epoch in count():
            for batch in token_batches(
                pairs, config.batch_tokens, seed, epoch, config.spread
            ):
                yield collate(batch, ids.pad_id, ids.bos_id, ids.eos_id)
