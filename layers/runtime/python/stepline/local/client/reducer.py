"""The client as a pure fold: state and frame in, state and effects out. Frames may be lost, repeated or late.

Durable events are applied exactly once and in the order of the log: each frame names the previous batch with events, so
a gap is detected. Streamed text is addressed by character: for any order of frames, the text is a prefix of the model's
output. The fold never uses a socket, a clock or a terminal.

Source: docs/concepts/log.md.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.events.types import TERMINAL
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    HandedBack,
    Refused,
    Reported,
    Steered,
    StreamReset,
    StreamSettled,
    Synced,
    TextAppended,
    TurnEnded,
    Waiting,
)
from stepline.local.client.control import Control, fold_control, fold_ends
from stepline.local.client.state import ClientState, LaneText, forget_message, without
from stepline.model.wire.event import (
    CONTROL_LANE,
    AckFrame,
    AuthFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    FeedFrame,
    Frame,
    NoticeFrame,
    PongFrame,
    SyncFrame,
    WatchingFrame,
    is_report_lane,
    join_pieces,
    newest_report_lane,
)
from stepline.model.wire.live_event import FOLLOWUP, STEER

EXPIRED: Final = frozenset({"auth_expired", "unauthorized"})
"""Refusals after which the client sends the same message again with a fresh token."""

UNREADABLE: Final = frozenset({"bad_json", "bad_message", "unknown_action", "message_too_large"})
"""Refusals of a message whose id the server may have been unable to read."""

BEYOND_END: Final = "resume_beyond_end"
"""The refusal for a conversation shorter than the client's cursor: another conversation has this name now."""

DELETED: Final = "conversation_deleted"
"""The refusal for a deleted conversation. The fold also reports it when the log contains the deletion."""

Folded = tuple[ClientState, tuple[Effect, ...]]


def is_passing(refusal: ErrorFrame) -> bool:
    """Return True if the same message, under the same id, may be accepted later or with a fresh token."""
    return refusal.retryable or refusal.code in EXPIRED


def resume_request(state: ClientState) -> dict[str, Any]:
    """Return the request for everything this client lacks."""
    request: dict[str, Any] = {"action": "resume", "conversation": state.conversation, "after": state.cursor}
    if state.streaming():
        have = {name: lane.end for name, lane in state.lanes.items()}
        request["stream"] = {"claim": state.claim, "off": have}
    return request


def fold_frame(state: ClientState, frame: Frame) -> Folded:
    """Apply one frame. A frame of another conversation changes nothing.

    A turn's start, its end and its new queue position are reported last.
    """
    after, effects = _fold(state, frame)
    if after.place == state.place:
        return after, effects
    return after, (*effects, Waiting(turn_id=after.turn_id or state.turn_id, place=after.place))


def _fold(state: ClientState, frame: Frame) -> Folded:
    match frame:
        case AckFrame():
            return _fold_ack(state, frame)
        case ErrorFrame() if frame.conversation in ("", state.conversation):
            return _fold_refusal(state, frame)
        case WatchingFrame() | FeedFrame() | NoticeFrame() | AuthFrame() | ErrorFrame():
            return state, ()  # of the user, of the connection, or of another conversation
        case _ if frame.conversation == state.conversation:
            return _fold_progress(state, frame)
        case _:
            return state, ()


def _fold_ack(state: ClientState, frame: AckFrame) -> Folded:
    """Forget the answered message; its batch has events, so a client without them has missed them."""
    state = forget_message(state, frame.message_id)
    if frame.conversation == state.conversation:
        state = replace(state, newest=max(state.newest, frame.n, frame.newest))
    return state, (Acknowledged(frame=frame),)


def _fold_refusal(state: ClientState, frame: ErrorFrame) -> Folded:
    """Forget a message that is refused for good.

    A refusal without a readable id refers to the only unanswered message.
    """
    if not frame.message_id and frame.code in UNREADABLE and len(state.unacked) == 1:
        frame = replace(frame, message_id=next(iter(state.unacked)))
    if frame.code == BEYOND_END:
        state = ClientState(conversation=state.conversation, unacked=state.unacked)
    elif not is_passing(frame):
        state = forget_message(state, frame.message_id)
    if frame.code == DELETED and frame.conversation:
        state, effects = _fold_deletion(state, state.cursor)
        return state, (*effects, Refused(frame=frame))
    return state, (Refused(frame=frame),)


def _fold_progress(state: ClientState, frame: EventFrame | DeltaFrame | SyncFrame | PongFrame) -> Folded:
    match frame:
        case EventFrame():
            return _fold_events(state, frame)
        case DeltaFrame():
            return _fold_delta(state, frame)
        case SyncFrame():
            return _fold_sync(state, frame)
        case PongFrame():
            place = frame.place if frame.n == state.cursor and state.open else state.place
            return replace(state, newest=max(state.newest, frame.n), place=place), ()


def _fold_events(state: ClientState, frame: EventFrame) -> Folded:
    if frame.n <= state.cursor:
        return state, ()
    if frame.prev > state.cursor:
        return replace(state, newest=max(state.newest, frame.n)), ()
    # prev <= cursor < n: no batch between the two has events, even if the cursor names a batch without any.
    if frame.parts == 1:
        return _apply_batch(state, frame, frame.events)
    pieces = {**state.parts.get(frame.n, {}), frame.part: frame.piece}
    state = replace(state, newest=max(state.newest, frame.n))
    if len(pieces) < frame.parts:
        return replace(state, parts={frame.n: pieces}), ()
    try:
        whole = join_pieces([pieces[part] for part in range(1, frame.parts + 1)])
    except (KeyError, msgspec.DecodeError):
        # The parts were cut before and after a release that filters differently: request the whole batch again.
        return replace(state, parts={}), ()
    return _apply_batch(state, frame, whole)


def _apply_batch(state: ClientState, frame: EventFrame, events: tuple[ClientEvent, ...]) -> Folded:
    began = state.cursor if state.began < 0 else state.began
    state = replace(state, cursor=frame.n, began=began, parts={})
    effects: list[Effect] = [EventsApplied(n=frame.n, prev=frame.prev, events=events)]
    for event in events:
        state, more = _apply_event(state, frame.n, event)
        effects += more
    if any(event.type in TERMINAL for event in events):
        state = replace(state, queued={})  # each was read, handed back, or opens the next turn
    state, more = _follow(state, frame.claim)
    return state, (*effects, *more)


def _apply_event(state: ClientState, n: int, event: ClientEvent) -> Folded:  # noqa: C901, PLR0911, PLR0912 - one branch per type of event
    match event.type:
        case "chat.start":
            return replace(state, open=True, turn_id=event.turn_id), ()
        case "turn.queued":
            return replace(state, place=int(event.data.get("place", 0))), ()
        case "turn.begun":
            return replace(state, place=0), ()
        case "solver.react.decision":
            return _settle(state, int(event.data.get("claim", 0)))
        case "round.restarted":
            # The batch of the restart is the claim of the new attempt.
            return _follow(state, n)
        case "chat.conversation.accepted" if event.data.get("kind") in (FOLLOWUP, STEER):
            queued = {**state.queued, str(event.data.get("message_id")): str(event.data.get("text", ""))}
            return replace(state, queued=queued), ()
        case "chat.step" if event.step == "dropped":
            return _fold_handed_back(state, event)
        case "approval.requested":
            return replace(state, approval=str(event.data.get("call_id", ""))), ()
        case "approval.answered":
            return replace(state, approval=""), ()
        case "timeline.external.steer.interrupted":
            return state, (_fold_steer(event),)
        case "react.tool.result":
            return _settle(state, n - 1)  # the reports of the call
        case "code_exec.status" if event.data.get("status") in ("done", "error"):
            return _settle(state, n - 1)  # the program's log
        case "conv.status" if event.data.get("state") == "deleted":
            state, effects = _fold_deletion(state, n)
            return state, (*effects, Refused(frame=deletion(state.conversation)))
        case kind if kind in TERMINAL:
            return _end(state, n, event)
        case _:
            return state, ()


def _fold_handed_back(state: ClientState, event: ClientEvent) -> Folded:
    """Report a message that was handed back, with its text if this client knows it."""
    message_id = str(event.data.get("message_id", ""))
    handed = HandedBack(
        n=int(event.data.get("n", 0)),
        message_id=message_id,
        kind=str(event.data.get("kind", "")),
        text=state.queued.get(message_id, ""),
        reason=str(event.data.get("reason", "")),
    )
    return replace(state, queued=without(state.queued, message_id)), (handed,)


def _fold_steer(event: ClientEvent) -> Steered:
    return Steered(
        n=int(event.data.get("sequence", 0)),
        turn_id=event.turn_id,
        message_id=str(event.data.get("message_id", "")),
        text=str(event.data.get("text", "")),
        phase=str(event.data.get("cancelled_phase", "")),
        finalize_rounds=int(event.data.get("finalize_rounds", 0)),
    )


def _end(state: ClientState, n: int, event: ClientEvent) -> Folded:
    """Close the turn: settle every stream that began before batch `n`; the recorded answer is final."""
    ended = TurnEnded(
        n=n,
        turn_id=event.turn_id,
        outcome="completed" if event.type == "chat.complete" else "error",
        answer=str(event.data.get("answer", "")),
        reason=str(event.data.get("reason", "")),
        code=str(event.data.get("code", "")),
        message=str(event.data.get("error", "")),
        retryable=bool(event.data.get("retryable")),
        retry_after_s=int(event.data.get("retry_after_s", 0)),
    )
    state, effects = _settle(state, n - 1)
    # The stream of the next turn may have arrived before this event.
    if not state.streaming():
        state = replace(state, lanes={}, control=Control())
    state = replace(state, open=False, turn_id="", approval="", place=0, ended=event.turn_id)
    return state, (*effects, ended)


def _fold_deletion(state: ClientState, upto: int) -> Folded:
    """End the turn and everything that runs: the conversation was deleted. Each unanswered message is refused."""
    state, effects = _settle(state, max(state.claim, state.settled, upto))
    return (
        replace(
            state,
            lanes={},
            control=Control(),
            parts={},
            queued={},
            open=False,
            turn_id="",
            approval="",
            place=0,
            ended=state.turn_id or state.ended,
            deleted=True,
        ),
        effects,
    )


def deletion(conversation: str) -> ErrorFrame:
    """Return the error frame for a conversation that is deleted according to its log."""
    return ErrorFrame(code=DELETED, message="the conversation was deleted", conversation=conversation)


def _settle(state: ClientState, upto: int) -> Folded:
    """Settle all streams up to `upto`: they no longer grow."""
    if upto <= state.settled:
        return state, ()
    running = state.streaming() and state.claim <= upto
    effects = (StreamSettled(claim=state.claim),) if running else ()
    if running:
        whole = {name: replace(lane, early=()) for name, lane in state.lanes.items()}
        state = replace(state, lanes=whole)
    return replace(state, settled=upto), effects


def _follow(state: ClientState, claim: int) -> Folded:
    """Switch to a newer stream; the displayed text of an unsettled older one is void."""
    if claim <= state.claim:
        return state, ()
    void = (StreamReset(claim=state.claim),) if state.streaming() and state.lanes else ()
    return replace(state, claim=claim, lanes={}, control=Control()), void


def _fold_delta(state: ClientState, frame: DeltaFrame) -> Folded:
    if frame.claim <= state.settled or frame.claim < state.claim:
        return state, ()
    state, effects = _follow(state, frame.claim)
    lane = state.lanes.get(frame.lane, LaneText())
    grown = _grow(_forget(lane, frame.start), frame.off, frame.text)
    state = replace(state, lanes={**state.lanes, frame.lane: grown})
    if grown.end > lane.end:
        state, more = _fold_growth(state, frame.lane, lane.end)
        effects = (*effects, *more)
    return state, effects


def _fold_growth(state: ClientState, name: str, before: int) -> Folded:
    """Report the text of lane `name` beyond character `before`."""
    claim, lane = state.claim, state.lanes[name]
    effects: tuple[Effect, ...]
    if is_report_lane(name):
        return state, _fold_reports(state, name, before)
    if name == CONTROL_LANE:
        control, effects = fold_control(state.control, claim, lane.text, lane.base)
        heard = [(known, other.end) for known, other in state.lanes.items()]
    else:
        off = max(before, lane.base)
        effects = (TextAppended(claim=claim, lane=name, off=off, text=lane.text[off - lane.base :]),)
        control, heard = state.control, [(name, lane.end)]
    control, ended = fold_ends(control, claim, heard)
    return replace(state, control=control), (*effects, *ended)


def _fold_reports(state: ClientState, name: str, before: int) -> tuple[Effect, ...]:
    """Report the complete lines beyond character `before`, unless a later attempt at the call has reported, too."""
    if name != newest_report_lane(state.lanes):
        return ()
    text = state.lanes[name].text
    lines = text[text.rfind("\n", 0, before) + 1 : text.rfind("\n") + 1].split("\n")
    events = tuple(event for line in lines if (event := _read_report(line)) is not None)
    return (Reported(claim=state.claim, lane=name, events=events),) if events else ()


def _read_report(line: str) -> ClientEvent | None:
    try:
        return _REPORTS.decode(line)
    except (msgspec.DecodeError, RecursionError):  # of a later release
        return None


_REPORTS: Final = msgspec.json.Decoder(ClientEvent)


def _forget(lane: LaneText, start: int) -> LaneText:
    """Forget the text before character `start`; it is kept nowhere."""
    if start <= lane.base:
        return lane
    return replace(lane, base=start, text=lane.text[start - lane.base :])


def _grow(lane: LaneText, off: int, text: str) -> LaneText:
    """Add one piece, then every early piece that now connects."""
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
        # Otherwise events are missing, or have arrived since; those events say whether the turn is open and queued.
        turn_id, place = (frame.turn_id, frame.place) if frame.open else ("", 0)
        state = replace(state, open=frame.open, turn_id=turn_id, place=place)
    has_request = 0 <= state.began < frame.approval  # an older frame, if the request has been answered since
    if frame.approval and not state.approval and state.cursor >= frame.approval and not has_request:
        # This client started after the request: it asks for the events from there on.
        state = replace(state, cursor=frame.approval - 1, began=-1)
    return state, (*effects, Synced(frame=frame))
