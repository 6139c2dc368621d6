"""Reports of a running tool: live, in no batch, resumed exactly, and of the newest attempt alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import DependencyError
from stepline.events.filter import EventFilter, EventRule
from stepline.events.types import EVENT_TABLE
from stepline.local.client.change import Reported, StreamReset, StreamSettled
from stepline.local.client.state import ClientState
from stepline.model.entry import Resulted
from stepline.model.program.execution import Run
from stepline.model.wire.event import DeltaFrame, is_report_lane
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import NOT_JSON, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from tests.support.conversation import LANE, Conversation, event_types, frames, of, tool
from tests.support.fold import fold_frames
from tests.support.generation import PROGRAM, answered, call_of, called, decided, said, tagged

FANOUT = FanoutRule(mode="safe_fanout")
Work = Callable[[ToolContext], Any]


def reporting(
    name: str, work: Work, effect: str = "pure", strategies: tuple[str, ...] = ("exploration",)
) -> Tool:
    def run(context: ToolContext) -> ToolOutput:
        work(context)
        return ToolOutput(blocks=(context.result(name, {"status": "ok"}),))

    return tool(name, effect, run, strategies=strategies)


class Reporting(Conversation):
    """A conversation whose tool `acme.run` does `work`; clients may connect and resume while it runs."""

    def __init__(self, work: Work, *said: str, effect: str = "pure") -> None:
        super().__init__(*(said or (called("acme.run"), answered("Done."))))

        self.use(reporting("acme.run", work, effect))

    def turn(self) -> None:
        self.send()
        self.run()


def fold(inbox: list[bytes], state: ClientState | None = None) -> tuple[ClientState, list[Any]]:
    folded, effects = fold_frames(state or ClientState(conversation=LANE.conversation), frames(inbox))
    return folded, list(effects)


def reports(effects: list[Any]) -> list[Any]:
    """Return the data of the reports: of a progress how much is done, of other ones their own data."""
    events = [event for effect in effects if isinstance(effect, Reported) for event in effect.events]
    return [
        event.data["done"] if event.type == "react.tool.progress" else event.data["data"] for event in events
    ]


def count_to(number: int) -> Work:
    def work(context: ToolContext) -> None:
        for done in range(1, number + 1):
            context.progress(done, number, f"file {done}")

    return work


@pytest.mark.parametrize("effect", ["pure", "keyed", "once"])
def test_a_report_reaches_a_client_before_the_calls_result_and_is_in_no_batch(effect: str) -> None:
    seen: list[Any] = []

    def work(context: ToolContext) -> None:
        context.progress(1, 4, "one\nof four")
        context.emit("preview", {"rows": 2}, live=True)
        seen.append((reports(fold(inbox)[1]), event_types(inbox)[-1]))

    conversation = Reporting(work, effect=effect)
    inbox = conversation.listen()
    conversation.turn()
    assert seen == [([1, {"rows": 2}], "react.tool.call")]
    (result,) = conversation.entries(Resulted)
    assert result.emitted == ()
    _, effects = fold(inbox)
    (first, _) = [event for effect in effects if isinstance(effect, Reported) for event in effect.events]
    assert first.data == {
        "tool_id": "acme.run",
        "call_id": result.call_id,
        "done": 1,
        "total": 4,
        "text": "one of four",
    }


def test_an_event_without_live_is_recorded_and_sent_once_with_the_result() -> None:
    conversation = Reporting(lambda context: context.emit("preview", {"rows": 2}))
    inbox = conversation.listen()
    conversation.turn()
    assert reports(fold(inbox)[1]) == []
    assert event_types(inbox).count("react.tool.event") == 1


def test_a_call_without_reports_opens_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    conversation = Reporting(lambda _: None)
    relay = conversation.ports.relay
    plain = relay.open
    monkeypatch.setattr(relay, "open", lambda lane, claim: opened.append(claim) or plain(lane, claim))
    conversation.turn()
    decides = 2
    assert len(opened) == decides


def test_a_result_settles_the_stream_of_its_reports_without_voiding_it() -> None:
    conversation = Reporting(count_to(2))
    inbox = conversation.listen()
    conversation.turn()
    _, effects = fold(inbox)
    claim = next(effect.claim for effect in effects if isinstance(effect, Reported))
    assert StreamSettled(claim=claim) in effects
    assert StreamReset(claim=claim) not in effects


def test_each_of_several_calls_reports_in_a_stream_of_its_own() -> None:
    clients: list[list[Any]] = []

    def work(context: ToolContext) -> None:
        context.progress(len(clients))
        late = conversation.resume_as(f"late{len(clients)}", ClientState(conversation=LANE.conversation))
        clients.append(reports(fold(late)[1]))

    names = ("acme.run", "acme.two", "acme.three")
    conversation = Reporting(work, said(*map(call_of, names)), answered("Done."))
    conversation.use(*(reporting(name, work) for name in names[1:]))
    conversation.agent = replace(conversation.agent, fanout=FANOUT)
    inbox = conversation.listen()
    conversation.turn()
    assert clients == [[0], [1], [2]]
    _, effects = fold(inbox)
    assert reports(effects) == [0, 1, 2]


@given(st.data())
def test_a_client_that_reconnects_gets_exactly_the_reports_that_it_missed(data: st.DataObject) -> None:
    clients: list[tuple[ClientState, list[Any]]] = [(ClientState(conversation=LANE.conversation), [])]
    steps = data.draw(st.lists(st.sampled_from(["report", "lose", "reconnect"]), max_size=12))

    def work(context: ToolContext) -> None:
        state, got = clients[0]
        for at, step in enumerate(steps):
            if step == "report":
                context.progress(at, 100, "ü🙂" * at)
            else:
                inbox = conversation.resume_as(f"k{at}", state)
                if step == "lose":  # a part of what was sent arrives
                    inbox = inbox[: data.draw(st.integers(0, len(inbox)))]
                state, effects = fold(inbox, state)
                got += reports(effects)
        state, effects = fold(conversation.resume_as("last", state), state)
        clients[0] = (state, got + reports(effects))

    conversation = Reporting(work)
    conversation.turn()
    assert clients[0][1] == [at for at, step in enumerate(steps) if step == "report"]


def test_reports_of_an_attempt_that_died_are_replaced_by_those_of_the_next() -> None:
    attempts: list[int] = []

    def work(context: ToolContext) -> None:
        attempts.append(len(attempts))
        for done in range(3):
            context.progress(done, 3, f"attempt {len(attempts)}")
            if len(attempts) == 1 and done == 1:
                raise DependencyError("the service is gone")
        late.extend(conversation.resume_as("late", ClientState(conversation=LANE.conversation)))

    late: list[bytes] = []
    conversation = Reporting(work)
    inbox = conversation.listen()
    conversation.send()
    step = conversation.decide()
    with pytest.raises(DependencyError):
        conversation.act(step)
    conversation.act(conversation.now(attempt=1))
    lanes = [effect.lane for effect in fold(inbox)[1] if isinstance(effect, Reported)]
    assert lanes == ["report.0.0"] * 2 + ["report.0.1"] * 3
    assert reports(fold(late)[1]) == [0, 1, 2]
    texts = [
        event.data["text"]
        for effect in fold(late)[1]
        if isinstance(effect, Reported)
        for event in effect.events
    ]
    assert texts == ["attempt 2"] * 3


def test_late_frames_of_an_earlier_attempt_change_nothing() -> None:
    line = '{"type":"react.tool.event","route":"chat_service","ts":"","data":{"data":%d}}\n'
    sent = [
        ("report.2.1", line % 1),
        ("report.2.0", line % 2),
        ("report.1.7", line % 3),
        ("report.10.0", line % 4),
    ]
    _, effects = fold_frames(
        ClientState(conversation=LANE.conversation),
        [
            DeltaFrame(conversation=LANE.conversation, claim=3, lane=lane, off=0, text=text)
            for lane, text in sent
        ],
    )
    assert reports(list(effects)) == [1, 4]


def test_a_tool_that_reports_ten_thousand_times_sends_a_bounded_number() -> None:
    conversation = Reporting(count_to(10_000))
    inbox = conversation.listen()
    conversation.turn()
    sent = reports(fold(inbox)[1])
    assert 400 < len(sent) < 700
    assert (sent[0], sent[-1]) == (1, 10_000)
    assert sent == sorted(sent)


def test_a_progress_in_several_parts_shows_the_beginning_and_the_end_of_each() -> None:
    def work(context: ToolContext) -> None:
        for done in range(5_000):
            context.progress(done)
        context.progress(0, 7, "second part")
        context.progress(7, 7)
        context.progress(7, 7)

    conversation = Reporting(work)
    inbox = conversation.listen()
    conversation.turn()
    assert reports(fold(inbox)[1])[-2:] == [0, 7]


def test_reports_of_any_size_stay_within_the_bounds_of_their_lane(caplog: pytest.LogCaptureFixture) -> None:
    def work(context: ToolContext) -> None:
        context.emit("whole", {"text": "x" * 20_000}, live=True)
        context.emit("broken", {"frame": object()}, live=True)
        for _ in range(1_000):
            context.emit("part", {"text": "x" * 1_000}, live=True)

    conversation = Reporting(work)
    inbox = conversation.listen()
    with caplog.at_level(logging.ERROR):
        conversation.turn()
    deltas = [frame for frame in of(DeltaFrame, inbox) if is_report_lane(frame.lane)]
    assert sum(len(frame.text) for frame in deltas) <= 256 * 1024
    assert reports(fold(inbox)[1])[0] == {"error": {"code": NOT_JSON}}
    assert len(deltas) > 200


def test_a_withheld_event_is_withheld_as_a_report_too() -> None:
    shown = frozenset(row.type for row in EVENT_TABLE) - {"react.tool.progress"}
    conversation = Reporting(count_to(3))
    conversation.ports = replace(conversation.ports, outward=EventFilter((EventRule(types=shown),)))
    inbox = conversation.listen()
    conversation.turn()
    assert reports(fold(inbox)[1]) == []


def test_a_report_after_the_end_of_its_call_is_dropped() -> None:
    contexts: list[ToolContext] = []
    conversation = Reporting(contexts.append)
    inbox = conversation.listen()
    conversation.turn()
    contexts[0].progress(1)
    assert reports(fold(inbox)[1]) == []


def test_reports_of_a_call_after_a_program_in_the_same_round_arrive() -> None:
    program = {"contract": [{"filename": "outputs/a.csv", "description": "rows"}]}
    calls = tagged("thinking", "Go.") + decided(call_of(PROGRAM, program)) + tagged("code", "print(1)")
    calls += decided(call_of("acme.run"))
    conversation = Reporting(count_to(2), calls, answered("Done."))
    conversation.programs(lambda _job: Run(returncode=0))
    own = [conversation.agent.registry.find(spec.tool_id) for spec in conversation.agent.registry.specs]
    registry = Registry([*own, reporting("acme.run", count_to(2), strategies=("exploitation",))])
    conversation.agent = replace(conversation.agent, registry=registry, fanout=FANOUT)
    inbox = conversation.listen()
    conversation.turn()
    assert len(conversation.entries(Resulted)) == 2
    assert reports(fold(inbox)[1]) == [1, 2]
