"""What a reader meets: every page in a browser, from disk, wide and narrow, light and dark."""

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlencode, urlsplit
from urllib.request import urlopen

import nbformat
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]

def source(page: str) -> Path:
    return next(path for path in (ROOT / f"{page}.ipynb", ROOT / f"{page}.md") if path.is_file())


@lru_cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@lru_cache
def article_text(path: Path) -> str:
    return soup(path).find("article").get_text(" ")


# What was built


def test_page_is_built_from_the_source_that_lies_here(html, page):
    assert (html / f"{page}.html").is_file()
    # What the download button hands out: the very file that nbval compares.
    built = html / "_sources" / source(page).relative_to(ROOT)
    assert built.read_bytes() == source(page).read_bytes(), "not built from this: run `make book`"


def test_front_door_leads_to_the_first_page(html):
    assert "url=book/index.html" in (html / "index.html").read_text(encoding="utf-8")


def test_every_internal_link_leads_somewhere(html):
    pages = {path: soup(path) for path in html.rglob("*.html") if "_static" not in path.parts}
    names = {
        path: {tag[key] for key in ("id", "name") for tag in doc.find_all(attrs={key: True})}
        for path, doc in pages.items()
    }
    broken, followed = [], 0
    for path, doc in pages.items():
        for tag in doc.find_all(["a", "link", "img", "script"]):
            link = tag.get("href") or tag.get("src")
            if not link or urlsplit(link).scheme:
                continue
            address, fragment = urldefrag(link)
            target = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
            followed += 1
            if not target.is_file():
                broken.append(f"{path.relative_to(html)}: {link}")
            elif fragment and target in names and unquote(fragment) not in names[target]:
                broken.append(f"{path.relative_to(html)}: no such place {link}")
    assert followed > 10 * len(pages)
    assert not broken


def test_a_link_to_a_place_on_a_page_leads_there_in_jupyterlab_too(pages):
    """The site names a heading after its words in lower case, JupyterLab in the case they have.

    So a place that is linked has an id in the text: `<a id="names-norms"></a>`.
    """
    texts = {source(page): source(page).read_text(encoding="utf-8") for page in pages}
    for path in texts:
        if path.suffix == ".ipynb":
            cells = nbformat.reads(texts[path], as_version=4).cells
            texts[path] = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    followed, lost = 0, []
    for path, text in texts.items():
        links = re.findall(r'\]\(([^\s():]*)#([^\s()]+)\)|href="([^":]*)#([^"]+)"', text)
        for address, place in ((a or b, c or d) for a, c, b, d in links):
            followed += 1
            if f'<a id="{place}">' not in texts[(path.parent / address) if address else path]:
                lost.append(f"{path.name}: {address}#{place}")
    assert followed > 10 and not lost


def test_our_style_and_script_arrive(html, page):
    path = html / f"{page}.html"
    doc = soup(path)
    links = [tag.get("href") or tag.get("src") for tag in doc.find_all(["link", "script"])]
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    for name in config["html_css_files"] + config["html_js_files"]:
        asset = ROOT / "book" / "_static" / name
        (link,) = [x for x in links if x and urlsplit(x).path.endswith(f"_static/{asset.name}")]
        assert (path.parent / urlsplit(link).path).read_bytes() == asset.read_bytes()


def test_every_image_is_described(html, page):
    for image in soup(html / f"{page}.html").select("article img"):
        alt = image.get("alt", "")
        assert len(alt) >= 20, f"{image.get('src')}: needs 20 characters of alt text, has {alt!r}"
        assert not re.search(r"\S\.(png|svg|jpe?g|gif)\b", alt), f"alt text is a path: {alt!r}"


def test_strip_stands_under_the_question_and_moves_on_where_the_page_walks_the_way(html, page):
    doc = soup(html / f"{page}.html")
    strips = doc.select("article ol.way")
    lit = [[stop.a.get_text() for stop in strip.select("li.here")] for strip in strips]
    if page == "book/one-sentence":
        assert lit[0] == [stop for group in lit[1:] for stop in group]
        assert list(map(len, lit)) == [10, 3, 2, 2, 3]
    else:
        assert len(lit) <= 1 and all(lit)
    for strip in strips[:1]:
        above = strip.find_previous("p")
        assert above.em and above.get_text().endswith("?") and above.find_previous("h1")
    for link in doc.select("ol.way a"):
        assert not link["href"].endswith(".ipynb")


def test_the_learn_path_leads_from_page_to_page(html):
    """The list on the front page, each page's foot, the minutes under each title: all agree."""
    listed = soup(html / "book/index.html").select("ol.learn-path > li")
    assert len(listed) > 6
    address, last = listed[0].a["href"], len(listed)
    for place, item in enumerate(listed, start=1):
        assert address == item.a["href"]
        page = soup(html / "book" / address)
        assert item.a.get_text() in page.h1.get_text()
        (minutes,) = page.select("h1 + p.minutes")
        place_said = minutes.get_text().split(" · ")[0]
        assert place_said == f"Learn, {place} of {last}"
        assert re.search(r"about \d+ minutes?", minutes.get_text())[0] in item.get_text()
        (foot,) = page.select("p.learn-foot")
        assert foot.get_text().startswith(f"{place_said} · ")
        address = foot.a["href"] if foot.a else None
    assert address is None
    total = sum(int(re.search(r"about (\d+)", item.get_text())[1]) for item in listed)
    assert f"{last} pages, about {total} minutes" in soup(html / "book/index.html").get_text()


def test_answers_to_predictions_are_folded(html, page):
    lines = [p for p in soup(html / f"{page}.html").select("article p")
             if p.get_text().startswith("Predict.")]
    assert all(line["class"] == ["predict"] for line in lines)
    for cell in soup(html / f"{page}.html").select("div.cell.tag_hide-output"):
        (folded,) = cell.select("details.below-input")
        assert "open" not in folded.attrs and folded.select_one(".cell_output")
        assert folded.p.get_text() == "Predict first, then open the output"
        for code in cell.select("details.above-input"):
            assert code.p.get_text() == "Show the code"


# In a browser


def test_page_opens_cleanly_from_disk(opened):
    tab = opened.tab
    assert opened.foreign == [], "the site must ask nothing of another host"
    assert tab.locator("article mjx-container").count() >= tab.locator("article .math").count()
    assert tab.locator("mjx-merror, [data-mjx-error]").count() == 0
    text = tab.evaluate(
        """() => { const body = document.querySelector("article").cloneNode(true);
                   body.querySelectorAll("pre, code, script").forEach(e => e.remove());
                   return body.textContent; }"""
    )
    assert not re.findall(r"\$[^$\n]{1,60}\$|\\\(|\\\[|\\[a-z]+\{", text), "mathematics left unset"
    for width in (1280, 390, 320):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, "scrolls sideways"
    for link in tab.locator("a.btn-download-source-button").all():
        assert link.get_attribute("download") is not None
        assert link.get_attribute("target") is None
    assert opened.errors == []


def axe_faults(tab, **options) -> list[str]:
    """What axe finds of serious or critical faults."""
    # Of what passes it needs to tell one element of each rule, no more.
    checked = Axe().run(tab, options={"resultTypes": ["violations"]} | options).response
    assert checked["passes"]
    return [
        f"{fault['id']} ({fault['impact']}): {node['html'][:200]}"
        for fault in checked["violations"] if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


def test_page_is_accessible_wide_narrow_dark_and_printed_from_the_dark(opened):
    tab = opened.tab
    # The theme moves colours over a fraction of a second, and half a colour has no contrast.
    tab.add_style_tag(content="*, *::before, *::after { transition: none !important }")
    # What is wide scrolls on a phone, and must be reached by keyboard there.
    # (The theme looks a moment after the size has changed which code scrolls now.)
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.wait_for_function(
        """() => [...document.querySelectorAll("pre")].every((code) =>
          code.tabIndex === 0 || code.scrollWidth <= code.clientWidth)"""
    )
    colours_apart = {"color-contrast": {"enabled": False}}  # as below; it takes longest
    assert axe_faults(tab, rules=colours_apart) == []
    tab.set_viewport_size({"width": 1280, "height": 800})
    assert axe_faults(tab) == []
    # The dark changes colours and nothing else.
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme == 'dark'")
    assert axe_faults(tab, runOnly=["color-contrast"]) == []
    tab.emulate_media(media="print")
    # What still fades in when the printer looks is not on paper.
    moving = "dispatchEvent(new Event('beforeprint')), document.getAnimations().length"
    assert tab.evaluate(moving) == 0
    try:
        assert axe_faults(tab, runOnly=["color-contrast"]) == []
        colours = """() => [...document.querySelectorAll("article :is(h1, h2, h3)")]
                           .map((heading) => getComputedStyle(heading).color)"""
        assert set(tab.evaluate(colours)) == {"rgb(0, 0, 0)"}
    finally:
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        tab.emulate_media(media="null", color_scheme="light")


@pytest.fixture
def found(html, view):
    """`found("5.4")` searches from disk: the pages in the order in which they are listed."""

    def search(query: str) -> list[str]:
        opened = view((html / "search.html").as_uri() + "?" + urlencode({"q": query}))
        opened.tab.wait_for_function(
            "document.querySelector('#search-results h2')?.innerText == 'Search Results'"
        )
        assert opened.errors == [] and opened.foreign == []
        links = opened.tab.locator("#search-results li a").all()
        return [urldefrag(a.get_attribute("href"))[0].removesuffix(".html") for a in links]

    return search


def test_search_finds_words_without_a_server(found, pages):
    assert set(pages) > set(found("label smoothing")) > {"book/05-4-regularization"}
    assert found("zyzzyva") == []


def test_search_for_a_section_lists_its_page_first(found, html, pages):
    titles = {page: soup(html / f"{page}.html").h1.get_text() for page in pages}
    sections = {page: re.match(r"[\d.]+", title) for page, title in titles.items()}
    sections = {page: number[0] for page, number in sections.items() if number}
    assert len(sections) > 10
    for page, number in sections.items():
        assert found(number)[0] == page, number
    for query in (f"§{number}", f"section {number}"):
        assert found(query)[0] == page, query


@pytest.mark.parametrize(
    "number", ["342", "4000", "0.1", "64", "0.98", "37000", "37 000", "37,000", "40 960"]
)
def test_search_finds_the_numbers_of_the_text(found, html, pages, number):
    """All pages that have the number, however its digits are grouped, and none besides."""
    digits = re.escape(re.sub(r"[ ,]", "", number))
    grouped = re.sub(r"(?<=\d)(?=(\d{3})+$)", "[ ,_\u00a0\u2009\u202f]?", digits)
    pattern = re.compile(rf"(?<![\w.]){grouped}(?!\w|\.\d)")
    has = {page for page in pages if pattern.search(article_text(html / f"{page}.html"))}
    assert has and has <= set(found(number))


def test_search_for_a_number_that_is_nowhere_finds_nothing(found):
    assert found("982451653") == found("17.289") == []


# On paper


def test_paper_is_light_and_nothing_on_it_is_folded(html, view, pages):
    """From a dark page with answers folded; afterwards it is as it was."""
    page = max(pages, key=lambda page: len(soup(html / f"{page}.html").find_all("details")))
    tab = view(html / f"{page}.html").tab
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme == 'dark'")
    state = """() => [document.documentElement.dataset.theme,
                      document.querySelectorAll("details:not([open])").length]"""
    before = tab.evaluate(state)
    assert before[0] == "dark" and before[1] > 3
    # Asked after our own listener, while the browser prints.
    tab.evaluate(f"addEventListener('beforeprint', () => window.printed = ({state})())")
    assert tab.pdf().startswith(b"%PDF")
    assert tab.evaluate("window.printed") == ["light", 0]
    assert tab.evaluate(state) == before


def test_download_button_saves_a_file_that_opens(address, view, pages, tmp_path):
    # One page of each kind is enough: `download` on every page's link is seen above.
    kinds = {source(page).suffix: page for page in pages}
    for page in kinds.values():
        opened = view(f"{address}/{page}.html")
        with opened.tab.expect_download() as download:
            opened.tab.locator("a.btn-download-source-button").evaluate("link => link.click()")
        saved = tmp_path / download.value.suggested_filename
        download.value.save_as(saved)
        assert saved.name == source(page).name
        assert saved.read_bytes() == source(page).read_bytes()
        if saved.suffix == ".ipynb":
            nbformat.validate(nbformat.read(saved, as_version=4))


# The address of the book, and the two ways to build


def launch_links(page: Path) -> list[str]:
    hosts = ("https://mybinder.org/", "https://colab.research.google.com/")
    return [a["href"] for a in soup(page).find_all("a", href=True) if a["href"].startswith(hosts)]


def test_without_an_address_nothing_is_launched_or_linked(html, page):
    doc = soup(html / f"{page}.html")
    assert launch_links(html / f"{page}.html") == []
    buttons = ".btn-source-repository-button, .btn-source-issues-button, .dropdown-launch-buttons"
    assert doc.select(buttons) == []


def test_the_front_page_says_how_to_get_the_repository(html, published):
    """Without an address it is a clone that the reader has."""
    without, given = (soup(site / "book/index.html") for site in (html, published))
    assert "git clone" not in without.get_text()
    here, there = (
        next(h for h in doc.select("section > h2") if h.get_text().startswith("Run it")).parent
        for doc in (without, given)
    )
    assert "In a clone of this repository:" in here.get_text()
    commands = there.select_one("pre").get_text().splitlines()
    assert commands == ["git clone https://github.com/reader/the-book", "cd the-book"]


def test_an_address_brings_the_buttons_and_makes_links_whole(published, pages):
    """`published` was built without torch, without the package and without a network."""
    base = "https://reader.github.io/the-book"
    for page in pages:
        built = published / f"{page}.html"
        head = soup(built).head
        assert head.find("link", rel="canonical")["href"] == f"{base}/{page}.html"
        assert head.find("meta", property="og:image")["content"] == f"{base}/_static/card.png"
        assert head.find("meta", property="og:url")["content"] == f"{base}/{page}.html"
        file = source(page).relative_to(ROOT).as_posix()
        launched = [
            f"https://mybinder.org/v2/gh/reader/the-book/published?urlpath=lab/tree/{file}",
            f"https://colab.research.google.com/github/reader/the-book/blob/published/{file}",
        ]
        assert launch_links(built) == (launched if file.endswith(".ipynb") else [])
        repository = soup(built).select("a.btn-source-repository-button")
        assert [link["href"] for link in repository] == ["https://github.com/reader/the-book"]


def test_make_serve_prints_an_address_that_answers(html):
    with subprocess.Popen(
        ["make", "--silent", "serve", "PORT=0", f"PYTHON={sys.executable}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as server:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
            with urlopen(f"{address}book/index.html", timeout=10) as answer:
                assert b"</html>" in answer.read()
        finally:
            server.terminate()
