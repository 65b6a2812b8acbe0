"""What the model refuses: one line that says what was, what was expected."""

import torch
from torch import Tensor

CHOICES = {
    "positions": ("sinusoidal", "sinusoidal-halves", "learned"),
    "norm": ("post", "pre"),
    "activation": ("relu", "gelu", "silu"),
}


def check_config(config) -> None:
    """Raise ValueError for the first field that can't be what it is."""

    def expect(ok: bool, name: str, expected: str) -> None:
        if not ok:
            value = getattr(config, name)
            raise ValueError(f"{name} is {value!r}; expected {expected}")

    for name in ("vocab_size", "d_model", "d_ff", "heads", "layers"):
        size = getattr(config, name)
        whole = isinstance(size, int) and size >= 1
        expect(whole, name, "a whole number of at least 1")
    for name in ("d_k", "d_v", "max_length", "pad_id", "bos_id", "eos_id"):
        whole = isinstance(getattr(config, name), int | None)
        expect(whole, name, "a whole number")
    for name in ("dropout", "attention_dropout"):
        expect(0 <= getattr(config, name) < 1, name, "0 <= p < 1")
    for name, among in CHOICES.items():
        expect(getattr(config, name) in among, name, f"one of {among}")
    check_heads(config.d_model, config.heads, config.d_k, config.d_v)
    learned, length = config.positions == "learned", config.max_length
    even = "an even number, not an odd one: sinusoids pair up"
    expect(learned or config.d_model % 2 == 0, "d_model", even)
    fits = length is not None and length >= 1 if learned else length is None
    expect(fits, "max_length", "at least 1 with learned positions, else None")
    for name in ("pad_id", "bos_id", "eos_id"):
        below = 0 <= getattr(config, name) < config.vocab_size
        expect(below, name, f"an id below vocab_size={config.vocab_size}")
    if len({config.pad_id, config.bos_id, config.eos_id}) < 3:
        special = config.pad_id, config.bos_id, config.eos_id
        raise ValueError(
            f"pad_id, bos_id, eos_id are {special}; expected three different"
        )


def check_heads(
    d_model: int, heads: int, d_k: int | None, d_v: int | None
) -> None:
    """Refuse widths below 1, and a d_model that heads can't share evenly."""
    for name, size in dict(heads=heads, d_k=d_k, d_v=d_v).items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")
    if None in (d_k, d_v) and d_model % heads:
        raise ValueError(
            f"d_model={d_model} is not divisible by heads={heads}; "
            "give d_k and d_v, or choose heads that divide d_model"
        )


def check_sinusoids(d_model: int, layout: str) -> None:
    """Refuse a width that is no number of pairs, and an unknown layout."""
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd; sinusoids come in pairs")
    if layout not in ("interleaved", "halves"):
        raise ValueError(
            f"layout is {layout!r}; expected 'interleaved' or 'halves'"
        )


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
    """Refuse queries and keys that do not count the same positions."""
    n, m = query.shape[-2], key.shape[-2]
    if causal and n != m:
        raise ValueError(
            f"causal attention of {n} queries to {m} keys; "
            "expected as many keys as queries"
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


def check_choice(name: str, value: str) -> None:
    """Refuse a `norm` or `activation` that is none of CHOICES."""
    if value not in CHOICES[name]:
        raise ValueError(
            f"{name} is {value!r}; expected one of {CHOICES[name]}"
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
