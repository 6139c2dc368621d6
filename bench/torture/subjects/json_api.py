"""A client of a peer's HTTP interface: JSON requests, and streams of lines that another thread may close."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from bench.torture.subject import RefusedError

REQUEST_S: Final = 100.0


class JsonApi:
    """The interface below `http://127.0.0.1:<port>`."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        """Keep the port, and headers of each request."""
        self._port = port
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    def is_ready(self, path: str) -> bool:
        """Report whether a path answers without an error."""
        try:
            self.call("GET", path)
        except (OSError, RefusedError):
            return False
        return True

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer's JSON value, None without one. Raises RefusedError, OSError."""
        with Lines(self._port, (method, path, body), self._headers, REQUEST_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def open(self, method: str, path: str, body: object = None, wait_s: float | None = None) -> Lines:
        """Return an answer whose lines arrive over time; reading one waits so long. Raises RefusedError, OSError."""
        return Lines(self._port, (method, path, body), self._headers, wait_s)


class Lines:
    """An answer. `headers` are those of the answer."""

    def __init__(
        self, port: int, request: tuple[str, str, object], headers: Mapping[str, str], wait_s: float | None
    ) -> None:
        """Send a request (method, path, body), and receive the answer's status. Raises RefusedError, OSError."""
        method, path, body = request
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_S)
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
            self._socket = self._connection.sock
            self._answer = self._connection.getresponse()
            self._socket.settimeout(wait_s)
            self.headers = self._answer.headers
            refusal = self._answer.read(500).decode(errors="replace") if self._answer.status >= 400 else None
        except http.client.HTTPException as error:
            self._connection.close()
            raise ConnectionError(f"the connection broke: {error!r}") from error
        except OSError:
            self._connection.close()
            raise
        if refusal is not None:
            self._connection.close()
            raise RefusedError(f"{self._answer.status} {refusal}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> bytes:
        """Return the rest of the answer. Raises OSError."""
        try:
            return self._answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"the connection broke: {error!r}") from error

    def __iter__(self) -> Iterator[str]:
        """Yield each line that is not empty, as it arrives. Raises OSError when the connection breaks."""
        try:
            while line := self._answer.readline():
                if text := line.decode().strip():
                    yield text
        except (
            http.client.HTTPException,
            ValueError,
            AttributeError,
        ) as error:  # the last two: closed meanwhile
            raise ConnectionError(f"the connection broke: {error!r}") from error

    def close(self) -> None:
        """Disconnect at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
