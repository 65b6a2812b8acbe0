"""The glossary: what it holds, and the first use of a term that leads to it."""

import book_terms
import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import new_document
from pages.book import Book
from pages.reading import spelled
from pages.rules import BOOK_RULES

BOOK = Book()


def document(*children):
    made = new_document("page", get_default_settings(Parser))
    made += children
    return made


class Pages:
    """What of Sphinx's application is asked: where a page is."""

    class builder:
        @staticmethod
        def get_relative_uri(here, there):
            return there.rsplit("/", 1)[-1] + ".html"


def linked(*children, name="book/03-x", book=BOOK):
    doctree = document(*children)
    book_terms.link_first_uses(Pages, doctree, name, book)
    return [(node.astext(), node["refuri"]) for node in doctree.findall(nodes.reference)
            if "term" in node["classes"]]


def test_the_glossary_has_twenty_to_forty_terms_each_with_a_place_of_its_own():
    assert 20 <= len(BOOK.terms) <= 40
    assert len({book_terms.anchor(term) for term in BOOK.terms}) == len(BOOK.terms)
    assert list(BOOK_RULES["glossary"](BOOK)) == []


@pytest.mark.parametrize("text", [
    "", "A mask.", "One. Two, three four. And a third.", "No end to it",
])
def test_a_definition_is_a_sentence_or_two(tree, text):
    path = tree.folder / "learn.toml"
    path.write_text(path.read_text().replace("What a query may see, no more.", text))
    (finding,) = BOOK_RULES["glossary"](tree)
    assert finding == (path, "'mask' is not defined in one or two sentences")


def test_elsewhere_is_about_terms(tree):
    path = tree.folder / "learn.toml"
    path.write_text(path.read_text() + '\n[elsewhere]\nmasks = ["end"]\n')
    (finding,) = BOOK_RULES["glossary"](tree)
    assert finding[1] == "'masks' means something elsewhere, but is no term"


def test_the_first_use_is_linked_and_no_other():
    found = linked(nodes.paragraph("", "Two Masks, a mask."), nodes.paragraph("", "A mask."))
    assert found == [("Masks", "glossary.html#term-mask")]


def test_the_text_around_it_stays():
    doctree = document(nodes.paragraph("", "Before a mask after"))
    book_terms.link_first_uses(Pages, doctree, "book/03-x", BOOK)
    assert doctree.astext() == "Before a mask after"
    (link,) = doctree.findall(nodes.reference)
    assert link["reftitle"] == BOOK.definitions["mask"]


def test_the_longer_term_wins():
    found = linked(nodes.paragraph("", "A feed-forward network after layer normalization."))
    assert found == [("feed-forward network", "glossary.html#term-feed-forward-network"),
                     ("layer normalization", "glossary.html#term-layer-norm")]


@pytest.mark.parametrize("node", [
    nodes.title("", "The mask"),
    nodes.paragraph("", "", nodes.literal("", "mask")),
    nodes.paragraph("", "", nodes.reference("", "a mask", refuri="x.html")),
    nodes.paragraph("", "", nodes.emphasis("", "Which mask is this?")),
    nodes.paragraph("", "", nodes.raw("", '<a href="#x">', format="html"), nodes.Text("Masks"),
                    nodes.raw("", "</a>", format="html")),
    nodes.table("", nodes.paragraph("", "A mask")),
    nodes.container("", nodes.paragraph("", "A mask"), classes=["cell_output"]),
    nodes.paragraph("", "Unmasked, masking"),
])
def test_other_places_lead_nowhere(node):
    assert linked(node) == []


def test_a_word_that_means_something_else_is_left():
    text = "How much memory does a stack need?"
    assert len(linked(nodes.paragraph("", text))) == 2
    assert linked(nodes.paragraph("", text), name="book/05-1-x")[0][0] == "stack"


@pytest.mark.parametrize(("term", "text", "found"), [
    ("layer norm/LayerNorm", "two layer\nnorms", "layer\nnorms"),
    ("layer norm/LayerNorm", "a LayerNorm", "LayerNorm"),
    ("loss", "the losses", "losses"),
    ("mask", "unmasked", None),
])
def test_how_a_term_is_spelled(term, text, found):
    match = spelled(term).search(text)
    assert (match and match[0]) == found
