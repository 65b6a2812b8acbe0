"""A Sphinx extension: no line ends between a formula in the text and the comma after it.

MathJax sets a formula as a box, and a browser may break a line on either side of a box.
"""

import re

from docutils import nodes

BEFORE = re.compile(r"[(\[“‘\"']+$")
AFTER = re.compile(r"(?:[,.;:!?)\]”’\"'…%]+|-?\w{1,12}\b[,.;:!?)]*)")


def keep_together(doctree):
    """A formula and the marks that touch it get one parent, which book.css keeps on a line."""
    for formula in list(doctree.findall(nodes.math)):
        parent = formula.parent
        place = parent.index(formula)
        together = nodes.inline(classes=["together"])
        before, after = formula.previous_sibling(), next_sibling(formula)
        parts = [formula]
        if isinstance(before, nodes.Text) and (touching := BEFORE.search(before)):
            parts.insert(0, nodes.Text(touching[0]))
            parent.replace(before, nodes.Text(before[: touching.start()]))
        if isinstance(after, nodes.Text) and (touching := AFTER.match(after)):
            parts.append(nodes.Text(touching[0]))
            parent.replace(after, nodes.Text(after[touching.end() :]))
        if len(parts) > 1:
            parent.remove(formula)
            together += parts
            parent.insert(place, together)


def next_sibling(node):
    siblings = node.parent.children
    return siblings[siblings.index(node) + 1] if node is not siblings[-1] else None


def setup(app):
    app.connect("doctree-resolved", lambda app, doctree, docname: keep_together(doctree))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
