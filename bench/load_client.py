"""One conversation of a load: a separate client that shares no code with ours, only the protocol's pages.

It sends one message and follows its turn to the end as the protocol requires of clients: events are applied by `prev`, a
gap or a silence leads to a resume, a closed connection is opened again, and an unacknowledged message is sent again
under the same id. Waits double until something arrives, so that clients do not keep a slow stage slow.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

OPEN_S = 60
ACK_S = 30
"""Seconds without an answer after which a message is sent again."""
SILENCE_S = 25
REDIAL_S = 2
DOUBLINGS = 4
POLL_S = 1.0
TERMINAL = ("chat.complete", "chat.error")


class LostError(Exception):
    """The load lost or repeated something; the message names it."""


@dataclass
class Heard:
    """The events and times of one turn, as a client saw them; times are seconds since the load began."""

    conversation: str
    message_id: str
    sent_s: float = 0
    acked_s: float = 0
    delta_s: float = 0
    ended_s: float = 0
    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    positions: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    resent: int = 0
    dialled: int = 0
    again: int = 0

    def wrong(self) -> list[str]:
        """Return the faults of the received events."""
        kinds = [event["type"] for events in self.batches.values() for event in events]
        ends = [kind for kind in kinds if kind in TERMINAL]
        found = [] if ends == ["chat.complete"] else [f"ended with {ends}"]
        return (
            found if kinds.count("chat.start") == 1 else [*found, f"{kinds.count('chat.start')} turns began"]
        )


class LoadClient:
    """A conversation on one connection at a time; `now_s` is the load's clock."""

    def __init__(
        self, url: str, token: Callable[[], str], conversation: str, text: str, now_s: Callable[[], float]
    ) -> None:
        self._url, self._token, self._now_s = url, token, now_s
        self._message = {
            "action": "send",
            "conversation": conversation,
            "message_id": f"m_{conversation}",
            "text": text,
        }
        self.heard = Heard(conversation, self._message["message_id"])
        self._cursor = 0
        self._pieces: dict[int, dict[int, str]] = {}
        self._socket: ClientConnection | None = None
        self._patience_s = 0.0
        self._tries = 0

    def dial(self, until_s: float) -> None:
        """Open the connection, with as many attempts as needed."""
        while True:
            try:
                self._socket = connect(
                    self._url,
                    additional_headers={"Authorization": f"Bearer {self._token()}"},
                    compression=None,
                    proxy=None,
                    open_timeout=OPEN_S,
                    ping_interval=None,  # as a browser; a gateway under load answers late, and is not gone
                    legacy=False,
                ).__enter__()
            except (WebSocketException, OSError) as error:
                if self._now_s() > until_s:
                    raise LostError(f"no way in: {error!r}") from error
                time.sleep(REDIAL_S)
                continue
            self.heard.dialled += 1
            return

    def close(self) -> None:
        """Close the connection."""
        if self._socket:
            self._socket.close()

    def play(self, until_s: float) -> None:
        """Send the message and follow its turn to its end. Raises LostError when time is up."""
        self.heard.sent_s = self._now_s()
        self._send(self._message)
        while not self.heard.ended_s:
            if self._now_s() > until_s:
                raise LostError(f"no end, after batch {self._cursor}")
            self._step(until_s)

    def replay(self, until_s: float) -> dict[int, list[dict[str, Any]]]:
        """Return every event of the conversation, requested again from its beginning."""
        seen, self.heard.batches, self._cursor = self.heard.batches, {}, 0
        newest = max(seen, default=0)
        self._resume()
        while self._cursor < newest:
            if self._now_s() > until_s:
                raise LostError(f"no replay beyond batch {self._cursor}")
            self._step(until_s)
        whole, self.heard.batches = self.heard.batches, seen
        return whole

    def _step(self, until_s: float) -> None:
        """Handle the next frame, or its absence."""
        assert self._socket
        try:
            text = self._socket.recv(timeout=POLL_S)
        except TimeoutError:
            if self._now_s() > self._patience_s:
                self._ask_again()
            return
        except ConnectionClosed:
            self.dial(until_s)
            self._ask_again()
            return
        self._patience_s = self._now_s() + self._doubled(SILENCE_S)
        self._take(json.loads(text))

    def _ask_again(self) -> None:
        """Send an unacknowledged message again, else request missing events."""
        self._tries = min(self._tries + 1, DOUBLINGS)
        if self.heard.acked_s:
            self._resume()
            return
        self.heard.resent += 1
        self._send(self._message)

    def _resume(self) -> None:
        self._send(
            {"action": "resume", "conversation": self.heard.conversation, "after": self._cursor}, SILENCE_S
        )

    def _send(self, message: dict[str, Any], patience_s: float = ACK_S) -> None:
        assert self._socket
        self._patience_s = self._now_s() + self._doubled(patience_s)
        try:
            self._socket.send(json.dumps(message))
        except ConnectionClosed:
            self._patience_s = 0  # the next step finds out, dials and sends it again

    def _doubled(self, seconds: float) -> float:
        """Return a wait, doubled for each try since something arrived, with a random part."""
        return seconds * 2**self._tries * random.uniform(1, 1.5)

    def _take(self, frame: dict[str, Any]) -> None:
        kind = frame.get("frame")
        if kind == "ack" and frame["message_id"] == self.heard.message_id:
            self.heard.acked_s = self.heard.acked_s or self._now_s()
            self._tries = 0
        elif kind == "delta":
            self.heard.delta_s = self.heard.delta_s or self._now_s()
        elif kind == "events":
            self._take_events(frame)
        elif kind in ("sync", "pong"):
            self._note_position(frame.get("place", 0))
            if frame["n"] > self._cursor:
                self._resume()
        elif kind == "error" or kind is None:
            self._refused(frame)

    def _note_position(self, position: int) -> None:
        """Note a position in the queue; 0 is none."""
        if position:
            self.heard.positions.append(position)

    def _refused(self, frame: dict[str, Any]) -> None:
        """Send it again later if that may help; a frame without a kind is the gateway's own error."""
        code = frame.get("code", f"gateway: {frame.get('message')}")
        self.heard.refused.append(code)
        if "frame" in frame and not frame.get("retryable"):
            raise LostError(f"refused with {code}: {frame.get('message')}")
        self._patience_s = self._now_s() + (frame.get("retry_after_s") or self._doubled(REDIAL_S))

    def _take_events(self, frame: dict[str, Any]) -> None:
        """Apply a batch once, in order; request missing batches before it."""
        n, parts = frame["n"], frame.get("parts", 1)
        if n <= self._cursor:
            self.heard.again += 1
            return
        if frame["prev"] > self._cursor:
            self._resume()
            return
        if frame["prev"] < self._cursor:
            raise LostError(f"{n} follows {frame['prev']}, not {self._cursor}")
        events = frame.get("events", [])
        if parts > 1:
            pieces = self._pieces.setdefault(n, {})
            pieces[frame.get("part", 1)] = frame["piece"]
            if len(pieces) < parts:
                return
            events = json.loads("".join(pieces[part] for part in sorted(pieces)))
        self._cursor, self.heard.batches[n], self._tries = n, events, 0
        for event in events:
            self._note_position(event["data"].get("place", 0) if event["type"] == "turn.queued" else 0)
            if event["type"] in TERMINAL:
                self.heard.ended_s = self.heard.ended_s or self._now_s()
