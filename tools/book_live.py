"""A Sphinx extension: the weights of the book's model, for the pages that run it (model.js).

They are written into the site's _static as a classic script, `model-weights.js`, from the package's
own files: the numbers as they are stored, float16, in base64; the configuration; the vocabulary and
its merges. Nothing but the standard library, as the site is built without PyTorch.
"""

import base64
import json
from pathlib import Path

NAME = "model-weights.js"
WEIGHTS = Path("src/annotated/weights/numbers-en-de")


def script(folder: Path) -> str:
    """The classic script that sets `window.annotatedWeights` to the model in `folder`."""
    raw = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header.pop("__metadata__", None)
    others = {name: of["dtype"] for name, of in header.items() if of["dtype"] != "F16"}
    if others:
        raise ValueError(f"{folder}: expected float16 throughout, but found {others}")
    tensors = {
        name: {"shape": of["shape"], "begin": of["data_offsets"][0], "end": of["data_offsets"][1]}
        for name, of in header.items()
    }
    bpe = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    model = {
        "config": config,
        "tokenizer": {
            "pieces": sorted(bpe["vocab"], key=bpe["vocab"].get), "merges": bpe["merges"],
        },
        "tensors": tensors,
        "data": base64.b64encode(data).decode("ascii"),
    }
    text = json.dumps(model, ensure_ascii=False, separators=(",", ":"))
    return f"window.annotatedWeights = {text};\n"


def write(app, exception):
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir, "_static", NAME)
        target.write_text(script(Path(app.confdir) / WEIGHTS), encoding="utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
