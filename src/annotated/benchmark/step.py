"""§5.2: how long a training step takes, beside what the chip could do.

The steps are the real ones, `Trainer.update`, on random ids in sentences of
realistic lengths. The two numbers beside a time are the work it was
(`flops.work`) and the rate of the chip, measured by plain matrix products.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import torch

from annotated import paper
from annotated.benchmark.flops import work
from annotated.data.batches import Batch, batch_plan, collate
from annotated.jobs import Job, Unavailable
from annotated.model import Transformer, TransformerConfig
from annotated.records import Metric, Record, as_metrics, rounded
from annotated.training import Trainer, TrainingConfig

# A log-normal length of the source, in pieces without EOS, and a log-normal ratio of target to
# source: mean and deviation of the logarithms on newstest2013, English-German, cut by a shared
# BPE of 37 000 from newstest 2008-2012. The mean is 24 pieces, one sentence in twenty has over 56.
SOURCE_LOG, RATIO_LOG = (3.0, 0.63), (0.06, 0.19)
LONGEST = int(paper.RELEASED["max_length"].value) - 1  # the released code's limit, EOS aside
SIZES = {"cuda": (2048, 4096, 8192, 16384), "cpu": (256, 512, 1024, 2048)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CPU_MICRO_BATCH = 4096  # tokens per side: more of base's logits would not fit a laptop
POOL = 200_000  # sentences to choose batches from: more of one length, less padding
BATCHES = 8  # different ones, over and over: a run on one shape alone would flatter caches


class Product(NamedTuple):
    """One timing of a product of two `size` × `size` matrices."""

    size: int
    seconds: float

    @property
    def flops(self) -> int:
        return 2 * self.size**3


@dataclass(frozen=True)
class Rate:
    """What the chip does in matrix products alone: its measured matrix rate."""

    products: tuple[Product, ...]

    @property
    def by_size(self) -> dict[int, float]:
        """Size -> median FLOPs per second."""
        rates: dict[int, list[float]] = {}
        for product in self.products:
            rates.setdefault(product.size, []).append(product.flops / product.seconds)
        return {size: median(found) for size, found in rates.items()}

    @property
    def best(self) -> float:
        """FLOPs per second at the best size."""
        return max(self.by_size.values())


def matrix_rate(
    device: str | torch.device, dtype: torch.dtype, seconds: float = 4.0
) -> Rate:
    """FLOPs per second of square products of random numbers, over `SIZES`.

    Random, because zeros multiply faster on some chips. `seconds` are shared
    by the sizes: each gets three to nine timings, and sizes that one alone
    would take too long are left out. float32 is what torch is set to do with
    it, by default the full precision.
    """
    device = torch.device(device)
    products: list[Product] = []
    for size in SIZES[device.type]:
        if products and _expected(products[-1], size) > seconds / 4:
            break
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        product = partial(torch.mm, a, b, out=out)
        timed(product, device)  # set up
        once = timed(product, device)
        repeats = max(1, min(50, int(0.02 / once)))  # so that starting them doesn't count
        share = time.perf_counter() + seconds / len(SIZES[device.type])

        def several(a=a, b=b, out=out, repeats=repeats) -> None:
            for _ in range(repeats):
                torch.mm(a, b, out=out)

        for taken in range(9):
            if taken >= 3 and time.perf_counter() > share:
                break
            products.append(Product(size, timed(several, device) / repeats))
    return Rate(tuple(products))


def _expected(last: Product, size: int) -> float:
    return last.seconds * (size / last.size) ** 3


def timed(run: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device has done what `run` asks of it."""
    _wait(device)
    start = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def sentence_lengths(count: int, seed: int, longest: int = LONGEST) -> np.ndarray:
    """§5.1: pieces of source and target, (count, 2), EOS aside: 1 to `longest`."""
    rng = np.random.default_rng(seed)
    source = rng.lognormal(*SOURCE_LOG, size=count)
    target = source * rng.lognormal(*RATIO_LOG, size=count)
    lengths = np.stack([source, target], axis=1).round().clip(1, longest)
    return lengths.astype(np.int32)


def full_batches(config: TransformerConfig, budget: int, count: int, seed: int) -> list[Batch]:
    """§5.1: `count` batches of random ids of `config`'s vocabulary, each at least half full.

    They follow from the random `seed`, and are among those that `batch_plan` makes of `POOL`
    sentences. The `budget` is in tokens per side, padding included; no id is a special one but
    BOS and EOS in their places. Raises ValueError for a budget under 8.
    """
    if budget < 8:
        raise ValueError(f"budget is {budget}; expected at least 8 tokens")
    longest = min(LONGEST, budget - 1)
    words = [i for i in range(config.vocab_size) if i not in _special(config)]
    rng, attempt = random.Random(seed), seed
    found: list[Batch] = []
    while True:
        lengths = sentence_lengths(POOL, attempt, longest)
        for places in batch_plan(lengths, budget, attempt):
            if 2 * len(places) * (1 + lengths[places].max()) <= budget:
                continue
            rows = [
                (rng.choices(words, k=source), rng.choices(words, k=target))
                for source, target in lengths[places].tolist()
            ]
            found.append(collate(rows, *_special(config)))
            if len(found) == count:
                return found
        attempt += 1


def _special(config: TransformerConfig) -> tuple[int, int, int]:
    return config.pad_id, config.bos_id, config.eos_id


class Sample(NamedTuple):
    """One update: its time, its tokens without padding, its padded work."""

    seconds: float
    source_tokens: int
    target_tokens: int
    flops: int


@dataclass(frozen=True)
class Steps:
    """§5.2: the updates timed, and what they needed.

    `budget` is in tokens per side and update, padding included; `padding`
    the share of it that was padding, 0 to 1. `peak_bytes` is the device's
    memory at most, on a CPU that of the whole process; None if unknown.
    """

    model: str
    parameters: int
    precision: str
    device: str
    budget: int
    micro_batches: int
    padding: float
    samples: tuple[Sample, ...]
    peak_bytes: int | None

    @property
    def seconds(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile of an update's seconds."""
        taken = [sample.seconds for sample in self.samples]
        low, middle, high = quantiles(taken, n=4, method="inclusive")
        return low, middle, high

    def per_second(self, name: str) -> float:
        """Median of a sample's `name` ("target_tokens", "flops", …) per second."""
        return median(getattr(sample, name) / sample.seconds for sample in self.samples)


def step_time(
    model: str | TransformerConfig,
    device: str = "cpu",
    precision: str = "float32",
    budget: int = paper.TRAINING.target_tokens,
    *,
    seconds: float = 60.0,
    samples: int = 40,
    micro_batches: int = 1,
    compile: bool = False,
    seed: int = 0,
) -> Steps:
    """§5.2: time updates of a fresh model ("base", "big" or a configuration).

    On `device`, in `precision` ("float32" or "bfloat16"), through torch.compile with `compile`;
    weights, ids and dropout follow from the random `seed`. `budget` tokens per side and update,
    divided among `micro_batches`; where a GPU's memory is too small for them, among twice as
    many, and so on. Stops after `samples` updates or `seconds`, but not before three. Updates
    to warm up come before: one on a CPU, every batch once on a GPU.
    """
    config = getattr(TransformerConfig, model)() if isinstance(model, str) else model
    name = model if isinstance(model, str) else "custom"
    while True:
        training = TrainingConfig(
            batch_tokens=budget, micro_batches=micro_batches, precision=precision, compile=compile
        )
        try:
            return _steps(name, config, training, torch.device(device), seconds, samples, seed)
        except torch.OutOfMemoryError:
            if micro_batches >= 64:
                raise
            micro_batches *= 2
        torch.cuda.empty_cache()


def _steps(
    name: str, config: TransformerConfig, training: TrainingConfig, device: torch.device,
    seconds: float, samples: int, seed: int,
) -> Steps:
    start, budget = time.perf_counter(), training.batch_tokens
    micro_batches = training.micro_batches
    on_gpu = device.type == "cuda"
    count = BATCHES if on_gpu else 2
    made = full_batches(config, budget // micro_batches, count * micro_batches, seed)
    groups = [made[i : i + micro_batches] for i in range(0, len(made), micro_batches)]
    torch.manual_seed(seed)
    with device:
        net = Transformer(config)
    trainer = Trainer(net, training, seed)
    _reset_peak(device)
    for group in groups if on_gpu else groups[:1]:
        trainer.update(*group)
    taken: list[Sample] = []
    for group in itertools.cycle(groups):
        spent = timed(partial(trainer.update, *group), device)
        taken.append(_sample(config, group, spent))
        over = time.perf_counter() - start > seconds
        if len(taken) == samples or (over and len(taken) >= 3):
            break
    padded = sum(b.source.numel() + b.labels.numel() for group in groups for b in group)
    real = sum(_tokens(x, config) for g in groups for b in g for x in (b.source, b.labels))
    return Steps(
        model=name,
        parameters=sum(p.numel() for p in net.parameters()),
        precision=training.precision,
        device=device.type,
        budget=budget,
        micro_batches=micro_batches,
        padding=1 - real / padded,
        samples=tuple(taken),
        peak_bytes=_peak(device),
    )


def _tokens(ids: torch.Tensor, config: TransformerConfig) -> int:
    return int((ids != config.pad_id).sum())


def _sample(config: TransformerConfig, group: Sequence[Batch], seconds: float) -> Sample:
    shapes = [(*batch.source.shape, batch.target.shape[1]) for batch in group]
    return Sample(
        seconds,
        sum(_tokens(batch.source, config) for batch in group),
        sum(_tokens(batch.labels, config) for batch in group),
        sum(work(config, *shape).update for shape in shapes),
    )


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:  # Linux: the peak counts from here on
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # then from the start of the process
        pass


def _peak(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmHWM")), "")
    return int(line.split()[1]) * 1024 if line else None


def record(job: Job, model: str, precision: str, seconds: dict[str, float]) -> Record:
    """§5.2: step time, tokens per second and utilisation of the `model` "base" or "big".

    Measured as the `job` says, in `precision` ("float32" or "bfloat16").
    `seconds`: by device, what the updates may take together, or as much as the job has left.
    The budget is the paper's, halved until eight updates fit. Raises `Unavailable` where four
    do not.
    """
    rate = matrix_rate(job.device, DTYPES[precision], min(5.0, job.left() / 6))
    left = min(job.left(), seconds[job.device])
    budget = affordable(model, rate, left)
    if 4 * (one := expected(model, rate, budget)) > left:
        raise Unavailable(
            f"too slow a machine: an update of {budget} + {budget} tokens would take about "
            f"{one:.3g} s, and four of them are the least; {left:.0f} s are left"
        )
    steps = step_time(
        model, job.device, precision, budget, seconds=left, seed=job.seed,
        micro_batches=math.ceil(budget / CPU_MICRO_BATCH) if job.device == "cpu" else 1,
    )
    return as_record(job, steps, rate)


def affordable(model: str, rate: Rate, seconds: float) -> int:
    """The paper's budget of tokens per side, halved until eight updates fit; at least 64."""
    budget = paper.TRAINING.target_tokens
    while budget >= 128 and 8 * expected(model, rate, budget) > seconds:
        budget //= 2
    return budget


def expected(model: str, rate: Rate, budget: int) -> float:
    """Seconds of an update at a third of the matrix rate, which is a guess."""
    config = getattr(TransformerConfig, model)()
    return work(config, max(1, budget // 25), 25, 25).update / (rate.best / 3)


def as_record(job: Job, steps: Steps, rate: Rate) -> Record:
    """§5.2: the times as a record, the chip's matrix rate beside them.

    Raw samples are in two tables: "updates" with their tokens (without padding,
    a side), "matrix_products" with the size of the matrices. `utilisation` is
    the updates' FLOPs per second over the matrix rate.
    """
    first, middle, third = steps.seconds
    flops = steps.per_second("flops")
    metrics = {
        "target_tokens_per_second": steps.per_second("target_tokens"),
        "source_tokens_per_second": steps.per_second("source_tokens"),
        "flops_per_second": flops,
        "matrix_flops_per_second": rate.best,
        "utilisation": flops / rate.best,
        "update_flops": median(sample.flops for sample in steps.samples),
        "budget": steps.budget,
        "micro_batches": steps.micro_batches,
        "padding": steps.padding,
        "parameters": steps.parameters,
    }
    if steps.peak_bytes is not None:
        metrics["peak_memory_bytes"] = steps.peak_bytes
    products = [
        {"seconds": product.seconds, "flops": product.flops, "size": product.size}
        for product in rate.products
    ]
    tables = {"updates": [s._asdict() for s in steps.samples], "matrix_products": products}
    return job.record(
        recipe=None,
        precision=steps.precision,
        seconds=rounded(sum(row["seconds"] for rows in tables.values() for row in rows)),
        tokens_per_update=round(sum(s.target_tokens for s in steps.samples) / len(steps.samples)),
        metrics={"step_seconds": Metric(rounded(middle), spread=(rounded(first), rounded(third)))}
        | as_metrics({name: rounded(value) for name, value in metrics.items()}),
        tables={
            name: [{column: rounded(value) for column, value in row.items()} for row in rows]
            for name, rows in tables.items()
        },
    )
