"""§3.2.1: additive against dot-product attention, in time and in numbers held.

Both are timed at the base model's shapes, over several lengths. Both project
queries and keys by matrices of the same size, so that they differ only in how
a score is made of the two.
"""

import random
import time
from collections.abc import Callable, Sequence
from statistics import quantiles

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from annotated import paper
from annotated.contenders import additive_attention
from annotated.jobs import Job
from annotated.model import scaled_dot_product_attention
from annotated.records import Record, Row, as_metrics, rounded

LENGTHS = (16, 32, 64, 128, 256, 512)
ROUNDS = 25
LEAST = 0.005  # seconds of a sample: short runs are repeated, so that the clock's grain is small

# query, key, value, W_q, W_k, w -> output
Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
FUNCTIONS: dict[str, Attention] = {
    "additive": lambda q, k, v, w_q, w_k, w: additive_attention(q, k, v, w_q, w_k, w)[0],
    "dot": lambda q, k, v, w_q, w_k, w: scaled_dot_product_attention(q @ w_q, k @ w_k, v)[0],
    "fused": lambda q, k, v, w_q, w_k, w: F.scaled_dot_product_attention(q @ w_q, k @ w_k, v),
}


def inputs(length: int, seed: int = 0) -> list[Tensor]:
    """q, K, V, W_q, W_k and w of one sentence in all heads of a base model's layer: n = m."""
    heads, d_k = paper.BASE.heads, paper.BASE.d_k
    rng = torch.Generator().manual_seed(seed)
    sequences, square = (1, heads, length, d_k), (d_k, d_k)
    shapes = [sequences, sequences, sequences, square, square, (d_k,)]
    scales = [1.0, 1.0, 1.0, *[d_k**-0.5] * 3]  # so that scores are of the size of 1
    return [
        (torch.randn(shape, generator=rng) * scale).requires_grad_()
        for shape, scale in zip(shapes, scales)
    ]


class _Largest(TorchDispatchMode):
    """Keeps the size in bytes of the largest memory that any operation gave out."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = function(*args, **(kwargs or {}))
        for x in given if isinstance(given, tuple | list) else (given,):
            if isinstance(x, Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return given


def largest_bytes(run: Callable[..., object], *given: Tensor) -> int:
    """The largest single result of all operations of `run(*given)`, in bytes."""
    with _Largest() as mode:
        run(*given)
    return mode.bytes


def kept_bytes(run: Callable[..., object], *given: Tensor) -> int:
    """What `run(*given)` keeps for its backward pass, in bytes; no memory counts twice."""
    kept: dict[int, Tensor] = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x  # held, so that no address is used twice
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        held = run(*given)  # its graph too has to live until all is counted
        total = sum(x.untyped_storage().nbytes() for x in kept.values())
        del held
    return total


def sample(name: str, given: Sequence[Tensor], backward: bool, repeats: int = 1) -> float:
    """Seconds of processor time of one pass of the function `name`, the mean of `repeats`.

    `given` are the tensors of `inputs`. Processor time, because other programs run too. With
    `backward` it is the forward pass and the gradients of all six inputs that the function
    uses.
    """
    used = given if name == "additive" else given[:-1]
    weight = torch.ones_like(given[2])
    start = time.process_time()
    for _ in range(repeats):
        if backward:
            torch.autograd.grad(FUNCTIONS[name](*given), used, weight)
        else:
            with torch.no_grad():
                FUNCTIONS[name](*given)
    return (time.process_time() - start) / repeats


def measure(lengths: Sequence[int], rounds: int, seed: int) -> list[Row]:
    """A row for each round, length and pass: seconds of each function, `backward` 0 or 1.

    All are warmed up first; then every round runs all of them once, in an
    order of its own, so that whatever else the machine does meets all alike.
    """
    made = {n: inputs(n, seed) for n in lengths}
    runs = [(n, back, name) for n in lengths for back in (False, True) for name in FUNCTIONS]
    repeats = {}
    for n, back, name in runs:
        sample(name, made[n], back)
        once = sample(name, made[n], back)
        repeats[n, back, name] = max(1, round(LEAST / max(once, 1e-6)))
    points, rng = [], random.Random(seed)
    for _ in range(rounds):
        rng.shuffle(runs)
        taken = {
            (n, back, name): sample(name, made[n], back, repeats[n, back, name])
            for n, back, name in runs
        }
        points += [
            {"length": n, "backward": int(back)}
            | {name: rounded(taken[n, back, name]) for name in FUNCTIONS}
            for n in lengths for back in (False, True)
        ]
    return points


def times(samples: Sequence[Row]) -> list[Row]:
    """For each length, pass and function, the milliseconds and their ratio to those of dot.

    Medians and quartiles; a ratio is taken within a round, where both met the
    same machine.
    """
    rows: list[Row] = []
    for n in sorted({row["length"] for row in samples}):
        for backward in (0, 1):
            mine = [r for r in samples if (r["length"], r["backward"]) == (n, backward)]
            for name in FUNCTIONS:
                ms = [1000 * row[name] for row in mine]
                ratio = [row[name] / row["dot"] for row in mine] if name != "dot" else None
                rows.append(
                    {"length": n, "backward": backward, "function": name}
                    | _quartiles("ms", ms) | _quartiles("ratio", ratio)
                )
    return rows


def memory(lengths: Sequence[int], seed: int) -> list[Row]:
    """For each length and function, the bytes of `largest_bytes` and `kept_bytes`."""
    return [
        {
            "length": n, "function": name,
            "largest_bytes": largest_bytes(run, *given), "kept_bytes": kept_bytes(run, *given),
        }
        for n, given in ((n, inputs(n, seed)) for n in lengths) for name, run in FUNCTIONS.items()
    ]


def _quartiles(name: str, values: Sequence[float] | None) -> Row:
    low, middle, high = quantiles(values, n=4, method="inclusive") if values else 3 * [None]
    return {
        name: rounded(middle),
        f"{name}_quartile_1": rounded(low), f"{name}_quartile_3": rounded(high),
    }


def record(job: Job) -> Record:
    """All that is measured here at the base model's shapes, the raw samples too."""
    start = time.perf_counter()
    samples = measure(LENGTHS, ROUNDS, job.seed)
    tables = {"samples": samples, "times": times(samples), "memory": memory(LENGTHS, job.seed)}
    return job.record(
        recipe=None, precision="float32", seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=None, tables=tables,
        metrics=as_metrics({"heads": paper.BASE.heads, "d_k": paper.BASE.d_k}),
    )
