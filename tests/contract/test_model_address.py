"""A model that cannot be reached: with anything at its address, a turn ends with a code for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import Timeouts
from stepline.local.scripted.server import ScriptedServer
from stepline.loop.close import MESSAGES
from tests.support.asked_provider import ask_anthropic
from tests.support.conversation import Conversation, closings

PAGE = b"<html><body>Nothing to see here.</body></html>"


class Asking(Conversation):
    """A conversation whose model is asked over HTTP."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        super().__init__()
        self.service = ask_anthropic(url, timeouts=timeouts)

    @property
    def answering(self) -> ProviderClient:
        return self.service


def ending(url: str, **timeouts: float) -> str:
    """Return the code with which a turn ends if the model is at `url`."""
    conversation = Asking(url, Timeouts(**timeouts))
    conversation.send()
    conversation.run()
    conversation.service.close()
    (closed,) = closings(conversation)
    assert closed.message == MESSAGES[closed.code]
    return str(closed.code)


class Page(BaseHTTPRequestHandler):
    """Any other web server, which has a page for everything or for nothing."""

    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def website() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    "url",
    ["http://model.invalid", "not an address", "ftp://127.0.0.1", "http://[::1", "http://127.0.0.1:99999"],
)
def test_an_address_that_leads_nowhere_is_unreachable(url: str) -> None:
    assert ending(url) == "model_unreachable"


def test_a_closed_port_is_unreachable() -> None:
    with socket.socket() as taken:  # so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        assert ending(f"http://127.0.0.1:{taken.getsockname()[1]}") == "model_unreachable"


def test_a_service_that_accepts_and_says_nothing_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert ending(f"http://127.0.0.1:{silent.getsockname()[1]}", read_s=0.05) == "model_timeout"


def test_a_website_at_the_address_of_a_model_is_refused(website: str) -> None:
    assert ending(website) == "model_refused"


def test_a_website_without_such_a_page_refuses(website: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "status", 404)
    assert ending(website) == "model_refused"


@pytest.mark.parametrize("kind", ["cut", "malformed_stream"])
def test_a_stream_that_breaks_every_time_has_its_own_code(kind: str) -> None:
    with ScriptedServer(token_delay_ms=0) as server:
        server.faults.add({"kind": kind, "count": 9, "after_chars": 0})
        assert ending(server.url) == "model_stream_broken"
