"""The rules of the fold as vectors: short sequences of frames, one for each possible effect of a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from stepline.local.client.outgoing import Said
from stepline.local.client.state import ClientState, note_message
from stepline.model.wire.event import (
    CONTROL_LANE,
    AckFrame,
    DeltaFrame,
    ErrorFrame,
    Frame,
    PongFrame,
    SyncFrame,
)
from tests.unit.local.client.test_reducer import (
    CLOSE,
    OPEN,
    REQUEST,
    STEERED,
    accepted,
    batch,
    delta,
    dropped,
    event,
)
from tests.unit.local.client.test_reducer_replay import C
from tests.unit.local.client.vector_walk import fold_all, vector

START: Final = batch(1, 0, event("chat.start"), claim=1)
REPLACED: Final = '{"do":"open","lane":"answer.0.r1","facts":{"marker":"answer","replaces":"answer.0"}}\n'
LATER: Final = (
    '{"do":"move","lane":"a"}\n{"do":"open","lane":"a","facts":{"marker":"hologram"}}\nno json\n[]\n'
    '{"do":"close","lane":"a","chars":"5"}\n{"do":"close","lane":"a","chars":5,"aborted":"bored"}\n'
)


def report(text: str) -> str:
    return f'{{"type":"react.tool.event","route":"chat_service","ts":"","data":{{"data":"{text}"}}}}\n'


ONE: Final = report("é🙂 one")
BAD: Final = 'no json\n[]\n{"type":"later"}\n\n'


def log(off: int, text: str, start: int = 0) -> DeltaFrame:
    return DeltaFrame(conversation=C, claim=2, lane="exec.1.log", off=off, text=text, start=start)


def refusal(code: str, **given: Any) -> ErrorFrame:
    return ErrorFrame(code=code, message="no", **given)


TEXTS: Final[dict[str, list[Frame]]] = {
    "text that overlaps is taken from where the client stands": [
        delta(1, 0, "Hé🙂lo"),
        delta(1, 2, "🙂lo w→r"),
        delta(1, 1, "é🙂"),
        delta(1, 7, "→r🙂🙂"),
    ],
    "a piece that comes early waits for the piece before it": [
        delta(1, 0, "🙂b"),
        delta(1, 6, "gh"),
        delta(1, 4, "e🙂"),
        delta(1, 4, "e🙂"),
        delta(1, 2, "cd"),
    ],
    "a report is an event when its line is whole, and an unreadable line is skipped": [
        delta(1, 0, ONE[:70], "report.0.0"),
        delta(1, 60, ONE[60:] + BAD[:3], "report.0.0"),
        delta(1, len(ONE), BAD + report("two") + report("three"), "report.0.0"),
        delta(1, len(ONE + BAD), report("two"), "report.0.0"),
    ],
    "reports of a later attempt count, and those of an earlier one change nothing": [
        delta(1, 0, ONE, "report.9.1"),
        delta(1, 0, ONE, "report.10.0"),
        delta(1, len(ONE), report("late"), "report.9.1"),
        delta(1, len(ONE), report("two"), "report.10.0"),
    ],
    "the result of a call settles the stream of its reports": [
        START,
        delta(2, 0, ONE, "report.0.0"),
        batch(3, 1, event("react.tool.result", call_id="tc_1"), claim=3),
        delta(2, len(ONE), report("late"), "report.0.0"),
    ],
    "the end of a lane is told when its text is here": [
        delta(1, 0, OPEN, CONTROL_LANE),
        delta(1, 0, "Hel", "answer.0"),
        delta(1, 0, OPEN, CONTROL_LANE),
        delta(1, len(OPEN), CLOSE, CONTROL_LANE),
        delta(1, 3, "lo", "answer.0"),
    ],
    "a line of the control lane that is cut waits for its rest": [
        delta(1, 0, OPEN[:20], CONTROL_LANE),
        delta(1, 20, OPEN[20:] + LATER + REPLACED[:9], CONTROL_LANE),
        delta(1, len(OPEN + LATER) + 9, REPLACED[9:], CONTROL_LANE),
    ],
    "a newer claim voids the text of an older one": [
        delta(1, 0, "old"),
        delta(4, 0, "new"),
        delta(1, 3, "er"),
    ],
    "the beginning of a program's log is kept nowhere": [
        log(0, "ab🙂"),
        log(2, "🙂d", start=1),
        log(6, "later", start=5),
        log(20, "gone", start=12),
        log(12, "between ", start=12),
        batch(3, 0, event("code_exec.status", status="done")),
        log(24, "too late"),
    ],
}

TURNS: Final[dict[str, list[Frame]]] = {
    "a hole before a batch applies nothing": [
        batch(3, 2),
        batch(1, 0),
        batch(2, 1),
        batch(3, 2),
        batch(2, 1),
    ],
    "a decision settles its stream": [
        START,
        delta(1, 0, "Hi"),
        batch(2, 1, event("solver.react.decision", claim=1), claim=1),
        delta(1, 2, " there"),
    ],
    "a restarted round voids what its first attempt showed": [
        START,
        delta(1, 0, "Hal"),
        batch(2, 1, event("round.restarted"), claim=2),
        delta(1, 3, "lo"),
    ],
    "the end of a turn replaces what was streamed, but for the next turn's": [
        START,
        delta(3, 0, "next"),
        batch(2, 1, event("chat.complete", answer="one", reason="complete")),
        batch(3, 2, event("chat.start"), claim=3),
    ],
    "a turn that failed says whether its message may be sent again": [
        batch(
            1,
            0,
            event("chat.error", code="model_overloaded", error="later", retryable=True, retry_after_s=20),
        ),
    ],
    "a steer settles the stream and is told": [
        START,
        delta(1, 0, "Hal"),
        batch(4, 1, event("solver.react.decision", claim=1, interrupted=True), STEERED, claim=4),
        delta(4, 0, "Hi"),
    ],
    "a message that comes to nothing is handed back with its text": [
        START,
        batch(2, 1, accepted("m2", "and this?"), accepted("m3", "alert", "alert")),
        batch(4, 2, event("chat.complete", answer="so"), dropped(2, "m2", "stopped")),
    ],
    "a conversation that is deleted ends its turn, and nothing comes after that": [
        START,
        batch(2, 1, accepted("m2", "and this?")),
        delta(1, 0, "Hal"),
        batch(3, 2, event("conv.status", state="deleted")),
        delta(1, 3, "lo"),
        PongFrame(conversation=C, n=9),
    ],
    "an approval is known until it is answered": [
        batch(1, 0, event("chat.start"), REQUEST),
        batch(2, 1, event("approval.answered", call_id="tc_0123456789ab")),
    ],
    "an older frame about an answered approval changes nothing": [
        batch(1, 0, event("chat.start"), REQUEST),
        batch(2, 1, event("approval.answered", call_id="tc_0123456789ab")),
        SyncFrame(conversation=C, n=1, open=True, turn_id="turn_1", approval=1),
    ],
    "a turn in line moves up until it begins": [
        batch(1, 0, event("chat.start"), event("turn.queued", place=3)),
        PongFrame(conversation=C, n=1, place=2),
        PongFrame(conversation=C, n=1, place=2),
        SyncFrame(conversation=C, n=1, open=True, turn_id="turn_1", place=1),
        PongFrame(conversation=C, n=0, place=9),
        batch(2, 1, event("turn.begun", waited_ms=7000)),
        PongFrame(conversation=C, n=3, place=1),
        batch(3, 2, event("chat.complete", answer="so")),
    ],
    "a turn in line that ends waits no longer, and the next one may": [
        batch(1, 0, event("chat.start"), event("turn.queued", place=2)),
        batch(2, 1, event("chat.complete", answer=""), event("chat.start"), event("turn.queued", place=5)),
        batch(3, 2, event("conv.status", state="deleted")),
    ],
    "a sync says where a turn waits that the client has not seen begin": [
        SyncFrame(conversation=C, n=0, open=True, turn_id="turn_9", place=4),
        SyncFrame(conversation=C, n=0),
    ],
    "a sync says whether a turn is open, and a pong what is missing": [
        SyncFrame(conversation=C, n=0, open=True, claim=3, turn_id="turn_9"),
        delta(3, 0, "x"),
        SyncFrame(conversation=C, n=0),
        PongFrame(conversation=C, n=4),
        SyncFrame(conversation=C, n=4),
    ],
    "frames of another conversation change nothing": [
        replace(batch(1, 0), conversation="c2"),
        replace(delta(1, 0, "x"), conversation="c2"),
        refusal("not_found", conversation="c2"),
        AckFrame(message_id="m9", conversation="c2", n=4, kind="prompt"),
    ],
}

ANSWERS: Final[dict[str, list[Frame]]] = {
    "an answered message is forgotten, and its batch is missing": [
        AckFrame(message_id="m1", conversation=C, n=4, kind="opened"),
        AckFrame(message_id="m1", conversation=C, n=4, kind="opened", duplicate=True, newest=6),
    ],
    "a passing refusal keeps the message": [
        refusal("busy", message_id="m1", retryable=True),
        refusal("auth_expired", message_id="m1"),
        refusal("not_found", message_id="m1"),
    ],
    "a refusal without a readable id means the only unanswered message": [refusal("bad_json")],
    "a deletion that was missed is heard by what is refused, message by message": [
        START,
        refusal("conversation_deleted", conversation=C),
        refusal("conversation_deleted", conversation=C, message_id="m1"),
        refusal("conversation_deleted", conversation="c2"),
    ],
    "a conversation that is shorter than the cursor begins anew": [
        batch(1, 0),
        refusal("resume_beyond_end", conversation=C),
    ],
}


def rules() -> Iterator[dict[str, Any]]:
    """Yield the vectors of all rules."""
    for name, frames in {**TEXTS, **TURNS}.items():
        yield vector(name, fold_all(frames, ClientState(conversation=C)))
    for name, frames in ANSWERS.items():
        state = note_message(ClientState(conversation=C), "m1", Said(text="hi"))
        yield vector(name, fold_all(frames, state), noted={"m1": "hi"})
    later = SyncFrame(conversation=C, n=9, open=True, turn_id="turn_1", approval=7)
    frames = [later, batch(7, 6, REQUEST), batch(9, 7), later]
    steps = fold_all(frames, ClientState(conversation=C, cursor=9))
    yield vector("a client that began behind a request for an approval asks for it", steps, cursor=9)
