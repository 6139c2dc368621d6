"""A client with a screen, which folds its frames with the real reducer and repeats its messages until they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stepline.ingress.message import receive
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    Refused,
    Reported,
    StreamReset,
    Synced,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.reducer import fold_frame, is_passing, resume_request
from stepline.local.client.state import ClientState
from stepline.model.wire.event import ClientEvent, ErrorFrame, decode_frame
from stepline.ports.channel import Principal
from tests.contract.fault.boundary import Reach
from tests.contract.fault.invocation import Invocation
from tests.contract.fault.simulation import LANE, USER, Simulation

TOKEN_S: Final = 3600
RESEND_S: Final = 7 * 86400
"""Nothing older is said again: the server may have forgotten it."""

Start = Callable[[str, Callable[[Reach], Any]], Invocation]
"""Begins an invocation for a client; it may be over when this returns, or not."""


class Client:
    """`applied` are the batches whose events it showed, `ended` the turns it saw end.

    `said` is all it ever said, with the time, and `outbox` what no answer settled; what became too old to be said again,
    or came too fast, is `given_up`. `shown` has the text of each lane of the streams it followed, by claim, and
    `reported` the reports of each attempt at a call: the run that made it, and its step.
    """

    def __init__(self, name: str, simulation: Simulation, start: Start) -> None:
        self.name = name
        self.simulation = simulation
        self.state = ClientState(conversation=LANE.conversation)
        self.connection = ""
        self.applied: list[tuple[int, tuple[ClientEvent, ...]]] = []
        self.ended: list[TurnEnded] = []
        self.shown: dict[tuple[int, str], str] = {}
        self.reported: dict[tuple[int, str], list[tuple[str, float]]] = {}
        self.said: dict[str, tuple[dict[str, Any], float]] = {}
        self.outbox: set[str] = set()
        self.given_up: set[str] = set()
        self.refused: list[str] = []
        self.expired = False
        self.synced = False
        self._start = start
        self._lives = 0
        self._opening: Invocation | None = None

    # --- the connection

    def join(self) -> None:
        """Open a connection with a fresh token; what it missed it asks for by `resume`."""
        self._lives += 1
        self.connection = f"{self.name}-{self._lives}"
        self.expired = self.synced = False
        self.simulation.publisher.open(self.connection)
        connection, principal = self.connection, self._principal()
        self._opening = self._invoke(
            "connect", lambda seen: seen.subscriptions.connect(connection, principal)
        )

    def drop(self) -> None:
        """Lose the connection, and what was on its way."""
        connection, self.connection, self._opening = self.connection, "", None
        self.simulation.publisher.close(connection)
        self._invoke("disconnect", lambda seen: seen.subscriptions.disconnect(connection))

    def ask(self, request: dict[str, Any]) -> None:
        """Send one message over the connection, as it is; before there is one, nothing is sent."""
        if self._opening is None or not self._opening.done:
            return
        connection, body = self.connection, json.dumps(request)
        self._invoke(f"message:{request['action']}", lambda seen: receive(seen, connection, body))

    def resume(self) -> None:
        self.synced = False
        self.ask(resume_request(self.state))

    def ping(self) -> None:
        self.ask({"action": "ping", "conversation": LANE.conversation})

    # --- what it says

    def say(self, message_id: str, **fields: Any) -> None:
        """Say something; it stays in the outbox until an answer settles it."""
        message = {"action": "event", "conversation": LANE.conversation, "message_id": message_id, **fields}
        self.said[message_id] = (message, self._now())
        self.outbox.add(message_id)
        self.send(message_id)

    def send(self, message_id: str) -> None:
        """Send what was said, again if need be, unless that is too long ago."""
        message, since = self.said[message_id]
        if self._now() - since < RESEND_S:
            self.ask(message)
        elif message_id in self.outbox:
            self.outbox.discard(message_id)
            self.given_up.add(message_id)

    # --- what it hears

    def read(self) -> None:
        """Fold what has arrived."""
        inbox = self.simulation.publisher.inboxes.get(self.connection, [])
        while inbox:
            self.state, effects = fold_frame(self.state, decode_frame(inbox.pop(0)))
            for effect in effects:
                self._hear(effect)

    def is_late(self) -> bool:
        """Return True if it has to request something."""
        return not self.synced or self.state.behind()

    def _hear(self, effect: Effect) -> None:
        match effect:
            case Acknowledged(frame=frame):
                self.outbox.discard(frame.message_id)
            case Refused(frame=frame):
                self._be_refused(frame)
            case EventsApplied(n=n, events=events):
                self.applied.append((n, events))
            case TextAppended(claim=claim, lane=lane, off=off, text=text):
                before = self.shown.get((claim, lane), "")
                assert off == len(before), f"{self.name} has a hole in its text"
                self.shown[claim, lane] = before + text
            case Reported(claim=claim, lane=lane, events=events):
                steps = self.reported.setdefault((claim, lane), [])
                steps += [(event.data["text"], event.data["done"]) for event in events]
            case StreamReset(claim=claim):
                self.shown = {key: text for key, text in self.shown.items() if key[0] != claim}
            case TurnEnded():
                self.ended.append(effect)
            case Synced():
                self.synced = True
            case _:
                pass

    def _be_refused(self, frame: ErrorFrame) -> None:
        code, message_id = frame.code, frame.message_id
        if code in ("auth_expired", "unauthorized"):
            self.expired = True
        elif code == "not_found":
            self.synced = True  # there is no message yet
        elif code == "rate_limited":
            self.outbox.discard(message_id)
            self.given_up.add(message_id)
        elif not is_passing(frame):
            self.refused.append(code)
            self.outbox.discard(message_id)

    # --- how

    def _invoke(self, name: str, body: Callable[[Any], Any]) -> Invocation:
        return self._start(f"{self.name} {name}", lambda reach: body(self.simulation.seen(reach)))

    def _principal(self) -> Principal:
        expires_at = int(self._now()) + TOKEN_S
        return Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=expires_at)

    def _now(self) -> float:
        return float(self.simulation.clock.now().timestamp())
