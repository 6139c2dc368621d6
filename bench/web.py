"""A fetched page beside the bare extractor: a real server on loopback, the guard, the process that reads HTML.

The guard takes the server's address for a public one, as in the tests; everything else is the production code.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Final

from resiliparse.extract.html2text import extract_plain_text

from bench.row import Limit, MeasureError, Row
from bench.timing import interleave
from stepline.adapters.web.address_guard import AddressGuard
from stepline.adapters.web.page_fetch import PageFetcher

SITE: Final = "127.0.0.2"
PARAGRAPHS: Final = 300
ROUNDS: Final = 21
SENTENCE: Final = "Grey herons nest in the old trees on the northern shore, and the colony has grown since the reeds came back. "
MENU: Final = "".join(f'<li><a href="/{at}">Section {at}</a></li>' for at in range(60))


def rows() -> list[Row]:
    """Return `web_fetch_ms`."""
    page = make_page()
    with served(page.encode()) as port:
        guard = AddressGuard(
            ports=(port,), resolve=lambda *_: [SITE], is_public=lambda one: one == ip_address(SITE)
        )
        fetcher, url = PageFetcher(guard=guard), f"http://site.example:{port}/"
        bare = extract_plain_text(page, main_content=True)
        if fetcher.fetch(url).text != bare or "Section 9" in bare:
            raise MeasureError("the page is not what the bare extractor reads of it")
        samples: dict[str, Callable[[], float]] = {
            "ours": lambda: wall_ms(lambda: fetcher.fetch(url)),
            "bare": lambda: wall_ms(lambda: extract_plain_text(page, main_content=True)),
        }
        found = interleave(samples, ROUNDS)
    return [
        Row(
            metric="web_fetch_ms",
            value=found["ours"],
            unit="ms",
            limit=Limit("the bare extractor in this process", found["bare"]),
            note=f"a page of {len(page) // 1000} KB from loopback; the rest is the request and a process for the extractor",
        )
    ]


def wall_ms(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.monotonic()
    run()
    return (time.monotonic() - start) * 1000


def make_page() -> str:
    """Return an article with a menu and a footer around it."""
    article = "".join(f"<p>{SENTENCE * 3}</p>" for _ in range(PARAGRAPHS))
    return (
        f"<!doctype html><html><head><title>Herons</title></head><body><nav><ul>{MENU}</ul></nav>"
        f"<article><h1>Herons</h1>{article}</article><footer>Imprint</footer></body></html>"
    )


@contextmanager
def served(body: bytes) -> Iterator[int]:
    """Answer every request with a page; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((SITE, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
