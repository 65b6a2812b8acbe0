"""How soon a reader with a slow line and a slow machine sees the front page."""

import gzip
import http.server
import threading

import pytest

LIMIT = 3.0  # seconds to the first contentful paint
LINE = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8,
        "uploadThroughput": 750e3 / 8}
SLOWER = 4  # times, than this machine
TEXT = (".html", ".css", ".js", ".svg", ".json", ".txt")
PAINT = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => list.getEntries()
    .filter((entry) => entry.name === "first-contentful-paint")
    .forEach((entry) => resolve(entry.startTime / 1000)))
    .observe({ type: "paint", buffered: true });
})"""


@pytest.fixture(scope="module")
def compressed(html):
    """The built site's address at a server that compresses, as those of published pages do."""
    packed = {}

    class Compressing(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the connection is kept

        def do_GET(self):
            path = self.translated()
            body = packed.get(path)
            if body is None and path.is_file():
                body = path.read_bytes()
                packed[path] = body = gzip.compress(body) if path.suffix in TEXT else body
            self.send_response(404 if body is None else 200)
            if body is not None and path.suffix in TEXT:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Type", KINDS.get(path.suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def translated(self):
            return html / self.path.split("?")[0].lstrip("/")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Compressing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript",
         ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2"}


def first_paint(browser, address):
    """Seconds, with nothing kept from earlier visits."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    tab = context.new_page()
    session = context.new_cdp_session(tab)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", LINE)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    tab.goto(address, wait_until="commit")
    seconds = tab.evaluate(PAINT)
    context.close()
    return seconds


def test_the_front_page_is_seen_within_three_seconds(compressed, browser, record_property):
    """The soonest of some visits: a busy machine is later, never sooner."""
    seen = []
    for _ in range(5):
        seen.append(first_paint(browser, f"{compressed}/book/index.html"))
        if seen[-1] < LIMIT:
            break
    record_property("first_contentful_paint", seen)
    assert min(seen) < LIMIT, seen
