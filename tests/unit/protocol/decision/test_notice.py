import json

import pytest

from bundles.default import WORKFLOW
from stepline.bundle.assembly import build_agent
from stepline.protocol.decision.notice import NOTICES
from stepline.tools.context import ReadCaps
from tests.support.generation import tagged
from tests.unit.protocol.decision import test_fanout_rules as test_several
from tests.unit.protocol.decision import test_read_decision as test_decision
from tests.unit.protocol.decision.read_generation import (
    call,
    codes,
    complete,
    decide,
    generation,
    judge,
    program,
    ran,
    think,
)
from tests.unit.protocol.line_count import steps_of

ELSEWHERE = {
    "citation_unreadable",
    "generation_truncated",
    "last_round_requires_answer",
    "staging_invalid",
    "staging_too_many",
    "staging_with_answer",
    "value_dropped",
    "value_invalid",
    "workspace_publish_failed",
    "answer_kept_from_stream",
    "params_out_of_order",
    "protocol_violation.param_ref_not_visible",
    "protocol_warning.ref_path_normalized",
}
"""Codes that a test of their own meets."""


def test_every_notice_code_is_listed_and_covered() -> None:
    met = {*test_decision.REFUSED.values(), *test_decision.TOLERATED.values(), *test_several.REFUSED}
    assert met | ELSEWHERE == set(NOTICES)


AGENT = build_agent(ReadCaps(), parts=WORKFLOW.parts())


@pytest.mark.parametrize("tool_id", sorted(AGENT.callable_ids))
def test_a_parameter_that_no_tool_has_is_refused(tool_id: str) -> None:
    spec = AGENT.tools[tool_id]
    (*_, example) = spec.examples
    for extra, accepted in (({}, True), ({"unknown_key": 1}, False)):
        text = generation(call({"tool_id": tool_id, "params": {**example, **extra}}))
        verdict = judge(text, tools=AGENT.tools, allowed=AGENT.callable_ids)
        assert (verdict.accepted, codes(verdict)) == (accepted, [] if accepted else ["bad_params"])
        if not accepted:
            assert "unknown_key" in json.dumps(verdict.notices[0].extra)


def test_an_unclosed_fence_does_not_swallow_the_program() -> None:
    decision = json.dumps(test_several.run(contract=test_several.CONTRACT))
    text = think("The ` char.") + (tagged("action", f"\n```json\n{decision}\n") + "\n") + program("print(1)")
    verdict = judge(text)
    assert (ran(verdict), verdict.actions[0].code) == ([test_several.EXEC], "print(1)")


MENTIONS = "Write `<channel:action>…</channel:action>` and `<channel:code>` in backticks. "


@pytest.mark.parametrize(
    "body",
    [
        lambda n: complete(MENTIONS * n),
        lambda n: {"action": "complete", "final_answer": "x", "notes": '"' * n},
        lambda n: '{"action": "complete", "final_answer": "' + '\\"' * n,
        lambda n: '{"action": "complete", "final_answer": "' + 'say "x", ' * n,
        lambda n: "{" * n,
        lambda n: '{"a": 1} ' * n,
    ],
)
def test_judging_a_generation_takes_linear_time(body: object) -> None:
    def steps(n: int) -> int:
        text = think() + decide(body(n))  # type: ignore[operator]  # each is a function of n
        return steps_of(lambda: judge(text))

    assert steps(1600) <= 2.2 * steps(800) + 200
