"""How a notebook is stored: one normal form, so that a run that changes nothing changes no byte."""

import hashlib
import json
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from pages import HIDDEN, PREDICTED, SOLUTION

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {  # what ipykernel says of itself, without the version of Python
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
# JupyterLab folds what the book hides or folds, but for answers to predictions.
FOLDED = {
    HIDDEN: ("source_hidden", "outputs_hidden"),
    "hide-cell": ("source_hidden", "outputs_hidden"),
    "hide-input": ("source_hidden",),
    "remove-input": ("source_hidden",),
}


def normalise(book: NotebookNode) -> NotebookNode:
    """The notebook in normal form: fixed metadata, merged streams. Changes it in place."""
    book.nbformat, book.nbformat_minor = 4, 5
    kept = {key: book.metadata[key] for key in ("book", "mystnb") if key in book.metadata}
    kept |= {"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO}
    book.metadata = nbformat.from_dict(kept)
    for cell in book.cells:
        cell.metadata = nbformat.from_dict(_cell_metadata(cell.metadata))
        if cell.cell_type == "code":
            cell.outputs = _merged(cell.outputs)
        if cell.cell_type == "markdown" and not cell.get("attachments", True):
            del cell["attachments"]
    return book


def _cell_metadata(metadata: dict) -> dict:
    """Tags and `mystnb` are the author's; folding follows from the tags; the rest is volatile."""
    tags = list(dict.fromkeys(metadata.get("tags", [])))
    mystnb = dict(metadata.get("mystnb", {}))
    if SOLUTION in tags:
        mystnb |= {"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
    if PREDICTED in tags:
        show, hide = "Predict first, then open the {type}", "Fold the {type}"
        mystnb |= {"code_prompt_show": show, "code_prompt_hide": hide}
    elif "hide-input" in tags and "image" in mystnb:
        show, hide = "How this picture is drawn", "Hide how this picture is drawn"
        mystnb |= {"code_prompt_show": show, "code_prompt_hide": hide}
    folded = {key: True for tag in tags for key in FOLDED.get(tag, ())}
    parts = {"tags": tags, "mystnb": mystnb, "jupyter": folded}
    return {key: value for key, value in parts.items() if value}


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Pieces of one stream that follow each other become one; empty ones go."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and not output.text:
            continue
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def load(path: Path) -> NotebookNode:
    """Read a notebook, giving a cell without an id of its own one made from its place and text.

    Raises ValueError, one line, if the file holds no valid notebook.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.get("nbformat") != 4:
            raise ValueError(f"nbformat is {raw.get('nbformat')}, expected 4")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"not a notebook: {error}") from None
    seen: set[str] = set()
    for place, cell in enumerate(raw.get("cells", [])):
        if not cell.get("id") or cell["id"] in seen:  # nbformat would draw a random one
            text = f"{place}{''.join(cell.get('source', ''))}"
            cell["id"] = hashlib.sha256(text.encode()).hexdigest()[:8]
        seen.add(cell["id"])
    raw["nbformat_minor"] = 5  # the first version with ids
    book = nbformat.from_dict(raw)
    try:
        nbformat.validate(book)
    except nbformat.ValidationError as error:
        raise ValueError(f"not a valid notebook: {error.message[:200]}") from None
    for cell in book.cells:  # on disk a text may be a list of lines
        cell.source = "".join(cell.source)
        for output in cell.get("outputs", []):
            if "text" in output:
                output.text = "".join(output.text)
            for mime, content in output.get("data", {}).items():
                if isinstance(content, list) and mime != "application/json":
                    output.data[mime] = "".join(content)
    return book


def dumps(book: NotebookNode) -> str:
    """The notebook as text: sorted keys, one line of text a line, one newline at the end."""
    return nbformat.writes(book).rstrip("\n") + "\n"
