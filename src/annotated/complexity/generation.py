"""§4: training against generation, a Transformer against LSTMs of as many parameters.

In training all of a target is there, in generation one word after the other.
Time is by the clock, and all models take turns; bytes are counted.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from annotated.benchmark.step import timed
from annotated.contenders import RecurrentModel, equal_parameters
from annotated.data.batches import Batch, collate
from annotated.jobs import Job, Unavailable
from annotated.model import Seq2Seq, Transformer, TransformerConfig
from annotated.model.evaluating import evaluating
from annotated.records import Record, Row, as_metrics, rounded
from annotated.training import Trainer, TrainingConfig
from annotated.translation.uncached import Uncached

TRANSFORMER, UNCACHED = "Transformer", "Transformer without a cache"
# The names of LSTMs, and when they attend to the source.
RECURRENT = {
    "LSTM": "after", "LSTM, attention before each step": "before",
    "LSTM without attention": "none",
}
SIZES: dict[str, dict[str, Any]] = {
    "small": dict(vocab_size=4000, d_model=256, d_ff=1024, heads=4, layers=3),
    "base": {},
}
FEWEST = 3  # rounds without which there is no record


class Recomputing(Uncached, Transformer):  # type: ignore[misc]
    """A Transformer that keeps nothing between steps."""


def models(config: TransformerConfig, device: str, seed: int) -> dict[str, Seq2Seq]:
    """A Transformer of `config` and the LSTMs of as many parameters, on `device`, by name.

    Their weights follow from the random `seed`.
    """
    torch.manual_seed(seed)
    made: dict[str, Seq2Seq] = {TRANSFORMER: Transformer(config).to(device)}
    for name, attention in RECURRENT.items():
        made[name] = RecurrentModel(equal_parameters(config, attention)).to(device)
    return made


def sentences(config: TransformerConfig, count: int, length: int, seed: int) -> Batch:
    """`count` pairs of words of `config`'s vocabulary, drawn by `seed`.

    Each side has the `length`, its EOS included.
    """
    rng, special = random.Random(seed), (config.pad_id, config.bos_id, config.eos_id)
    words = [i for i in range(config.vocab_size) if i not in special]
    rows = [
        (rng.choices(words, k=length - 1), rng.choices(words, k=length - 1)) for _ in range(count)
    ]
    return collate(rows, *special)


def in_turns(
    job: Job, runs: Mapping[Any, Callable[[], Any]], rounds: int, share: float
) -> list[tuple[int, Any, Any]]:
    """(round, key, result) of each of `runs`, all in every round, in a new order each time.

    All are run once before. It ends after so many `rounds`, or when it has taken its `share` of
    the time that the `job` has left; `Unavailable` if that is not enough for three rounds.
    """
    end = time.perf_counter() + share * job.left()
    for run in runs.values():
        run()
    rng, keys, found = random.Random(job.seed), list(runs), []
    for number in range(rounds):
        start = time.perf_counter()
        rng.shuffle(keys)
        found += [(number, key, runs[key]()) for key in keys]
        now = time.perf_counter()
        if job.interrupted() or now + 1.2 * (now - start) > end:
            break
    if number + 1 < min(FEWEST, rounds):
        raise Unavailable(f"time for {number + 1} rounds only; {FEWEST} are the least")
    return found


def summary(samples: Sequence[Row], names: Sequence[str], value: str) -> list[Row]:
    """Rows for each combination of the columns `names`: median and quartiles of `value`."""
    groups: dict[tuple, list[float]] = {}
    for row in samples:
        groups.setdefault(tuple(row[name] for name in names), []).append(row[value])
    rows = []
    for key, values in groups.items():
        low, middle, high = (
            quantiles(values, n=4, method="inclusive") if len(values) > 1 else 3 * values
        )
        rows.append(dict(zip(names, key)) | {
            value: rounded(middle), f"{value}_quartile_1": rounded(low),
            f"{value}_quartile_3": rounded(high),
        })
    return rows


# ------------------------------------------------------------- training


def training(
    job: Job, config: TransformerConfig, made: Mapping[str, Seq2Seq], tokens: int,
    lengths: Sequence[int], rounds: int,
) -> list[Row]:
    """Seconds of an update of each model, on the same sentences: rows of model and length.

    `made` are models of `config`; a batch has `tokens` a side, in sentences of each of
    `lengths`; `job` and `rounds` as in `in_turns`.
    """
    device = torch.device(job.device)
    batches = {n: sentences(config, max(1, tokens // n), n, job.seed) for n in lengths}
    settings = TrainingConfig(batch_tokens=tokens)
    trainers = {name: Trainer(model, settings, job.seed) for name, model in made.items()}

    def update(name: str, n: int) -> float:
        return timed(partial(trainers[name].update, batches[n]), device)

    runs = {(name, n): partial(update, name, n) for name in made for n in lengths}
    return [
        {"round": number, "model": name, "length": n, "tokens": int(batches[n].labels.numel()),
         "seconds": rounded(seconds)}
        for number, (name, n), seconds in in_turns(job, runs, rounds, 0.4)
    ]


# ------------------------------------------------------------- generation


@torch.no_grad()
def step_seconds(
    model: Seq2Seq, source: Tensor, target: Tensor, places: Sequence[int], device: torch.device
) -> list[float]:
    """Seconds of the step for each of the `places` of `target`, the mean of it and its next.

    All steps up to there are made before, as `model` makes them on `device` after reading
    `source`; one that keeps nothing gets them for nothing.
    """
    with evaluating(model):
        cache: Any = model.start(source, max(places) + 2)
        done, found = 0, []
        for place in sorted(places):
            if isinstance(model, Uncached):
                cache.target, done = target[:, :place], place
            while done < place:
                model.step(target[:, done], cache)
                done += 1

            def two(at=done) -> None:
                for t in (at, at + 1):
                    model.step(target[:, t], cache)

            found.append(timed(two, device) / 2)
            done += 2
    return found


def generation(
    job: Job, config: TransformerConfig, made: Mapping[str, Seq2Seq], source_length: int,
    places: Sequence[int], rounds: int,
) -> list[Row]:
    """Seconds of a step at batch 1, after so many words: rows of model and place.

    `made` are models of `config`, which read `source_length` words; `places` are at least 3
    apart; `job` and `rounds` as in `in_turns`.
    """
    device = torch.device(job.device)
    source = sentences(config, 1, source_length, job.seed).source.to(device)
    target = sentences(config, 1, max(places) + 3, job.seed + 1).target.to(device)
    runs = {
        name: partial(step_seconds, model, source, target, places, device)
        for name, model in made.items()
    }
    return [
        {"round": number, "model": name, "place": place, "seconds": rounded(seconds)}
        for number, name, several in in_turns(job, runs, rounds, 0.7)
        for place, seconds in zip(sorted(places), several)
    ]


class Reads(TorchDispatchMode):
    """Which memory that was there before the operations read, and how much of it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, torch.UntypedStorage] = {}  # held, so that no address is used twice
        self.read: dict[int, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = function(*args, **(kwargs or {}))
        packet, ops = function.overloadpacket, torch.ops.aten
        if not function.is_view and packet is not ops.embedding:  # which reads a few rows
            for x in tree_leaves((args[1:] if packet is ops.copy_ else args, kwargs)):
                if isinstance(x, Tensor):
                    key = x.untyped_storage().data_ptr()
                    if key not in self.made:
                        size = min(x.nbytes, x.untyped_storage().nbytes())
                        self.read[key] = max(self.read.get(key, 0), size)
        # What an operation writes into was there before: it is not made by it.
        there = {
            x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs))
            if isinstance(x, Tensor)
        }
        for x in tree_leaves(given):
            if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in there:
                self.made[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return given


def read_bytes(run: Callable[[], object]) -> int:
    """Bytes of weights and other memory, there before `run()`, that its operations read."""
    with Reads() as reads:
        run()
    return sum(reads.read.values())


def held_bytes(cache: object) -> int:
    """Bytes of all tensors that a cache holds."""
    return sum(x.nbytes for x in tensors(cache))


def tensors(tree: object) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, list | tuple):
        return [x for part in tree for x in tensors(part)]
    return tensors([*vars(tree).values()]) if hasattr(tree, "__dict__") else []


@torch.no_grad()
def step_bytes(
    config: TransformerConfig, made: Mapping[str, Seq2Seq], source_length: int,
    places: Sequence[int],
) -> list[Row]:
    """What a step at batch 1 reads and what is kept for it: rows of model and place, counted.

    `made` are models of `config`, which read `source_length` words; `places` count the words
    said before.
    """
    rows = []
    for name, model in made.items():
        device = next(model.parameters()).device
        source = sentences(config, 1, source_length, 0).source.to(device)
        target = sentences(config, 1, max(places) + 3, 1).target.to(device)
        for place in places:
            with evaluating(model):
                cache: Any = model.start(source, place + 1)
                if isinstance(model, Uncached):
                    cache.target = target[:, :place]
                elif isinstance(model, Transformer):
                    for layer in cache.layers:  # as full as it then is, whatever is in it
                        layer.length = place
                read = read_bytes(partial(model.step, target[:, place], cache))
                kept = held_bytes(cache)
            rows.append({"model": name, "place": place, "read_bytes": read, "kept_bytes": kept})
    return rows


# ------------------------------------------------------------- one product against n


def products(
    job: Job, widths: Sequence[int], lengths: Sequence[int], rounds: int
) -> list[Row]:
    """Seconds of n vectors times a d × d matrix: as one product, and as n, one after another.

    Rows of n and d, from `lengths` and `widths`; `job` and `rounds` as in `in_turns`.
    """
    device = torch.device(job.device)
    torch.manual_seed(job.seed)
    x = {d: torch.randn(max(lengths), d, device=device) for d in widths}
    w = {d: torch.randn(d, d, device=device) / d**0.5 for d in widths}

    def both(n: int, d: int) -> tuple[float, float]:
        def at_once() -> None:
            torch.mm(x[d][:n], w[d])

        def steps() -> None:
            y = x[d][:1]
            for _ in range(n):  # each needs the one before it
                y = torch.mm(y, w[d])

        return timed(at_once, device), timed(steps, device)

    runs = {(n, d): partial(both, n, d) for n in lengths for d in widths}
    with torch.no_grad():
        return [
            {"round": number, "n": n, "d": d, "one": rounded(one), "steps": rounded(steps)}
            for number, (n, d), (one, steps) in in_turns(job, runs, rounds, 0.9)
        ]


def record(
    job: Job, size: str, tokens: int = 2048, lengths: Sequence[int] = (8, 16, 32, 64, 128),
    places: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512), source_length: int = 32,
    rounds: int = 15,
) -> Record:
    """All that is measured here for a Transformer of `SIZES[size]`, the raw samples too.

    As far as the `job` has time: updates on `tokens` a side in sentences of `lengths`, steps
    at `places` after a source of `source_length`, products of these lengths; in `rounds`.
    """
    start, config = time.perf_counter(), TransformerConfig(**SIZES[size])
    made = models(config, job.device, job.seed)
    updates = training(job, config, made, tokens, lengths, rounds)
    job.say(f"updates measured after {time.perf_counter() - start:.0f} s")
    writers = {**made, UNCACHED: Recomputing(config).to(job.device)}
    steps = generation(job, config, writers, source_length, places, rounds)
    job.say(f"steps measured after {time.perf_counter() - start:.0f} s")
    once = products(job, (config.d_model // 2, config.d_model), lengths, rounds)
    tables = {
        "models": [
            {"model": name, "parameters": parameter_count(model),
             "d_model": int(model.config.d_model)} for name, model in made.items()
        ],
        "updates": updates, "update_seconds": summary(updates, ["model", "length"], "seconds"),
        "steps": steps, "step_seconds": summary(steps, ["model", "place"], "seconds"),
        "step_bytes": step_bytes(config, writers, source_length, places),
        "products": once,
        "product_seconds": [
            one | {name: x for name, x in many.items() if name.startswith("steps")}
            for one, many in zip(*(summary(once, ["n", "d"], way) for way in ("one", "steps")))
        ],
    }
    return job.record(
        recipe=None, precision="float32", seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=tokens, tables=tables,
        metrics=as_metrics({"source_length": source_length, "tokens": tokens}),
    )


def parameter_count(model: Seq2Seq | nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
