"""§5.1-5.4: one update, many of them, and going on after a stop."""

import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from annotated.data.batches import Batch, IdPair, collate, micro_batches
from annotated.model.contract import Seq2Seq
from annotated.training.loss import label_smoothed_loss
from annotated.training.schedule import learning_rate
from annotated.training.states import MODEL, MOMENTS, InMemory, State, States
from annotated.training.world import World


@dataclass(frozen=True)
class TrainingConfig:
    """§5.1-5.4, §6.1: the defaults are the paper's base run.

    Raises ValueError for a value that no training can have.
    """

    # updates of the whole training
    steps: int = 100_000
    # tokens of an update on each side, padding included
    batch_tokens: int = 25_000
    # parts of an update: one per device, or more to save memory
    micro_batches: int = 1
    # by how much lengths in one batch differ, about (§5.1)
    length_noise: float = 1.0
    # updates over which the learning rate rises (§5.3)
    warmup_steps: int = 4000
    # Not in the paper if false: the rate starts at its peak
    warmup: bool = True
    # Not in the paper: multiplies the learning rate
    factor: float = 1.0
    # ε of the label-smoothed loss (§5.4)
    label_smoothing: float = 0.1
    # Adam's β1 and β2 (§5.3)
    betas: tuple[float, float] = (0.9, 0.98)
    # Adam's ε (§5.3)
    eps: float = 1e-9
    # last checkpoints whose mean is the model (§6.1)
    average: int = 5
    # updates between them: the base run's 10 minutes of 0.4 s
    average_every: int = 1500
    # Not in the paper: "bfloat16" for autocast of the forward pass
    precision: str = "float32"
    # Not in the paper: torch.compile
    compile: bool = False

    def __post_init__(self):
        for name in (
            "steps", "batch_tokens", "micro_batches", "warmup_steps",
            "average", "average_every",
        ):
            value = getattr(self, name)
            self._check(name, "a whole number", type(value) is int)
            self._check(name, "at least 1", value >= 1)
            self._check(name, "less than 2^63", value < 2**63)
        self._check("batch_tokens", "at least 2, a token and EOS", self.batch_tokens >= 2)
        self._check(
            "micro_batches", f"at most half of batch_tokens, {self.batch_tokens}",
            2 * self.micro_batches <= self.batch_tokens,
        )
        for name, expected, right in (
            ("length_noise", "at least 0", lambda x: x >= 0),
            ("factor", "more than 0", lambda x: x > 0),
            ("label_smoothing", "at least 0 and less than 1", lambda x: 0 <= x < 1),
            ("eps", "more than 0", lambda x: x > 0),
        ):
            value = getattr(self, name)
            self._check(name, expected, math.isfinite(value) and right(value))
        self._check(
            "betas", "two numbers of at least 0 and less than 1",
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
        )
        precisions = "float32", "bfloat16"
        self._check(
            "precision", "'float32' or 'bfloat16'", self.precision in precisions
        )

    def _check(self, name: str, expected: str, right: bool) -> None:
        if not right:
            value = getattr(self, name)
            raise ValueError(f"{name} is {value!r}; expected {expected}")

    def check_processes(self, count: int) -> None:
        """ValueError if so many processes can't share an update evenly."""
        self._check(
            "micro_batches", f"a multiple of {count}, the number of processes",
            self.micro_batches % count == 0,
        )

    def averaged(self) -> range:
        """§6.1: after which updates the checkpoints are taken to average."""
        there = (self.steps - 1) // self.average_every  # before the last
        before = min(self.average - 1, there) * self.average_every
        return range(self.steps - before, self.steps + 1, self.average_every)


@dataclass(frozen=True)
class Update:
    """What one update was: loss in nats per token, smoothed and before it.

    `norm` is the length of the gradient, `tokens` counts labels without
    padding, `seconds` is the time it took.
    """

    step: int
    loss: float
    rate: float
    norm: float
    tokens: int
    seconds: float = field(compare=False)


@torch.no_grad()
def average_(
    model: Seq2Seq, checkpoints: Iterable[Mapping[str, Tensor]]
) -> None:
    """§6.1: set each parameter to its mean over the checkpoints, in place.

    A checkpoint has the values of model.named_parameters(), a tied one once.
    One is held at a time: the big model's take 0.9 GB each.
    """
    for number, checkpoint in enumerate(checkpoints, 1):
        for name, parameter in model.named_parameters():
            value = checkpoint[name].to(parameter)
            parameter.lerp_(value, 1 / number)  # the mean so far


class Trainer:
    """§5.2-5.4: Adam under the schedule, on the label-smoothed loss.

    Trains `model` in place as `config` says. `states` keep where the run
    stands, by default in memory; `world` are the processes that share it, by
    default this one alone. An update depends on the `seed`, on its number and
    on its batches: on no stop, and on no number of processes.
    """

    def __init__(
        self, model: Seq2Seq, config: TrainingConfig, seed: int = 0,
        states: States | None = None, world: World | None = None,
    ):
        self.model, self.config, self.seed = model, config, seed
        self.states, self.world = states or InMemory(), world or World()
        self.step = 0
        self.device = next(model.parameters()).device
        fused = self.device.type in ("cpu", "cuda")
        self.adam = torch.optim.Adam(
            model.parameters(), betas=config.betas, eps=config.eps, fused=fused
        )
        config.check_processes(self.world.size)

    @cached_property
    def parallel(self) -> Any:
        """The model as all processes share it: they have the same gradients."""
        return self.world.parallel(self.model)

    @cached_property
    def forward(self) -> Callable[[Tensor, Tensor], Tensor]:
        """What gives the logits, compiled if `config` says so."""
        return torch.compile(self.parallel) if self.config.compile else self.parallel

    def rate(self, step: int) -> float:
        """§5.3: the learning rate of an update."""
        config = self.config
        if not config.warmup:
            step = max(step, config.warmup_steps)
        width = self.model.config.d_model
        return learning_rate(step, width, config.warmup_steps, config.factor)

    def update(self, *batches: Batch) -> Update:
        """§5.3-5.4: one step of Adam on the mean loss of all labels.

        `batches` are this process's share of them. Raises FloatingPointError
        for a loss or gradient that is not finite, before it reaches the
        weights.
        """
        start, step = time.perf_counter(), self.step + 1
        rate, pad_id = self.rate(step), self.model.config.pad_id
        tokens = sum(int((batch.labels != pad_id).sum()) for batch in batches)
        tokens = self.world.total(tokens)
        self.model.train()
        self.adam.zero_grad()
        losses = []
        for number, batch in enumerate(batches):
            self.seed_dropout(number)
            with self.sync(number + 1 == len(batches)):
                losses.append(self.backward(batch.to(self.device), tokens))
        loss = self.world.total(sum(torch.stack(losses).tolist()))
        weights = self.model.parameters()
        gradients = [w.grad for w in weights if w.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        self.refuse_infinity(loss, norm, rate)
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        self.step = step
        seconds = time.perf_counter() - start
        return Update(step, loss, rate, norm, tokens, seconds)

    def backward(self, batch: Batch, tokens: int) -> Tensor:
        """Add a batch's share of the gradient; returns its share of the loss."""
        half = self.config.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            logits = self.forward(batch.source, batch.target)
            total, _ = label_smoothed_loss(
                logits, batch.labels, self.config.label_smoothing,
                self.model.config.pad_id,
            )
        loss = total / tokens
        # the processes' gradients are averaged, and a sum is wanted
        loss.backward(torch.full_like(loss, self.world.size))
        return loss.detach()

    def sync(self, now: bool) -> AbstractContextManager:
        """Inside the block a backward pass averages gradients over all processes, if `now`."""
        return nullcontext() if now or self.world.size == 1 else self.parallel.no_sync()

    def seed_dropout(self, number: int) -> None:
        """Let dropout follow from a micro-batch's place in the stream alone."""
        place = self.step * self.config.micro_batches
        place += self.world.rank + number * self.world.size
        torch.manual_seed(random.Random(f"{self.seed}-{place}").getrandbits(32))

    def refuse_infinity(self, loss: float, norm: float, rate: float) -> None:
        if not (abs(loss) < torch.inf and norm < torch.inf):
            raise FloatingPointError(
                f"step {self.step + 1}: the loss is {loss}, the gradient's "
                f"norm {norm}, rate {rate:.3g}"
            )

    def fit(
        self,
        pairs: Sequence[IdPair],
        after: Callable[[Update], None] = lambda update: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """§5.2, §6.1: on to `config.steps`, then the mean of the last.

        Goes on from the newest of `states`, and writes one there every
        `average_every` updates. `after` is called after each update. Once
        `stop()` is true, writes a state and returns False; True is the end.
        """
        self.resume()
        self.settle()
        steps, needed = self.config.steps, self.config.averaged()
        halt = False
        for batches in self.updates(pairs):
            after(self.update(*batches))
            halt = self.step < steps and self.any_process(stop)
            if halt or (steps - self.step) % self.config.average_every == 0:
                self.write(needed)
            if halt:
                break
        self.world.wait()  # the first may still be writing
        if halt:
            return False
        if self.world.rank == 0:
            kept = (self.states.read(step, MODEL) for step in needed)
            average_(self.model, kept)
        with torch.no_grad():
            self.world.send(self.model.parameters())
        return True

    def any_process(self, stop: Callable[[], bool]) -> bool:
        """Whether any process is asked to stop: then all of them do."""
        return self.world.total(int(stop())) > 0

    def settle(self) -> None:
        """A pass before the first update, whose gradients are thrown away.

        It decides in which order DistributedDataParallel sums: after it, the
        first update sums as all that follow, so that a resumed run, too, has
        the bits of one that never stopped.
        """
        if self.world.size > 1 and self.step < self.config.steps:
            bos = torch.full((2, 2), self.model.config.bos_id, device=self.device)
            self.forward(bos, bos).sum().backward()
            self.adam.zero_grad()

    def write(self, needed: Collection[int]) -> None:
        """Write a state, in the first process; FloatingPointError if it is not finite."""
        state = self.state()
        for part, tensors in state.items():
            for name, tensor in tensors.items():
                if not tensor.isfinite().all():
                    raise FloatingPointError(
                        f"step {self.step}: {name} of {part} is not finite; "
                        "the state is not written"
                    )
        if self.world.rank == 0:
            self.states.write(self.step, state, needed)

    def updates(self, pairs: Sequence[IdPair]) -> Iterator[list[Batch]]:
        """§5.1: this process's share of each update from here on.

        The stream of micro-batches is the same in all processes; each reads
        every `world.size`-th.
        """
        config, world, ids = self.config, self.world, self.model.config
        count = config.micro_batches
        stream = micro_batches(
            pairs, config.batch_tokens // count, self.seed, config.length_noise,
            start=self.step * count + world.rank, every=world.size,
        )
        for _ in range(self.step, config.steps):
            ours = islice(stream, count // world.size)
            yield [collate(b, ids.pad_id, ids.bos_id, ids.eos_id) for b in ours]

    def state(self) -> State:
        """Everything that the next update depends on but seed and data."""
        names: dict[Tensor, str] = {w: name for name, w in self.model.named_parameters()}
        moments = {
            f"{kind}.{names[w]}": state[kind]
            for w, state in self.adam.state.items()
            for kind in ("exp_avg", "exp_avg_sq")
        }
        return {MODEL: {name: w for w, name in names.items()}, MOMENTS: moments}

    @torch.no_grad()
    def resume(self) -> None:
        """Go on from the newest state, if it is further on than this.

        Of several processes the first reads it and sends it to the others,
        which need no file. ValueError where another has a newer one: a folder
        that the first does not see.
        """
        newest = max(self.states.steps(), default=0)
        steps = self.world.each(max(newest, self.step))
        step, last = steps[0], max(steps)
        if last > step:
            raise ValueError(
                f"process {steps.index(last)} has a state of update {last}, the first "
                f"of update {step}; expected one folder for all, or the newest at the first"
            )
        if step <= self.step:
            return
        first = self.world.rank == 0
        kept = {p: self.states.read(step, p) for p in (MODEL, MOMENTS) if first}
        for weight in self.model.parameters():
            self.adam.state[weight] = {
                "step": torch.tensor(float(step), device=self.device),
                "exp_avg": torch.empty_like(weight),
                "exp_avg_sq": torch.empty_like(weight),
            }
        for part, tensors in self.state().items():
            for name, tensor in tensors.items():
                if first:
                    tensor.copy_(kept[part][name])
                self.world.send([tensor])
        self.step = step
