"""How the site looks and behaves: weight, predictions, quizzes, keyboard, phones, search."""

import re
import struct
import zlib
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

import pydata_sphinx_theme
import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
PREDICTS = "book/one-sentence"
QUIZ = "book/quiz-training"
WEIGHTS = "model-weights.js"  # made when the book is built
LIMITS = {"page": 600_000, "explorer": 1_000_000, "live model": 1_600_000}  # bytes, uncompressed


def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture
def reader(browser):
    """A new reader's tab, who has opened and chosen nothing yet: `reader(path, **settings)`."""
    contexts = []

    def begins(path, **settings):
        settings.setdefault("viewport", {"width": 1280, "height": 800})
        contexts.append(browser.new_context(**settings))
        tab = contexts[-1].new_page()
        tab.goto(path.as_uri() if isinstance(path, Path) else path)
        return tab

    yield begins
    for context in contexts:
        context.close()


# What a page loads and what is said of it


def test_a_page_is_light_and_loads_no_icons_and_mathjax_only_for_formulas(html, page, opened):
    """The page, its pictures and our own style and scripts; the theme's come once for all pages.

    More may be loaded where there is an explorer, and most where it runs the book's model.
    """
    asked = [unquote(urlsplit(url).path) for url in opened.asked if url.startswith("file:")]
    assert not [path for path in asked if "fontawesome" in path.lower()]
    article = soup(html / f"{page}.html").find("article")
    assert any("mathjax" in path for path in asked) == bool(article.select(".math"))
    ours = {path.name for path in (ROOT / "book" / "_static").rglob("*") if path.is_file()}
    own = [path for path in map(Path, set(asked))
           if path.name in ours | {WEIGHTS} or path.suffix == ".html" or "_images" in path.parts]
    explorers = [place["data-explorer"] for place in article.select(".explorer")]
    scripts = [html / "_static" / "explorers" / f"{name}.js" for name in explorers]
    live = any("bookModel(" in script.read_text(encoding="utf-8") for script in scripts)
    assert live == (WEIGHTS in {path.name for path in own})
    limit = LIMITS["live model" if live else "explorer" if explorers else "page"]
    assert sum(path.stat().st_size for path in own) <= limit


def test_a_page_says_what_it_is_to_who_shares_it(html, page):
    head = soup(html / f"{page}.html").head
    said = {tag.get("name") or tag.get("property"): tag["content"]
            for tag in head.find_all("meta", content=True)}
    assert 50 < len(said["description"]) < 320
    title = head.title.get_text().strip()
    assert said["og:title"] and (title.startswith(said["og:title"]) or page == "book/index")
    assert title.count("executed") == 1
    card = (html / page).parent / said["og:image"]
    assert struct.unpack(">II", card.read_bytes()[16:24]) == (1200, 630)
    assert not head.find("link", rel="canonical")
    icon = (html / page).parent / urlsplit(head.find("link", rel="icon")["href"]).path
    assert icon.resolve().suffix == ".svg" and icon.resolve().is_file()


def test_a_server_is_asked_for_nothing_that_is_not_there(address, browser):
    tab, missing = browser.new_page(), []
    tab.on("response", lambda found: missing.append(found.url) if found.status >= 400 else None)
    tab.goto(f"{address}/book/index.html", wait_until="networkidle")
    assert missing == []
    tab.close()


def test_the_theme_names_no_glyphs_and_keeps_all_else(html):
    """Each icon is drawn by frame.css; the rules for two thousand others were 86 kB."""
    ours = (html / "_static" / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    theme = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme"
    whole = (theme / "static" / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    assert len(whole) - len(ours) > 80_000
    assert not re.search(r"\}(\.fa-[\w-]+(::?before)?,?)+\{(--fa|content):", ours)
    left, rules = (re.findall(r"[^{}]+\{[^{}]*\}", text) for text in (ours, whole))
    gone = [rule for rule in rules if rule not in set(left)]
    assert gone and all(re.fullmatch(r'\.fa-[^{]+\{content:"[^"]+"\}', rule) for rule in gone)


def test_what_must_come_before_the_first_screen_is_small(html, page):
    """At 1.6 Mbit/s, compressed, 250 kB take a second and a quarter."""
    path = html / f"{page}.html"
    head = soup(path).head
    styles = [tag["href"] for tag in head.find_all("link", rel="stylesheet")]
    scripts = [tag["src"] for tag in head.find_all("script", src=True)
               if not tag.has_attr("defer") and not tag.has_attr("async")]
    files = [path, *(path.parent / urlsplit(link).path for link in styles + scripts)]
    assert len(styles) > 5
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) < 250_000


def test_figures_have_captions_without_numbers(html, page):
    article = soup(html / f"{page}.html").find("article")
    for caption in article.find_all("figcaption"):
        assert caption.get_text().strip() and not caption.select(".caption-number")


# What the paper says beside what was measured


def test_each_claim_of_the_paper_has_a_mark_that_is_heard_too(html, page):
    article = soup(html / f"{page}.html").find("article")
    tables = article.select("table.paper-and-measured")
    firsts = [table.th.get_text().strip() for table in article.find_all("table") if table.th]
    assert len(tables) == sum(first.startswith("The paper says") for first in firsts)
    for table in tables:
        rows = table.select("tbody tr")
        assert rows and all(row["role"] == "row" for row in rows)
        for row in rows:
            sign, words = row.select("td:last-child span")[:2]
            assert sign["aria-hidden"] == "true" and sign.get_text() in "✓≠○+"
            assert words.get_text() in {
                "reproduced: ", "differs: ", "left open: ", "not in the paper: "}
        assert article.select_one("p.verdicts")


def test_on_a_phone_a_claim_and_its_measurement_are_a_card(html, reader):
    tab = reader(html / "book/03-5-positional-encoding.html",
                 viewport={"width": 320, "height": 700})
    rows = tab.locator("table.paper-and-measured tbody tr")
    for place in range(rows.count()):
        claim, found = rows.nth(place).locator("td").all()
        above, below = claim.bounding_box(), found.bounding_box()
        assert above["y"] + above["height"] <= below["y"] + 1
        assert above["x"] == below["x"] and below["x"] + below["width"] <= 320
    assert rows.count() > 3


# Predictions


def test_an_answer_is_veiled_until_the_reader_asks_for_it_and_stays_open(html, reader):
    tab = reader(html / f"{PREDICTS}.html")
    questions = tab.locator("p.predict").count()
    buttons = tab.get_by_role("button", name="Made your guess? Show the answer")
    assert buttons.count() == questions > 1
    answer = tab.locator("details.asks .cell_output").first
    after = tab.locator("div.cell:has(details.asks) + p").first
    for part in (answer, after):
        assert part.evaluate("part => part.inert") and part.evaluate("e => e.innerText.length > 9")
        assert "blur" in part.evaluate("part => getComputedStyle(part).filter")
    veiled = tab.locator(".veiled").count()
    assert veiled >= 2 * questions
    tab.evaluate("window.answer = document.querySelector('details.asks .cell_output')")
    buttons.first.focus()
    tab.keyboard.press("Enter")
    assert buttons.count() == questions - 1
    assert tab.evaluate("[answer.inert, getComputedStyle(answer).filter]") == [False, "none"]
    assert tab.evaluate("document.activeElement === answer")
    assert tab.locator(".veiled").count() <= veiled - 2
    tab.reload()
    assert buttons.count() == questions - 1
    assert tab.locator("div.cell.tag_hide-output details.below-input").first.evaluate("d => d.open")


def test_answers_are_all_on_paper(html, reader):
    tab = reader(html / f"{PREDICTS}.html")
    tab.emulate_media(media="print")
    filters = "() => [...document.querySelectorAll('.veiled')].map(e => getComputedStyle(e).filter)"
    assert set(tab.evaluate(filters)) == {"none"}
    assert not tab.locator(".unveil").first.is_visible()


def test_without_script_all_answers_are_shown(html, reader, pages):
    """And what stands in for an explorer: in its place, or the figure of the cell before."""
    tab, answers, explorers = reader("about:blank", java_script_enabled=False), 0, 0
    for page in pages:
        doc = soup(html / f"{page}.html")
        if not doc.select("div.cell.tag_hide-output, .explorer"):
            continue
        tab.goto((html / f"{page}.html").as_uri())
        for answer in tab.locator("div.cell.tag_hide-output .cell_output").all():
            assert answer.is_visible(), page
            assert answer.bounding_box()["height"] > 10, page
            answers += 1
        for place in tab.locator(".explorer").all():
            before = place.locator("xpath=ancestor::div[contains(@class, 'cell ')]")
            figure = before.locator("xpath=preceding-sibling::*[1]//figure//img")
            shown = place.locator(":scope > :not(script)").or_(figure)
            assert shown.first.is_visible(), page
            explorers += 1
        assert tab.locator(".veiled").count() == 0
    assert answers > 50 and explorers > 10


# Quizzes


def test_a_choice_answers_and_the_first_of_each_question_counts(html, reader):
    tab = reader(html / f"{QUIZ}.html")
    questions = tab.locator("section[id^=quiz] > p:has(> strong:only-child)").count()
    score = tab.locator(".quiz-score [role=status]")
    assert score.inner_text() == f"{questions} questions; your first choice counts"
    right, wrong = (tab.locator(f"details.{kind} > summary") for kind in ("right", "wrong"))
    assert right.count() == questions
    assert not tab.locator(".quiz-verdict").first.is_visible()
    wrong.first.focus()
    tab.keyboard.press("Enter")
    assert wrong.first.inner_text().endswith("not this one")
    right.nth(0).click()
    right.nth(1).click()
    assert right.nth(1).inner_text().endswith(" right")
    told = f"1 of 2 right at the first choice, of {questions} questions"
    tab.wait_for_function(
        "told => document.querySelector('.quiz-score').innerText.startsWith(told)", arg=told
    )
    tab.reload()
    assert score.inner_text() == told
    tab.get_by_role("button", name="Begin again").click()
    assert score.inner_text().startswith(f"{questions} questions")
    assert tab.locator("section[id^=quiz] > details[open]").count() == 0


def test_paper_chooses_nothing(html, reader):
    tab = reader(html / f"{QUIZ}.html")
    assert tab.pdf().startswith(b"%PDF")
    tab.wait_for_timeout(100)
    assert "first choice counts" in tab.locator(".quiz-score").inner_text()


# Keyboard, narrow screens


@pytest.mark.parametrize("page_seen", ["book/index", "book/03-2-attention", QUIZ])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_s_place_is_seen_on_every_control(html, reader, page_seen, width):
    tab = reader(html / f"{page_seen}.html", viewport={"width": width, "height": 800})
    tab.add_style_tag(content="* { transition: none !important }")
    look = """() => {
      const place = document.activeElement;
      if (place === document.body) return null;
      const seen = [place, ...place.children].some((part) => {
        const style = getComputedStyle(part);
        return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2)
          || style.boxShadow !== "none";
      });
      return [place.outerHTML.slice(0, 120), seen];
    }"""
    seen = []
    for _ in range(45):
        tab.keyboard.press("Tab")
        if (found := tab.evaluate(look)) is None:
            break
        seen.append(found)
    assert len(seen) > 20
    assert [place for place, visible in seen if not visible] == []


def test_the_way_on_fits_a_phone(opened):
    links = ".prev-next-area a, .prev-next-area a *"
    for width in (390, 320):
        opened.tab.set_viewport_size({"width": width, "height": 800})
        edges = opened.tab.evaluate(
            "links => [...document.querySelectorAll(links)]"
            ".map((part) => part.getBoundingClientRect()).map((box) => [box.left, box.right])",
            links,
        )
        assert edges and all(left >= 0 and right <= width for left, right in edges)
    opened.tab.set_viewport_size({"width": 1280, "height": 800})


def test_a_wide_table_scrolls_beside_its_first_column(html, reader):
    tab = reader(html / "book/names-elsewhere.html", viewport={"width": 390, "height": 844})
    moved = tab.evaluate("""() => {
      const box = [...document.querySelectorAll(".cell_output div[role=region]")]
        .find((box) => box.scrollWidth > box.clientWidth + 50);
      const cells = box.querySelector("tr:last-child").children;
      const before = [...cells].map((cell) => cell.getBoundingClientRect().left);
      box.scrollLeft = 40;
      return [...cells].map((cell, i) => before[i] - cell.getBoundingClientRect().left).slice(0, 2);
    }""")
    assert moved == [pytest.approx(0, abs=1), pytest.approx(40, abs=1)]


@pytest.mark.parametrize("width", [1280, 600, 390, 320])
def test_names_of_stations_do_not_touch(html, reader, width):
    """On every strip of the page that has them all."""
    tab = reader(html / "book/one-sentence.html", viewport={"width": width, "height": 800})
    strips = tab.evaluate("""() => [...document.querySelectorAll("ol.way")].map((strip) =>
      [...strip.querySelectorAll("a")]
        .filter((name) => getComputedStyle(name).color !== "rgba(0, 0, 0, 0)")
        .map((name) => {
          const range = document.createRange();
          range.selectNodeContents(name);
          const box = range.getBoundingClientRect();
          return [box.left, box.right];
        }))""")
    assert len(strips) == 5
    for names in strips:
        assert len(names) > 1 and names[0][0] >= 0 and names[-1][1] <= width
        assert all(after[0] > before[1] for before, after in zip(names, names[1:]))


# Code in its skins


def test_code_of_the_package_has_its_name_and_its_file(html, page):
    for framed in soup(html / f"{page}.html").select(".package-code"):
        name, file = (part.get_text() for part in framed.p.find_all(True, recursive=False))
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b", source)
        lines = framed.pre.get_text().splitlines()
        assert next(line for line in lines if re.match(r"(def|class) ", line)) in source


def test_show_is_framed_everywhere(html, pages):
    framed = sum(len(soup(html / f"{page}.html").select(".package-code")) for page in pages)
    assert framed > 20


# Search


@pytest.mark.parametrize("query, first, said", [
    ("positional encoding", "3.5 Positional Encoding", "position"),
    ("softmax", "3.4 Embeddings and Softmax", "softmax"),
    ("label smoothing", "5.4 Regularization", "label smoothing"),
])
def test_an_excerpt_is_a_sentence_of_the_page_with_the_word(address, reader, query, first, said):
    tab = reader(f"{address}/search.html?" + urlencode({"q": query}))
    tab.wait_for_function("document.querySelectorAll('#search-results li p.context').length > 2")
    found = tab.locator("#search-results li").all()
    assert found[0].locator("a").first.inner_text() == first
    excerpts = tab.locator("#search-results li p.context").all_inner_texts()
    assert said in excerpts[0].lower()
    for excerpt in excerpts:
        assert not re.search(r"\\[a-z(\[]|Contents|\bprevious\b", excerpt), excerpt
        assert 2 < len(excerpt) < 260
