"""What a client knows of one conversation, and what it asks for by that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from stepline.local.client.control import Control
from stepline.local.client.outgoing import Said, render_request
from stepline.model.base import Value

T = TypeVar("T")


class LaneText(Value):
    """One lane of the running stream, from character `base` on; what stands before it, somebody else has.

    `early` holds pieces that arrived before the ones they continue.
    """

    base: int = 0
    text: str = ""
    early: tuple[tuple[int, str], ...] = ()

    @property
    def end(self) -> int:
        """The character at which this lane goes on."""
        return self.base + len(self.text)


class ClientState(Value):
    """Everything a client knows of one conversation.

    `cursor` is the newest batch applied, `newest` the newest one heard of. `claim` names the running stream, 0 if none is
    known; `settled` is the newest stream that can no longer grow. `parts` collects the pieces of a batch that came in
    several frames, by batch and part. `control` is what the running stream told of its lanes. `unacked` maps our message ids to what no
    answer settled yet, `queued` those of anybody's messages beside the open turn to their texts.
    """

    conversation: str
    cursor: int = 0
    newest: int = 0
    claim: int = 0
    settled: int = 0
    lanes: Mapping[str, LaneText] = {}
    control: Control = Control()
    parts: Mapping[int, Mapping[int, str]] = {}
    unacked: Mapping[str, Said] = {}
    queued: Mapping[str, str] = {}
    open: bool = False
    turn_id: str = ""
    answer: str = ""

    def text(self, lane: str) -> str:
        """Return what is known of one lane of the running stream."""
        return self.lanes.get(lane, LaneText()).text

    def streaming(self) -> bool:
        """Tell whether a stream is known that may still grow."""
        return self.claim > self.settled

    def behind(self) -> bool:
        """Tell whether something got lost on the way: a batch, or a piece of text before one that came."""
        return self.newest > self.cursor or any(lane.early for lane in self.lanes.values())


def send_request(state: ClientState, message_id: str) -> dict[str, Any]:
    """Return the message that says, or says again, what is noted under `message_id`."""
    return render_request(state.conversation, message_id, state.unacked[message_id])


def note_message(state: ClientState, message_id: str, said: Said) -> ClientState:
    """Remember what is said until the server answers it."""
    return replace(state, unacked={**state.unacked, message_id: said})


def forget_message(state: ClientState, message_id: str) -> ClientState:
    """Stop saying a message again."""
    return replace(state, unacked=without(state.unacked, message_id))


def without(known: Mapping[str, T], name: str) -> Mapping[str, T]:
    """Return everything known but what stands under `name`."""
    return {other: value for other, value in known.items() if other != name}
