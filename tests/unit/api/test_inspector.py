"""The inspector's endpoints: their answers to the owner, restrictions of the stage, and answers to strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.api.endpoint import Services
from stepline.api.inspector import ENDPOINTS
from stepline.api.router import Request, Router
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.timeline_cache import History
from stepline.model.usage import ModelCall, Usage
from stepline.ports.channel import Inspect, Principal
from stepline.tools.context import ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, tool
from tests.support.generation import answered, called

SPEAK = "test.speak"
CONV = f"/v1/conversations/{LANE.conversation}"
ROUTER = Router(ENDPOINTS)
ASKS = [
    "timeline",
    "requests/2",
    "requests/2/diff?to=4",
    "decisions/2",
    "log",
    "blocks?path=ar:turn.user.prompt",
    "receipts",
    "effects?kind=batch&at=1",
    "export",
]


class Inspected:
    """A conversation of one turn with two rounds, and a caller of the API."""

    def __init__(self, inspect: Inspect = "owner") -> None:
        self.conversation = Conversation(called(SPEAK), answered("Told."))
        self.conversation.use(
            tool(SPEAK, "pure", lambda context: ToolOutput(blocks=(context.result(SPEAK, "a tale"),)))
        )
        self.conversation.send("tell me")
        self.conversation.run()
        self.services = Services(ports=self.conversation.ports, history=History(), inspect=inspect)

    def ask(self, what: str, *, base: str = CONV, **who: str) -> tuple[int, Any]:
        """Return status and body of an answer."""
        path, _, query = what.partition("?")
        fields = {"tenant": LANE.tenant, "project": LANE.project, "user": USER, **who}
        request = Request(
            method="GET", path=f"{base}/{path}", query=dict(q.split("=") for q in query.split("&") if q)
        )
        answer = ROUTER.answer(self.services, Principal(**fields, expires_at=FAR), request)
        return int(answer.status), json.loads(answer.body)


@pytest.fixture(scope="module")
def inspected() -> Inspected:
    return Inspected()


def test_the_timeline_has_every_round(inspected: Inspected) -> None:
    status, body = inspected.ask("timeline")
    (turn,) = body["turns"]
    assert (status, turn["outcome"]) == (200, "completed")
    assert [(one["decided_n"], one["rendered_n"]) for one in turn["rounds"]] == [(2, 1), (4, 3)]


def test_the_request_of_a_round_is_equal_in_bytes_and_hides_the_system_part(inspected: Inspected) -> None:
    status, body = inspected.ask("requests/4")
    assert (status, body["equal"]) == (200, True)
    system, *rest = body["parts"]
    assert (system["pieces"][0]["text"], system["pieces"][0]["hidden"]) == ("", True)
    asked = inspected.conversation.model.requests[1]
    shown = "".join(piece["text"] for part in rest for piece in part["pieces"])
    assert shown == "".join(part.text for part in asked.content)  # type: ignore[union-attr]  # it has no files


def test_the_diff_of_two_rounds_shows_what_was_added_between_them(inspected: Inspected) -> None:
    status, body = inspected.ask("requests/2/diff?to=4")
    assert status == 200
    assert [run["op"] for run in body["runs"]] == ["same", "added", "changed"]


def test_a_system_part_that_changed_is_hidden_in_the_difference_too() -> None:
    inspected = Inspected()
    conversation = inspected.conversation
    conversation.agent = type(conversation.agent)(
        system="be secret", registry=conversation.agent.registry, caps=conversation.agent.caps
    )
    conversation.model.add(answered("Yes."))
    conversation.send("and now?", id="m2")
    conversation.run()
    status, body = inspected.ask("requests/4/diff?to=7")
    assert (status, body["first_difference"]["kind"]) == (200, "system")
    assert "secret" not in json.dumps(body)


def test_a_reply_a_page_of_the_log_and_blocks(inspected: Inspected) -> None:
    turn = inspected.conversation.timeline().turns[0]
    assert inspected.ask("decisions/2")[1]["decision"]["actions"][0]["tool_id"] == SPEAK
    page = inspected.ask("log?after=1&limit=2")[1]
    assert ([batch["n"] for batch in page["batches"]], page["next"]) == ([2, 3], 3)
    assert inspected.ask("log?after=99")[1] == {"batches": [], "next": None}
    (block,) = inspected.ask(f"blocks?path=ar:{turn}.user.prompt")[1]["blocks"]
    assert (block["type"], block["text"]) == ("user.prompt", "tell me")
    assert inspected.ask("blocks?path=nothing")[1] == {"blocks": []}


@pytest.mark.parametrize("role", ["project_admin", "tenant_admin"])
@pytest.mark.parametrize("inspect", ["owner", "admin"])
def test_an_owner_who_is_an_admin_sees_the_system_part(inspect: Inspect, role: str) -> None:
    inspected = Inspected(inspect)
    system = inspected.ask("requests/2", role=role)[1]["parts"][0]["pieces"][0]
    assert system["text"] == inspected.conversation.agent.system
    assert not system.get("hidden", False)
    status, body = inspected.ask("requests/2/diff?to=4", role=role)
    assert (status, body["runs"][0]["pieces"][0].get("hidden", False)) == (200, False)
    assert inspected.ask("log", role=role)[0] == inspected.ask("decisions/2", role=role)[0] == 200


def test_a_stage_without_inspection_refuses_admins_too() -> None:
    assert Inspected("none").ask("log", role="tenant_admin")[1]["code"] == "not_inspectable"


def test_owners_read_receipts_and_exports_without_inspection() -> None:
    inspected = Inspected("none")
    assert inspected.ask("receipts")[1]["turns"][0]["rounds"]
    first, *_ = inspected.ask("export")[1]["documents"]
    assert first["kind"] == "artifact:conv.timeline.v1"


def test_the_calls_with_lasting_effects_after_a_message_are_listed_for_a_fork() -> None:
    inspected = Inspected("none")
    conversation = inspected.conversation
    conversation.use(
        tool("test.pay", "once", lambda context: ToolOutput(blocks=(context.result("t", "paid"),)))
    )
    conversation.model.add(called("test.pay"), answered("Paid."))
    conversation.send("pay", id="m2")
    conversation.run()
    status, body = inspected.ask("effects?kind=message&at=m2&before=true")
    (item,) = body["items"]
    assert (status, body["more"], item["n"]) == (200, False, conversation.tail.n - 2)
    assert (item["tool"], item["effect"], item["status"]) == ("test.pay", "once", "ok")
    assert item in inspected.ask("effects?kind=batch&at=1&before=true")[1]["items"]
    assert inspected.ask("effects?kind=batch&at=99")[1]["code"] == "fork_beyond_end"
    assert inspected.ask("effects?kind=message&at=m9")[1]["code"] == "fork_point_not_found"
    assert inspected.ask("effects?kind=turns&at=m2")[0] == 400


def test_the_receipts_of_a_fork_are_those_of_its_own_turns() -> None:
    inspected = Inspected()
    conversation, origin = inspected.conversation, inspected.ask("receipts")[1]
    point = ForkPoint(kind="batch", at=str(conversation.tail.n))
    fork_conversation(conversation.ports, LANE, point, user=USER, conversation="c-2")
    base = "/v1/conversations/c-2"
    assert inspected.ask("receipts", base=base)[1]["tokens"]["output_tokens"] == 0
    conversation.model.add(answered("Again."))
    conversation.send("again", id="m2", lane=replace(LANE, conversation="c-2"))
    conversation.run()
    fork = inspected.ask("receipts", base=base)[1]
    assert (len(fork["turns"]), fork["turns_before"], origin["turns_before"]) == (1, 1, 0)
    assert fork["tokens"] == fork["turns"][0]["tokens"]
    assert fork["turns"][0]["turn_id"] not in {turn["turn_id"] for turn in origin["turns"]}
    assert inspected.ask("receipts")[1] == origin
    assert len(inspected.ask("timeline", base=base)[1]["turns"]) == 2


@pytest.mark.parametrize("inspect", ["admin", "none"])
@pytest.mark.parametrize("what", ["requests/2", "requests/2/diff?to=4", "decisions/2", "log"])
def test_requests_replies_and_the_log_need_the_right_to_inspect(what: str, inspect: Inspect) -> None:
    status, body = Inspected(inspect).ask(what)
    assert (status, body["code"]) == (403, "not_inspectable")


@pytest.mark.parametrize("what", ASKS)
@pytest.mark.parametrize(
    "who",
    [{"user": "eve"}, {"tenant": "other"}, {"project": "other"}, {"user": "eve", "role": "tenant_admin"}],
)
@pytest.mark.parametrize("inspect", ["owner", "none"])
def test_a_stranger_gets_the_answer_of_a_missing_conversation(
    what: str, who: dict[str, str], inspect: Inspect
) -> None:
    inspected = Inspected(inspect)
    absent = inspected.ask(what, base="/v1/conversations/none", **who)
    assert inspected.ask(what, **who) == absent
    assert absent[0] == 404


@pytest.mark.parametrize(
    "what", ["requests/1", "requests/3", "requests/99", "requests/x", "decisions/0", "decisions/3"]
)
def test_a_batch_that_decides_no_round_is_not_found(inspected: Inspected, what: str) -> None:
    status, body = inspected.ask(what)
    assert (status, body["code"]) == (404, "round_not_found")


@pytest.mark.parametrize(
    "what", ["log?after=-1", "log?limit=0", "log?limit=1000", "log?x=1", "blocks", "requests/2/diff"]
)
def test_an_invalid_inspector_query_is_refused(inspected: Inspected, what: str) -> None:
    status, body = inspected.ask(what)
    assert (status, body["code"]) == (400, "bad_message")


def test_receipts_include_a_noted_call_that_is_in_no_batch() -> None:
    inspected = Inspected()
    before = inspected.ask("receipts")[1]
    late = ModelCall(role="test.late", model="memory", usage=Usage(input_tokens=7), id="late")
    inspected.conversation.ports.deltas.note(LANE, 1, late)
    after = inspected.ask("receipts")[1]
    assert after["tokens"]["input_tokens"] == before["tokens"]["input_tokens"] + 7
    assert [line["role"] for line in after["turns"][0]["lines"]][-1] == "test.late"
