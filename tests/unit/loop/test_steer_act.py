"""The user steers while actions run: which ones still run, and every call has its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stepline.errors import ToolError
from stepline.loop.steer import NOT_RUN, STOPPED
from stepline.loop.sweep import replace_owner
from stepline.metrics import STEERS, TOOL_CALLS
from stepline.model.entry import Decided, Resulted, Started, SteeredEntry
from stepline.model.ids import execution_name
from stepline.model.program.execution import Run
from stepline.model.step import Step
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, event_types, tool
from tests.support.faulty_log import BusyLog, LosingLog
from tests.support.generation import answered, call_of, coded, said
from tests.support.steered_conversation import SteeredConversation

FANOUT = FanoutRule(mode="safe_fanout")
NAMES = ("test.a", "test.b", "test.c")


class Acting(SteeredConversation):
    """A turn with a round of three tools to run; their events are planned by name."""

    def __init__(
        self, *, effect: str = "pure", cancellable: bool = False, log: Any = None, **policy: Any
    ) -> None:
        calls = said(*map(call_of, NAMES), thinking="Go.")
        super().__init__(calls, answered("Brief."), log=log, **policy)
        self.effects: Counter[str] = Counter()
        self.during: dict[str, Callable[[], Any]] = {}
        facts = {"strategies": ("exploration",), "cancellable": cancellable}
        self.use(*(tool(name, effect, self._run(name), **facts) for name in NAMES))
        import dataclasses

        self.agent = dataclasses.replace(self.agent, fanout=FANOUT)
        self.step = self.decide()
        assert len(self.decided[0].actions) == 3

    def _run(self, name: str) -> Callable[[ToolContext], ToolOutput]:
        def run(context: ToolContext) -> ToolOutput:
            self.effects[name] += 1
            if name in self.during:
                self.during.pop(name)()
            context.check_cancelled()
            return ToolOutput(blocks=(context.result(name, {"status": "ok"}),))

        return run

    def results(self) -> list[tuple[str, str]]:
        return [
            (entry.tool_id, entry.error["code"] if entry.error else entry.status)
            for entry in self.entries(Resulted)
        ]


def test_a_steer_before_the_first_action_leaves_none_of_them_run() -> None:
    acting = Acting()
    acting.steer()
    following = acting.act(acting.step)
    assert acting.results() == [(name, "steered") for name in NAMES]
    assert [type(entry) for entry in acting.tail.entries] == [Resulted, Resulted, Resulted, SteeredEntry]
    assert (following.route, following.iteration, acting.effects) == ("decide", 1, {})
    (steer,) = acting.steered
    assert (steer.phase, steer.finalize, acting.state.finalize) == ("tools", 2, 2)
    assert acting.entries(Resulted)[0].error["message"] == NOT_RUN
    acting.run()
    assert (acting.closed.reason, acting.closed.answer) == ("steer", "Brief.")


def test_a_steer_between_two_actions_skips_the_later_ones() -> None:
    acting = Acting()
    acting.during["test.a"] = acting.steer
    acting.act(acting.step)
    assert acting.results() == [("test.a", "ok"), ("test.b", "steered"), ("test.c", "steered")]
    assert acting.ports.meter.counts[TOOL_CALLS] == 1
    assert acting.ports.meter.counts[STEERS] == 1


def test_a_steer_in_the_last_action_is_heeded_by_the_next_round() -> None:
    acting = Acting()
    acting.during["test.c"] = acting.steer
    acting.run()
    assert [status for _, status in acting.results()] == ["ok", "ok", "ok"]
    assert [entry.phase for entry in acting.steered] == [""]
    assert acting.closed.reason == "steer"


def test_a_stop_in_the_middle_ends_the_turn_and_asks_nothing() -> None:
    acting = Acting()
    inbox = acting.listen()
    acting.during["test.b"] = acting.stop
    assert acting.act(acting.step).route == "close"
    acting.close()
    assert [status for _, status in acting.results()] == ["ok", "ok", "steered"]
    assert (acting.closed.reason, acting.closed.answer) == ("stop", STOPPED)
    assert len(acting.model.requests) == 1
    assert event_types(inbox)[-2:] == ["chat.complete", "conv.status"]


def test_a_stop_in_the_last_action_asks_nothing_either() -> None:
    acting = Acting()
    acting.during["test.c"] = acting.stop
    acting.run()
    assert acting.closed.reason == "stop"
    assert len(acting.model.requests) == 1


def test_a_message_lets_the_actions_run() -> None:
    acting = Acting()
    acting.during["test.a"] = lambda: acting.send("and this", id="m2")
    acting.act(acting.step)
    assert [status for _, status in acting.results()] == ["ok", "ok", "ok"]


# --- an action that runs


@pytest.mark.parametrize(("cancellable", "status"), [(True, "cancelled"), (False, "ok")])
def test_a_tool_that_can_end_early_does_and_another_is_not_asked_to(
    *, cancellable: bool, status: str
) -> None:
    acting = Acting(cancellable=cancellable)
    acting.during["test.a"] = acting.steer
    acting.act(acting.step)
    assert acting.results() == [("test.a", status), ("test.b", "steered"), ("test.c", "steered")]


def test_an_effect_that_may_not_repeat_is_settled_as_it_is_before_the_steer_is_heeded() -> None:
    acting = Acting(effect="once", cancellable=True)
    acting.during["test.a"] = acting.stop
    acting.act(acting.step)
    assert [type(entry).__name__ for batch in acting.batches()[-4:] for entry in batch.entries] == [
        "Started",
        "Inbound",
        "Resulted",
        "Resulted",
        "Resulted",
        "SteeredEntry",
    ]
    assert acting.results()[0] == ("test.a", "cancelled")
    assert acting.state.cursor.phase == "close"


def test_an_action_of_another_attempt_is_unverified_before_the_rest_is_skipped() -> None:
    acting = Acting(effect="once")

    def die() -> None:
        acting.steer()
        raise KeyboardInterrupt

    acting.during["test.a"] = die
    with pytest.raises(KeyboardInterrupt):
        acting.act(acting.step)
    assert acting.entries(Started)
    acting.act(acting.step)
    assert acting.results() == [
        ("test.a", "unverified"),
        ("test.b", "steered"),
        ("test.c", "steered"),
    ]
    assert acting.effects == {"test.a": 1}


# --- duplicates


def test_two_invocations_leave_the_actions_out_once() -> None:
    log = BusyLog()
    acting = Acting(log=log)
    acting.steer()
    log.rivals = [lambda: acting.act(acting.step)]
    assert acting.act(acting.step).route == "decide"
    assert len(acting.steered) == 1
    assert len(acting.results()) == 3


def test_a_lost_answer_leaves_them_out_once() -> None:
    log = LosingLog()
    acting = Acting(log=log)
    acting.stop()
    log.lose(True)
    assert acting.act(acting.step).route == "close"
    assert (len(acting.steered), len(acting.results())) == (1, 3)


def test_a_stale_attempt_that_wakes_after_the_steer_runs_nothing() -> None:
    acting = Acting()
    acting.steer()
    acting.act(acting.step)
    before = acting.batches()
    assert acting.act(acting.step).route == "decide"
    assert acting.batches() == before
    assert acting.effects == {}


def test_a_take_over_heeds_an_earlier_steer() -> None:
    acting = Acting()
    acting.stop()
    acting.machine.end(execution_name(LANE, acting.state.epoch))
    acting.machine.queue.clear()
    replace_owner(acting.ports, LANE, acting.tail)
    assert acting.act(acting.step).route == "stop"
    acting.run()
    assert acting.closed.reason == "stop"
    assert acting.results() == [(name, "steered") for name in NAMES]


# --- beside an answer


def beside_an_answer() -> SteeredConversation:
    plan = {
        "action": "call_tool",
        "notes": "",
        "tool_call": {"tool_id": "react.plan", "params": {"steps": ["a"]}},
    }
    answer = {"action": "complete", "final_answer": "Done."}
    import dataclasses

    live = SteeredConversation(said(plan) + said(answer, thinking="And now."))
    live.agent = dataclasses.replace(live.agent, fanout=FANOUT)
    live.decide()
    assert live.state.ends
    return live


@pytest.mark.parametrize("say", ["steer", "stop"])
def test_actions_beside_an_answer_run_and_the_steer_is_returned(say: str) -> None:
    live = beside_an_answer()
    getattr(live, say)()
    live.run()
    assert [(entry.tool_id, entry.status) for entry in live.entries(Resulted)] == [("react.plan", "ok")]
    assert (live.closed.reason, live.closed.answer) == ("complete", "Done.")
    assert list(live.handed_back().values()) == ["turn_closed"]
    assert live.steered == []


# --- programs


def programmed(run: Callable[[SteeredConversation], Run] | None = None) -> SteeredConversation:
    live = SteeredConversation(coded("print(1)", "a.csv"), answered("Brief."))
    live.programs(lambda job: run(live) if run else pytest.fail(f"{job} is run"))
    return live


@pytest.mark.parametrize(("say", "route"), [("steer", "decide"), ("stop", "close")])
def test_a_program_that_was_not_launched_is_left_out(say: str, route: str) -> None:
    live = programmed()
    step = live.decide()
    assert step.route == "prepare"
    getattr(live, say)()
    assert live.act(step).route == route
    (result,) = live.entries(Resulted)
    assert result.error["code"] == "steered"
    assert live.entries(Started) == []


def test_a_program_that_runs_is_settled_before_the_steer_is_heeded() -> None:
    def run(live: SteeredConversation) -> Run:
        live.stop()
        return Run(returncode=0)

    live = programmed(run)
    live.run()
    (result,) = live.entries(Resulted)
    assert result.program
    assert [entry.phase for entry in live.steered] == [""]
    assert live.closed.reason == "stop"
    assert len(live.model.requests) == 1


def test_a_step_of_another_phase_runs_nothing() -> None:
    acting = Acting()
    acting.steer()
    following: Step = acting.act(acting.step)
    assert acting.act(following).route == "decide"
    assert len(acting.entries(Decided)) == 1
    assert acting.decided[0].accepted


def test_a_refusal_that_is_no_cancellation_keeps_its_code() -> None:
    acting = Acting(cancellable=True)

    def refuse() -> None:
        raise ToolError("not today", code="closed_today")

    acting.during["test.a"] = refuse
    acting.act(acting.step)
    assert acting.results()[0] == ("test.a", "closed_today")
