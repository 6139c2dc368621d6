"""A call that its server runs as a task: no function waits, the call is made once, and every end has a code."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.adapters.memory.mcp.mcp_server import MemoryServer, said
from stepline.errors import ToolError
from stepline.ingress.delete import apply_deletion
from stepline.loop.decide import LOOK_S
from stepline.loop.sweep import replace_owner
from stepline.model.decision import RemoteTask
from stepline.model.entry import Closed, Resulted, Started
from stepline.ports.mcp.mcp_server import MCP_UNREACHABLE, PROTOCOL_ERROR, TASK_LOST
from tests.support.conversation import LANE, text_of
from tests.support.generation import answered, called
from tests.unit.loop.test_turn_tools import (
    ADD,
    FIND,
    RemoteConversation,
    bundle,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.usefixtures("bundle")


class Crm:
    """A server that runs each call as a task, which ends after `left` polls."""

    def __init__(self, left: int = 3, **hints: Any) -> None:
        self.left, self.hints, self.polled = left, hints, list[str]()
        self.failure: ToolError | None = None
        self.server = MemoryServer(tools=(FIND, ADD), answer=self.answer, poll=self.poll)

    def answer(self, *_: Any) -> RemoteTask:
        return RemoteTask(id=f"t{len(self.server.calls)}", **self.hints)

    def poll(self, task_id: str) -> Any:
        self.polled.append(task_id)
        self.left -= 1
        if self.failure is not None:
            raise self.failure
        return said("Ada, since 1843") if self.left <= 0 else RemoteTask(id=task_id, **self.hints)


def begun(crm: Crm, tool: str = "mcp.crm.add") -> RemoteConversation:
    """Return a conversation whose call has just become a task."""
    conversation = RemoteConversation(called(tool, {}), answered("done"), crm=crm.server)
    conversation.send()
    _, step = conversation.take()
    for _ in range(2):
        step = conversation.act(conversation.decide(step))
    return conversation


def ended(conversation: RemoteConversation) -> Any:
    conversation.drive(conversation.now())
    (result,) = conversation.entries(Resulted)
    assert [entry.outcome for entry in conversation.entries(Closed)] == ["completed"]
    return result


@pytest.mark.parametrize("tool", ["mcp.crm.add", "mcp.crm.find"])
def test_a_task_is_waited_for_by_no_function_and_its_answer_is_the_result_of_the_call(tool: str) -> None:
    crm = Crm()
    conversation = begun(crm, tool)
    assert conversation.entries(Started)[-1].task.id == "t1"
    result = ended(conversation)
    assert (result.status, result.duration_ms >= 2000) == ("ok", True)
    assert (len(crm.server.calls), crm.polled) == (1, ["t1"] * 3)
    assert "Ada, since 1843" in text_of(conversation.model.requests[1])


def test_the_step_after_a_call_waits_and_checks_for_a_steer() -> None:
    crm = Crm(poll_s=40.0)
    conversation = RemoteConversation(called("mcp.crm.add", {}), crm=crm.server)
    conversation.send()
    _, step = conversation.take()
    for _ in range(2):
        step = conversation.act(conversation.decide(step))
    waits = []
    while (step := conversation.decide(step)).route == "wait":
        waits.append(step.wait_s)
        conversation.clock.pause(step.wait_s)
    assert (waits, step.route, crm.polled) == ([LOOK_S] * 8, "act", [])


def test_a_take_over_polls_the_task_of_a_lost_execution() -> None:
    crm = Crm()
    conversation = begun(crm)
    replace_owner(conversation.ports, LANE, conversation.tail)
    assert ended(conversation).status == "ok"
    assert (len(crm.server.calls), set(crm.polled)) == (1, {"t1"})


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PROTOCOL_ERROR, PROTOCOL_ERROR), (TASK_LOST, TASK_LOST), (MCP_UNREACHABLE, MCP_UNREACHABLE)],
)
def test_a_failed_task_is_cancelled_and_the_model_reads_the_code(kind: str, code: str) -> None:
    crm = Crm()
    crm.failure = ToolError("it went wrong", code=kind)
    conversation = begun(crm)
    result = ended(conversation)
    assert (result.status, result.error["code"], crm.server.cancelled) == ("error", code, ["t1"])


def test_a_server_that_cannot_be_reached_for_a_while_is_asked_again() -> None:
    crm = Crm()
    crm.failure = ToolError("it is away", code=MCP_UNREACHABLE)
    conversation = begun(crm)
    step = conversation.act()
    assert conversation.entries(Resulted) == []
    assert step.due_ms > 0
    crm.failure = None
    assert ended(conversation).status == "ok"


@pytest.mark.parametrize("hints", [{}, {"poll_s": 1e12}, {"poll_s": 0.001}, {"ttl_s": 0.001}])
def test_a_task_that_never_ends_is_cancelled_when_its_time_is_over(hints: Any) -> None:
    crm = Crm(10**9, **hints)
    conversation = begun(crm)
    result = ended(conversation)
    assert (result.error["code"], crm.server.cancelled) == ("mcp_task_timeout", ["t1"])
    assert 20 <= len(crm.polled) <= 80
    assert result.duration_ms <= 1_201_000


@pytest.mark.parametrize("kind", ["steer", "stop"])
def test_a_steer_cancels_the_task(kind: Any) -> None:
    crm = Crm(10**9)
    conversation = begun(crm)
    conversation.send("enough" if kind == "steer" else "", id="m2", kind=kind)
    conversation.drive(conversation.now())
    (result,) = conversation.entries(Resulted)
    assert (result.error["code"], crm.server.cancelled, crm.polled) == ("cancelled", ["t1"], [])


@pytest.mark.parametrize("next_state", ["decide", "act"])
def test_a_deletion_cancels_the_task_and_ends_the_execution(next_state: str) -> None:
    crm = Crm(10**9)
    conversation = begun(crm)
    apply_deletion(conversation.ports, LANE, conversation.tail.state.owner)
    step = getattr(conversation, next_state)()
    assert (step.route, crm.server.cancelled, crm.polled) == ("stop", ["t1"], [])
    assert conversation.entries(Resulted) + conversation.entries(Closed) == []


def test_a_task_whose_record_came_too_late_is_cancelled() -> None:
    crm = Crm()
    conversation = RemoteConversation(called("mcp.crm.add", {}), answered("done"), crm=crm.server)
    answer = crm.answer

    def taken_over(*_: Any) -> RemoteTask:
        replace_owner(conversation.ports, LANE, conversation.tail)
        return answer()

    crm.server.answer = taken_over
    conversation.send()
    _, step = conversation.take()
    step = conversation.act(conversation.decide(step))
    assert conversation.act(conversation.decide(step)).route == "stop"
    assert crm.server.cancelled == ["t1"]
    assert ended(conversation).status == "unverified"
