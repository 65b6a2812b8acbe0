"""A Sphinx extension: code of the package (`annotated.notebook.show`) in a frame, its place above.

`show` writes `annotated.module.Object` above the source, which is what JupyterLab has. Here that
line becomes the object's name and its file; where the book's address is known the file is a link to
the line.
"""

import ast
import re
from pathlib import Path

from docutils import nodes

PLACE = re.compile(r"annotated(?:\.\w+)+")


def parted(place):
    """Module and object of a dotted place: what begins with the first class, or else the last name.

    >>> parted("annotated.training.trainer.Trainer.update")
    ('annotated.training.trainer', 'Trainer.update')
    """
    names = place.split(".")
    first = next((i for i, name in enumerate(names) if name[0].isupper()), len(names) - 1)
    return ".".join(names[:first]), ".".join(names[first:])


def line_of(source, name):
    """The line on which an object's `def` or `class` stands in a module's source, or None."""
    body, line = ast.parse(source).body, None
    for part in name.split("."):
        found = next((node for node in body if getattr(node, "name", None) == part), None)
        if found is None:
            return None
        body, line = getattr(found, "body", []), found.lineno
    return line


def address_of(app, file, name):
    """Where the object is to be read on the book's repository, or None without an address."""
    options = app.config.html_theme_options
    path = Path(app.confdir) / file
    if not options.get("repository_url") or not path.is_file():
        return None
    line = line_of(path.read_text(encoding="utf-8"), name)
    branch = options.get("repository_branch") or "main"
    return f"{options['repository_url']}/blob/{branch}/{file}" + (f"#L{line}" if line else "")


def header(app, place):
    module, name = parted(place)
    file = f"src/{module.replace('.', '/')}.py"
    if not (Path(app.confdir) / file).is_file():
        package = file.removesuffix(".py") + "/__init__.py"
        file = package if (Path(app.confdir) / package).is_file() else file
    address = address_of(app, file, name)
    line = nodes.paragraph("", "", nodes.strong("", name))
    if address:
        line += nodes.reference("", file, refuri=address, classes=["source-line"])
    else:
        line += nodes.inline("", file)
    return line


def frame(app, doctree, docname):
    for block in list(doctree.findall(nodes.literal_block)):
        above = block.previous_sibling()
        if not isinstance(above, nodes.paragraph) or len(above.children) != 1:
            continue
        if isinstance(above[0], nodes.literal) and PLACE.fullmatch(above.astext()):
            framed = nodes.container(classes=["package-code"])
            block.replace_self(framed)
            above.parent.remove(above)
            framed += [header(app, above.astext()), block]


def setup(app):
    app.connect("doctree-resolved", frame)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
