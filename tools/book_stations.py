"""A Sphinx extension: the strip of stations (`annotated.notebook.where`) at its place, its links.

A page's first strip stands right under its question, whatever the code says that displays it. In
JupyterLab its links lead to notebooks; here they lead to the built pages.
"""

import re

from docutils import nodes

STRIP = '<ol class="way"'
LINK = re.compile(r'href="([\w-]+)\.ipynb')


def is_strip(node):
    return isinstance(node, nodes.raw) and STRIP in node.astext()


def place_first(doctree):
    """The first strip, taken out of its cell, follows the first paragraph: the question."""
    strip = next(doctree.findall(is_strip), None)
    title = next(doctree.findall(nodes.title), None)
    if strip is None or title is None:
        return
    section = title.parent
    lines = (node for node in section.children if isinstance(node, nodes.paragraph))
    question = next((line for line in lines if "minutes" not in line["classes"]), title)
    holder = strip.parent
    holder.remove(strip)
    section.insert(section.index(question) + 1, strip)
    # What is left of a cell that showed nothing else would be a gap.
    while not holder.children and holder is not section:
        empty, holder = holder, holder.parent
        holder.remove(empty)


def place_and_link(app, doctree, docname):
    def built(match):
        return f'href="{app.builder.get_relative_uri(docname, f"book/{match[1]}")}'

    place_first(doctree)
    for strip in doctree.findall(is_strip):
        strip.children = [nodes.Text(LINK.sub(built, strip.astext()))]
        strip.rawsource = strip.astext()


def setup(app):
    app.connect("doctree-resolved", place_and_link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
