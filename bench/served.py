"""The doors of `stepline serve` for a client of HTTP: what it sends, and how it reads the pieces of a turn's text."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from bench.row import MeasureError

KEY: Final = "bench"
MESSAGE: Final = f"m_{hashlib.sha256(KEY.encode()).hexdigest()[:32]}"
"""The id of the message that opens the turn: the one that Open Responses makes of a request's key, and others are given."""
RUN: Final[dict[str, Any]] = {
    "runId": "run",
    "messages": [{"id": MESSAGE, "role": "user", "content": "go"}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {},
}
RESPONSE: Final = {"input": "go", "stream": True}
CHAT: Final = {"messages": [{"id": MESSAGE, "role": "user", "parts": [{"type": "text", "text": "go"}]}]}


class ServedDoor(NamedTuple):
    """The request that sends a message: its address, the field of the conversation, the rest of its body; the type of a piece."""

    path: str
    conversation: str
    body: Mapping[str, object]
    piece: str


SERVED: Final[Mapping[str, ServedDoor]] = {
    "served_ai_sdk": ServedDoor("/chat", "id", CHAT, "text-delta"),
    "served_ag_ui": ServedDoor("/agui", "threadId", RUN, "TEXT_MESSAGE_CONTENT"),
    "served_responses": ServedDoor("/v1/responses", "conversation", RESPONSE, "response.output_text.delta"),
}


def read_served(address: str, name: str, conversation: str) -> tuple[str, int]:
    """Send the message to a door, and read its turn to the end; return the text of the pieces, and their bytes as events."""
    door = SERVED[name]
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    body = json.dumps({door.conversation: conversation, **door.body})
    headers = {"Authorization": "Bearer a.b.c", "Idempotency-Key": KEY}
    connection.request("POST", door.path, body, headers)
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise MeasureError(f"no stream of {name}: {answer.read()!r}")
    text, size = [], 0
    for line in answer:
        value = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: {") else {}
        if value.get("type") == door.piece:
            text.append(value["delta"])
            size += len(line) + len(b"\n")
    connection.close()
    return "".join(text), size


@contextmanager
def granting(socket_url: str) -> Iterator[str]:
    """Serve a stage's HTTP API that grants tickets and has no conversations; yield its address."""
    grant = {"ticket": "t", "url": socket_url, "expires_in_s": 60}
    missing = {"status": 404, "code": "not_found", "detail": "no such conversation"}

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(404, missing)

        def do_POST(self) -> None:
            self._answer(201, grant)

        def log_message(self, *_: object) -> None:
            """Print nothing between the rows."""

        def _answer(self, status: int, found: object) -> None:
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
