"""Small notebooks for the tests, stored exactly as the tool stores them."""

import base64
import copy
import io
from itertools import count

import nbformat
from nbformat import v4
from pages import HIDDEN, INSTALL_CELL
from pages.storage import dumps, normalise
from PIL import Image


def text(source):
    return v4.new_markdown_cell(source)


def code(source, *outputs, tags=(), alt=None):
    """A code cell; an output that is a string becomes printed text."""
    made = [printed(out) if isinstance(out, str) else out for out in outputs]
    metadata = {"tags": list(tags)} if tags else {}
    if alt is not None:
        metadata["mystnb"] = {"image": {"alt": alt}}
    return v4.new_code_cell(source, outputs=made, metadata=metadata)


def hidden(source, *outputs):
    return code(source, *outputs, tags=[HIDDEN])


def install():
    return hidden(INSTALL_CELL)


def printed(text, stream="stdout"):
    return v4.new_output("stream", name=stream, text=text)


def shown(**types):
    """A displayed object: shown(text_html="…")."""
    return v4.new_output("display_data", {k.replace("_", "/", 1): v for k, v in types.items()})


def typed(mime, content):
    return v4.new_output("display_data", {mime: content})


def picture(shade=120, size=(680, 30), sharp=2):
    """A PNG of one shade as a figure of the book leaves it, with `sharp` times as many pixels."""
    buffer = io.BytesIO()
    pixels = size[0] * sharp, size[1] * sharp
    Image.new("RGB", pixels, (shade, shade, shade)).save(buffer, "PNG")
    output = typed("image/png", base64.b64encode(buffer.getvalue()).decode() + "\n")
    output.metadata["image/png"] = {"width": size[0], "height": size[1]}
    return output


OTHER = {"kind": "other"}


def notebook(*cells, book=OTHER):
    """Numbered as one run would, with short ids, in normal form; `book`: its kind and section."""
    cells, runs = [copy.deepcopy(cell) for cell in cells], count(1)  # one may stand twice
    for place, cell in enumerate(cells):
        cell["id"] = f"c{place}"
        if cell.cell_type == "code" and cell.execution_count is None:
            cell.execution_count = next(runs)
    return normalise(v4.new_notebook(cells=list(cells), metadata={"book": book}))


def store(path, *cells, book=OTHER):
    path.write_text(dumps(notebook(*cells, book=book)), encoding="utf-8")
    return path


def reload(path):
    return nbformat.read(path, as_version=4)


def rewrite(path, book):
    path.write_text(dumps(book), encoding="utf-8")
