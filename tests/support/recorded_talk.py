"""Conversations of every kind, drawn by a seed: their logs are what a replay gets.

The clock moves with every look at it, so no two times of a log are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, Final

from bundles.default import WORKFLOW
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.bundle.hook import hook_of
from stepline.errors import ModelOverloaded
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.feedback import submit_feedback
from stepline.loop.agent import Hooks
from stepline.model.entry import ApprovalRequested, Feedback
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.program.execution import Run
from stepline.ports.executor import Job
from stepline.replay.replay_turn import ReplayAgent
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, USER, Conversation, tool
from tests.support.files import PNG, picture
from tests.support.generation import BROKEN, answer_of, answered, call_of, called, coded, said, tagged
from tests.support.journal_conversation import DRAW, LIST, JournalConversation
from tests.support.small_context import SmallContext
from tests.support.steered_conversation import BEGIN, END, InterruptedModel, SteeredConversation

PAY: Final = "bank.pay"


class TickingClock(MemoryClock):
    """A clock that moves by 1.7 ms whenever it is read."""

    def now(self) -> datetime:
        self.pause(0.0017)
        return super().now()


def talks(rng: Random) -> Iterator[Conversation]:
    """Yield conversations, one of each kind in turn, without an end."""
    while True:
        for kind in KINDS:
            yield kind(rng)


def replayer(conversation: Conversation, **choices: Any) -> ReplayAgent:
    """Return the agent of a conversation for replays."""
    app = replace(conversation.app, ports=conversation.ports)
    return ReplayAgent(app=app, agent=conversation.agent, parts=WORKFLOW.parts(), **choices)


def _ticking(conversation: Conversation) -> Conversation:
    clock = TickingClock()
    conversation.clock = clock
    conversation.ports = replace(conversation.ports, clock=clock)
    return conversation


def _say(conversation: Conversation, text: str = "what is new?", **fields: Any) -> None:
    conversation.clock.pause(90)
    conversation.send(text, id=f"m{conversation.tail.n}", **fields)


# --- kinds


def _tools(rng: Random) -> Conversation:
    """Plans, files, reads, hides, broken and repaired generations, and unknown tools."""
    made = _ticking(Conversation())
    for number in range(5):
        rounds = (_round(rng, number) for _ in range(rng.randrange(1, 5)))
        made.model = MemoryModelClient(*rounds, _ending(rng), *[answered("Done at last.")] * 4)
        _say(made, rng.choice(("Sum it up", "Write it", "and then?")))
        made.run()
    return made


def _round(rng: Random, number: int) -> str | Say:
    steps = ["look", "write"]
    write = {"path": f"files/n{number}.md", "channel": "canvas", "content": "# A\n" * 9, "kind": "file"}
    return rng.choice(
        (
            called("react.plan", {"mode": "new", "steps": steps}, notes="I plan."),
            called("react.write", write, notes="✓ [1] look"),
            called("react.read", {"paths": ["fi:none.md"]}),
            called("none.such", {"a": 1}),
            BROKEN,
            said(
                '{"action": "call_tool", "notes": "x", "tool_call": {"tool_id": "react.read", "params": {}},}'
            ),
            said(
                call_of("react.plan", {"mode": "new", "steps": steps}),
                call_of("react.read", {"paths": ["fi:x"]}),
            ),
        )
    )


def _ending(rng: Random) -> str | Say:
    text = rng.choice(
        ("Done.", "It costs 3 € [[S:1]].\n\n| a | b |\n|---|---|\n| 1 | 2 |", 'A "quoted" \\ answer')
    )
    ended = answered(text, suggested_followups=["And then?"])
    summary = f"{ended}\n{tagged('summary', 'All is done.')}"
    return rng.choice(
        (
            ended,
            summary,
            Say(text=ended[:-60], stop_reason="max_tokens"),
            said(answer_of(text) | {"notes": "n"}),
        )
    )


def _programs(rng: Random) -> Conversation:
    made = _ticking(Conversation())

    def run(_: Job) -> Run:
        return Run(returncode=0, program_log="some output\n" * rng.randrange(4), seconds=0.3)

    made.programs(run)
    for number in range(4):
        made.model.add(coded(f"print({number})", "out.txt", notes="I count."), answered("Counted."))
        _say(made, "count")
        made.run()
    return made


def _approvals(rng: Random) -> Conversation:
    made = _ticking(Conversation())
    made.use(tool(PAY, "once", _pay, approval="always"))
    for planned in rng.sample(("approved", "denied", "edited", "withdrawn", "late"), 5):
        made.model = MemoryModelClient(called(PAY), answered("Paid."), answered("And that."))
        _say(made, "pay")
        made.run()
        made.clock.pause(30)
        asked: ApprovalRequested = made.entries(ApprovalRequested)[-1]
        if planned == "withdrawn":
            made.send("no, wait", id=f"s{made.tail.n}", kind="steer")
            made.run()
            continue
        if planned == "late":
            made.send("still there?", id=f"f{made.tail.n}")
        verdict: Any = "approved" if planned == "late" else planned
        params = {} if verdict == "edited" else None
        answer = ApprovalAnswer(
            message_id=f"a{made.tail.n}",
            user=USER,
            call_id=asked.action.call_id,
            verdict=verdict,
            text="",
            params=params,
        )
        answer_request(made.ports, LANE, answer)
        made.run()
    return made


def _pay(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result(PAY, "paid"),))


def _steers(rng: Random) -> Conversation:
    """Messages, steers and stops before, during and after a generation, and while a tool runs."""
    made = SteeredConversation()
    _ticking(made)
    slow = "test.slow"

    def during(context: ToolContext) -> ToolOutput:
        if rng.random() < 0.5:
            rng.choice(happenings)()
        return ToolOutput(blocks=(context.result(slow, "ran"),))

    made.use(tool(slow, rng.choice(("pure", "keyed", "once")), during))
    happenings: Sequence[Callable[[], Any]] = (
        lambda: made.steer(id=f"s{made.tail.n}"),
        lambda: made.stop(id=f"x{made.tail.n}"),
        lambda: _say(made, "also this"),
        lambda: made.send("a page was viewed", id=f"e{made.tail.n}", kind="viewed", reactive=False),
    )
    for _ in range(4):
        answers = [answered("One, two, three. " * 4)] * 12
        made.model = InterruptedModel(called(slow), called(slow), *answers)
        for _ in range(rng.randrange(3)):
            made.at(rng.choice((BEGIN, END, 3, 20)), rng.choice(happenings), call=rng.randrange(3))
        if made.state.status == "idle":
            _say(made)
        made.run()
    return made


def _compactions(rng: Random) -> Conversation:
    made = SmallContext(rng.choice((6_000, 8_000)))
    _ticking(made)
    for number in range(4):
        made.clock.pause(rng.choice((10, 4_000)))
        if rng.random() < 0.5:
            made.talk(f"otters {number}", rounds=rng.randrange(4, 12))
        else:
            made.turn(f"fish {number}", *["long text\n" * 400] * rng.randrange(1, 5))
    return made


def _journals(rng: Random) -> Conversation:
    made = JournalConversation()
    _ticking(made)
    for _ in range(4):
        staged = rng.sample(("sk:lab.charts", "sk:lab.colours"), rng.randrange(3))
        made.model.add(called(DRAW), called(LIST), called(LIST, show_skills=staged), answered("Drawn."))
        _say(made, "draw and list")
        made.run()
    return made


def _files(rng: Random) -> Conversation:
    made = _ticking(Conversation())
    for number in range(3):
        data = picture(color=(number, rng.randrange(255), 9))
        sha256 = _store(made, data)
        file = Attachment(filename=f"{number}.png", mime=PNG, size_bytes=len(data), sha256=sha256)
        made.model.add(called("react.read", {"paths": ["fi:x"]}), answered("A picture."))
        _say(made, "look", attachments=(file,))
        made.run()
        rated = Feedback(turn="", at="", reaction=rng.choice(("ok", "not_ok")), text="Too short.")
        submit_feedback(made.ports, made.history, LANE, rated, user=USER)
    return made


def _store(made: Conversation, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    made.ports.artifacts.put(attachment_key(LANE, digest), data, mime=PNG)
    return digest


def _hooks(rng: Random) -> Conversation:
    made = _ticking(Conversation())
    lines = [f"It is {rng.randrange(99)} degrees."]
    prepare = hook_of(lambda hook: hook.contribute([{"text": f"{hook.user} is a customer."}]))
    each = hook_of(lambda hook: hook.contribute([{"text": f"round {rng.randrange(1000)}"}]))
    made.agent = replace(
        made.agent, hooks=Hooks(pre_run_hook=prepare, before_round=each), announced=lambda: lines
    )
    for _ in range(3):
        lines[0] = f"It is {rng.randrange(99)} degrees."
        made.model.add(called("react.read", {"paths": ["fi:x"]}), answered("Hello."))
        _say(made)
        made.run()
    return made


def _failures(rng: Random) -> Conversation:
    """Overloaded providers, cut answers, and refusals."""
    made = _ticking(Conversation())
    busy = Fail(error=ModelOverloaded("busy"))
    for _ in range(3):
        ended = rng.choice((answered("At last."), Say(text="", stop_reason="refusal")))
        reads = called("react.read", {"paths": ["fi:x"]})
        made.model = MemoryModelClient(*[busy] * rng.choice((0, 3, 30)), reads, *[busy] * 3, ended)
        _say(made)
        made.run()
    return made


KINDS: Final[Sequence[Callable[[Random], Conversation]]] = (
    _tools, _programs, _approvals, _steers, _compactions, _journals, _files, _hooks, _failures,
)  # fmt: skip
