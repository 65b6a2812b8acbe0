"""A Sphinx extension: the glossary, made of book/learn.toml, and the ways to it.

The directive `{glossary-terms}` lists all terms with what they mean and the page that explains
each. On the other pages, the first and the quizzes aside, the first use of a term leads there: in
running text, not in code, formulas, headings, links or captions, not in the question under a title,
and not where the word means something else (`[elsewhere]`).
"""

import re

from docutils import nodes
from pages.book import Book
from pages.reading import spelled
from sphinx.util.docutils import SphinxDirective

GLOSSARY = "book/glossary"
# In these a word is no running text, or leads somewhere already.
ASIDE = (
    nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.caption, nodes.raw,
    nodes.math, nodes.math_block, nodes.table, nodes.citation,
)


class TermsHere(nodes.General, nodes.Element):
    """Where the list of terms will stand."""


class GlossaryTerms(SphinxDirective):
    def run(self):
        return [TermsHere()]


def anchor(term):
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.split("/")[0].lower())


def entry(app, docname, book, term):
    """A term, what it means, and where that is explained, if the page is in the book."""
    names = term.split("/")
    head = nodes.term("", "", nodes.strong("", names[0]), ids=[anchor(term)])
    if names[1:]:
        head += nodes.Text(", " + ", ".join(names[1:]))
    text = nodes.paragraph("", book.definitions[term] + " ")
    home = f"book/{book.terms[term]}"
    if home in app.env.titles:
        address = app.builder.get_relative_uri(docname, home)
        title = app.env.titles[home].astext()
        text += nodes.reference("", title, refuri=address, internal=True)
    return nodes.definition_list_item("", head, nodes.definition("", text))


def link_first_uses(app, doctree, docname, book):
    """Link the first use of each term; long terms first, so that none is cut by a short one."""
    stem = docname.rsplit("/", 1)[-1]
    base = app.builder.get_relative_uri(docname, GLOSSARY)
    for term in sorted(book.terms, key=len, reverse=True):
        if stem.startswith(book.elsewhere.get(term, ())):
            continue
        for parent, place, text in running_texts(doctree):
            if found := spelled(term).search(text):
                link = nodes.reference(
                    "", found[0], refuri=f"{base}#{anchor(term)}", internal=True,
                    classes=["term"], reftitle=book.definitions[term],
                )
                parts = [nodes.Text(text[: found.start()]), link, nodes.Text(text[found.end() :])]
                parent[place : place + 1] = [part for part in parts if part.astext()]
                break


def running_texts(node, inside=False):
    """(parent, place in it, text) of all text of paragraphs that stands in none of `ASIDE`.

    A question alone in italics, as under a title, is not running text; nor is an output.
    """
    if isinstance(node, ASIDE) or "cell_output" in node.get("classes", ()):
        return
    if isinstance(node, nodes.paragraph):
        inside = not (len(node) == 1 and isinstance(node[0], nodes.emphasis))
    link = False  # between <a …> and </a>, written in HTML
    for place, child in enumerate(list(node)):
        if isinstance(child, nodes.raw):
            link = child.astext().startswith("<a ") or link and "</a>" not in child.astext()
        elif isinstance(child, nodes.Text):
            if inside and not link:
                yield node, place, child
        elif not link:
            yield from running_texts(child, inside)


def add_terms(app, doctree, docname):
    book = Book(app.confdir)
    for here in list(doctree.findall(TermsHere)):
        ordered = sorted(book.terms, key=str.lower)
        items = [entry(app, docname, book, term) for term in ordered]
        here.replace_self(nodes.definition_list("", *items, classes=["glossary-terms"]))
    aside = docname in (GLOSSARY, app.config.root_doc) or docname.startswith("book/quiz-")
    if not aside and GLOSSARY in app.env.titles:
        link_first_uses(app, doctree, docname, book)


def setup(app):
    app.add_node(TermsHere)
    app.add_directive("glossary-terms", GlossaryTerms)
    # After book_learn, whose lines under the title have classes by then.
    app.connect("doctree-resolved", add_terms, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
