"""A server for the conformance suite of Durable Streams: its writes become messages, its reads are our answers.

A stream of the suite is a conversation, whose messages are the bytes that were appended. Only a body is translated
back, from frames to these bytes: status, headers and offsets are those of the API.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIServer, make_server

from msgspec.structs import replace

from stepline.adapters.system import SystemClock
from stepline.api.router import ApiResponse, Request
from stepline.model.ids import Lane
from stepline.model.tenancy.request_rates import Rates, RequestRates
from tests.support.api_caller import ROUTER, Caller
from tests.support.api_server import Handler, Start, read_request
from tests.support.conversation import LANE, Conversation

UNLIMITED: Final = Rates(reads=0, searches=0, tickets=0, changes=0)
WAIT_S: Final = 2
PIECE_BYTES: Final = 12_000
"""Bytes of a message, whose frame is then whole."""
JSON: Final = "application/json"
FOUNDING: Final = "-"
"""The message with which a stream's conversation begins; it has no bytes."""


class StreamSuite:
    """A WSGI application; each stream of the suite is a conversation of one user."""

    def __init__(self) -> None:
        self._conversation = Conversation(rates=RequestRates(user=UNLIMITED, tenant=UNLIMITED))
        self._lock = threading.Lock()
        self._types: dict[str, str] = {}
        self._sent = 0
        caller = Caller(dataclasses.replace(self._conversation.ports, clock=SystemClock()))
        self._services = dataclasses.replace(caller.services, wait_s=WAIT_S)
        self._principal = caller.principal

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        asked = read_request(environ)
        answer = self._answer(asked)
        headers = dict(answer.headers)
        if answer.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED) and asked.method != "HEAD":
            headers["Content-Length"] = str(len(answer.body))
        start(f"{int(answer.status)} {answer.status.phrase}", list(headers.items()))
        return [answer.body]

    def _answer(self, asked: Request) -> ApiResponse:
        lane = replace(LANE, conversation=hashlib.sha256(asked.path.encode()).hexdigest()[:32])
        known = self._types.get(lane.conversation)
        match asked.method:
            case "PUT":
                return self._create(lane, asked)
            case "POST" if known:
                self._append(lane, known, asked.body)
                return self._read(lane, replaced(asked, method="HEAD"), status=HTTPStatus.NO_CONTENT)
            case "DELETE" if known:
                path = f"/v1/conversations/{lane.conversation}"
                ROUTER.answer(self._services, self._principal, Request(method="DELETE", path=path))
                return ApiResponse(status=HTTPStatus.NO_CONTENT, headers={})
            case _:
                return self._read(lane, asked)

    def _create(self, lane: Lane, asked: Request) -> ApiResponse:
        fresh = lane.conversation not in self._types
        if fresh:
            self._types[lane.conversation] = asked.headers.get("content-type") or "application/octet-stream"
            self._send(lane, FOUNDING)
            self._append(lane, self._types[lane.conversation], asked.body)
        return self._read(
            lane, replaced(asked, method="HEAD"), status=HTTPStatus.CREATED if fresh else HTTPStatus.OK
        )

    def _append(self, lane: Lane, kind: str, body: bytes) -> None:
        """Send the bytes, or each value of an array of JSON, as messages."""
        values = [body] if body else []
        if body and kind.partition(";")[0] == JSON:
            given = json.loads(body)
            values = [json.dumps(one).encode() for one in (given if isinstance(given, list) else [given])]
        for value in values:
            pieces = range(0, len(value), PIECE_BYTES)
            for at in pieces:
                end = "." if at == pieces[-1] else ""
                self._send(lane, base64.b64encode(value[at : at + PIECE_BYTES]).decode() + end)

    def _send(self, lane: Lane, text: str) -> None:
        with self._lock:
            self._sent += 1
            self._conversation.send(text, id=f"m{self._sent}", lane=lane)

    def _read(self, lane: Lane, asked: Request, *, status: HTTPStatus | None = None) -> ApiResponse:
        """Answer a read of the stream; its body is the bytes that were appended."""
        path = f"/v1/conversations/{lane.conversation}/stream"
        answer = ROUTER.answer(self._services, self._principal, replaced(asked, path=path))
        kind = self._types.get(lane.conversation, "")
        if answer.status != HTTPStatus.OK:
            return answer
        values = list(_values(answer.body)) if answer.body else []
        body = (
            b"[%s]" % b",".join(values)
            if kind.partition(";")[0] == JSON and answer.body
            else b"".join(values)
        )
        return dataclasses.replace(
            answer,
            status=status or answer.status,
            headers={**answer.headers, "Content-Type": kind},
            body=body,
        )


class _Server(ThreadingMixIn, WSGIServer):
    """Answers requests at once: a reader waits while another request appends."""


@contextmanager
def stream_server() -> Iterator[str]:
    """Yield the address of a server for the suite."""
    with make_server("127.0.0.1", 0, StreamSuite(), server_class=_Server, handler_class=Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def replaced(asked: Request, **fields: Any) -> Request:
    return dataclasses.replace(asked, **fields)


def _values(body: bytes) -> Iterator[bytes]:
    """Yield what was appended, from the frames of an answer."""
    value = b""
    for frame in json.loads(body):
        for event in frame.get("events", ()):
            text = event["data"].get("text", "")
            if event["type"] == "chat.conversation.accepted" and text != FOUNDING:
                value += base64.b64decode(text.removesuffix("."))
                if text.endswith("."):
                    yield value
                    value = b""
