"""A Sphinx extension: figures have no numbers, and their sizes are attributes.

Sphinx would number them in the order of files, not of reading, and nobody refers to a number. Width
and height keep a figure's place until it comes; as a style, as docutils writes them, the height
would stay on a phone, where the width does not.
"""

import re

SIZE = re.compile(r'(<img\b[^>]*?) style="width: (\d+)px; height: (\d+)px;"')


def place(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = SIZE.sub(r'\1 width="\2" height="\3"', context["body"])


def without_numbers(app, config):
    config["numfig"] = False  # Jupyter Book's extension for LaTeX has set it


def setup(app):
    app.connect("config-inited", without_numbers, priority=900)
    app.connect("html-page-context", place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
