"""The built site, as readers get it: opened from disk in a browser that no network helps."""

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"


def toc_files(node) -> list[str]:
    """Every page that _toc.yml names, in its order."""
    if isinstance(node, list):
        return [name for item in node for name in toc_files(item)]
    if not isinstance(node, dict):
        return []
    own = [node[key] for key in ("root", "file") if key in node]
    return own + [name for value in node.values() for name in toc_files(value)]


PAGES = toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        # Of session scope, so that all tests of a page run one after the other and share its tab.
        metafunc.parametrize("page", PAGES, scope="session")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("site")


@pytest.fixture(scope="session")
def pages():
    return PAGES


@pytest.fixture(scope="session")
def html():
    if not (HTML / "index.html").is_file():
        message = "the book is not built: run `make book` first"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    return HTML


@pytest.fixture(scope="session")
def browser(need):
    program = need(("chromium", "chromium-browser", "google-chrome"), "looks at the pages")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-background-networking", "--disable-gpu"],
        )
        yield browser
        browser.close()


class View:
    """A page in a tab, with what it complained about and what it asked of other hosts."""

    def __init__(self, tab, address):
        self.tab, self.errors, self.foreign, self.asked = tab, [], [], []
        tab.on("console", self._console)
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("requestfailed", lambda request: self.errors.append(f"not loaded: {request.url}"))
        tab.on("request", self._request)
        tab.goto(address, wait_until="load")
        # MathJax works on after the page has loaded.
        tab.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise }")

    def open_answers(self):
        """As a reader who has guessed: what stands after a prediction is veiled until then."""
        self.tab.evaluate("document.querySelectorAll('.unveil').forEach(button => button.click())")

    def wake(self):
        """As a reader who touches every explorer: those with the model ask for it only then."""
        explorers = self.tab.locator(".explorer[data-explorer]")
        for explorer in explorers.all():
            explorer.dispatch_event("pointerover")
        alive = "count => document.querySelectorAll('.explorer.alive').length === count"
        self.tab.wait_for_function(alive, arg=explorers.count(), timeout=20_000)

    def _console(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def _request(self, request):
        self.asked.append(request.url)
        if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            self.foreign.append(request.url)


@pytest.fixture(scope="session")
def opened(html, browser, page):
    """The page of this test in a tab of its own; tests may change its size and its media."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    found = View(tab, (html / f"{page}.html").as_uri())
    found.wake()
    yield found
    tab.close()


@pytest.fixture
def view(browser):
    """`view(address)` opens a page and waits until its mathematics is set."""
    tabs = []

    def opened(address):
        tabs.append(browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light"))
        return View(tabs[-1], address.as_uri() if isinstance(address, Path) else address)

    yield opened
    for tab in tabs:
        tab.close()


@contextlib.contextmanager
def served(folder):
    """The folder's address while a server of this machine hands it out."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def address(html):
    """The built site's address over HTTP."""
    with served(html) as found:
        yield found


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """The book built as the publishing workflow does, with a public address.

    Torch, the package and every network connection are out of that build's reach.
    """
    source = tmp_path_factory.mktemp("published")
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, source)
    for name in ("book", "tools"):
        shutil.copytree(ROOT / name, source / name)
    weights = Path("src", "annotated", "weights")  # the pages run this model (tools/book_live.py)
    shutil.copytree(ROOT / weights, source / weights)
    fill = [sys.executable, source / "tools" / "publish.py", "https://github.com/reader/the-book"]
    subprocess.run([*fill, "0123456789" * 4], check=True)

    blocked = tmp_path_factory.mktemp("blocked")
    for name in ("torch", "annotated"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('must build without {name}')\n")
    (blocked / "sitecustomize.py").write_text(
        "import socket\n"
        "def refuse(self, address):\n"
        "    raise OSError(f'the book must build without a network, but it asked for {address}')\n"
        "socket.socket.connect = socket.socket.connect_ex = refuse\n"
    )
    build = subprocess.run(
        [Path(sys.executable).with_name("jb"), "build", source, "-W", "-n", "--keep-going", "-q"],
        env=os.environ | {"PYTHONPATH": str(blocked)}, capture_output=True, text=True,
    )
    assert build.returncode == 0, build.stdout[-2000:] + build.stderr[-4000:]
    return source / "_build" / "html"
