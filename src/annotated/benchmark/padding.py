"""§5.1: how much of the batches is padding in schemes of making them, and what that costs."""

import math
import statistics
import time
from collections.abc import Sequence

import torch

from annotated.data.batches import (
    IdPair,
    batch_plan,
    collate,
    fixed_batches,
    padding_of,
    pair_lengths,
    token_batches,
)
from annotated.jobs import Job, Unavailable
from annotated.model import Transformer
from annotated.recipes import Recipe, recipe_named
from annotated.records import Record, Row, as_metrics
from annotated.training import Trainer

RANDOM = 1e6  # a length_noise so large that lengths decide nothing
BUDGETS = (4096, 25_000)  # beside the recipe's own
LENGTH_NOISES = (0.0, 1.0, 2.0, 6.0, RANDOM)
SAMPLE, ROUNDS = 2000, 5  # pairs that are trained on to be timed, and how often

Batches = list[list[IdPair]]


def schemes(pairs: Sequence[IdPair], budget: int, seed: int) -> dict[str, Batches]:
    """§5.1: one epoch in four schemes: fixed size or budget, in random order or sorted by length.

    The fixed size is the one that makes as many batches as the budget does
    when sorted by length, so that one batch has as many tokens on average.
    """
    count = len(batch_plan(pair_lengths(pairs), budget, seed))
    size = math.ceil(len(pairs) / count)
    return {
        "fixed-random": list(fixed_batches(pairs, size, seed, length_noise=RANDOM)),
        "fixed-sorted": list(fixed_batches(pairs, size, seed)),
        "budget-random": list(token_batches(pairs, budget, seed, length_noise=RANDOM)),
        "budget-sorted": list(token_batches(pairs, budget, seed)),
    }


def largest(batches: Batches) -> int:
    """The places of the largest batch, on its larger side: its memory."""
    return max(len(batch) * int(1 + pair_lengths(batch).max()) for batch in batches)


def tokens(batches: Batches) -> list[int]:
    """The target tokens of each batch: what its gradient is the mean of."""
    return [int((1 + pair_lengths(batch)[:, 1]).sum()) for batch in batches]


def speed(recipe: Recipe, pairs: Sequence[IdPair], seed: int) -> dict[str, float]:
    """Target tokens in a second of processor time, for each of the `schemes`.

    The recipe's model is trained on the same pairs in each scheme, in turns; the
    median of `ROUNDS` counts. Processor time, because other programs run too.
    """
    made = schemes(pairs, recipe.training.batch_tokens, seed)
    taken: dict[str, list[float]] = {scheme: [] for scheme in made}
    ids = recipe.model
    for _ in range(ROUNDS):
        for scheme, batches in made.items():
            torch.manual_seed(seed)
            trainer = Trainer(Transformer(recipe.model), recipe.training, seed)
            padded = [collate(b, ids.pad_id, ids.bos_id, ids.eos_id) for b in batches]
            trainer.update(padded[0])  # the first makes what is kept
            start = time.process_time()
            for batch in padded:
                trainer.update(batch)
            taken[scheme].append(time.process_time() - start)
    total = sum(tokens(made["budget-sorted"]))
    return {scheme: total / statistics.median(seconds) for scheme, seconds in taken.items()}


def scheme_rows(pairs: Sequence[IdPair], budget: int, seed: int) -> list[Row]:
    """For each of the `schemes`, what is padding, and how uneven batches are."""
    rows = []
    for scheme, batches in schemes(pairs, budget, seed).items():
        padding, counts = padding_of(batches), tokens(batches)
        rows.append({
            "scheme": scheme,
            "padding": round(padding.both, 4),
            "padding_source": round(padding.source, 4),
            "padding_target": round(padding.target, 4),
            "batches": len(batches),
            "largest": largest(batches),
            "fewest_tokens": min(counts),
            "most_tokens": max(counts),
        })
    return rows


def length_noises(pairs: Sequence[IdPair], budgets: Sequence[int], seed: int) -> list[Row]:
    """Padding for each budget and length_noise."""
    rows = []
    for budget in budgets:
        for length_noise in LENGTH_NOISES:
            batches = list(token_batches(pairs, budget, seed, length_noise=length_noise))
            padding = round(padding_of(batches).both, 4)
            rows.append({
                "budget": budget, "length_noise": length_noise, "padding": padding,
                "batches": len(batches),
            })
    return rows


def record(job: Job, recipe: str) -> Record:
    """All that is measured here on the training pairs of the recipe of that name."""
    start, chosen = time.perf_counter(), recipe_named(recipe)
    try:
        data = chosen.task.open(job.data_dir)
        pairs, _ = data.training_ids(data.tokenizer(), job.seed)
    except (FileNotFoundError, ImportError) as error:
        raise Unavailable(str(error)) from None
    budget = chosen.training.batch_tokens
    rows = scheme_rows(pairs, budget, job.seed)
    noises = length_noises(pairs, sorted({budget, *BUDGETS}), job.seed)
    every = max(1, len(pairs) // SAMPLE)  # a corpus may be sorted by length
    rates = speed(chosen, pairs[::every][:SAMPLE], job.seed)
    rows = [{**row, "tokens_per_second": round(rates[str(row["scheme"])])} for row in rows]
    counts = tokens(list(token_batches(pairs, budget, job.seed)))
    return job.record(
        recipe=recipe, precision=chosen.training.precision,
        seconds=round(time.perf_counter() - start, 1),
        tokens_per_update=round(statistics.mean(counts)),
        metrics=as_metrics({"pairs": len(pairs)}),
        tables={"length_noises": noises, "schemes": rows},
    )
