"""A device: a client with a screen that folds what it gets with the real reducer, and says things until they stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stepline.local.client.effect import (
    Acknowledged,
    Effect,
    EventsApplied,
    Refused,
    StreamReset,
    StreamSettled,
    Synced,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.reducer import PASSING, ClientState, fold_frame, resume_request
from stepline.loop.ingress import receive
from stepline.model.event import ClientEvent, decode_frame
from stepline.ports.channel import Principal

from .boundary import Reach
from .invocation import Invocation
from .world import LANE, USER, World

TOKEN_S: Final = 3600
RESEND_S: Final = 7 * 86400
"""Nothing older is said again: the server may have forgotten it."""

Start = Callable[[str, Callable[[Reach], Any]], Invocation]
"""Begins an invocation for a device; it may be over when this returns, or not."""


class Device:
    """`applied` are the batches whose events it showed, `ended` the turns it saw end, `outbox` what no answer settled.

    `shown` has the text of each lane of the streams it followed, by claim.
    """

    def __init__(self, name: str, world: World, start: Start) -> None:
        self.name = name
        self.world = world
        self.state = ClientState(conversation=LANE.conversation)
        self.connection = ""
        self.applied: list[tuple[int, tuple[ClientEvent, ...]]] = []
        self.ended: list[TurnEnded] = []
        self.shown: dict[tuple[int, str], str] = {}
        self.settled: dict[int, int] = {}
        self.outbox: dict[str, tuple[str, float]] = {}
        self.refused: list[str] = []
        self.expired = False
        self.synced = False
        self._start = start
        self._lives = 0

    # --- the connection

    def join(self) -> None:
        """Open a connection with a fresh token; what it missed it asks for by `resume`."""
        self._lives += 1
        self.connection = f"{self.name}-{self._lives}"
        self.expired = self.synced = False
        self.world.publisher.open(self.connection)
        connection, principal = self.connection, self._principal()
        self._invoke("connect", lambda seen: seen.subscriptions.connect(connection, principal))

    def drop(self) -> None:
        """Lose the connection, and what was on its way."""
        connection, self.connection = self.connection, ""
        self.world.publisher.close(connection)
        self._invoke("disconnect", lambda seen: seen.subscriptions.disconnect(connection))

    def ask(self, request: dict[str, Any]) -> None:
        """Send one message over the connection, as it is."""
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
        self.outbox[message_id] = (json.dumps(message), self._now())
        self.send(message_id)

    def send(self, message_id: str) -> None:
        """Send what stands in the outbox, unless it is too old to be said again."""
        body, since = self.outbox[message_id]
        if self._now() - since >= RESEND_S:
            del self.outbox[message_id]
            return
        self.ask(json.loads(body))

    # --- what it hears

    def read(self) -> None:
        """Fold what has arrived."""
        inbox = self.world.publisher.inboxes.get(self.connection, [])
        while inbox:
            self.state, effects = fold_frame(self.state, decode_frame(inbox.pop(0)))
            for effect in effects:
                self._hear(effect)

    def behind(self) -> bool:
        """Tell whether it has something to ask for."""
        return not self.synced or self.state.behind()

    def _hear(self, effect: Effect) -> None:
        match effect:
            case Acknowledged(frame=frame):
                self.outbox.pop(frame.message_id, None)
            case Refused(frame=frame):
                self._be_refused(frame.code, frame.message_id)
            case EventsApplied(n=n, events=events):
                self.applied.append((n, events))
            case TextAppended(claim=claim, lane=lane, off=off, text=text):
                before = self.shown.get((claim, lane), "")
                assert off == len(before), f"{self.name} has a hole in its text"
                self.shown[claim, lane] = before + text
            case StreamReset(claim=claim):
                self.shown = {key: text for key, text in self.shown.items() if key[0] != claim}
            case StreamSettled(claim=claim):
                self.settled[claim] = self.state.cursor
            case TurnEnded():
                self.ended.append(effect)
            case Synced():
                self.synced = True
            case _:
                pass

    def _be_refused(self, code: str, message_id: str) -> None:
        if code in ("auth_expired", "unauthorized"):
            self.expired = True
        elif code == "not_found":
            self.synced = True  # nobody has said anything yet
        elif code not in PASSING:
            self.refused.append(code)
            self.outbox.pop(message_id, None)

    # --- how

    def _invoke(self, name: str, body: Callable[[Any], Any]) -> None:
        self._start(f"{self.name} {name}", lambda reach: body(self.world.seen(reach)))

    def _principal(self) -> Principal:
        expires_at = int(self._now()) + TOKEN_S
        return Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=expires_at)

    def _now(self) -> float:
        return float(self.world.clock.now().timestamp())
