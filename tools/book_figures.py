"""A Sphinx extension: width and height of a figure are attributes, to keep its place meanwhile.

As a style, as docutils writes them, the height would stay on a phone, where the width does not.
"""

import re

SIZE = re.compile(r'(<img\b[^>]*?) style="width: (\d+)px; height: (\d+)px;"')


def place(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = SIZE.sub(r'\1 width="\2" height="\3"', context["body"])


def setup(app):
    app.connect("html-page-context", place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
