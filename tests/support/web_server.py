"""A web server on loopback that answers as a test defines, and the guard that lets a test reach it.

Only tests can reach it: the guard is an argument of the fetcher, and no setting leads to it.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

from stepline.adapters.web.address_guard import AddressGuard

SITE = "127.0.0.2"
"""The address that represents the public internet; every other one of this machine keeps its meaning."""

Answer = Callable[[BaseHTTPRequestHandler], None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients that hang up are part of the tests."""


@dataclass
class WebServer:
    """The answer of each path, and the received requests: method, path, headers in lower case, body."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "site.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def says(self, path: str, body: bytes | str, mime: str = "text/html; charset=utf-8", **more: Any) -> str:
        """Answer a path with a body; return its address."""
        self.answers[path] = lambda handler: reply(handler, body, mime=mime, **more)
        return self.url(path)

    def redirects(self, path: str, place: str, status: int = 302) -> str:
        self.answers[path] = lambda handler: reply(handler, b"", status=status, headers={"Location": place})
        return self.url(path)


def reply(
    handler: BaseHTTPRequestHandler,
    body: bytes | str,
    *,
    mime: str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> None:
    data = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    for name, value in {
        "Content-Type": mime,
        "Content-Length": str(len(data)),
        "Connection": "close",
        **(headers or {}),
    }.items():
        if value:
            handler.send_header(name, value)
    handler.end_headers()
    with contextlib.suppress(ConnectionError):
        handler.wfile.write(data)


def endless(piece: bytes, mime: str = "text/html") -> Answer:
    """Return an answer that continues until the client hangs up."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", mime)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(piece)

    return answer


@contextlib.contextmanager
def web_server(
    address: str = SITE, port: int = 0, *, certificate: ssl.SSLContext | None = None
) -> Iterator[WebServer]:
    """Serve on an address of loopback; a path that nothing answers is 404."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.close_connection = True
            size = int(self.headers.get("Content-Length") or 0)
            heard = {name.lower(): value for name, value in self.headers.items()}
            served.requests.append((self.command, self.path, heard, self.rfile.read(size)))
            answer = served.answers.get(self.path.partition("?")[0])
            if answer is None:
                reply(self, b"", status=404)
            else:
                answer(self)

        do_GET = do_POST = _answer  # noqa: N815 - the names of the library

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    server = _Server((address, port), Handler)
    if certificate:
        server.socket = certificate.wrap_socket(server.socket, server_side=True)
    served = WebServer(port=server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def open_guard(server: WebServer, **names: str | list[str]) -> AddressGuard:
    """Return a guard for which SITE is a public address, and every name leads there except the given ones.

    A list holds the addresses of a name at each look-up, in turn.
    """

    def resolve(host: str, port: int) -> list[str]:
        found = names.get(host.replace(".", "_"), SITE)
        return [found if isinstance(found, str) else found.pop(0)]

    return AddressGuard(
        ports=(server.port,), resolve=resolve, is_public=lambda address: address == ip_address(SITE)
    )
