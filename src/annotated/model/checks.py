"""What the model refuses: one line that says what was, what was expected."""

from collections.abc import Iterable

import torch
from torch import Tensor


def check_heads(
    d_model: int, heads: int, d_k: int | None, d_v: int | None
) -> None:
    """Refuse widths below 1, and a d_model that heads can't share evenly.

    `d_k` and `d_v` are None where they are `d_model` / `heads`.
    """
    for name, size in dict(heads=heads, d_k=d_k, d_v=d_v).items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")
    if None in (d_k, d_v) and d_model % heads:
        raise ValueError(
            f"d_model={d_model} is not divisible by heads={heads}; "
            "give d_k and d_v, or choose heads that divide d_model"
        )


def check_even(d_model: int) -> None:
    """Refuse a width that is no number of pairs."""
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd; sinusoids come in pairs")


def check_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> None:
    """Refuse a mask that is not boolean or does not fit query and key."""
    if mask is None:
        return
    scores = (*query.shape[:-1], key.shape[-2])
    sizes = zip(reversed(mask.shape), reversed(scores))
    fits = all(m in (1, s) for m, s in sizes) and mask.dim() <= len(scores)
    if mask.dtype != torch.bool or mask.dim() < 2 or not fits:
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; expected "
            "torch.bool, True = may attend, of a shape that broadcasts to "
            f"(*batch, queries, keys) = {scores}"
        )


def check_causal(causal: bool, query: Tensor, key: Tensor) -> None:
    """Refuse queries that are neither all the positions nor the newest."""
    n, m = query.shape[-2], key.shape[-2]
    if causal and n not in (1, m):
        raise ValueError(
            f"causal attention of {n} queries to {m} keys; "
            "expected as many keys as queries, or one query"
        )


def check_rows(**parts: Tensor) -> None:
    """Refuse parts of one batch that do not count the same sentences.

    Not when compiled: each comparison of sizes would compile once more.
    """
    if torch.compiler.is_compiling():
        return
    rows = {name: len(part) for name, part in parts.items()}
    if len(set(rows.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise ValueError(f"sentences differ: {said}; expected equal numbers")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices for the named argument."""
    if value not in choices:
        raise ValueError(
            f"{name} is {value!r}; expected one of {tuple(choices)}"
        )


def check_ids(ids: Tensor, name: str, vocab_size: int) -> None:
    """Refuse empty input and foreign ids; on the CPU only, and not compiled.

    On a GPU reading the ids would make the host wait for the device.
    """
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"{name} is {ids.dtype} of shape {tuple(ids.shape)}; "
            "expected int64 ids of shape (batch, length)"
        )
    if ids.shape[1] == 0:
        raise ValueError(f"{name} is empty; expected at least one token")
    on_cpu = ids.device.type == "cpu" and ids.numel()
    if torch.compiler.is_compiling() or not on_cpu:
        return
    low, high = (int(x) for x in torch.aminmax(ids))
    if low < 0 or high >= vocab_size:
        raise ValueError(
            f"{name} holds the id {low if low < 0 else high}; "
            f"expected 0 to {vocab_size - 1}"
        )
