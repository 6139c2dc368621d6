"""A call that waits for a person: requested once, parked without an execution, and run, run edited, or not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepline.errors import InputError, LimitError, NotFoundError
from stepline.ingress.approval_answer import ApprovalAnswer, Settled, answer_request
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.loop.sweep import sweep, sweep_lane
from stepline.model.entry import ApprovalAnswered, ApprovalRequested, Closed, Dropped, Resulted, TakenOver
from stepline.model.ids import execution_name
from stepline.model.program.execution import Run
from stepline.ports.executor import Job
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, USER, Conversation, event_types, text_of, tool
from tests.support.generation import answered, called, coded

PAY = "bank.pay"
WEEK_S = 604_800


class Asking(Conversation):
    """A conversation whose tool needs a person, by a rule; `paid` are the calls that ran."""

    def __init__(self, *script: Any, rule: Any = "always", **policy: Any) -> None:
        super().__init__(*script, **policy)
        self.paid: list[str] = []

        def pay(context: ToolContext) -> ToolOutput:
            self.paid.append(context.call_id)
            return ToolOutput(blocks=(context.result(PAY, "paid"),))

        self.use(tool(PAY, "once", pay, approval=rule))

    def answer(self, verdict: Any = "approved", call: str = "", **fields: Any) -> Settled:
        said = {"message_id": f"a{self.tail.n}", "user": USER, **fields}
        return answer_request(
            self.ports,
            LANE,
            ApprovalAnswer(call_id=call or self.asked.action.call_id, verdict=verdict, **said),
        )

    @property
    def asked(self) -> ApprovalRequested:
        found: ApprovalRequested = self.entries(ApprovalRequested)[-1]
        return found

    @property
    def verdicts(self) -> list[str]:
        return [entry.verdict for entry in self.entries(ApprovalAnswered)]

    @property
    def results(self) -> list[tuple[str, str]]:
        return [(e.status, (e.error or {}).get("code", "")) for e in self.entries(Resulted)]


def parked(*script: Any, **fields: Any) -> Asking:
    conversation = Asking(called(PAY), *(script or (answered("Done."),)), **fields)
    conversation.send()
    conversation.run()
    return conversation


def test_a_parked_turn_has_no_execution_and_no_row_that_the_sweeper_visits() -> None:
    conversation = parked()
    assert conversation.state.parked == conversation.tail.n
    assert conversation.state.cursor.phase == "act"
    assert conversation.machine.status(execution_name(LANE, conversation.state.epoch)) == "ended"
    conversation.clock.pause(WEEK_S)
    assert conversation.log.open_lanes(before="9999") == []
    assert sweep(conversation.ports) == {}
    assert conversation.paid == []


def test_an_approved_call_runs_once_and_the_turn_continues() -> None:
    conversation = parked()
    conversation.answer()
    conversation.run()
    assert len(conversation.paid) == 1
    assert conversation.results == [("ok", "")]
    assert conversation.state.status == "idle"
    assert conversation.entries(TakenOver) == []


def test_a_denied_call_never_runs_and_the_model_reads_why() -> None:
    conversation = parked(answered("As you wish."))
    conversation.answer("denied", text="Too much.")
    conversation.run()
    assert conversation.paid == []
    assert conversation.results == [("error", "denied")]
    assert "Too much." in text_of(conversation.model.requests[-1])


def test_an_edited_call_runs_under_a_new_id_with_the_edited_parameters() -> None:
    conversation = Asking()
    seen: list[dict[str, Any]] = []

    def pay(context: ToolContext) -> ToolOutput:
        conversation.paid.append(context.call_id)
        return ToolOutput(blocks=(context.result(PAY, "paid"),))

    made = tool(PAY, "once", pay, approval="always")
    schema = {"type": "object", "properties": {"sum": {"type": "integer", "description": "s"}}}
    made = replace(
        made,
        spec=replace(made.spec, schema=schema),
        run=lambda params, context: seen.append(dict(params)) or pay(context),  # type: ignore[func-returns-value]  # notes the parameters
    )
    conversation = Asking(called(PAY, {"sum": 100}), answered("Done."))
    conversation.forget(PAY)
    conversation.use(made)
    conversation.send()
    conversation.run()
    before = conversation.asked.action.call_id
    conversation.answer("edited", params={"sum": 5})
    conversation.run()
    (result,) = conversation.entries(Resulted)
    assert seen == [{"sum": 5}]
    assert result.call_id != before
    assert result.status == "ok"
    request = text_of(conversation.model.requests[-1])
    assert f"[EDITED BY THE USER] instead of {before}" in request
    assert f"[TOOL CALL {result.call_id}]" in request


def test_an_edit_that_the_tool_refuses_is_a_result_that_the_model_reads() -> None:
    conversation = parked()
    conversation.answer("edited", params={"unknown": 1})
    conversation.run()
    assert conversation.paid == []
    assert conversation.results == [("error", "bad_params")]


def test_an_invalid_call_asks_for_no_approval() -> None:
    conversation = Asking(called(PAY, {"unknown": 1}), answered("Oh."))
    conversation.send()
    conversation.run()
    assert conversation.entries(ApprovalRequested) == []
    assert conversation.state.status == "idle"


@pytest.mark.parametrize(("rule", "asked"), [("always", 2), ("first_use", 1), ("never", 0), (None, 0)])
def test_the_rule_of_a_tool_says_when_a_person_is_asked(rule: Any, asked: int) -> None:
    conversation = Asking(called(PAY), called(PAY), answered("Done."), rule=rule)
    conversation.send()
    conversation.run()
    while conversation.state.parked:
        conversation.answer()
        conversation.run()
    assert len(conversation.entries(ApprovalRequested)) == asked
    assert len(conversation.paid) == 2


def test_a_denied_first_use_needs_an_approval_again() -> None:
    conversation = parked(called(PAY), answered("Done."), rule="first_use")
    conversation.answer("denied")
    conversation.run()
    assert conversation.state.parked
    assert len(conversation.entries(ApprovalRequested)) == 2


def test_a_message_to_a_parked_turn_is_read_after_the_answer() -> None:
    conversation = parked()
    conversation.send("And be quick!", id="m2")
    assert conversation.state.parked
    assert conversation.machine.queue == []
    conversation.answer()
    conversation.run()
    assert "And be quick!" in text_of(conversation.model.requests[-1])


@pytest.mark.parametrize(("kind", "text", "reason"), [("stop", "", "stop"), ("steer", "Shorter.", "steer")])
def test_a_steer_answers_a_parked_turn_and_the_call_does_not_run(kind: str, text: str, reason: str) -> None:
    conversation = parked(answered("Short."))
    conversation.send(text, id="s1", kind=kind)
    assert not conversation.state.parked
    assert conversation.state.epoch == conversation.tail.n
    conversation.run()
    (end,) = conversation.entries(Closed)
    assert (end.reason, conversation.paid) == (reason, [])
    assert conversation.verdicts == ["withdrawn"]
    assert conversation.results == [("error", "steered")]


def test_a_repeated_answer_takes_effect_once() -> None:
    conversation = parked(called(PAY), answered("Done."))
    first = conversation.answer(message_id="a1")
    conversation.run()
    call = conversation.entries(ApprovalRequested)[0].action.call_id
    again = conversation.answer(call=call, message_id="a1")
    assert (again.duplicate, again.batch.n) == (True, first.batch.n)
    assert conversation.verdicts == ["approved"]


def test_an_answer_without_a_request_is_refused() -> None:
    conversation = parked()
    call = conversation.asked.action.call_id
    with pytest.raises(InputError) as other:
        conversation.answer(call="tc_000000000000")
    conversation.answer("denied")
    with pytest.raises(InputError) as late:
        conversation.answer(call=call)
    assert (other.value.reason, late.value.reason) == ("approval_not_pending", "approval_not_pending")


def test_only_the_owner_may_answer() -> None:
    conversation = parked()
    with pytest.raises(NotFoundError):
        conversation.answer(user="eve")
    assert conversation.state.parked


def test_the_words_of_a_denial_are_bounded() -> None:
    conversation = parked()
    with pytest.raises(LimitError):
        conversation.answer("denied", text="x" * 1_001)


def test_the_id_of_another_message_is_refused_for_an_answer() -> None:
    conversation = parked()
    with pytest.raises(InputError) as taken:
        conversation.answer(message_id="m1")
    conversation.answer(message_id="a1")
    with pytest.raises(InputError) as other:
        conversation.send("hello", id="a1")
    assert [taken.value.reason, other.value.reason] == ["message_id_taken", "message_id_taken"]


def test_a_late_answer_is_recorded_and_the_call_does_not_run() -> None:
    conversation = parked()
    conversation.clock.pause(WEEK_S)
    settled = conversation.answer()
    conversation.run()
    assert settled.verdict == "expired"
    assert (conversation.paid, conversation.results) == ([], [("error", "approval_expired")])
    assert conversation.state.status == "idle"


def test_a_message_after_the_deadline_of_an_approval_unparks_the_turn() -> None:
    conversation = parked()
    conversation.clock.pause(WEEK_S)
    conversation.send("Still there?", id="m2")
    conversation.run()
    assert (conversation.verdicts, conversation.paid) == (["expired"], [])
    assert conversation.state.status == "idle"


def test_without_a_limit_an_answer_may_take_for_ever() -> None:
    conversation = parked(approval_wait_s=0.0)
    conversation.clock.pause(100 * WEEK_S)
    conversation.answer()
    conversation.run()
    assert len(conversation.paid) == 1


def test_the_time_that_a_person_takes_is_not_the_turns() -> None:
    conversation = parked()
    conversation.clock.pause(3 * 86_400)
    conversation.answer()
    conversation.run()
    (end,) = conversation.entries(Closed)
    assert end.elapsed_ms < 60_000


def test_the_sweeper_removes_the_mark_that_a_lost_execution_left() -> None:
    conversation = Asking(called(PAY), answered("Done."))
    conversation.send()
    clear = conversation.log.clear_open
    conversation.log.clear_open = lambda *_: None
    conversation.run()
    conversation.log.clear_open = clear
    assert sweep_lane(conversation.ports, LANE) == "parked"
    assert conversation.log.open_lanes(before="9999") == []
    assert conversation.entries(TakenOver) == []


def test_a_program_cannot_be_edited_by_an_approval() -> None:
    conversation = Asking(coded("print('hello')", "a.csv"), answered("Done."))
    conversation.programs(lambda _: Run(returncode=0))
    policy = ApprovalPolicy(places=({"exec_tools.*": "always"},))
    conversation.agent = replace(conversation.agent, approvals=policy.rule_of)
    conversation.send()
    conversation.run()
    assert conversation.asked.action.code == "print('hello')"
    with pytest.raises(InputError) as refused:
        conversation.answer("edited", params={})
    assert refused.value.reason == "approval_not_editable"
    conversation.answer()
    conversation.run()
    assert conversation.entries(Resulted)[0].program
    assert conversation.state.status == "idle"


def test_a_parked_turn_is_published_to_clients() -> None:
    conversation = Asking(called(PAY), answered("Done."))
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    conversation.answer("denied", text="No.")
    conversation.run()
    types = [kind for kind in event_types(inbox) if kind.startswith("approval.")]
    assert types == ["approval.requested", "approval.answered"]


def test_a_stop_of_a_parked_turn_returns_the_messages_before_it() -> None:
    conversation = parked()
    conversation.send("And then?", id="m2")
    conversation.send("", id="x1", kind="stop")
    conversation.run()
    assert [entry.message_id for entry in conversation.entries(Dropped)] == ["m2"]


def test_a_program_is_not_granted_a_tool_whose_calls_need_a_person() -> None:
    seen: list[tuple[str, ...]] = []

    def run(job: Job) -> Run:
        seen.append(job.request.tools)
        return Run(returncode=0)

    conversation = Asking(coded("print(1)", "a.csv"), coded("print(2)", "b.csv"), answered("Done."))
    conversation.programs(run)
    granted = conversation.agent.execution.tools  # type: ignore[union-attr]  # it runs programs
    policy = ApprovalPolicy(places=({"web_tools.*": "first_use"},))
    conversation.agent = replace(conversation.agent, approvals=policy.rule_of)
    conversation.send()
    conversation.run()
    assert "web_tools.web_search" in granted
    assert seen == [tuple(tool for tool in granted if not tool.startswith("web_tools."))] * 2
