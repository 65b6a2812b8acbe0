"""A Sphinx extension: tables that set what the paper says beside what was measured.

They get a class, for one width of columns and, on a phone, a card for each row (`book.css`). The
mark that begins a row's second cell is also said in words, and what the marks mean stands below.
"""

import re

from docutils import nodes

# mark → what it says of the paper's claim; `tools/notebooks.py check` asks each row for one
MARKS = {
    "✓": "reproduced",
    "≠": "differs",
    "○": "left open",
    "+": "not in the paper",
}
TABLE = re.compile(r'<table class="[^"]*\bpaper-and-measured\b.*?</table>', re.S)
ROLES = {"table": "table", "tr": "row", "th": "columnheader", "td": "cell"}


def is_verdict(table):
    """Whether it has the paper's claims in its first column."""
    first = next(table.findall(nodes.entry), None)
    return first is not None and first.astext().strip().lower().startswith("the paper says")


def set_mark(entry):
    """The mark at the beginning of a cell, shown as a sign and said as words; or None."""
    text = next(entry.findall(nodes.Text), None)
    if text is None or text[:2] not in {f"{mark} " for mark in MARKS}:
        return None
    mark = text[0]
    sign = (
        f'<span class="verdict {MARKS[mark].split()[0]}" aria-hidden="true">{mark}</span>'
        f'<span class="visually-hidden">{MARKS[mark]}: </span>'
    )
    text.parent.replace(text, [nodes.raw("", sign, format="html"), nodes.Text(text[2:])])
    return mark


def legend(marks):
    """The marks that a table has, each with its words."""
    said = " ".join(
        f'<span><b class="verdict {MARKS[mark].split()[0]}">{mark}</b> {MARKS[mark]}</span>'
        for mark in marks
    )
    return nodes.raw("", f'<p class="verdicts" aria-hidden="true">{said}</p>', format="html")


def mark(app, doctree, docname):
    for table in list(doctree.findall(is_table)):
        if not is_verdict(table):
            continue
        table["classes"].append("paper-and-measured")
        found = {set_mark(row.children[-1]) for row in table.findall(nodes.row)}
        if used := [mark for mark in MARKS if mark in found]:
            table.parent.insert(table.parent.index(table) + 1, legend(used))


def is_table(node):
    return isinstance(node, nodes.table)


def keep_roles(app, pagename, templatename, context, doctree):
    """Cells that a phone shows as cards stay those of a table to who hears them."""

    def with_roles(table):
        return re.sub(r"<(table|tr|th|td)\b", lambda m: f'{m[0]} role="{ROLES[m[1]]}"', table[0])

    if "body" in context:
        context["body"] = TABLE.sub(with_roles, context["body"])


def setup(app):
    app.connect("doctree-resolved", mark)
    app.connect("html-page-context", keep_roles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
