"""An MCP server over plain HTTP that may behave in any way: it answers each method as the test defines.

It speaks the era with a handshake (2025-11-25), without the package's own server.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], Any]
"""Takes the request and its message. Returns the result, or None if it has already answered."""

INITIALIZED: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "peer", "version": "1"},
}


class McpPeer:
    """A server on loopback. `answers` are its methods, `heard` the received headers and messages."""

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = {name.replace("_", "/"): answer for name, answer in answers.items()}
        self.whole: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.heard: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/mcp"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def methods(self) -> list[str]:
        return [message["method"] for _, message in self.heard]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                message = json.loads(body)
                peer.heard.append((dict(self.headers.items()), message))
                with contextlib.suppress(OSError):  # the client has hung up
                    peer.reply(self, message)

            def do_GET(self) -> None:
                self.send_error(405)

            def do_DELETE(self) -> None:
                self.send_error(405)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def reply(self, request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if self.whole is not None:
            self.whole(request)
            return
        if "id" not in message:
            send(request, b"", status=202)
            return
        answer = self.answers.get(message["method"])
        if message["method"] == "initialize":
            result: Any = INITIALIZED
        elif answer is None:
            send_json(
                request, {"id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
            )
            return
        else:
            result = answer(request, message)
        if result is not None:
            send_json(request, {"id": message["id"], "result": result})


def send_json(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
    send(request, json.dumps({"jsonrpc": "2.0", **message}).encode())


def send(
    request: BaseHTTPRequestHandler,
    body: bytes,
    *,
    status: int = 200,
    mime: str = "application/json",
    **headers: str,
) -> None:
    request.send_response(status)
    request.send_header("content-type", mime)
    request.send_header("content-length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


def flood(
    request: BaseHTTPRequestHandler, over: threading.Event, *, mime: str, head: bytes, rest: bytes
) -> None:
    """Send `head`, then `rest` repeatedly, until the client hangs up or the test is over."""
    request.send_response(200)
    request.send_header("content-type", mime)
    request.end_headers()
    request.wfile.write(head)
    while not over.is_set():
        request.wfile.write(rest)
