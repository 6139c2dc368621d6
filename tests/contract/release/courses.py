"""The conversations that are recorded of each release, one for each kind of content that a log, a state or a frame can have."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.delivery.resume import resume
from stepline.errors import ModelRefused
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.feedback import submit_feedback
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.importing.import_document import read_document
from stepline.model.entry import ApprovalRequested, Feedback
from stepline.model.file.attachment import attachment_key
from stepline.model.program.execution import Run
from stepline.model.program.running_log import RunningLog
from stepline.ports.executor import Job
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.files import picture
from tests.support.generation import BROKEN, answered, called, coded
from tests.support.journal_conversation import DRAW, LIST, JournalConversation
from tests.support.moved_conversation import CSV, PADDING, bring, hydrated, uploaded
from tests.support.moved_conversation import SENT as TABLE
from tests.support.recorded_thread import DATA, NOTE, PLAN, SEARCH, WRITE, Asking, InLine
from tests.support.small_context import BIG, SmallContext, prose
from tests.support.steered_conversation import ANSWER, SPOKEN, SteeredConversation
from tests.support.task_conversation import TaskConversation

MIDST: Final = (SPOKEN.index(ANSWER) + len(ANSWER) // 2) // 8
BEGAN, ENDED = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.500Z"
ORIGIN: Final = replace(LANE, conversation="c-0")
LINES: Final = "one\ntwo\n"
APPROVED: Final = {"verdict": "approved"}
DENIED: Final = {"verdict": "denied", "text": "Too much."}
EDITED: Final = {"verdict": "edited", "params": {"sum": 5}}
IMPORTED: Final = ("conv.timeline.v1", "conv.sources_pool", "turn.log.1", "turn.log.2")

Play = Callable[[Conversation], None]


@dataclass(frozen=True)
class Course:
    """A conversation that is recorded: the world that it is in, what happens there, and a world to read it in."""

    world: Callable[[], Conversation]
    play: Play
    reader: Callable[[], Conversation] = Conversation


def watch(conversation: Conversation) -> list[bytes]:
    """Listen to a conversation; return the inbox, with a resume of what was said while it was set up."""
    inbox: list[bytes] = conversation.listen("watcher")
    if conversation.batches():
        about: dict[str, Any] = {"user": USER, "connection": "watcher", "until_s": FAR}
        resume(conversation.ports, LANE, after=0, have={}, claim=0, **about)
    return inbox


def _turns(*texts: str, **fields: Any) -> Play:
    """Return a course of turns, a minute apart, each of which runs to its end."""

    def play(conversation: Conversation) -> None:
        for at, text in enumerate(texts):
            conversation.send(text, id=f"m{at}", **fields)
            conversation.run()
            conversation.clock.pause(60)

    return play


def _said(*script: Say | Fail | str, **policy: Any) -> Callable[[], Conversation]:
    return lambda: Conversation(*script, **policy)


def _programs() -> Conversation:
    conversation = Conversation(coded("print(1)", "a.csv", notes="I count.", prog_name="count"))
    conversation.programs(_print)
    conversation.model.add(coded("1/0", "b.csv"), answered("Counted."))
    return conversation


def _print(job: Job) -> Run:
    """Print some lines and a last one, of which a client that watches sees the first while the program runs."""
    for log in (
        RunningLog(lane="exec.0.log", text="one\n", began_at=BEGAN),
        RunningLog(lane="exec.0.log", since=4, text=LINES, ended=True, began_at=BEGAN, ended_at=ENDED),
    ):
        job.keep_log(msgspec.json.encode(log))
    return Run(returncode=0, program_log=LINES, log_bytes=len(LINES), seconds=0.5, began_at=BEGAN)


def _attached(conversation: Conversation) -> None:
    conversation.ports.artifacts.put(attachment_key(LANE, TABLE.sha256), CSV, mime=TABLE.mime)
    conversation.send("Which city is the largest?", attachments=(TABLE,), timezone="Europe/Berlin")
    conversation.run()


def _steered(kind: str, text: str) -> Callable[[], Conversation]:
    """Return a conversation in whose answer a live event comes."""

    def make() -> Conversation:
        conversation = SteeredConversation(
            SPOKEN, answered("Brief.", notes="", suggested_followups=["Go on"])
        )
        conversation.at(MIDST, lambda: conversation.send(text, id="s1", kind=kind))
        return conversation

    return make


def _carried() -> Conversation:
    """Return a conversation whose round limit makes a follow-up the prompt of the next turn."""
    conversation = SteeredConversation(SPOKEN, answered("The next turn."), max_iterations=1)
    conversation.at(MIDST, lambda: conversation.send("and the second?", id="f1"))
    return conversation


def _asking() -> Conversation:
    """Return a world with the tool that asks a person, whose model has nothing to say yet."""
    conversation = Asking()
    conversation.model = MemoryModelClient()
    return conversation


def _answer_all(*verdicts: dict[str, Any]) -> Play:
    """Return a course of a turn whose tool asks a person, who answers each request."""

    def play(conversation: Conversation) -> None:
        conversation.send("pay the bill")
        conversation.run()
        for verdict in verdicts:
            answer(conversation, verdict)

    return play


def answer(conversation: Conversation, verdict: dict[str, Any]) -> None:
    """Answer the request for an approval that waits."""
    entries = [entry for batch in hydrated(conversation.ports) for entry in batch.entries]
    call = [entry for entry in entries if isinstance(entry, ApprovalRequested)][-1].action.call_id
    about = {"message_id": f"answer-{call}", "user": USER, "call_id": call, **verdict}
    answer_request(conversation.ports, LANE, ApprovalAnswer(**about))
    conversation.run()


def _reduced(conversation: Conversation) -> None:
    """Hide a result, prune by time, and compact."""
    assert isinstance(conversation, SmallContext)
    conversation.texts.append(prose(1_500))
    conversation.model.add(called(BIG))
    conversation.send("read it")
    name, step = conversation.take()
    following = conversation.act(conversation.decide(step))
    path = next(block.path for block in conversation.timeline().blocks() if block.path.endswith(".result"))
    conversation.model.add(called("react.hide", {"path": path, "replacement": "otters"}), answered("Hidden."))
    conversation.drive(following)
    conversation.machine.end(name)
    conversation.clock.pause(7_200)
    for n in range(4):
        conversation.talk(f"tell me more {n}", rounds=3)


def _rated(conversation: Conversation) -> None:
    _turns("first", "second")(conversation)
    first, second = conversation.timeline().turns
    for at, given in enumerate(
        (
            Feedback(at="", turn=first, reaction="not_ok", text="too long"),
            Feedback(
                at="", turn=first, reaction="not_ok", text="No source.", origin="machine", confidence=0.8
            ),
            Feedback(at="", turn=second, reaction="ok", given_at="2026-11-21T10:00:00Z"),
            Feedback(at="", turn=second),
        )
    ):
        submit_feedback(conversation.ports, conversation.history, LANE, given, user=USER, message_id=f"r{at}")


def _import(conversation: Conversation) -> None:
    folder = DATA / "import"
    documents = [read_document((folder / f"{name}.json").read_bytes(), name) for name in IMPORTED]
    uploads = (uploaded(conversation.ports, TABLE, CSV, lane=LANE),)
    bring(conversation.ports, documents, conversation=LANE.conversation, uploads=uploads)


def _fork(conversation: Conversation) -> None:
    """Take a turn in another conversation, and go on from its end in this one."""
    conversation.send("first", id="o1", lane=ORIGIN)
    conversation.run()
    tail = conversation.ports.log.tail(ORIGIN, consistent=True)
    assert tail is not None
    point = ForkPoint(kind="batch", at=str(tail.n))
    fork_conversation(conversation.ports, ORIGIN, point, user=USER, conversation=LANE.conversation)
    conversation.send("second", id="m1")
    conversation.run()


def _journal() -> Conversation:
    conversation = JournalConversation(called(DRAW), called(LIST))
    conversation.model.add(answered("Drawn."), answered("And told."))
    return conversation


def _journal_play(conversation: Conversation) -> None:
    assert isinstance(conversation, JournalConversation)
    files = conversation.attach(picture(color=(1, 2, 3)))
    conversation.send("draw and list", attachments=files)
    conversation.run()
    conversation.send("go on", id="m2")
    conversation.run()


def _to_act(conversation: Conversation) -> None:
    """Stop between the decision and its calls, as a worker does that dies."""
    conversation.send("look it up")
    _, step = conversation.take()
    conversation.steps += [step, conversation.decide(step)]


def _taken_over(conversation: Conversation) -> None:
    """Lose the execution of a turn; the next message finds that."""
    conversation.send("look it up")
    name, step = conversation.take()
    conversation.steps.append(step)
    conversation.machine.end(name)
    conversation.clock.pause(120)
    conversation.send("are you there?", id="m2")
    conversation.run()


def _handed_back(conversation: Conversation) -> None:
    """Steer where no turn is open."""
    _turns("hello")(conversation)
    conversation.send("be brief", id="s1", kind="steer")


def _queued(conversation: Conversation) -> None:
    conversation.send("wait for it")


def _in_a_task() -> Conversation:
    return TaskConversation(Path(tempfile.mkdtemp()), coded("print(1)", "a.csv"), answered("Counted."))


def _sealed() -> Conversation:
    conversation = Conversation(seal_batches=6)
    conversation.model.add(PLAN, WRITE, answered("Planned."), NOTE, answered("Noted."), answered("Third."))
    return conversation


COURSES: Final[dict[str, Course]] = {
    "an answer": Course(_said(answered("Hello.", suggested_followups=["More?"])), _turns("hello")),
    "tools and sources": Course(
        _said(PLAN, WRITE, SEARCH, answered("So it is [[S:1]], not [[S:77]].")), _turns("look it up")
    ),
    "programs with files": Course(_programs, _turns("count them")),
    "an attachment": Course(_said(answered("Ulm.")), _attached),
    "an answer beyond a batch": Course(_said(answered(PADDING)), _turns("tell me all")),
    "a steer": Course(_steered("steer", "be brief"), Conversation.run),
    "a stop": Course(_steered("stop", ""), Conversation.run),
    "a follow-up": Course(_steered("followup", "and the second?"), Conversation.run),
    "a follow-up in the next turn": Course(_carried, Conversation.run),
    "a broken decision": Course(_said(BROKEN, answered("Done.")), _turns("go")),
    "a turn that fails": Course(
        _said(Fail(error=ModelRefused("no"), after_chars=40, text=SPOKEN)), _turns("go")
    ),
    "an approval that waits": Course(Asking, _answer_all(), _asking),
    "an approval": Course(Asking, _answer_all(APPROVED), _asking),
    "a denial": Course(Asking, _answer_all(DENIED), _asking),
    "an edited call": Course(Asking, _answer_all(EDITED), _asking),
    "a turn in the queue": Course(InLine, _queued),
    "a turn that was in the queue": Course(InLine, _turns("wait for it")),
    "a take-over": Course(_said(answered("Here I am.")), _taken_over),
    "a steer that is handed back": Course(_said(answered("Hello.")), _handed_back),
    "a call that did not run": Course(_said(PLAN, answered("Planned.")), _to_act),
    "segments": Course(_sealed, _turns("plan it", "note it", "and now?")),
    "hidden, pruned, compacted": Course(SmallContext, _reduced, SmallContext),
    "a program in a task": Course(_in_a_task, _turns("count them")),
    "feedback": Course(_said(answered("First."), answered("Second.")), _rated),
    "imported documents": Course(Conversation, _import),
    "a fork": Course(_said(answered("First."), answered("Second.")), _fork),
    "the journal layout": Course(_journal, _journal_play, JournalConversation),
}

_CALL: Final = "tc_0123456789ab"
_UPLOAD: Final = f"up_{'0' * 32}"
SENT: Final[Sequence[str]] = [
    json.dumps({"conversation": "c-1", "message_id": "m1", **row} if row["action"] != "watch" else row)
    for row in (
        {"action": "send", "text": "hello"},
        {"action": "send", "text": "look", "uploads": [_UPLOAD], "timezone": "Asia/Tokyo", "bundle": "docs"},
        {"action": "event", "kind": "steer", "payload": {"text": "be brief"}},
        {"action": "event", "kind": "alert", "reactive": False, "payload": {"level": 3, "of": ["a", None]}},
        {"action": "approve", "call_id": _CALL},
        {"action": "deny", "call_id": _CALL, "text": "no"},
        {"action": "edit", "call_id": _CALL, "params": {"sum": 5}},
        {"action": "feedback", "reaction": "ok", "text": "good", "ts": "2026-11-21T10:00:00Z"},
        {"action": "feedback", "reaction": None, "turn": "turn_20260101T000000_000000"},
        {"action": "watch"},
    )
] + [
    '{"action":"resume","conversation":"c-1","after":7,"stream":{"claim":5,"off":{"answer.0":12}}}',
    '{"action":"ping","conversation":"c-1"}',
    '{"action":"auth","ticket":"t-1"}',
]
"""A message of each kind, as a client sends it."""
