"""A Sphinx extension: tables that set what the paper says beside what was measured get a class.

So they all have one width of columns; `book/_static/book.css` has it.
"""

from docutils import nodes


def mark(app, doctree, docname):
    for table in doctree.findall(nodes.table):
        first = next(table.findall(nodes.entry), None)
        if first is not None and first.astext().strip().lower() == "the paper says":
            table["classes"].append("paper-and-measured")


def setup(app):
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
