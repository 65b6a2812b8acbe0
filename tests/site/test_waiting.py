"""The book's model comes when the reader comes near what runs it, and a wait is told."""

import pytest

WEIGHTS = "model-weights.js"
BELOW = "book/03-2-3-applications-of-attention", "mask-lab"  # no reader begins there


def asked(view):
    return any(url.endswith(WEIGHTS) for url in view.asked)


def place(tab, name):
    return tab.locator(f".explorer[data-explorer={name}]")


@pytest.fixture
def below(html, view):
    shown = view(html / f"{BELOW[0]}.html")
    shown.tab.wait_for_timeout(500)
    explorer = place(shown.tab, BELOW[1])
    assert explorer.bounding_box()["y"] > 2000 and not asked(shown)
    assert not [url for url in shown.asked if url.endswith("/model.js")]
    yield shown, explorer
    assert shown.errors == []


def alive(tab, name):
    tab.wait_for_selector(f".explorer.alive[data-explorer={name}]", state="attached")


def test_weights_are_asked_for_when_the_reader_comes_near(below):
    view, explorer = below
    explorer.scroll_into_view_if_needed()
    alive(view.tab, BELOW[1])
    assert asked(view)


@pytest.mark.parametrize("touch", ["pointerover", "pointerdown", "focusin"])
def test_or_touches_it(below, touch):
    view, explorer = below
    explorer.dispatch_event(touch)
    alive(view.tab, BELOW[1])
    assert asked(view) and view.tab.evaluate("scrollY") == 0


def test_the_front_page_answers_at_once(html, view):
    shown = view(html / "book" / "index.html")
    alive(shown.tab, "swap")
    assert asked(shown)


def test_the_keyboard_goes_on_where_it_was(html, browser):
    """In the fallback of an explorer that comes alive under it."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    held = slow(tab)
    tab.goto((html / "book" / "one-sentence.html").as_uri())
    tab.evaluate("document.querySelectorAll('.unveil').forEach(button => button.click())")
    place(tab, "loop").locator("div[role=region]").first.focus()
    tab.wait_for_function("document.querySelector('.explorer-loading')?.textContent")
    held[0].continue_()
    alive(tab, "loop")
    assert tab.evaluate("document.activeElement.matches('.explorer-live.loop input')")
    tab.close()


def slow(tab):
    """The weights of this tab, held back: `slow(tab)[0].continue_()` lets them come."""
    held = []
    tab.route(f"**/{WEIGHTS}", lambda route: held.append(route))
    return held


SHIFTS = """window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.shifted += e.value; }))
  .observe({ type: "layout-shift", buffered: true });"""


def test_a_wait_that_can_be_noticed_is_told_in_words_and_moves_nothing(html, browser):
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.add_init_script(SHIFTS)
    held = slow(tab)
    tab.goto((html / "book" / "index.html").as_uri())
    told = place(tab, "swap").locator("[role=status]")
    tab.wait_for_function("document.querySelector('.explorer-loading')?.textContent")
    assert told.inner_text() == "The model is being loaded …" and told.is_visible()
    assert place(tab, "swap").locator("img").is_visible()
    held[0].continue_()
    alive(tab, "swap")
    assert told.count() == 0 and not place(tab, "swap").locator("img").is_visible()
    assert tab.evaluate("shifted") < 0.05
    tab.close()


def test_where_it_cannot_come_the_picture_stays_and_that_is_said(html, browser):
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.route(f"**/{WEIGHTS}", lambda route: route.abort())
    tab.goto((html / "book" / "index.html").as_uri())
    told = place(tab, "swap").locator("[role=status]")
    tab.wait_for_function("document.querySelector('.explorer-loading')?.textContent")
    assert told.inner_text() == "The model could not be loaded; this stands for it."
    assert place(tab, "swap").locator("img").is_visible() and errors == []
    tab.close()
