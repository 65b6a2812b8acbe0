"""A trained model as files: tensors in safetensors, everything else in JSON."""

import hashlib
import json
import os
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from annotated.data.tokenizer import Tokenizer
from annotated.files import write_atomically
from annotated.model import Transformer, TransformerConfig

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
VERSION = 1  # rises when a reader of today would misread tomorrow's checkpoints


def save_checkpoint(
    folder: str | Path, model: Transformer, tokenizer: Tokenizer, dtype=None, **notes
) -> None:
    """Write model, tokenizer and configuration; `notes` are kept as JSON.

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


def read_config(folder: str | Path) -> dict:
    """The JSON of a checkpoint; ValueError if it is missing, damaged or older."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise ValueError(f"no checkpoint in {path.parent}: {CONFIG} is missing")
    try:
        said = json.loads(path.read_bytes())
        config = {key: dict(said[key]) for key in ("model", "notes", "sha256")}
        version, whole = said.get("version"), sealed(said) == said
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is not a checkpoint's {CONFIG}, or is damaged") from None
    if version != VERSION:
        raise ValueError(f"{path} has version {version}; this package reads version {VERSION}")
    if not whole:
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
        if hashlib.sha256(data[name]).hexdigest() != config["sha256"].get(name):
            raise ValueError(
                f"{path} ({len(data[name])} bytes) is truncated, damaged or of "
                f"another checkpoint: its SHA-256 is not the one in {CONFIG}"
            )
    try:
        with torch.random.fork_rng(devices=[]):  # its random weights don't last
            model = Transformer(TransformerConfig(**config["model"]))
        tensors = load(data[WEIGHTS])
        model.load_state_dict(tensors)
    except (TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = textwrap.shorten(str(error), 200)
        raise ValueError(
            f"{folder / CONFIG} does not fit the weights or this version: {reason}"
        ) from None
    check_finite(tensors, folder / WEIGHTS)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    check_fit(model, tokenizer, folder / TOKENIZER)
    return model.eval(), tokenizer, config["notes"]
