"""The answer of a turn that ends without an answer of the model."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.log.bindings import Policy
from stepline.loop.decide import settle_decision
from stepline.model.entry import Decided, Opened
from stepline.model.plan_steps import Plan
from stepline.rendering.status_answer import CAUSES, FILES_MAX, GO_ON, STEPS_MAX, status_answer
from tests.support.conversation import Conversation
from tests.support.generation import called
from tests.support.log_builder import LogBuilder

TOO_LATE = called("react.read", {"paths": ["fi:turn_x.outputs/a.md"]})


def worked(*outcomes: Any, plan: Plan | None = None) -> LogBuilder:
    log = LogBuilder()
    log.message("write three files")
    for outcome in outcomes:
        log.act(("react.write", {"path": "a.md"}))
        log.result(**outcome, tool="react.write")
    return log


def answer_of(log: LogBuilder, *plans: Plan, cause: str = "max_iterations") -> str:
    entries = [entry for batch in log.batches for entry in batch.entries]
    return status_answer(entries, plans, turn=log.turn, cause=cause)


def test_a_status_answer_lists_done_and_open_work_and_the_last_error():
    log = worked()
    log.act(("react.write", {}))
    log.result(tool="react.write", blocks=(log.file("a.md"),))
    log.act(("web_tools.web_search", {}))
    log.result(tool="web_tools.web_search", status="error", error={"message": "no\nanswer"}, blocks=())
    plan = log.plan("write a", "write b", "send `it`")
    done = {**plan.status, "1": "done", "2": "failed"}
    assert answer_of(log, Plan(**{**_fields(plan), "status": done})) == (
        f"{CAUSES['max_iterations']}\n\n"
        "- 3 rounds, 2 tool calls, 1 of them successful\n"
        "- files:\n"
        f"  - `fi:{log.turn}.outputs/a.md`\n"
        "- plan: 1 of 3 steps done\n"
        "  - failed: [2] write b\n"
        "  - open: [3] send 'it'\n"
        "- last problem: web_tools.web_search: no answer\n\n"
        f"{GO_ON}"
    )


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in Plan.__struct_fields__}


def test_a_file_that_was_written_twice_is_named_once_and_many_are_counted():
    log = worked()
    for n in [0, *range(FILES_MAX + 2)]:
        log.act(("react.write", {}))
        log.result(tool="react.write", blocks=(log.file(f"{n}.md"),))
    answer = answer_of(log)
    assert answer.count("outputs/0.md") == 1
    assert f"outputs/{FILES_MAX}.md" not in answer
    assert "and 2 more" in answer


def test_a_status_answer_shows_the_first_open_steps_of_a_long_plan():
    log = worked()
    answer = answer_of(log, log.plan(*(f"step {n}" for n in range(STEPS_MAX + 3))))
    assert f"[{STEPS_MAX}]" in answer
    assert f"[{STEPS_MAX + 1}]" not in answer
    assert "and 3 more" in answer


def test_a_status_answer_leaves_out_an_unrelated_plan():
    log = worked()
    other = log.plan("old", last_turn_id="turn_before", current=False)
    assert "plan" not in answer_of(log, other)


@pytest.mark.parametrize("error", [None, {"code": "tool_timeout"}])
def test_an_unverified_action_is_a_problem_in_a_status_answer(error):
    answer = answer_of(worked({"status": "unverified", "error": error, "blocks": ()}), cause="violations")
    assert answer.startswith(CAUSES["violations"])
    expected = "tool_timeout" if error else "not known"
    assert f"last problem: react.write: {expected}" in answer.replace("what became of it is ", "")


def test_a_turn_whose_reserved_round_fails_says_what_it_did():
    write = called("react.write", {"path": "a.md", "content": "hello", "kind": "file"})
    plan = called("react.plan", {"steps": ["write a", "write b"]})
    conversation = Conversation(plan, write, TOO_LATE, max_iterations=3)
    conversation.send("two files, please")
    conversation.run()
    answer = conversation.entries(Decided)[-1].answer
    assert "3 rounds, 2 tool calls, 2 of them successful" in answer
    assert f"- `fi:{conversation.entries(Opened)[0].turn}.outputs/a.md`" in answer
    assert "0 of 2 steps done" in answer


@pytest.mark.parametrize(("answer", "ended"), [("Seen.", ""), ("", "max_iterations")])
def test_the_shown_part_of_an_answer_is_the_answer(answer: str, ended: str):
    log = worked({"blocks": ()})
    refused = log.decision(accepted=False, action="exit", answer=answer)
    kept = settle_decision(refused, log.state, Policy(max_iterations=1), log.timeline())
    assert (kept.accepted, kept.action, kept.ended) == (True, "exit", ended)
    assert (kept.answer == "Seen.") is bool(answer)
