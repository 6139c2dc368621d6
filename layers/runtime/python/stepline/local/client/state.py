"""The client's state of one conversation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from stepline.local.client.control import Control
from stepline.local.client.outgoing import Said, render_request
from stepline.model.base import Value

K = TypeVar("K")
T = TypeVar("T")


class LaneText(Value):
    """One lane of the running stream, from character `base` on.

    The text before it is in another client state, or kept nowhere.

    `early` holds pieces that arrived before the pieces they continue.
    """

    base: int = 0
    text: str = ""
    early: tuple[tuple[int, str], ...] = ()

    @property
    def end(self) -> int:
        """The character offset after the last known one."""
        return self.base + len(self.text)


class ClientState(Value):
    """The client's state of one conversation.

    `cursor` is the newest batch applied, `newest` the newest one known; `began` is the cursor before the first batch that was
    applied, -1 if none was. `claim` names the running stream, 0 if none is
    known; `settled` is the newest stream that can no longer grow. `parts` collects the pieces of a batch that came in
    several frames, by batch and part. `control` holds the facts about the running stream's lanes. `unacked` maps ids of
    our unanswered messages to their content; `queued` maps ids of all messages besides the open turn to their texts.
    `approval` is the call for which the turn waits for an approval. `place` is the position of a queued turn, 1 if it
    is the next; 0 if the turn is not queued. `ended` is the newest ended turn that this client knows. `deleted`:
    nothing of the conversation is left, and nothing more arrives.
    """

    conversation: str
    cursor: int = 0
    newest: int = 0
    began: int = -1
    claim: int = 0
    settled: int = 0
    lanes: Mapping[str, LaneText] = {}
    control: Control = Control()
    parts: Mapping[int, Mapping[int, str]] = {}
    unacked: Mapping[str, Said] = {}
    queued: Mapping[str, str] = {}
    open: bool = False
    turn_id: str = ""
    approval: str = ""
    place: int = 0
    ended: str = ""
    deleted: bool = False

    def text(self, lane: str) -> str:
        """Return the known text of one lane of the running stream."""
        return self.lanes.get(lane, LaneText()).text

    def streaming(self) -> bool:
        """Return True if the current stream may still grow."""
        return self.claim > self.settled

    def behind(self) -> bool:
        """Return True if something is missing: a batch, or the text before a piece that arrived."""
        missing = self.newest > self.cursor or any(lane.early for lane in self.lanes.values())
        return missing and not self.deleted


def send_request(state: ClientState, message_id: str) -> dict[str, Any]:
    """Return the request for the message stored under `message_id`."""
    return render_request(state.conversation, message_id, state.unacked[message_id])


def note_message(state: ClientState, message_id: str, said: Said) -> ClientState:
    """Add a message to the unanswered ones."""
    return replace(state, unacked={**state.unacked, message_id: said})


def forget_message(state: ClientState, message_id: str) -> ClientState:
    """Remove a message from the unanswered ones."""
    return replace(state, unacked=without(state.unacked, message_id))


def without(known: Mapping[K, T], name: K) -> Mapping[K, T]:
    """Return a copy of `known` without `name`."""
    return {other: value for other, value in known.items() if other != name}
