"""§4: why measured exponents differ from Table 1's. Each suspected cause is run by itself.

A recurrence: what a step costs when there is next to nothing to compute, at widths down to 8.
A separable convolution: its two parts apart. A convolution: the one matrix product that it is.
Literal attention: its operations into memory that is there, or that the system hands out anew.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from annotated import paper
from annotated.benchmark.step import timed
from annotated.complexity.generation import in_turns, summary
from annotated.complexity.layers import Convolution, SeparableConvolution
from annotated.complexity.table_1 import LEAST, Bench, K, Point
from annotated.jobs import Job
from annotated.records import Record, Row, as_metrics, rounded

STEPPING = ("recurrent", "GRU", "LSTM")


def passes(ask: Callable[..., Tensor], *given: Tensor) -> dict[int, Callable[[], object]]:
    """`ask(*given)` without gradients (0), and with those of all that is `given` (1)."""
    parts = [x.detach().clone().requires_grad_() for x in given]

    def forward() -> Tensor:
        with torch.no_grad():
            return ask(*parts)

    def both() -> object:
        y = ask(*parts)
        return torch.autograd.grad(y, parts, torch.ones_like(y))

    return {0: forward, 1: both}


def step_runs(bench: Bench, n: int, widths: Sequence[int]) -> dict[Any, Callable[[], object]]:
    """n steps of each recurrence at each width: (way, n, d, backward) -> what is timed."""
    points = [Point(way, n, d, back) for way in STEPPING for d in widths for back in (0, 1)]
    return {point: bench.run(point) for point in points}


def part_runs(
    device: torch.device, n: int, widths: Sequence[int]
) -> dict[Any, Callable[[], object]]:
    """Convolutions over n positions, and what they consist of: (part, n, d, backward) -> a run.

    "product" is one matrix product with as many multiply-adds as the convolution, of the same
    shape once its k places lie side by side. All run on the `device`, at each of `widths`.
    """
    runs: dict[Any, Callable[[], object]] = {}
    for d in widths:
        x, wide = (torch.randn(1, n, width, device=device) for width in (d, K * d))
        whole = Convolution(d, K).to(device)
        apart = SeparableConvolution(d, K).to(device)
        asked: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
            "convolution": (partial(whole.convolve, groups=1), (x, whole.weight)),
            "product": (torch.matmul, (wide, torch.randn(K * d, d, device=device))),
            "each component alone": (partial(apart.convolve, groups=d), (x, apart.weight)),
            "d × d matrix": (F.linear, (x, apart.pointwise.weight)),
        }
        for part, (ask, given) in asked.items():
            for back, run in passes(ask, *given).items():
                runs[part, n, d, back] = run
    return runs


class Literal:
    """Attention of `heads` over n positions in four operations, into new memory or old."""

    def __init__(self, heads: int, n: int, device: torch.device):
        d_k = paper.BASE.d_k
        self.q, self.k, self.v = (torch.randn(heads, n, d_k, device=device) for _ in range(3))
        self.first, self.second = (torch.empty(heads, n, n, device=device) for _ in range(2))
        self.mixed = torch.empty(heads, n, d_k, device=device)
        self.scale = d_k**-0.5

    @property
    def bytes(self) -> int:
        """Of one of its large results."""
        return self.first.nbytes

    @torch.no_grad()
    def fresh(self) -> Tensor:
        """Each operation's result in memory that it asks for."""
        scores = torch.matmul(self.q, self.k.mT)
        scaled = torch.mul(scores, self.scale)
        return torch.matmul(torch.softmax(scaled, -1), self.v)

    @torch.no_grad()
    def reused(self) -> Tensor:
        """The same operations into memory that is there already."""
        torch.matmul(self.q, self.k.mT, out=self.first)
        torch.mul(self.first, self.scale, out=self.second)
        torch.softmax(self.second, -1, out=self.first)
        return torch.matmul(self.first, self.v, out=self.mixed)


def measure(
    job: Job, runs: dict[Any, Callable[[], object]], rounds: int, share: float
) -> list[tuple[int, Any, float]]:
    """(round, key, seconds) of each of `runs`, in turns; short ones repeated within a sample.

    `job`, `rounds` and `share` as in `in_turns`.
    """
    device, repeats = torch.device(job.device), {}
    for key, run in runs.items():
        timed(run, device)  # set up
        once = median(timed(run, device) for _ in range(3))
        repeats[key] = max(1, min(200, round(LEAST / max(once, 1e-6))))

    def sample(key: Any) -> float:
        def several() -> None:
            for _ in range(repeats[key]):
                runs[key]()

        return timed(several, device) / repeats[key]

    return in_turns(job, {key: partial(sample, key) for key in runs}, rounds, share)


def record(
    job: Job, steps: int = 256, n: int = 2048, heads: int = paper.BASE.heads,
    small: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024),
    widths: Sequence[int] = (64, 128, 256, 512, 1024),
    lengths: Sequence[int] = (512, 724, 896, 1008, 1024, 1152, 1448, 2048), rounds: int = 15,
) -> Record:
    """All that is measured here, as far as the `job` has time, the raw samples too.

    steps: of a recurrence, whose widths are `small`.
    n: the positions of a convolution, whose widths are `widths`.
    heads: of literal attention, whose lengths are `lengths`.
    rounds: at most.
    """
    start, device = time.perf_counter(), torch.device(job.device)
    torch.manual_seed(job.seed)
    stepping = measure(job, step_runs(Bench(device, job.seed), steps, small), rounds, 0.5)
    job.say(f"recurrences measured after {time.perf_counter() - start:.0f} s")
    parts = measure(job, part_runs(device, n, widths), rounds, 0.7)
    job.say(f"convolutions measured after {time.perf_counter() - start:.0f} s")
    literals = {length: Literal(heads, length, device) for length in lengths}
    memory = measure(job, {
        (name, length): getattr(one, name)
        for length, one in literals.items() for name in ("fresh", "reused")
    }, rounds, 0.9)
    samples: dict[str, list[Row]] = {
        "steps": [
            {"round": number, **point._asdict(), "seconds": rounded(seconds / point.n)}
            for number, point, seconds in stepping
        ],
        "parts": [
            {"round": number, "part": part, "n": n, "d": d, "backward": back,
             "seconds": rounded(seconds)}
            for number, (part, n, d, back), seconds in parts
        ],
        "memory": [
            {"round": number, "memory": name, "n": length, "heads": heads,
             "result_bytes": literals[length].bytes, "seconds": rounded(seconds)}
            for number, (name, length), seconds in memory
        ],
    }
    keys = {
        "steps": ["way", "n", "d", "backward"], "parts": ["part", "n", "d", "backward"],
        "memory": ["memory", "n", "heads", "result_bytes"],
    }
    medians = {
        f"{name}_seconds": summary(rows, keys[name], "seconds") for name, rows in samples.items()
    }
    return job.record(
        recipe=None, precision="float32", seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=None, tables=samples | medians, metrics=as_metrics({"k": K}),
    )
