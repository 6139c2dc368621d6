"""A user's device: it folds frames with the real reducer, says again what was not taken, and comes back after it was away."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stepline.local.client.change import Acknowledged, EventsApplied, Refused, TurnEnded
from stepline.local.client.reducer import fold_frame, is_passing, resume_request
from stepline.local.client.state import ClientState
from stepline.model.wire.event import ClientEvent, decode_frame
from tests.contract.deploy_storm.mixed_stage import Stage, recorded
from tests.contract.deploy_storm.release_tree import ReleaseTree

TRIES: Final = 20


class StormClient:
    """`applied` are the events of each batch that it showed, in order; `frames` counts how often each batch was sent to it."""

    def __init__(self, conversation: str, stage: Stage, draw: Callable[[], ReleaseTree]) -> None:
        self.conversation = conversation
        self.state = ClientState(conversation=conversation)
        self.applied: list[tuple[int, tuple[ClientEvent, ...]]] = []
        self.ended: list[TurnEnded] = []
        self.refused: list[str] = []
        self._stage, self._draw = stage, draw
        self._unsettled: dict[str, dict[str, Any]] = {}
        self._lives = 0

    @property
    def connection(self) -> str:
        return f"{self.conversation}-{self._lives}"

    def join(self) -> None:
        """Open a connection, and ask for what is missing."""
        self._lives += 1
        event = recorded("connect")
        event["requestContext"]["connectionId"] = self.connection
        self._stage.invoke(self._draw(), "socket", event)
        if self.state.cursor:
            self.ask(resume_request(self.state))
        for message in [*self._unsettled.values()]:
            self.ask(message)

    def rejoin(self) -> None:
        """Lose the connection with what is on its way, and come back."""
        self._stage.inboxes.pop(self.connection, None)
        self.join()

    def say(self, message: dict[str, Any]) -> None:
        """Send a message until it is taken or refused for good."""
        self._unsettled[message["message_id"]] = message
        for _ in range(TRIES):
            self.ask(message)
            if message["message_id"] not in self._unsettled:
                return

    def ask(self, request: dict[str, Any]) -> None:
        event = {**recorded("message"), "body": json.dumps({"conversation": self.conversation, **request})}
        event["requestContext"]["connectionId"] = self.connection
        self._stage.invoke(self._draw(), "socket", event)
        self.read()

    def read(self) -> None:
        """Fold what has arrived."""
        inbox = self._stage.inboxes.get(self.connection, [])
        while inbox:
            self.state, effects = fold_frame(self.state, decode_frame(inbox.pop(0)))
            for effect in effects:
                self._hear(effect)

    def catch_up(self) -> None:
        """Ask until nothing is missing, as a client does."""
        for _ in range(TRIES):
            self.ask(resume_request(self.state))
            if self.state.newest <= self.state.cursor:
                return

    def _hear(self, effect: Any) -> None:
        match effect:
            case Acknowledged(frame=frame):
                self._unsettled.pop(frame.message_id, None)
            case Refused(frame=frame) if not is_passing(frame):
                self.refused.append(frame.code)
                self._unsettled.pop(frame.message_id, None)
            case EventsApplied(n=n, events=events):
                self.applied.append((n, events))
            case TurnEnded():
                self.ended.append(effect)
            case _:
                pass
