"""The client as a pure fold: state and frame in, state and effects out. Frames may be lost, repeated or late.

Durable events are applied exactly once and in the order of the log: each frame names the batch before it
that has events, so a hole shows itself. Running text is addressed by character: whatever arrives, the text
is a prefix of what the model wrote. The fold never touches a socket, a clock or a terminal.
Source: docs/concepts/log.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from stepline.local.client.control import Control, fold_control, fold_ends
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
from stepline.model.base import Value
from stepline.model.event import (
    AckFrame,
    AuthFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    Frame,
    PongFrame,
    SyncFrame,
    join_pieces,
)
from stepline.protocol.lane import CONTROL_LANE
from stepline.timeline.event_type import TERMINAL

EXPIRED: Final = frozenset({"auth_expired", "unauthorized"})
"""Refusals that say: the same message again, with a fresh token."""

PASSING: Final = frozenset({"busy", "dependency", "unknown_outcome"}) | EXPIRED
"""Refusals that say: the same message again, later."""


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

    `cursor` is the newest batch applied. `claim` names the running stream, 0 if none is known; `settled` is the
    newest stream that can no longer grow. `newest` is the newest batch heard of. `parts` collects the pieces of batches that came in several frames,
    by batch and part. `control` is what the running stream told of its lanes. `unacked` maps our message ids to texts that no answer settled yet.
    """

    conversation: str
    cursor: int = 0
    newest: int = 0
    claim: int = 0
    settled: int = 0
    lanes: Mapping[str, LaneText] = {}
    control: Control = Control()
    parts: Mapping[int, Mapping[int, str]] = {}
    unacked: Mapping[str, str] = {}
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


Folded = tuple[ClientState, tuple[Effect, ...]]


def resume_request(state: ClientState) -> dict[str, Any]:
    """Return the message that asks for exactly what this client does not have."""
    request: dict[str, Any] = {
        "action": "resume",
        "conversation": state.conversation,
        "after": state.cursor,
    }
    if state.streaming():
        have = {name: lane.end for name, lane in state.lanes.items()}
        request["stream"] = {"claim": state.claim, "off": have}
    return request


def send_request(state: ClientState, message_id: str) -> dict[str, Any]:
    """Return the message that says, or says again, the text noted under `message_id`."""
    return {
        "action": "send",
        "conversation": state.conversation,
        "message_id": message_id,
        "text": state.unacked[message_id],
    }


def note_message(state: ClientState, message_id: str, text: str) -> ClientState:
    """Remember a message until the server answers it."""
    return replace(state, unacked={**state.unacked, message_id: text})


def forget_message(state: ClientState, message_id: str) -> ClientState:
    """Stop saying a message again."""
    rest = {known: text for known, text in state.unacked.items() if known != message_id}
    return replace(state, unacked=rest)


def fold_frame(state: ClientState, frame: Frame) -> Folded:
    """Apply one frame. A frame of another conversation changes nothing."""
    match frame:
        case AckFrame():
            return forget_message(state, frame.message_id), (Acknowledged(frame=frame),)
        case ErrorFrame():
            settled = frame.code not in PASSING
            return forget_message(state, frame.message_id) if settled else state, (Refused(frame=frame),)
        case AuthFrame():
            return state, ()  # of the connection, and of no conversation
        case _ if frame.conversation == state.conversation:
            return _fold_progress(state, frame)
        case _:
            return state, ()


def fold_frames(state: ClientState, frames: Iterable[Frame]) -> Folded:
    """Apply frames in turn."""
    effects: list[Effect] = []
    for frame in frames:
        state, more = fold_frame(state, frame)
        effects += more
    return state, tuple(effects)


def _fold_progress(state: ClientState, frame: EventFrame | DeltaFrame | SyncFrame | PongFrame) -> Folded:
    match frame:
        case EventFrame():
            return _fold_events(state, frame)
        case DeltaFrame():
            return _fold_delta(state, frame)
        case SyncFrame():
            return _fold_sync(state, frame)
        case PongFrame():
            return replace(state, newest=max(state.newest, frame.n)), ()


def _fold_events(state: ClientState, frame: EventFrame) -> Folded:
    if frame.n <= state.cursor:
        return state, ()
    if frame.prev > state.cursor:
        return replace(state, newest=max(state.newest, frame.n)), ()
    # prev <= cursor < n: no batch between the two has events, also when the cursor is one without any.
    if frame.parts == 1:
        return _apply_batch(state, frame, frame.events)
    pieces = {**state.parts.get(frame.n, {}), frame.part: frame.piece}
    if len(pieces) < frame.parts:
        return replace(state, parts={frame.n: pieces}), ()
    whole = join_pieces([pieces[part] for part in range(1, frame.parts + 1)])
    return _apply_batch(state, frame, whole)


def _apply_batch(state: ClientState, frame: EventFrame, events: tuple[ClientEvent, ...]) -> Folded:
    state = replace(state, cursor=frame.n, parts={})
    effects: list[Effect] = [EventsApplied(n=frame.n, prev=frame.prev, events=events)]
    for event in events:
        state, more = _apply_event(state, frame.n, event)
        effects += more
    state, more = _follow(state, frame.claim)
    return state, (*effects, *more)


def _apply_event(state: ClientState, n: int, event: ClientEvent) -> Folded:
    match event.type:
        case "chat.start":
            return replace(state, open=True, turn_id=event.turn_id, answer=""), ()
        case "solver.react.decision":
            return _settle(state, int(event.data.get("claim", 0)))
        case "round.restarted":
            # The batch of the restart is the claim of the new attempt.
            return _follow(state, n)
        case kind if kind in TERMINAL:
            return _end(state, n, event)
        case _:
            return state, ()


def _end(state: ClientState, n: int, event: ClientEvent) -> Folded:
    """Close the turn: every stream that began before batch `n` is settled, and the recorded answer stands."""
    answer = str(event.data.get("answer", ""))
    ended = TurnEnded(
        n=n,
        turn_id=event.turn_id,
        outcome="completed" if event.type == "chat.complete" else "error",
        answer=answer,
        code=str(event.data.get("code", "")),
        message=str(event.data.get("error", "")),
    )
    state, effects = _settle(state, n - 1)
    # The stream of the turn after this one may be ahead of this event.
    if not state.streaming():
        state = replace(state, lanes={}, control=Control())
    return replace(state, open=False, turn_id="", answer=answer), (*effects, ended)


def _settle(state: ClientState, upto: int) -> Folded:
    """Let no stream up to `upto` grow any more."""
    if upto <= state.settled:
        return state, ()
    running = state.streaming() and state.claim <= upto
    effects = (StreamSettled(claim=state.claim),) if running else ()
    if running:
        whole = {name: replace(lane, early=()) for name, lane in state.lanes.items()}
        state = replace(state, lanes=whole)
    return replace(state, settled=upto), effects


def _follow(state: ClientState, claim: int) -> Folded:
    """Go over to a newer stream; what an unsettled older one showed is void."""
    if claim <= state.claim:
        return state, ()
    void = (StreamReset(claim=state.claim),) if state.streaming() and state.lanes else ()
    return replace(state, claim=claim, lanes={}, control=Control()), void


def _fold_delta(state: ClientState, frame: DeltaFrame) -> Folded:
    if frame.claim <= state.settled or frame.claim < state.claim:
        return state, ()
    state, effects = _follow(state, frame.claim)
    lane = state.lanes.get(frame.lane, LaneText())
    grown = _grow(lane, frame.off, frame.text)
    state = replace(state, lanes={**state.lanes, frame.lane: grown})
    if grown.end > lane.end:
        state, more = _tell_growth(state, frame.lane, lane.end)
        effects = (*effects, *more)
    return state, effects


def _tell_growth(state: ClientState, name: str, before: int) -> Folded:
    """Say what the text of lane `name` beyond character `before` tells."""
    claim, lane = state.claim, state.lanes[name]
    told: tuple[Effect, ...]
    if name == CONTROL_LANE:
        control, told = fold_control(state.control, claim, lane.text, lane.base)
        heard = [(known, other.end) for known, other in state.lanes.items()]
    else:
        news = lane.text[before - lane.base :]
        told = (TextAppended(claim=claim, lane=name, off=before, text=news),)
        control, heard = state.control, [(name, lane.end)]
    control, ended = fold_ends(control, claim, heard)
    return replace(state, control=control), (*told, *ended)


def _grow(lane: LaneText, off: int, text: str) -> LaneText:
    """Add one piece, then every early piece that it reaches."""
    waiting = sorted({*lane.early, (off, text)})
    grown, early = replace(lane, early=()), []
    for at, piece in waiting:
        if at <= grown.end:
            grown = replace(grown, text=grown.text + piece[grown.end - at :])
        else:
            early.append((at, piece))
    return replace(grown, early=tuple(early))


def _fold_sync(state: ClientState, frame: SyncFrame) -> Folded:
    state, effects = _follow(state, frame.claim)
    state = replace(state, newest=max(state.newest, frame.n))
    if frame.n == state.cursor:
        # Else events are still to come, or came since; the turn is open or not as they say.
        state = replace(state, open=frame.open, turn_id=frame.turn_id if frame.open else "")
    return state, (*effects, Synced(frame=frame))
