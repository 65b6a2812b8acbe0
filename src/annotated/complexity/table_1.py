"""§4, Table 1, measured: time, memory and energy of each layer type over lengths and widths.

All run in one process, in turns, in an order that changes with each round. A
time is that of one sequence, by the clock: whether a layer can use two cores
is part of the question. Self-attention is timed three ways: what the table
counts of it by one fused kernel, the same by the literal formula, and the
whole layer with its projections.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import quantiles
from typing import NamedTuple

import torch

from annotated import paper
from annotated.benchmark.attention import kept_bytes
from annotated.benchmark.step import timed
from annotated.complexity.fits import crossing, exponents
from annotated.complexity.layers import (
    GRU,
    LSTM,
    Convolution,
    DilatedConvolution,
    Layer,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
)
from annotated.complexity.memory import peak_bytes
from annotated.jobs import Job, Unavailable
from annotated.machine import energy_meter, memory_size
from annotated.records import Record, Row, as_metrics, rounded

K, R = 3, 63  # places of a convolution, and of a restricted attention
LEAST = 0.005  # seconds of a sample: short runs are repeated, so that the clock's grain is small
FASTER = {"cpu": 1, "cuda": 40}  # about; on a machine as it is in 2026
LONG = 0.2  # seconds from which on a run needs no other before it: new inputs are a small part
FEWEST = 3  # rounds without which there is no record
METERED = 1.5  # seconds of which the energy is taken: a GPU tells its power once per second


class Way(NamedTuple):
    """A layer and what of it is run: `whole` or what Table 1 counts, by the `fused` kernel or not.
    """

    make: Callable[[int], Layer]
    whole: bool = False
    fused: bool = True


WAYS = {
    "self-attention": Way(SelfAttention),
    "self-attention, literal": Way(SelfAttention, fused=False),
    "self-attention, whole": Way(SelfAttention, whole=True),
    "restricted": Way(partial(RestrictedSelfAttention, r=R)),
    "restricted, whole": Way(partial(RestrictedSelfAttention, r=R), whole=True),
    "recurrent": Way(Recurrent),
    "GRU": Way(GRU),
    "LSTM": Way(LSTM),
    "convolution": Way(partial(Convolution, k=K)),
    "dilated": Way(partial(DilatedConvolution, k=K, number=2)),
    "separable": Way(partial(SeparableConvolution, k=K)),
}
CROSSED = ("recurrent", "GRU", "LSTM", "convolution")  # what self-attention is compared with


@dataclass(frozen=True)
class Grid:
    """What is measured: every length with every width, in so many rounds.

    limit: multiply-adds of a forward pass above which a point is left out, on a CPU; a GPU does
    `FASTER` times as many.
    longest: seconds of a pass above which a point, and all longer ones, are left out.
    memory: lengths of which the memory is taken, at the smallest width.
    """

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    rounds: int
    limit: float
    memory: tuple[int, ...]
    longest: float = math.inf


GRIDS = {
    "default": Grid(
        (64, 128, 256, 512, 1024, 2048, 4096), (64, 128, 256, 512), 7, 2.5e9,
        (128, 256, 512, 1024, 2048),
    ),
    "full": Grid(
        (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), (64, 128, 256, 512, 1024), 5, 5e10,
        (256, 512, 1024, 2048, 4096, 8192), longest=3.0,
    ),
}


class Point(NamedTuple):
    """One thing that is timed; `backward` 1 adds the backward pass."""

    way: str
    n: int
    d: int
    backward: int


@dataclass
class Bench:
    """Layers and inputs, made once and kept."""

    device: torch.device
    seed: int

    def __post_init__(self) -> None:
        self.layers: dict[tuple[str, int], Layer] = {}

    def layer(self, way: str, d: int) -> Layer:
        if (way, d) not in self.layers:
            torch.manual_seed(self.seed)
            self.layers[way, d] = WAYS[way].make(d).to(self.device)
        return self.layers[way, d]

    def run(self, point: Point) -> Callable[[], object]:
        """What is timed at a point, ready to be called; it gives the output."""
        way, layer = WAYS[point.way], self.layer(point.way, point.d)
        rng = torch.Generator().manual_seed(self.seed)
        x = torch.randn(1, point.n, point.d, generator=rng).to(self.device)
        with torch.no_grad():
            given = (x,) if way.whole else layer.before(x)
        given = tuple(part.requires_grad_() for part in given)
        ask: Callable[..., torch.Tensor] = (
            partial(layer, fused=way.fused) if way.whole
            else layer.fused if way.fused else layer.mix
        )
        learned = [p for p in layer.parameters() if way.whole or len(given) == 1]

        def forward() -> torch.Tensor:
            with torch.no_grad():
                return ask(*given)

        def both() -> object:
            y = ask(*given)
            return torch.autograd.grad(y, [*given, *learned], torch.ones_like(y))

        return both if point.backward else forward


def points(grid: Grid, device: str) -> Iterator[Point]:
    """Every point of the grid that is not too much for the machine."""
    limit = grid.limit * FASTER[torch.device(device).type]
    for d in grid.widths:
        for way in WAYS:
            layer = shape(way, d)
            for n in grid.lengths:
                weights = 4 * getattr(layer, "heads", 0) * n * n
                held = 4 * weights if not WAYS[way].fused else 0  # scores, weights, gradients
                if layer.cost(n).products <= limit and held < memory_size(device) / 3:
                    yield from (Point(way, n, d, backward) for backward in (0, 1))


def measure(job: Job, grid: Grid) -> list[Row]:
    """A row for each round, length, width and pass: the seconds of each way, None if left out.

    All are warmed up first, and each again before it is timed, but for long runs. There are as
    many rounds as the `grid` says, fewer if the `job` has not enough time left; `Unavailable`
    if not even three.
    """
    bench = Bench(torch.device(job.device), job.seed)
    once: dict[Point, float] = {}
    slow = set()
    for point in points(grid, job.device):
        if point._replace(n=0) in slow:
            continue
        run = bench.run(point)
        taken = timed(run, bench.device)
        if taken < 5 * LONG:  # it may have been the setting up
            taken = timed(run, bench.device)
        if taken <= grid.longest:
            once[point] = taken
        else:
            slow.add(point._replace(n=0))
        if job.left() <= 0 or job.interrupted():
            raise Unavailable("the time was up before all was warm")
    chosen = list(once)
    rng, rows = random.Random(job.seed), []
    for number in range(grid.rounds):
        start = time.perf_counter()
        rng.shuffle(chosen)
        found: dict[Point, float] = {}
        for point in chosen:
            run = bench.run(point)
            times = max(1, min(200, round(LEAST / max(once[point], 1e-6))))
            if once[point] < LONG:
                timed(run, bench.device)  # its inputs are new

            def several(run=run, times=times) -> None:
                for _ in range(times):
                    run()

            found[point] = rounded(timed(several, bench.device) / times)
        rows += [
            {"round": number, "n": n, "d": d, "backward": back}
            | {way: found.get(Point(way, n, d, back)) for way in WAYS}
            for n, d, back in sorted({point[1:] for point in chosen})
        ]
        took = time.perf_counter() - start
        job.say(f"round {number + 1} of {grid.rounds}: {took:.0f} s")
        if job.interrupted() or job.left() < 1.2 * took:
            break
    if number + 1 < min(FEWEST, grid.rounds):
        raise Unavailable(f"time for {number + 1} rounds only; {FEWEST} are the least")
    return rows


def times(samples: Sequence[Row]) -> list[Row]:
    """For each point, the median and quartiles of its milliseconds, and its counted products."""
    found: dict[Point, list[float]] = {}
    for row in samples:
        for way in WAYS:
            if row[way] is not None:
                point = Point(way, row["n"], row["d"], row["backward"])
                found.setdefault(point, []).append(1000 * row[way])
    rows = []
    for point, ms in sorted(found.items()):
        low, middle, high = quantiles(ms, n=4, method="inclusive") if len(ms) > 1 else 3 * ms
        rows.append(point._asdict() | {
            "ms": rounded(middle), "ms_quartile_1": rounded(low), "ms_quartile_3": rounded(high),
            "products": counted_products(point.way, point.n, point.d),
        })
    return rows


@cache
def shape(way: str, d: int) -> Layer:
    """A layer to ask for its costs."""
    return WAYS[way].make(d)


def counted_products(way: str, n: int, d: int) -> int:
    """Multiply-adds of the forward pass, by formula: of the whole, or what Table 1 counts."""
    cost = shape(way, d).cost(n)
    return cost.products if WAYS[way].whole else cost.mixing


def table_orders(row: str) -> dict[str, int]:
    """The exponents of n and d in a row of Table 1: {"n": 2, "d": 1} of O(n²·d)."""
    text = paper.TABLE_1[row].complexity
    return {
        size: (2 if f"{size}²" in text else 1 if re.search(size, text) else 0) for size in "nd"
    }


def large(rows: Sequence[Row]) -> list[Row]:
    """Those of the upper half of lengths and of widths, where orders show."""
    lengths, widths = (sorted({row[size] for row in rows}) for size in "nd")
    return [
        row for row in rows
        if row["n"] >= lengths[len(lengths) // 2] and row["d"] >= widths[len(widths) // 2]
    ]


def fitted(rows: Sequence[Row]) -> list[Row]:
    """For each way and pass, fitted exponents of n and d at large sizes, beside the table's.

    `rows` are those of `times`. `counted` is the exponent that the counted products have at the
    same points. A way with too few points has no rows.
    """
    found: list[Row] = []
    for way in WAYS:
        for backward in (0, 1):
            mine = large([r for r in rows if (r["way"], r["backward"]) == (way, backward)])
            sizes = {size: [row[size] for row in mine] for size in "nd"}
            if len(mine) < 4 or any(len(set(column)) < 2 for column in sizes.values()):
                continue
            measured = exponents(sizes, [row["ms"] for row in mine])
            counted = exponents(sizes, [row["products"] for row in mine])
            expected = table_orders(shape(way, 64).row)
            found += [
                {
                    "way": way, "backward": backward, "size": size, "table": expected[size],
                    "exponent": round(a.value, 3), "low": round(a.low, 3),
                    "high": round(a.high, 3), "counted": round(counted[size].value, 3),
                    "points": len(mine),
                }
                for size, a in measured.items()
            ]
    return found


def predicted_crossing(way: str, other: str, d: int, most: int = 2**20) -> int | None:
    """From which n on `way` needs more products of width d than `other`, by formula; up to `most`.
    """
    def more(n: int) -> bool:
        return counted_products(way, n, d) > counted_products(other, n, d)

    if not more(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if more(middle) else (middle, high)
    return high


def crossings(rows: Sequence[Row]) -> list[Row]:
    """The n from which on self-attention costs more than others: by counts, and by the clock.

    `rows` are those of `times`. None: nowhere, or beyond what was measured.
    """
    ms = {Point(r["way"], r["n"], r["d"], r["backward"]): r["ms"] for r in rows}
    found = []
    for way in ("self-attention", "self-attention, whole"):
        for other in CROSSED:
            for d in sorted({point.d for point in ms}):
                for backward in (0, 1):
                    both = sorted(
                        p.n for p in ms if (p.way, p.d, p.backward) == (way, d, backward)
                        and p._replace(way=other) in ms
                    )
                    pairs = [
                        [ms[Point(name, n, d, backward)] for n in both] for name in (way, other)
                    ]
                    measured = crossing(both, *pairs) if both else None
                    found.append({
                        "way": way, "other": other, "d": d, "backward": backward,
                        "predicted": predicted_crossing(way, other, d),
                        "measured": None if measured is None else round(measured, 1),
                        "longest": both[-1] if both else None,
                    })
    return found


def memory(job: Job, grid: Grid) -> list[Row]:
    """For each way and length, at the smallest width, bytes of forward and backward pass.

    `kept_bytes` is what the forward pass keeps for the backward pass, `peak_bytes` the most that
    is held at one time in both. What is measured is up to `job` and `grid`.
    """
    bench, d = Bench(torch.device(job.device), job.seed), grid.widths[0]
    rows: list[Row] = []
    for way in WAYS:
        for n in grid.memory:
            layer, whole, fused = bench.layer(way, d), WAYS[way].whole, WAYS[way].fused
            x = torch.ones(1, n, d, device=bench.device)
            with torch.no_grad():
                given = [p.requires_grad_() for p in ((x,) if whole else layer.before(x))]
            ask = partial(layer, fused=fused) if whole else layer.fused if fused else layer.mix
            rows.append({
                "way": way, "n": n, "d": d, "kept_bytes": kept_bytes(ask, *given),
                "peak_bytes": peak_bytes(bench.run(Point(way, n, d, 1)), bench.device),
            })
    return rows


def energy(job: Job, grid: Grid) -> list[Row]:
    """For each way and pass, at the middle length and width, the joules of one pass, and watts.

    The machine does the same for `METERED` seconds, and tells what it used, with all that else
    runs on it. No rows where it tells nothing. What is run is up to `job` and `grid`.
    """
    meter = energy_meter(job.device)
    if meter is None:
        return []
    bench, rows = Bench(torch.device(job.device), job.seed), []
    n, d = (sizes[len(sizes) // 2] for sizes in (grid.lengths, grid.widths))
    for way in WAYS:
        for backward in (0, 1):
            run = bench.run(Point(way, n, d, backward))
            timed(run, bench.device)  # set up
            passes = max(1, math.ceil(METERED / max(timed(run, bench.device), 1e-6)))

            def several(run=run, passes=passes) -> None:
                for _ in range(passes):
                    run()

            meter()
            seconds = timed(several, bench.device)
            joules = meter()
            rows.append({
                "way": way, "n": n, "d": d, "backward": backward, "passes": passes,
                "joules": rounded(joules / passes), "watts": rounded(joules / seconds),
            })
    return rows


def record(job: Job, grid: str) -> Record:
    """All that is measured here over the `grid` "default" or "full", the raw samples too.

    The table "energy" is missing where the machine does not tell it.
    """
    chosen, start = GRIDS[grid], time.perf_counter()
    held = memory(job, chosen)
    samples = measure(job, chosen)
    medians = times(samples)
    tables = {
        "samples": samples, "times": medians, "exponents": fitted(medians),
        "crossings": crossings(medians), "memory": held, "energy": energy(job, chosen),
    }
    return job.record(
        recipe=None, precision="float32", seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=None, tables={name: rows for name, rows in tables.items() if rows},
        metrics=as_metrics({
            "k": K, "r": R, "rounds": 1 + max(row["round"] for row in samples),
        }),
    )
