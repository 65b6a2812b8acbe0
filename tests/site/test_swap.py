"""The front page's explorer: on the first screen, and every word of it the package's."""

import pytest

from annotated.analysis.swaps import swap_case
from annotated.data.numbers import spell
from annotated.notebook import book_model

BOOK = book_model()


class Swap:
    """The explorer on a page, as a reader sees it."""

    def __init__(self, tab):
        self.tab, self.root = tab, tab.locator(".explorer-live.swap")
        self.root.wait_for()

    def type(self, text):
        self.root.get_by_label("English number").fill(text)

    @property
    def labels(self):
        return [" ".join(text.split()) for text in
                self.root.locator(".swap-strips b").all_inner_texts()]

    @property
    def said(self):
        return self.root.locator(".explorer-said").inner_text()

    @property
    def german(self):
        """(what it says now, what it said, what is new)"""
        shown = self.root.locator(".swap-german")
        old, new = (shown.locator(tag).all_inner_texts() for tag in ("s", "em"))
        whole = shown.locator(":scope > :not(s)").all_inner_texts()
        return "".join(whole), "".join(old), "".join(new)

    def donors(self):
        return self.root.locator(".swap-donors button")

    def choose(self, donor):
        self.root.locator(f".swap-donors button[data-value='{donor}']").click()


@pytest.fixture
def swap(request, html, view):
    shown = view(html / "book" / f"{getattr(request, 'param', 'index')}.html")
    shown.open_answers()
    shown.wake()
    yield Swap(shown.tab)
    assert shown.errors == [] and shown.foreign == []


@pytest.mark.parametrize("width, height", [(1280, 800), (390, 844)])
def test_the_whole_of_it_is_on_the_first_screen(html, view, width, height):
    tab = view(html / "book" / "index.html").tab
    tab.set_viewport_size({"width": width, "height": height})
    root = Swap(tab).root
    box = root.bounding_box()
    headline = tab.locator(".bd-article h1").bounding_box()
    assert headline["y"] > 0 and headline["y"] + headline["height"] <= box["y"]
    assert box["y"] + box["height"] <= height and box["x"] + box["width"] <= width
    texts = root.inner_text()
    for words in ("English number", "three hundred and forty-two", "zwei", "sechs", "= two"):
        assert words in texts
    tab.evaluate("scrollTo(500, 0)")
    assert tab.evaluate("scrollX") == 0


SHIFTS = """window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.shifted += e.value; }))
  .observe({ type: "layout-shift", buffered: true });"""


@pytest.mark.parametrize("width, height", [(1280, 800), (390, 844)])
def test_nothing_jumps_when_the_model_has_come(html, browser, width, height):
    tab = browser.new_page(viewport={"width": width, "height": height})
    tab.add_init_script(SHIFTS)
    tab.goto((html / "book" / "index.html").as_uri())
    Swap(tab)
    tab.wait_for_timeout(300)
    assert tab.evaluate("shifted") < 0.05
    tab.close()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_the_longest_number_fits_narrow_screens(html, view, width):
    tab = view(html / "book" / "index.html").tab
    tab.set_viewport_size({"width": width, "height": 800})
    shown = Swap(tab)
    shown.type("777777")
    box = shown.root.bounding_box()
    for part in shown.root.locator("button, p, input").all():
        inner = part.bounding_box()
        assert inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("swap", ["index", "one-sentence"], indirect=True)
def test_it_opens_with_the_running_swap(swap):
    case = swap_case(BOOK.translator, 342, 346)
    assert swap.german == (case.swap.after, "zwei", "sechs")
    assert swap.said == (
        "zwei = two, sechs = six. One vector came from 346, and the German now says 346."
    )
    assert [label for label in swap.labels if "→" in label] == ["two → six"]
    assert len(swap.labels) == 7


@pytest.mark.parametrize("number, place", [(342, 0), (342, 3), (204, 3), (7, 0), (987_654, 3),
                                           (987_654, 0), (60_305, 5)])
def test_every_donor_of_a_piece_gives_what_python_gives(swap, number, place):
    swap.type(str(number))
    swap.root.locator(".swap-strips button").nth(place).click()
    values = [int(button.get_attribute("data-value")) for button in swap.donors().all()]
    assert len(values) > 7 and number in values
    for other in values:
        swap.choose(other)
        whole, old, new = swap.german
        if other == number:
            assert [whole] == BOOK.translator.translate([spell(number, "en")])
            assert old == new == ""
            assert swap.said.startswith("Nothing is swapped")
            continue
        case = swap_case(BOOK.translator, number, other)
        assert case.swap.places == [place] and whole == case.swap.after
        says = f"and the German now says {other:,}".replace(",", "\u202f" if other > 9999 else "")
        assert (says in swap.said) == (whole == spell(other, "de"))


def test_only_pieces_that_one_digit_changes_can_be_chosen(swap):
    enabled = swap.root.locator(".swap-strips button:enabled b").all_inner_texts()
    assert [text.split()[0] for text in enabled] == ["three", "forty", "two"]
    swap.type("100000")
    for button in swap.root.locator(".swap-strips button:enabled").all():
        assert button.inner_text().split()[0] == "one"


def test_what_is_no_number_is_said_and_the_next_number_heals_it(swap):
    field = swap.root.get_by_label("English number")
    swap.type("-5")
    assert "-5 is below zero" in swap.said and field.get_attribute("aria-invalid") == "true"
    swap.type("two hundred and four")
    assert "German now says 205" in swap.said and field.get_attribute("aria-invalid") == "false"
    assert swap.root.locator(".swap-english").inner_text() == "two hundred and four"


def test_all_of_it_works_by_keyboard(swap):
    swap.root.get_by_label("English number").focus()
    press = swap.tab.keyboard.press
    press("Tab")
    assert swap.tab.evaluate("document.activeElement.innerText").startswith("three")
    press("Enter")
    assert swap.german[1:] == ("dreihundert", "vierhundert")
    assert swap.tab.evaluate("document.activeElement.innerText").startswith("three")
    press("Tab")
    press("Tab")
    press("Tab")
    press("Space")  # the first of the digits
    assert swap.german[1:] == ("dreihundert", "einhundert")
    assert swap.tab.evaluate("document.activeElement.dataset.value") == "142"


def test_without_script_the_picture_stands_there(html, browser):
    tab = browser.new_page(java_script_enabled=False)
    tab.goto((html / "book" / "index.html").as_uri())
    assert tab.locator(".explorer img").is_visible()
    assert tab.locator(".explorer-live").count() == 0
    tab.close()


def test_in_print_the_picture_stands_there(swap):
    swap.tab.emulate_media(media="print")
    assert not swap.root.is_visible()
    assert swap.tab.locator("img[alt*='strip']").first.is_visible()
