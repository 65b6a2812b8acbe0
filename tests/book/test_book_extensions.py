"""What our Sphinx extensions make of a page, and the mark that is drawn from the weights."""

import re
import struct
import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import new_document

from annotated.training import trainer
from annotated.translation import Translator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import book_math  # noqa: E402
import book_source  # noqa: E402
import book_tables  # noqa: E402
import mark  # noqa: E402


def test_the_mark_is_the_memory_of_342():
    """To one shade: a mean at the edge of two may round the other way on another machine."""
    bars = mark.strengths(Translator.load("numbers-en-de"))
    fills = re.findall(r'fill="(#\w{6})"', mark.MARK.read_text(encoding="utf-8"))
    assert len(fills) == 7 * mark.CELLS == sum(map(len, bars))
    shades = [mark.ORANGE if place == mark.EXCHANGED else mark.VIOLET for place in range(7)]
    scale = [[mark.shade(color, i / (mark.SHADES - 1)) for i in range(mark.SHADES)]
             for color in shades]
    for number, fill in enumerate(fills):
        place, row = divmod(number, mark.CELLS)
        wanted = round(bars[place][row] * (mark.SHADES - 1))
        assert abs(scale[place].index(fill) - wanted) <= 1


def test_what_stands_in_the_tab_and_on_the_card_is_what_the_tool_draws():
    assert mark.FAVICON.read_text(encoding="utf-8") == mark.favicon()
    assert struct.unpack(">II", mark.CARD.read_bytes()[16:24]) == (1200, 630)


@pytest.mark.parametrize("place, module, name", [
    ("annotated.training.trainer.Trainer.update", "annotated.training.trainer", "Trainer.update"),
    ("annotated.model.attention.padding_mask", "annotated.model.attention", "padding_mask"),
    ("annotated.model.Transformer", "annotated.model", "Transformer"),
])
def test_a_place_is_parted_into_module_and_object(place, module, name):
    assert book_source.parted(place) == (module, name)


def test_the_line_is_that_of_the_definition():
    source = Path(trainer.__file__).read_text(encoding="utf-8")
    for name in ("Trainer", "Trainer.update"):
        line = source.splitlines()[book_source.line_of(source, name) - 1]
        assert re.search(rf"(class|def) {name.split('.')[-1]}\b", line)
    assert book_source.line_of(source, "Trainer.nothing") is None


def parsed(text):
    document = new_document("page", get_default_settings(Parser))
    Parser().parse(text, document)
    return document


@pytest.mark.parametrize("text, kept, left", [
    ("of :math:`W_k`, and more", ["W_k,"], ["of ", " and more"]),
    ("so (:math:`d_k`) is", ["(d_k)"], ["so ", " is"]),
    ("the :math:`k`-th one", ["k-th"], ["the ", " one"]),
    ("with :math:`x` alone", [], ["with ", " alone"]),
    (":math:`x`", [], []),
    ("of :math:`n` :math:`m`; both", ["m;"], ["of ", " ", " both"]),
])
def test_a_formula_and_the_marks_that_touch_it_stay_on_a_line(text, kept, left):
    line = parsed(text)[0]
    words = line.astext()
    book_math.keep_together(line)
    assert line.astext() == words
    assert [node.astext() for node in line.findall(nodes.inline)] == kept
    assert [str(node) for node in line.children if isinstance(node, nodes.Text)] == left


COMPARED = """
+----------------+-------------+
| {:14} | We measured |
+================+=============+
| six layers     | ✓ six, too  |
+----------------+-------------+
| 28.4 BLEU      | ○ not here  |
+----------------+-------------+
"""


def test_marks_of_the_papers_claims_are_said_in_words_and_explained_once():
    page = parsed(COMPARED.format("The paper says"))
    book_tables.mark(None, page, "page")
    signs = [node.astext() for node in page.findall(nodes.raw)]
    assert len(signs) == 3
    assert ">✓<" in signs[0] and "reproduced: " in signs[0] and 'aria-hidden="true"' in signs[0]
    assert ">○<" in signs[1] and "left open: " in signs[1]
    told = re.sub("<[^>]+>", "", signs[2])
    assert told == "✓ reproduced ○ left open", "only the marks that the table has"
    texts = [node for node in page.findall(nodes.Text) if not isinstance(node.parent, nodes.raw)]
    assert texts[-2:] == ["28.4 BLEU", "not here"]
    assert "paper-and-measured" in page[0]["classes"]


def test_other_tables_have_no_marks():
    page = parsed(COMPARED.format("Others"))
    book_tables.mark(None, page, "page")
    assert not list(page.findall(nodes.raw)) and "✓ six, too" in page.astext()
