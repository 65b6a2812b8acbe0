"""A Sphinx extension: `[…](PAGE.ipynb#x)` may lead to an `<a id="x"></a>` of that page.

MyST makes a heading's anchor out of its words in lower case, JupyterLab leaves them their case. An
id that stands in the text is one for both.
"""

import re

from docutils import nodes

ANCHOR = re.compile(r'<a id="([\w-]+)">')


def add_anchors(app, doctree):
    places = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in doctree.findall(nodes.raw):
        for name in ANCHOR.findall(raw.astext()):
            places[name] = (raw.line, name, name)


def setup(app):
    app.connect("doctree-read", add_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
