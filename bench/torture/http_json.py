"""Requests of JSON, and server-sent events that can be closed from another thread."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from bench.torture.subject import RefusedError

TIMEOUT_S: Final = 60.0


def ask(method: str, url: str, body: object = None, *, timeout_s: float = TIMEOUT_S) -> Any:
    """Return the JSON of an answer. Raises RefusedError for a status from 400 on, OSError if there is no answer."""
    connection, path = _connection(url, timeout_s)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), _headers(body))
        response = connection.getresponse()
        text = response.read().decode()
    except http.client.HTTPException as error:
        raise ConnectionError(f"no whole answer: {error!r}") from error
    finally:
        connection.close()
    if response.status >= 400:
        raise RefusedError(f"{response.status} {text[:200]}")
    return json.loads(text) if text else None


def _headers(body: object) -> dict[str, str]:
    return {} if body is None else {"Content-Type": "application/json"}


def _connection(url: str, timeout_s: float | None) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s), path


class ServerEvent(NamedTuple):
    """A server-sent event."""

    event: str
    data: str
    id: str


class EventSource:
    """One connection to server-sent events; `close` ends it from any thread."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: object = None
    ):
        """Send the request. Raises RefusedError, OSError."""
        self._connection, path = _connection(url, None)
        self._closed = threading.Event()
        sent = {"Accept": "text/event-stream", **_headers(body), **(headers or {})}
        self._connection.request(method, path, None if body is None else json.dumps(body), sent)
        self._socket = self._connection.sock
        self._response = self._connection.getresponse()
        if self._response.status >= 400:
            raise RefusedError(f"{self._response.status} {self._response.read(200).decode(errors='replace')}")

    def __iter__(self) -> Iterator[ServerEvent]:
        """Yield events until the connection ends. Raises ConnectionError when it breaks."""
        event, data, last = "", list[str](), ""
        try:
            for raw in self._response:
                line = raw.decode().rstrip("\r\n")
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    event = value
                elif name == "data":
                    data.append(value)
                elif name == "id":
                    last = value
                elif not line:
                    if data or event:
                        yield ServerEvent(event, "\n".join(data), last)
                    event, data = "", []
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if not self._closed.is_set():
                raise ConnectionError(f"the stream broke: {error!r}") from error

    def close(self) -> None:
        """Disconnect at once."""
        self._closed.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
