"""A trained model as files: tensors in safetensors, everything else in JSON."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from annotated.data.tokenizer import Tokenizer
from annotated.files import converted, read_document, write_atomically
from annotated.model import Transformer, TransformerConfig

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
VERSION = 2  # rises when a reader of today would misread tomorrow's checkpoints
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Config:
    """What a checkpoint's `config.json` holds."""

    # `VERSION` of the layout
    version: int
    # the model's sizes and choices
    model: TransformerConfig
    # what its maker noted: as JSON the whole recipe, and the seed
    notes: dict[str, Any]
    # file name → SHA-256, of this file too
    sha256: dict[str, str]


def save_checkpoint(
    folder: str | Path, model: Transformer, tokenizer: Tokenizer, dtype=None, **notes
) -> None:
    """Write `model`, `tokenizer` and configuration into `folder`; `notes` are kept as JSON.

    The configuration comes last and holds the SHA-256 of the others and its
    own, so neither an interrupted write nor a changed byte can pass for a
    checkpoint. One that is there stays whole until the new one is on the
    disk. Tied weights are stored once. `dtype=torch.float16` halves the
    size. Raises ValueError for a model of a subclass: it would be loaded as
    a plain one.
    """
    if type(model) is not Transformer:
        raise ValueError(
            f"the model is a {type(model).__name__}; it would be loaded as a Transformer"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    check_fit(model, tokenizer, "the tokenizer")
    tensors = {
        name: parameter.detach().to("cpu", dtype or parameter.dtype).contiguous()
        for name, parameter in model.named_parameters()
    }
    check_finite(tensors, f"the weights as {dtype}" if dtype else "the weights")
    files = {WEIGHTS: save(tensors), TOKENIZER: tokenizer.to_json().encode()}
    config = sealed({
        "version": VERSION,
        "model": asdict(model.config),
        "notes": notes,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    })
    files[CONFIG] = (json.dumps(config, indent=1) + "\n").encode()
    beside = {name: folder / f".{name}.part" for name in files}
    try:
        for name, data in files.items():
            write_atomically(beside[name], data)
        for name, part in beside.items():
            os.replace(part, folder / name)
    finally:
        for part in beside.values():
            part.unlink(missing_ok=True)


def sealed(config: dict) -> dict:
    """A configuration with the SHA-256 of all else in it among its sums."""
    sums = {name: sum for name, sum in config["sha256"].items() if name != CONFIG}
    text = json.dumps({**config, "sha256": sums}, sort_keys=True)
    return {**config, "sha256": {**sums, CONFIG: hashlib.sha256(text.encode()).hexdigest()}}


def check_fit(model: Transformer, tokenizer: Tokenizer, name: str | Path) -> None:
    """Refuse a tokenizer whose ids are not the model's."""
    ours, theirs = (
        (x.vocab_size, x.pad_id, x.bos_id, x.eos_id) for x in (model.config, tokenizer)
    )
    if ours != theirs:
        raise ValueError(
            f"{name} has vocabulary, pad, bos, eos {theirs}; the model expects {ours}"
        )


def check_finite(tensors: Mapping[str, Tensor], what: str | Path) -> None:
    """Refuse weights that are infinite or no numbers."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{what}: {name} is not finite everywhere")


def check_weights(
    tensors: Mapping[str, Tensor], config: TransformerConfig, path: Path
) -> None:
    """Refuse tensors that are not this model's, before a model of its sizes is built."""
    numbers = sum(map(Tensor.numel, tensors.values()))
    for name, size in asdict(config).items():
        most = len(tensors) if name == "layers" else max(numbers, 3)
        if type(size) is int and size > most:
            raise ValueError(f"{path} has {most} in all; a model whose {name} is {size} has more")
    with torch.device("meta"):  # no memory, no numbers
        expected = {n: p.shape for n, p in Transformer(config).named_parameters()}
    for name in sorted({*expected, *tensors}):
        if name not in tensors:
            raise ValueError(f"{path} lacks {name}, which its configuration has")
        if name not in expected:
            raise ValueError(f"{path} has {name}, which its configuration lacks")
        tensor, shape = tensors[name], expected[name]
        if tensor.shape != shape or tensor.dtype not in FLOATS:
            raise ValueError(
                f"{path}: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}; "
                f"expected floats of 16 to 64 bits, of shape {tuple(shape)}"
            )
    check_finite({name: tensor.float() for name, tensor in tensors.items()}, path)


def read_config(folder: str | Path) -> Config:
    """The JSON of a checkpoint; ValueError if it is missing, damaged or older."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise ValueError(f"no checkpoint in {path.parent}: {CONFIG} is missing")
    document: dict = read_document(path, dict)
    version = document.get("version")
    if version != VERSION:
        raise ValueError(f"{path} has version {version!r}; this package reads version {VERSION}")
    config: Config = converted(document, Config, path)
    if sealed(document) != document:
        raise ValueError(f"{path} is damaged: its SHA-256 is not the one in it")
    return config


def load_checkpoint(folder: str | Path) -> tuple[Transformer, Tokenizer, dict]:
    """The model, in float32 and eval mode, its tokenizer, and the notes.

    Raises ValueError that names the file that is missing, truncated or not
    the one the checkpoint was written with.
    """
    folder, config = Path(folder), read_config(folder)
    data = {}
    for name in (WEIGHTS, TOKENIZER):
        path = folder / name
        if not path.is_file():
            raise ValueError(f"no checkpoint in {folder}: {name} is missing")
        data[name] = path.read_bytes()
        if hashlib.sha256(data[name]).hexdigest() != config.sha256.get(name):
            raise ValueError(
                f"{path} ({len(data[name])} bytes) is truncated, damaged or of "
                f"another checkpoint: its SHA-256 is not the one in {CONFIG}"
            )
    try:
        tensors = load(data[WEIGHTS])
    except (SafetensorError, KeyError, RuntimeError) as error:  # a KeyError is a dtype
        raise ValueError(f"{folder / WEIGHTS} can't be read: {error}") from None
    check_weights(tensors, config.model, folder / WEIGHTS)
    with torch.random.fork_rng(devices=[]):  # its random weights don't last
        model = Transformer(config.model)
    model.load_state_dict(tensors)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    check_fit(model, tokenizer, folder / TOKENIZER)
    return model.eval(), tokenizer, config.notes
