"""A stranger's site on loopback, and a witness of everything that a page did which a stranger may not make it do."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARK = "stranger-was-here"
"""Scripts of a stranger say this on the console, in whichever frame they run."""

_WITNESS = """
addEventListener("message", event => event.data === "" && event.ports.length === 1 || noteMessage(`${location.pathname} heard ${event.origin} say ${
  typeof event.data === "string" ? event.data : JSON.stringify(event.data)}`));
"""


class Stranger:
    """The site: pages that a test gives it. `heard` has every request, `connections` counts what was opened, too."""

    def __init__(self, server):
        self.server = server
        self.url = f"http://127.0.0.1:{server.server_port}"

    @property
    def heard(self):
        return list(self.server.heard)

    @property
    def connections(self):
        return self.server.connections

    def show(self, path, html):
        """Return the address of a page."""
        self.server.pages[path] = html
        return f"{self.url}{path}"


class _Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages, self.heard, self.connections = {}, [], 0

    def get_request(self):
        self.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.heard.append(f"{self.command} {self.path}")
        page = self.server.pages.get(self.path.partition("?")[0])
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write((page or "").encode())

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def a_stranger():
    """Yield a stranger's site until the end."""
    site = _Site()
    serving = threading.Thread(target=site.serve_forever, daemon=True)
    serving.start()
    try:
        yield Stranger(site)
    finally:
        site.shutdown()
        serving.join()
        site.server_close()


class Witness:
    """Watches a browser from before its page is opened."""

    def __init__(self, chat, stranger):
        self.chat, self.stranger = chat, stranger
        self.seen, self.before = [], stranger.connections
        chat.context.expose_binding("noteMessage", lambda _, said: self.seen.append(said))
        chat.context.add_init_script(_WITNESS)
        chat.context.on("console", self._listen)
        chat.context.on("page", lambda page: self.seen.append(f"window {page.url}"))
        chat.context.on("response", self._look)
        for kind in ("dialog", "download"):
            chat.page.on(kind, self._ended(kind))
        deployed = chat.stage.deployed
        self.ours = (deployed.page_url, deployed.api_url, deployed.issuer_url, deployed.endpoint)

    def _ended(self, kind):
        def note(event):
            self.seen.append(kind)
            if kind == "dialog":
                event.dismiss()

        return note

    def _listen(self, message):
        if MARK in message.text:
            self.seen.append(f"console {message.text}")

    def _look(self, answer):
        ours = tuple(url.rstrip("/").partition("/_aws")[0] for url in self.ours)
        if not answer.url.startswith((*ours, "blob:", "about:")):
            self.seen.append(f"answer of {answer.url}")

    def check(self):
        """Fail if something ran, left, opened or led away, or if the page can be scrolled sideways."""
        page = self.chat.page
        assert not self.seen, self.seen
        assert self.stranger.connections == self.before, self.stranger.heard
        assert page.url.startswith(self.chat.stage.deployed.page_url)
        assert is_within(page)


def is_within(page):
    """Return True if nothing of the page is outside of its window."""
    return page.evaluate("document.scrollingElement.scrollWidth <= innerWidth && scrollX === 0")
