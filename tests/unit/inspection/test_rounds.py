"""The rounds of a conversation, what they cost, what the model replied, and the log as a page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.model import Say
from stepline.errors import AuthError
from stepline.inspection.documents import export_documents, page_log, show_blocks
from stepline.inspection.model_reply import show_reply
from stepline.inspection.receipt import make_receipts
from stepline.inspection.rounds import check_inspect, list_rounds
from stepline.model.block import Block, Body
from stepline.model.entry import Decided
from stepline.model.program.execution import Run
from stepline.model.usage import Usage
from stepline.ports.channel import Inspect, Principal, Role
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, tool
from tests.support.generation import BROKEN, answered, called, coded

LOOK_UP = "test.look_up"
COST = Usage(input_tokens=1_000, cache_read_tokens=20_000, cache_write_5m_tokens=4_000, output_tokens=500)


def talked(*script: Any) -> Conversation:
    conversation = Conversation(*script)

    def look_up(context: ToolContext) -> ToolOutput:
        conversation.clock.pause(2)
        return ToolOutput(blocks=(context.result(LOOK_UP, "found"),))

    conversation.use(tool(LOOK_UP, "pure", look_up))
    conversation.send("look it up")
    conversation.run()
    return conversation


def test_rounds_of_a_turn_have_their_position_and_usage() -> None:
    conversation = talked(Say(text=called(LOOK_UP), usage=COST), answered("Done."))
    (turn,) = list_rounds(conversation.batches()).turns
    assert (turn.opened_n, turn.closed_n, turn.outcome) == (1, 5, "completed")
    first, second = turn.rounds
    assert (first.iteration, first.decided_n, first.rendered_n, first.claim) == (0, 2, 1, 1)
    assert (second.iteration, second.decided_n, second.rendered_n) == (1, 4, 3)
    assert first.usage is not None
    assert first.usage.cache_read_tokens == 20_000


def test_an_open_turn_has_no_end() -> None:
    conversation = Conversation(called(LOOK_UP))
    conversation.use(tool(LOOK_UP, "pure", lambda _: ToolOutput()))
    conversation.send()
    conversation.decide()
    (turn,) = list_rounds(conversation.batches()).turns
    assert (turn.closed_n, turn.outcome, len(turn.rounds)) == (0, "", 1)
    (receipt,) = make_receipts(conversation.batches()).turns
    assert receipt.elapsed_ms is None


def test_a_receipt_adds_up_without_unknown_prices() -> None:
    conversation = talked(Say(text=called(LOOK_UP), usage=COST), Say(text=answered("Done."), usage=COST))
    receipts = make_receipts(conversation.batches())
    (turn,) = receipts.turns
    assert turn.tokens.output_tokens == receipts.tokens.output_tokens == 1_000
    assert [one.usd for one in turn.rounds] == [None, None]
    assert (turn.usd, turn.priced) == (0.0, False)
    assert [one.tools_ms for one in turn.rounds] == [2_000, 0]
    assert turn.tools_ms == 2_000


def test_a_receipt_has_dollars_if_the_model_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepline.adapters.memory.model.MODEL", "claude-sonnet-5")
    conversation = talked(Say(text=called(LOOK_UP), usage=COST), Say(text=answered("Done."), usage=COST))
    (turn,) = make_receipts(conversation.batches()).turns
    one = (1_000 * 2 + 4_000 * 2.5 + 20_000 * 0.2 + 500 * 10) / 1_000_000
    assert [round_.usd for round_ in turn.rounds] == [pytest.approx(one)] * 2
    assert (turn.usd, turn.priced) == (pytest.approx(2 * one), True)


def test_a_reply_has_thinking_decision_and_text() -> None:
    conversation = Conversation(coded("print(1)", "a.txt"), answered("Done."))
    conversation.programs(lambda _: Run())
    conversation.send()
    conversation.decide()
    reply = show_reply(conversation.tail)
    (thought,) = reply.thinking
    assert thought.text
    assert [one.text for one in reply.code] == ["print(1)"]
    assert [one.tool_id for one in reply.decision.actions] == ["exec_tools.execute_code_python"]
    assert (reply.raw, reply.notices, reply.stop_reason) == ("", (), "end_turn")


def test_a_refused_reply_has_its_raw_text_and_the_notices() -> None:
    conversation = Conversation(BROKEN, answered("Done."))
    conversation.send()
    conversation.decide()
    reply = show_reply(conversation.tail)
    assert reply.raw == BROKEN
    assert reply.notices
    assert not reply.decision.accepted


def test_a_page_of_the_log_ends_with_the_next_offset() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    batches = conversation.batches()
    first = page_log(batches, limit=2, newest=5)
    assert ([one["n"] for one in first.batches], first.next) == ([1, 2], 2)
    last = page_log(batches[2:], limit=5, newest=5)
    assert ([one["n"] for one in last.batches], last.next) == ([3, 4, 5], None)
    assert page_log([], limit=5, newest=5).next is None
    decision = msgspec.json.decode(msgspec.json.encode(first))["batches"][1]["entries"][0]
    (recorded,) = [e for e in batches[1].entries if isinstance(e, Decided)]
    assert recorded.sent is not None
    assert decision["sent"]["round_facts"] == {"max_iterations": conversation.ports.policy.max_iterations}


def test_a_block_has_its_stored_text_and_no_picture() -> None:
    conversation = Conversation()
    artifacts = conversation.ports.artifacts
    body = Body(
        key="out/a/b/c/turn_1/k",
        sha256="2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        size_bytes=3,
        mime="text/plain",
    )
    artifacts.put(body.key, b"foo", mime="text/plain")
    picture = msgspec.structs.replace(body, mime="image/png")
    blocks = [Block(type="t", author="a", ts="", body=one) for one in (body, picture)]
    shown, seen = show_blocks(blocks, artifacts).blocks
    assert (shown.text, shown.size_bytes) == ("foo", 3)
    assert (seen.text, seen.size_bytes) == ("", 3)


def test_an_export_has_the_timeline_the_sources_and_every_turn() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    made = export_documents(conversation.timeline(), ttl_s=300)
    assert [one.kind for one in made.documents] == [
        "artifact:conv.timeline.v1",
        "artifact:conv:sources_pool",
        "artifact:turn.log",
    ]


@pytest.mark.parametrize(
    ("rule", "role"),
    [("admin", "user"), ("none", "user"), ("none", "project_admin"), ("none", "tenant_admin")],
)
def test_an_owner_inspects_only_on_a_stage_that_allows_it(rule: Inspect, role: Role) -> None:
    with pytest.raises(AuthError) as refused:
        check_inspect(rule, owner(role))
    assert refused.value.reason == "not_inspectable"
    check_inspect("owner", owner(role))
    check_inspect("admin", owner("project_admin"))


def owner(role: Role) -> Principal:
    return Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR, role=role)
