"""§2: what was the first token? Asked at a distance, of an LSTM, convolutions and attention.

A sequence is a token, others at random, and a question mark: `distance` places
after the first token. All tokens but the mark are drawn from one vocabulary,
so that nothing but its place tells the first. A reader is a network with as
many parameters as each of the others, trained for one distance with the
same number of updates on the same sequences.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.complexity.layers import DilatedConvolution
from annotated.contenders.recurrent import forget_nothing, parameters_of
from annotated.jobs import Job, Unavailable
from annotated.model import MultiHeadAttention, sinusoidal_encoding
from annotated.records import Record, Row, as_metrics, rounded

VOCABULARY, QUESTION = 16, 16  # tokens that are recalled, and the id of the question mark
DISTANCES = (4, 8, 16, 32, 64, 128, 256)
RATES = (0.01, 0.003, 0.001)  # each is tried at each distance
UPDATES, BATCH, LOOK, WATCHED, TESTED = 400, 64, 50, 256, 1000
PATIENCE = {"distance": 32, "updates": 2000}  # of the LSTM, once more
UNITS = 32  # of the LSTM; the others are as wide as makes them equal in parameters
HEADS = 2
SAMPLES = 64  # sequences over which a gradient is averaged

Vectors = Float[Tensor, "batch n d"]
Vector = Float[Tensor, "batch d"]


class Memory(nn.Module):
    """An LSTM of d units, which starts with its forget gates open."""

    def __init__(self, d: int):
        super().__init__()
        self.lstm = nn.LSTM(d, d, batch_first=True)
        forget_nothing(self.lstm)

    def every(self, x: Vectors) -> Vectors:
        """The state at every position."""
        return self.lstm(x)[0]

    def forward(self, x: Vectors) -> Vector:
        return self.every(x)[:, -1]


class Convolutions(nn.Module):
    """Causal convolutions of two places, each twice as dilated as the last.

    As many as reach the longest distance; ReLU and a residual around each.
    """

    def __init__(self, d: int):
        super().__init__()
        depth = DilatedConvolution(d, 2, causal=True).path(max(DISTANCES) + 1)
        self.layers = nn.ModuleList(
            DilatedConvolution(d, 2, i, causal=True) for i in range(depth)
        )

    def every(self, x: Vectors) -> Vectors:
        """What the last layer says at every position."""
        for layer in self.layers:
            x = x + layer(x).relu()
        return x

    def forward(self, x: Vectors) -> Vector:
        """The same at the last position: a tree of pairs is all it needs."""
        for layer in self.layers:  # zeros stand before the first position
            pairs = F.pad(x, (0, 0, x.shape[1] % 2, 0)).unflatten(1, (-1, 2))
            mixed = torch.einsum("bnkd,edk->bne", pairs, layer.weight)
            x = pairs[:, :, 1] + mixed.relu()
        return x[:, 0]


class Attention(nn.Module):
    """One multi-head attention over words with their positions, no more."""

    def __init__(self, d: int):
        super().__init__()
        self.attention = MultiHeadAttention(d, HEADS)

    def heard(self, x: Vectors) -> Vector:
        """What the last position gets from all."""
        x = x + sinusoidal_encoding(*x.shape[1:]).to(x)
        return self.attention(x[:, -1:], x)[:, 0]

    def forward(self, x: Vectors) -> Vector:
        return x[:, -1] + self.heard(x)


BODIES: dict[str, Callable[[int], nn.Module]] = {
    "LSTM": Memory, "dilated convolution": Convolutions, "attention": Attention,
}


class Reader(nn.Module):
    """Reads tokens and scores what the first was: embedding, body, norm, matrix.

    `kind` names the body, `d` is the width.
    """

    def __init__(self, kind: str, d: int):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY + 1, d)
        self.body = BODIES[kind](d)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, VOCABULARY)

    def forward(
        self, ids: Int[Tensor, "batch n"]
    ) -> Float[Tensor, "batch vocab"]:
        return self.out(self.norm(self.body(self.embedding(ids))))


@cache
def width(kind: str) -> int:
    """The even width at which a reader's parameters come nearest to the LSTM's of 32 units."""
    wanted = parameters_of(partial(Reader, "LSTM"), UNITS)
    reader = partial(Reader, kind)
    return min(range(4, 4 * UNITS, 2), key=lambda d: abs(parameters_of(reader, d) - wanted))


def made(kind: str, seed: int) -> Reader:
    """A reader as it starts, from a random `seed`."""
    torch.manual_seed(seed)
    return Reader(kind, width(kind))


def drawn(
    distance: int, count: int, rng: torch.Generator
) -> Int[Tensor, "count n"]:
    """`count` sequences; the first token stands `distance` places before the question mark."""
    ids = torch.randint(VOCABULARY, (count, distance + 1), generator=rng)
    ids[:, -1] = QUESTION
    return ids


@torch.no_grad()
def accuracy(reader: nn.Module, ids: Int[Tensor, "batch n"]) -> float:
    """The share of sequences of which the reader says the first token."""
    right = [reader(part).argmax(-1) == part[:, 0] for part in ids.split(250)]
    return torch.cat(right).double().mean().item()


def looks(
    reader: Reader, distance: int, rate: float, seed: int, updates: int
) -> Iterator[tuple[int, float, float]]:
    """Train `reader` by Adam; at every look, the update, the loss since the last, the accuracy.

    `distance`, `rate` and `seed` say on what, how fast and from which randomness. It ends after
    so many `updates`, or earlier with the second look in a row at which all was right.
    """
    train, watch = (torch.Generator().manual_seed(1000 * seed + more) for more in (1, 2))
    watched = drawn(distance, WATCHED, watch)
    optimizer = torch.optim.Adam(reader.parameters(), rate)
    losses: list[float] = []
    before = 0.0
    for update in range(1, updates + 1):
        ids = drawn(distance, BATCH, train)
        loss = F.cross_entropy(reader(ids), ids[:, 0])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if update % LOOK == 0 or update == updates:
            now = accuracy(reader, watched)
            yield update, sum(losses) / len(losses), now
            if before == now == 1.0:
                return
            before, losses = now, []


def train_all(
    job: Job, distances: Sequence[int], rates: Sequence[float], updates: int
) -> tuple[list[Row], list[Row]]:
    """Each kind at each distance with each rate: rows of what came out, and of all looks.

    `distances`, `rates` and `updates` of each training. Of the rates the one counts (`chosen`)
    with which more is right at the last look; the test is on other sequences. `Unavailable` if
    the `job` has no time left.
    """
    results, curve = [], []
    for distance in distances:
        test = torch.Generator().manual_seed(1000 * job.seed + 3)
        tested = drawn(distance, TESTED, test)
        for kind in BODIES:
            rows = []
            for rate in rates:
                if job.left() <= 0 or job.interrupted():
                    raise Unavailable("the time was up before all was trained")
                reader = made(kind, job.seed)
                at: Row = {"model": kind, "distance": distance, "rate": rate}
                for update, loss, now in looks(reader, distance, rate, job.seed, updates):
                    curve.append(at | {
                        "update": update, "loss": rounded(loss), "accuracy": rounded(now),
                    })
                rows.append(at | {
                    "updates": update, "watched": rounded(now),
                    "accuracy": rounded(accuracy(reader, tested)),
                })
            best = max(rows, key=lambda row: row["watched"])
            results += [row | {"chosen": int(row is best)} for row in rows]
            job.say(f"{kind}, distance {distance}: {best['accuracy']:.1%}")
    return results, curve


def patient(job: Job, results: Sequence[Row], distance: int, updates: int) -> list[Row]:
    """The LSTM with more `updates` at one `distance`: a row for each look.

    At the rate that did best at the next shorter distance of `results`; `job` has the seed.
    """
    shorter = [row for row in results if row["chosen"] and row["model"] == "LSTM"
               and row["distance"] < distance]
    rate = max(shorter, key=lambda row: row["distance"])["rate"]
    reader = made("LSTM", job.seed)
    rows = [
        {"distance": distance, "rate": rate, "update": update, "loss": rounded(loss),
         "accuracy": rounded(now)}
        for update, loss, now in looks(reader, distance, rate, job.seed, updates)
    ]
    last = rows[-1]
    job.say(f"LSTM, distance {distance}, {last['update']} updates: {last['accuracy']:.1%}")
    return rows


def gradient(kind: str, distance: int, seed: int) -> float:
    """How much what a fresh body says at the end depends on its first vector: a mean length.

    Of the gradient along a random direction, over `SAMPLES` sequences of random vectors, in
    float64. `kind` and `seed` make the body, `distance` lies between. Of attention without the
    residual, which does not reach the first vector.
    """
    body = made(kind, seed).double().body
    rng = torch.Generator().manual_seed(1000 * seed + 4)
    d = width(kind)
    x = torch.randn(SAMPLES, distance + 1, d, generator=rng, dtype=torch.float64).requires_grad_()
    direction = F.normalize(torch.randn(d, generator=rng, dtype=torch.float64), dim=0)
    found, = torch.autograd.grad((body(x) @ direction).sum(), x)
    return found[:, 0].norm(dim=-1).mean().item()


def record(job: Job) -> Record:
    """§2: tables "recall", "curve", "gradient" at every distance; "patient", the LSTM at one."""
    start = time.perf_counter()
    recall, curve = train_all(job, DISTANCES, RATES, UPDATES)
    gradients = [
        {"model": kind, "distance": n, "gradient": rounded(gradient(kind, n, job.seed))}
        for kind in BODIES for n in DISTANCES
    ]
    sizes = {f"parameters, {kind}": sum(p.numel() for p in made(kind, job.seed).parameters())
             for kind in BODIES}
    return job.record(
        recipe=None, precision="float32", seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=None,
        tables={
            "recall": recall, "curve": curve, "patient": patient(job, recall, **PATIENCE),
            "gradient": gradients,
        },
        metrics=as_metrics(sizes | {
            f"width, {kind}": width(kind) for kind in BODIES
        } | {
            "vocabulary": VOCABULARY, "updates": UPDATES, "batch": BATCH, "tested": TESTED,
        }),
    )
