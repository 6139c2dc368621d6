"""One event of each class, sent in each phase of a turn, through the real loop: the log shows its fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from stepline.adapters.memory.model import MemoryModelClient, MemoryModelStream
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.model.entry import ApprovalRequested, Closed, Decided, Dropped, Inbound, Opened, SteeredEntry
from stepline.model.program.execution import Run
from stepline.model.wire.live_event import EventClass
from stepline.ports.model import ModelRequest
from stepline.tools.context import ToolOutput
from tests.support.conversation import LANE, USER, Conversation, tool
from tests.support.generation import answered, called, coded

ID: Final = "event"
SENT: Final[dict[EventClass, dict[str, Any]]] = {
    "message": {"kind": "followup", "text": "and this"},
    "reactive": {"kind": "form", "text": "", "payload": {"plan": "pro"}},
    "quiet": {"kind": "alert", "text": "", "payload": {"disk": 91}},
    "steer": {"kind": "steer", "text": "shorter"},
    "stop": {"kind": "stop", "text": ""},
}
"""An event of each class, in the form that is sent."""

PHASES: Final = {
    "idle": "no turn is open",
    "decide": "the model writes its answer",
    "act": "a tool runs",
    "program": "a program runs",
    "parked": "a call waits for a person, who approves it then",
    "finalize": "the model writes its last answer after a steer",
    "close": "the answer is recorded, and the turn is about to close",
    "last": "the same, and no round is left",
    "stopped": "the model writes, and a stop follows at once",
}
"""The phase in which it arrives."""

ENDS: Final = {
    "opened": "opens a turn",
    "seen": "is read by another round",
    "finalized": "interrupts; the turn comes to an end",
    "stopped": "interrupts; the turn closes at once",
    "promoted": "opens the next turn",
    "kept": "waits for the next turn",
    "handed_back": "is handed back",
}
"""The possible fates."""

Happening = Callable[[], object]


class Overheard(MemoryModelClient):
    """Answers every request; each time it writes, one function of `meanwhile` is called."""

    def __init__(self, *steps: str) -> None:
        """Say these first."""
        super().__init__(*steps, *[answered("All done.")] * 8)
        self.meanwhile: list[Happening] = []

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        self.requests.append(request)
        return _Overheard(request, self._next, self.meanwhile.pop(0) if self.meanwhile else None)


class _Overheard(MemoryModelStream):
    def __init__(self, request: ModelRequest, next_step: Any, happening: Happening | None) -> None:
        super().__init__(request, next_step)
        self._happening = happening

    def __iter__(self) -> Iterator[str]:
        for piece in super().__iter__():
            happening, self._happening = self._happening, None
            if happening:
                happening()
            yield piece


def play(event_class: EventClass, phase: str, *, begun: bool = False) -> Conversation:
    """Send the event in a phase of a turn, and drive everything to its end; `begun`: it is not the conversation's first."""
    rounds = {"max_iterations": 1, "event_credit": 0} if phase == "last" else {}
    conversation = Conversation(**rounds)

    if begun:
        conversation.send("", id="earlier", kind="note")

    def send_event() -> None:
        conversation.send(id=ID, **SENT[event_class])

    if phase == "idle":
        conversation.model = Overheard()
        send_event()
    else:
        conversation.model = _prepare(conversation, phase, send_event)
        conversation.send("Do it.", id="first")
    if phase in ("close", "last"):
        name, step = conversation.take()
        step = conversation.decide(step)
        send_event()
        step = conversation.close(step)
        if step.route == "decide":
            conversation.drive(step)
        conversation.machine.end(name)
    conversation.run()
    if phase == "parked":
        send_event()
        _approve(conversation)
        conversation.run()
    assert conversation.state.status == "idle"
    return conversation


def _approve(conversation: Conversation) -> None:
    """Answer as the person, unless the event has withdrawn the request."""
    if conversation.state.parked:
        (asked,) = conversation.entries(ApprovalRequested)
        answer = ApprovalAnswer(
            message_id="answer", user=USER, call_id=asked.action.call_id, verdict="approved"
        )
        answer_request(conversation.ports, LANE, answer)


def _prepare(conversation: Conversation, phase: str, send_event: Happening) -> Overheard:
    """Send the event in this phase; return the model that leads there."""
    match phase:
        case "act":
            conversation.use(tool("x.work", "pure", lambda _: (send_event(), ToolOutput())[1]))
            return Overheard(called("x.work"))
        case "parked":
            conversation.use(tool("x.work", "pure", lambda _: ToolOutput(), approval="always"))
            return Overheard(called("x.work"))
        case "program":
            conversation.programs(lambda _: (send_event(), Run(returncode=0, seconds=0.5))[1])
            return Overheard(coded("print(1)", "outputs/a.txt"))
    model = Overheard()
    if phase == "decide":
        model.meanwhile = [send_event]
    elif phase == "finalize":
        model.meanwhile = [lambda: conversation.send("come to an end", id="before", kind="steer"), send_event]
    elif phase == "stopped":
        model.meanwhile = [lambda: (send_event(), conversation.send("", id="after", kind="stop"))]
    return model


def fate(conversation: Conversation) -> str:
    """Return the fate of the event, a word of `ENDS`, and after it the reason if it was returned."""
    entries = [(batch, entry) for batch in conversation.batches() for entry in batch.entries]
    n, event = next((b.n, e) for b, e in entries if isinstance(e, Inbound) and e.message_id == ID)
    settled = next((e for _, e in entries if isinstance(e, Dropped) and e.n == n), None)
    if settled is not None:
        return f"handed_back {settled.reason}"
    for batch, entry in entries:
        match entry:
            case Opened() if n in entry.prompts:
                return "opened" if batch.n == n else "promoted"
            case SteeredEntry() if event.steers and entry.n >= n:  # of several, the newest is named
                return "finalized" if entry.finalize else "stopped"
    end = next((batch.n for batch, entry in entries if isinstance(entry, Closed) and batch.n > n), 0)
    seen = any(isinstance(e, Decided) and n <= b.state.rendered and b.n < end for b, e in entries)
    return "seen" if seen else "kept"


def end_of(conversation: Conversation) -> str:
    """Return the reason of the close of the event's turn, or of the one before it."""
    return str(conversation.entries(Closed)[0].reason)
