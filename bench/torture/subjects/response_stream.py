"""Peers whose stream is the response to a request: the client that sends reads it, and no other client does."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bench.torture.subject import Event
from bench.torture.subjects.json_api import JsonApi, Lines


class ResponseClients:
    """The clients of a peer: a request belongs to the newest client of its thread, and ends with that client's connection.

    A request without a client is read to its end by a client that stays.
    """

    def __init__(self, api: JsonApi, parse: Callable[[str], Iterator[Event]] | None = None) -> None:
        """Use the peer's interface; `parse` makes events of a line, by default of `data:` and an event's JSON."""
        self._api = api
        self._parse = parse or parse_event
        self._clients: dict[str, ResponseClient] = {}
        self.errors: dict[str, str] = {}
        """The error that the newest response of a thread ended with: `end` events whose text begins with `error`."""

    def connect(self, thread: str) -> ResponseClient:
        """Return a client that is shown the responses to its own requests."""
        self._clients[thread] = ResponseClient()
        return self._clients[thread]

    def post(self, thread: str, path: str, body: Any) -> None:
        """Send a request; return when its response begins. Raises RefusedError, OSError."""
        lines = self._api.open("POST", path, body)
        client = self._clients.get(thread)
        if client is None or client.is_closed:
            client = ResponseClient()
        client.own(lines)
        self.errors.pop(thread, None)
        threading.Thread(target=self._read, args=(thread, lines, client), daemon=True).start()

    def _read(self, thread: str, lines: Lines, client: ResponseClient) -> None:
        try:
            for line in lines:
                for event in self._parse(line):
                    client.put(event)
                    if event.kind == "end" and event.text.startswith("error"):
                        self.errors[thread] = event.text
        except OSError as error:
            client.put(error)


class ResponseClient:
    """A client's connection: the responses to its requests, joined."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._events: queue.Queue[Event | OSError | None] = queue.Queue()
        self._requests: list[Lines] = []
        self.is_closed = False

    def own(self, lines: Lines) -> None:
        """Add a request, which is closed with this client."""
        self._requests.append(lines)

    def put(self, event: Event | OSError) -> None:
        """Show an event, or the end of a response."""
        self._events.put(event)

    def close(self) -> None:
        """Disconnect every request."""
        self.is_closed = True
        for lines in self._requests:
            lines.close()
        self._events.put(None)

    def __iter__(self) -> Iterator[Event]:
        """Yield events until the client disconnects. Raises OSError when a response breaks."""
        yield Event("ready")
        while (event := self._events.get()) is not None:
            if isinstance(event, OSError):
                raise event
            yield event


def parse_event(line: str) -> Iterator[Event]:
    """Yield the event of a line `data: {...}`."""
    if line.startswith("data: {"):
        yield Event(**json.loads(line.removeprefix("data: ")))
