"""A Sphinx extension: the Learn path (book/learn.toml), the minutes of each page, predictions.

Under a page's title stand its minutes, at the foot of a page of the path the way on. The directive
`{learn-path}` lists the path, `{minutes-rule}` says how minutes are counted. A paragraph that
begins with **Predict.** gets a class, so that it is seen. Where the code that answers is folded,
too, it is opened after the answer or not at all: its fold doesn't ask for a guess.
"""

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from pages.book import Book
from pages.learn import RULE, TIMED, minutes
from sphinx.util.docutils import SphinxDirective


class PathHere(nodes.General, nodes.Element):
    """Where the list of the path will stand."""


class LearnPath(SphinxDirective):
    def run(self):
        return [PathHere()]


class MinutesRule(SphinxDirective):
    def run(self):
        return [nodes.paragraph("", RULE)]


def about(count):
    return f"about {count} minute{'s' if count > 1 else ''}"


def add_lines(app, doctree, docname):
    book = Book(app.confdir)
    path = [f"book/{page.stem}" for page in book.learn_pages]

    def link(name):
        title = app.env.titles[name].astext()
        address = app.builder.get_relative_uri(docname, name)
        return nodes.reference("", title, refuri=address, internal=True)

    for here in list(doctree.findall(PathHere)):
        counts = [minutes(page) for page in book.learn_pages]
        steps = nodes.enumerated_list(classes=["learn-path"], enumtype="arabic", suffix=".")
        for name, count in zip(path, counts, strict=True):
            text = nodes.paragraph("", "", link(name), nodes.Text(f" · {about(count)}"))
            steps += nodes.list_item("", text)
        total = nodes.paragraph("", f"{len(path)} pages, {about(sum(counts))} of reading.")
        here.replace_self([steps, total])

    for paragraph in doctree.findall(nodes.paragraph):
        if paragraph.astext().startswith("Predict."):
            paragraph["classes"].append("predict")
    for fold in doctree.findall(HideCodeCellNode):
        if fold["prompt_show"] == "Predict first, then open the source":
            fold["prompt_show"], fold["prompt_hide"] = "Show the code", "Hide the code"

    page = book.page(docname)
    if page is None or page.kind not in TIMED:
        return
    title = next(doctree.findall(nodes.title))
    place = f"Learn, {path.index(docname) + 1} of {len(path)}" if docname in path else None
    told = [place, page.kind if page.kind == "study" else None, about(minutes(page))]
    if page.kind == "exercise":
        told[-1] += " of reading, and as long as you like of writing"
    line = nodes.paragraph("", " · ".join(filter(None, told)), classes=["minutes"])
    title.parent.insert(title.parent.index(title) + 1, line)
    if place:
        foot = nodes.paragraph("", f"{place} · ", classes=["learn-foot"])
        rest = path[path.index(docname) + 1 :]
        foot += [nodes.Text("next: "), link(rest[0])] if rest else nodes.Text("the end of the path")
        title.parent += foot


def setup(app):
    app.add_node(PathHere)
    app.add_directive("learn-path", LearnPath)
    app.add_directive("minutes-rule", MinutesRule)
    app.connect("doctree-resolved", add_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
