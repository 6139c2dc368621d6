"""Recorded conversations as a client receives them, for the page's own tests: whole turns, and logs of any course.

`python -m tests.support.recorded_thread` writes `tests/data/thread`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from stepline.adapters.memory.model import Fail, Say
from stepline.delivery.resume import resume
from stepline.errors import DependencyError, ModelOverloaded, ModelRefused
from stepline.events.derive import derive, has_events
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.model.batch import Batch
from stepline.model.decision import Notice
from stepline.model.entry import ApprovalRequested, Contributed, Reopened
from stepline.model.file.attachment import Attachment
from stepline.model.program.execution import Run, ToolEvent
from stepline.model.program.running_log import RunningLog
from stepline.model.step import Step
from stepline.model.usage import Bust, Usage
from stepline.model.wire.event import encode_frame, frame_events
from stepline.ports.executor import Job
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, tool
from tests.support.generation import BROKEN, answered, called, coded
from tests.support.log_builder import LogBuilder, logs
from tests.support.small_context import SmallContext, prose
from tests.support.steered_conversation import ANSWER, SPOKEN, SteeredConversation

DATA: Final = Path(__file__).parents[1] / "data"
FOLDER: Final = DATA / "thread"
GENERATIONS: Final = (
    "streams/interleaved",
    "streams/emoji_and_joiners",
    "streams/string_never_closed",
    "streams/legacy_thinking",
    "vectors/2_backtick_in_code",
    "vectors/7_lone_high_surrogate",
    "found/answer_in_prose_call_in_fence",
)
"""Generations whose live view is corrected, cut off or refused at its end."""
MIDST: Final = (SPOKEN.index(ANSWER) + len(ANSWER) // 2) // 8
LOGS: Final = 12
MADE_UP: Final = 300
LONGEST: Final = 90
"""The maximum number of events of a kept log."""
QUIET: Final = list(HealthCheck)

Frames = list[dict[str, Any]]


def spoken(path: str, mode: Any) -> Conversation:
    """Return a conversation whose first round is a recorded generation."""
    said = (DATA / f"{path}.txt").read_bytes().decode()
    conversation = Conversation(Say(text=said, piece_chars=19), *[answered("So it is.")] * 4)
    conversation.programs(lambda _job: Run(returncode=0, program_log="ran\n"))
    conversation.agent = dataclasses.replace(conversation.agent, fanout=FanoutRule(mode=mode))
    return conversation


def steered(text: str) -> SteeredConversation:
    conversation = SteeredConversation(SPOKEN, answered("Brief.", notes="", suggested_followups=["Go on"]))
    conversation.at(MIDST, lambda: conversation.steer(text) if text else conversation.stop())
    return conversation


def added() -> SteeredConversation:
    conversation = SteeredConversation(SPOKEN, answered("And the second.", notes=""))
    conversation.at(MIDST, lambda: conversation.send("and the second?", id="f1"))
    return conversation


def carried() -> SteeredConversation:
    conversation = SteeredConversation(SPOKEN, SPOKEN, answered("The next turn."), max_iterations=1)
    for call in (0, 1):
        conversation.at(MIDST, lambda call=call: conversation.send("more", id=f"f{call}"), call=call)
    return conversation


def compacted() -> SmallContext:
    conversation = SmallContext()
    conversation.plan(*["x"] * 12, notes=prose(2_000))
    return conversation


def programs(*script: str, run: Callable[[Job], Run] | None = None) -> Conversation:
    conversation = Conversation(*script, answered("Done."))
    conversation.programs(run or (lambda _job: Run(returncode=0, program_log="1\n")))
    return conversation


def reporting() -> Conversation:
    """Return a conversation whose tool reports while it runs, in two attempts of which the first fails."""
    runs: list[int] = []

    def work(context: ToolContext) -> ToolOutput:
        runs.append(1)
        context.progress(1, 4, "reading")
        context.emit("preview", {"attempt": len(runs)}, live=True)
        if len(runs) == 1:
            raise DependencyError("the service is gone")
        context.progress(3, 4, "writing")
        context.emit("rows", {"count": 3})
        return ToolOutput(blocks=(context.result("acme.work", {"status": "ok"}),))

    conversation = Retrying(called("acme.work"), answered("Done."))
    conversation.use(tool("acme.work", "pure", work))
    return conversation


class Retrying(Conversation):
    """A conversation whose failed actions are tried again, as the state machine does."""

    def act(self, step: Step | None = None) -> Step:
        step = step or self.now()
        try:
            return super().act(step)
        except DependencyError:
            return super().act(msgspec.structs.replace(step, attempt=step.attempt + 1))


def printing(job: Job) -> Run:
    """Print several lines; a watching client sees all but the last one while the program runs."""
    began, ended = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.500Z"
    for log in (
        RunningLog(lane="exec.0.log", began_at=began),
        RunningLog(lane="exec.0.log", text="one\n", began_at=began),
        RunningLog(lane="exec.0.log", since=4, text="one\ntwo\n", ended=True, began_at=began, ended_at=ended),
    ):
        job.keep_log(msgspec.json.encode(log))
    return Run(returncode=0, program_log="one\ntwo\n", log_bytes=8, seconds=0.5, began_at=began)


class Asking(Conversation):
    """A conversation whose tool needs a person; each of `verdicts` answers one request."""

    def __init__(self, *verdicts: dict[str, Any]) -> None:
        super().__init__(called(PAY, {"sum": 100}, notes="I pay."), answered("Done."))
        self.verdicts = list(verdicts)
        made = tool(PAY, "once", pay, approval="always")
        schema = {"type": "object", "properties": {"sum": {"type": "integer", "description": "s"}}}
        self.use(dataclasses.replace(made, spec=dataclasses.replace(made.spec, schema=schema)))

    def run(self) -> None:
        super().run()
        while self.state.parked and self.verdicts:
            call = self.entries(ApprovalRequested)[-1].action.call_id
            said = {"message_id": f"a{self.tail.n}", "user": USER, "call_id": call, **self.verdicts.pop(0)}
            answer_request(self.ports, LANE, ApprovalAnswer(**said))
            super().run()


class InLine(Conversation):
    """A conversation on a stage with room for one turn, which another conversation occupies until this one is queued."""

    def __init__(self) -> None:
        super().__init__(*[answered("Hello.")] * 2, open_turns=1)
        self.send("before", lane=msgspec.structs.replace(LANE, conversation="c-0"))

    def run(self) -> None:
        self.clock.pause(7)
        super().run()


PAY: Final = "bank.pay"


def pay(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result(PAY, "paid"),))


SEARCH: Final = called("web_tools.web_search", {"queries": ["prompt caching"], "objective": "o"})
PLAN: Final = called("react.plan", {"mode": "new", "steps": ["look", "write"]}, notes="I plan.")
WRITE: Final = called(
    "react.write", {"path": "outputs/a.md", "channel": "canvas", "content": "# A\n\nText", "kind": "file"}
)
NOTE: Final = called(
    "react.write",
    {"path": "outputs/b.md", "channel": "timeline_text", "content": "On the way.", "kind": "display"},
)

RECIPES: Final[dict[str, Callable[[], Conversation]]] = {
    "an answer": lambda: Conversation(answered("Hello.", suggested_followups=["More?"])),
    "a tool that reports": reporting,
    "a program": lambda: programs(coded("print(1)", "a.csv", notes="I count.", prog_name="count")),
    "a program that is watched": lambda: programs(coded("print(1)", "a.csv"), run=printing),
    "a program that fails": lambda: programs(coded("1/0", "a.csv"), run=lambda _job: Run(returncode=1)),
    "a broken decision": lambda: Conversation(BROKEN, answered("Done.")),
    "a search that is cited": lambda: Conversation(
        SEARCH, answered("So it is [[S:1]], not [[S:77]].", suggested_followups=["More?"])
    ),
    "a plan and two files": lambda: Conversation(PLAN, WRITE, NOTE, answered("Done.")),
    "a steer": lambda: steered("be brief"),
    "a stop": lambda: steered(""),
    "a message in mid-answer": added,
    "a message that opens the next turn": carried,
    "a call that fails in its midst": lambda: Conversation(
        Fail(error=ModelOverloaded("busy"), after_chars=40, text=SPOKEN), answered("Done.")
    ),
    "a turn that fails": lambda: Conversation(Fail(error=ModelRefused("no"), after_chars=40, text=SPOKEN)),
    "a compaction": compacted,
    "a turn that waits in line": InLine,
    "a call that waits for a person": Asking,
    "a call that is approved": lambda: Asking({"verdict": "approved"}),
    "a call that is denied": lambda: Asking({"verdict": "denied", "text": "Too much."}),
    "a call that is edited": lambda: Asking({"verdict": "edited", "params": {"sum": 5}}),
} | {
    f"{path}, {mode}": lambda path=path, mode=mode: spoken(path, mode)
    for path in GENERATIONS
    for mode in ("off", "safe_fanout")
}


def record(conversation: Conversation) -> Frames:
    """Run a conversation with a watching client; events from before the connection arrive by a resume."""
    inbox = conversation.listen("watcher")
    if conversation.batches():
        about: dict[str, Any] = {"user": USER, "connection": "watcher", "until_s": FAR}
        resume(conversation.ports, LANE, after=0, have={}, claim=0, **about)
    else:
        conversation.send("go")
    conversation.run()
    frames = _decoded(inbox)
    # A full context is long: its streamed text is left out.
    return (
        [frame for frame in frames if frame["frame"] != "delta"]
        if isinstance(conversation, SmallContext)
        else frames
    )


def _decoded(bodies: Iterable[bytes]) -> Frames:
    return [json.loads(body) for body in bodies]


# --- logs


def told() -> LogBuilder:
    """Return a log with the entries that the recorded conversations do not have."""
    log = LogBuilder()
    log.message(
        "pay the bill",
        attachments=(Attachment(filename="bill.pdf", mime="application/pdf", size_bytes=9, sha256="5" * 64),),
    )
    turn = log.turn
    hook = ToolEvent(type="prepared", at=log.at, data={"rows": 3})
    log.put(log.state, Contributed(turn=turn, at=log.at, blocks=(), hook="pre_run_hook", emitted=(hook,)))
    notices = (
        Notice(code="text_outside_channels", message="It was dropped."),
        log.dropped(2, "multi_action_bundle_strategy_incompatible"),
    )
    bust = Bust(reason="hide", expected_tokens=8_100, read_tokens=2_100)
    usage = Usage(input_tokens=300, cache_read_tokens=2_100, cache_write_5m_tokens=6_000, output_tokens=90)
    calls = (("web_tools.web_fetch", {"urls": ["https://example.com/1"]}), ("acme.run", {"path": "a.md"}))
    about = {"thinking": ("First.", "Then."), "thinking_ms": ((10, 250),), "rounds_left": 13, "model": "m-1"}
    log.act(*calls, notes="I look.", notices=notices, bust=bust, usage=usage, **about)
    row = {"sid": 1, "title": "One", "url": "https://example.com/1", "text": "a page", "status": "success"}
    failed = {"url": "https://example.com/2", "status": "timeout", "error": "the page did not come"}
    pages = {
        "execution_id": log.call(),
        "objective": "o",
        "urls": ["https://example.com/1"],
        "results": [row, failed],
    }
    fetched = ToolEvent(type="web_fetch.results", at=log.at, data=pages)
    log.result(tool="web_tools.web_fetch", emitted=(fetched,), duration_ms=142)
    progress = ToolEvent(type="progress", at=log.at, data={"percent": 50})
    file = log.file("a.md")
    log.result(tool="acme.run", emitted=(progress,), blocks=(file,), plans=(log.plan("look", "write"),))
    until = "2026-11-21T10:05:00.000Z"
    wait = Reopened(iteration=1, attempt=1, until=until, code="model_overloaded", attempts=4)
    log.put(msgspec.structs.replace(log.state, claim=log.n, waits=1), wait)
    log.answer("Paid.", plan=log.plan("look", "write", status={"1": "done"}))
    log.close()
    log.rate(turn, "not_ok", "too short", origin="user", turn_at=log.at)
    log.rate(turn, None, "", origin="user", turn_at=log.at)
    log.message("be brief", event="steer")
    log.message("a storm comes", event="alert", reactive=False, source="weather")
    log.rate(turn, "ok", "exact", origin="machine", turn_at=log.at, confidence=0.9)
    return log


def frames_of(batches: Iterable[Batch]) -> Frames:
    """Return the durable frames of a log."""
    frames: Frames = []
    prev = 0
    for batch in batches:
        if not has_events(batch):
            continue
        framed = frame_events("c-1", n=batch.n, prev=prev, claim=batch.state.claim, events=derive(batch))
        frames += _decoded(map(encode_frame, framed))
        prev = batch.n
    return frames


def any_logs() -> list[Frames]:
    """Return logs of any course, no two of the same, and the same ones at each call."""
    found: dict[tuple[str, ...], Frames] = {}

    @seed(22)
    @settings(
        max_examples=MADE_UP,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    @given(logs())
    def collect(log: LogBuilder) -> None:
        frames = frames_of(log.batches)
        course = tuple(event["type"] for frame in frames for event in frame.get("events", ()))
        if course.count("chat.start") > 1 and len(course) < LONGEST:
            found[course] = frames

    collect()
    most = sorted(found, key=lambda course: (-len(set(course)), -course.count("chat.start"), course))
    return [found[course] for course in most[:LOGS]]


def write() -> None:
    """Write the recordings."""
    recordings = [{"name": name, "frames": record(make())} for name, make in RECIPES.items()]
    store_thread("conversations.json", recordings)
    store_thread("told.json", frames_of(told().batches))
    store_thread("logs.json", any_logs())


def store_thread(name: str, value: list[Any]) -> None:
    """Write a list to a file of the recordings, a line an item."""
    lines = ",\n".join(json.dumps(item, ensure_ascii=True, separators=(",", ":")) for item in value)
    (FOLDER / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    write()
