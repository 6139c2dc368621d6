"""The remote tools of a turn: the time of their listing, its lifetime, and the cost of a change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from stepline.adapters.memory.mcp.mcp_server import MemoryMcpServers, MemoryServer, said
from stepline.adapters.memory.model import Say
from stepline.bundle.assembly import RemoteRules, build_agent
from stepline.bundle.parts import Parts
from stepline.errors import ToolError
from stepline.loop.sweep import replace_owner
from stepline.model.entry import Closed, Decided, Listed, Resulted, Started
from stepline.model.usage import Usage
from stepline.ports.mcp.mcp_server import MCP_UNREACHABLE, McpReply, RemoteTool
from stepline.tools.context import ReadCaps
from tests.support.conversation import LANE, Conversation, text_of
from tests.support.generation import answered, called

MODULE = "remote_tools_of_a_test"
FIND = RemoteTool(name="find", description="Find a customer.", read_only=True)
ADD = RemoteTool(name="add", description="Add a customer.")
CRM = {"alias": "crm", "url": "https://crm.example/mcp"}
SHOP = {"alias": "shop", "url": "https://shop.example/mcp"}
HELD = Usage(input_tokens=100, cache_write_5m_tokens=8000, output_tokens=9)


@pytest.fixture
def bundle() -> Iterator[ModuleType]:
    module: Any = ModuleType(MODULE)
    module.TOOLS, module.MCP_TOOL_SPECS = (), [CRM]
    sys.modules[MODULE] = module
    yield module
    del sys.modules[MODULE]


class RemoteConversation(Conversation):
    """A conversation whose agent has the tools of servers in this process."""

    def __init__(self, *script: Any, ttl_s: float = 600, **servers: MemoryServer) -> None:
        super().__init__(*script)
        self.servers = servers or {"crm": MemoryServer(tools=(FIND, ADD))}
        self.ports = replace(self.ports, servers=MemoryMcpServers(**self.servers))
        self.build(ttl_s)

    def build(self, ttl_s: float = 600) -> None:
        """Make the agent, as in a new process."""
        self.agent = build_agent(
            ReadCaps(), parts=Parts(tools_module=MODULE), remote=RemoteRules(ttl_s=ttl_s)
        )

    @property
    def crm(self) -> MemoryServer:
        return self.servers["crm"]

    def systems(self) -> list[str]:
        return ["".join(part.text for part in request.system) for request in self.model.requests]

    def say(self, text: str) -> None:
        """Send a message, and run the turn that it opens."""
        self.send(text, id=text)
        self.run()


@pytest.mark.usefixtures("bundle")
def test_a_tool_with_an_odd_name_is_called_by_it() -> None:
    conversation = RemoteConversation(called("mcp.crm.get_page_86f572", {"Due date": 1}), answered("done"))
    conversation.crm.tools = (RemoteTool(name="get page", schema={"properties": {"Due date": {}}}), FIND)
    conversation.say("a")
    assert conversation.crm.calls == [("get page", {"Due date": 1})]


@pytest.mark.usefixtures("bundle")
def test_a_turn_lists_the_tools_and_calls_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    conversation = RemoteConversation(called("mcp.crm.find", {}), answered("done"))
    conversation.crm.answer = lambda *_: said("Ada, since 1843")
    conversation.send()
    conversation.run()
    (listed,) = conversation.entries(Listed)
    (result,) = conversation.entries(Resulted)
    assert (listed.tools, listed.failed, result.status) == (2, (), "ok")
    (logged,) = [vars(record) for record in caplog.records if record.message == "tools listed"]
    assert (logged["tools"], logged["failed"], logged["left_out"]) == (2, 0, 0)
    assert conversation.crm.calls == [("find", {})]
    assert "## mcp.crm.find" in conversation.systems()[0]
    assert "Ada, since 1843" in text_of(conversation.model.requests[1])
    assert [entry.outcome for entry in conversation.entries(Closed)] == ["completed"]


@pytest.mark.usefixtures("bundle")
def test_an_agent_without_servers_lists_nothing(bundle: Any) -> None:
    bundle.MCP_TOOL_SPECS = ()
    conversation = RemoteConversation(answered("done"))
    conversation.send()
    conversation.run()
    assert conversation.agent.servers is None
    assert conversation.entries(Listed) == []


@pytest.mark.usefixtures("bundle")
def test_a_call_that_says_nothing_of_its_effect_is_started_before_it_runs_and_never_runs_twice() -> None:
    conversation = RemoteConversation(called("mcp.crm.add", {}), answered("done"))
    conversation.crm.answer = _crash
    conversation.send()
    _, step = conversation.take()
    for _ in range(2):
        step = conversation.decide(step) if step.route == "decide" else conversation.act(step)
    with pytest.raises(ZeroDivisionError):
        conversation.act(conversation.decide(step))
    assert len(conversation.entries(Started)) == 1
    conversation.act()
    (result,) = conversation.entries(Resulted)
    assert (result.status, len(conversation.crm.calls)) == ("unverified", 1)


def _remove(conversation: Conversation, key: str) -> None:
    artifacts: Any = conversation.ports.artifacts
    del artifacts.objects[key]


def _crash(name: str, params: Any) -> McpReply:
    raise ZeroDivisionError


@pytest.mark.usefixtures("bundle")
def test_a_turn_keeps_its_list_despite_changes_of_the_server() -> None:
    conversation = RemoteConversation(
        called("mcp.crm.find", {}), called("mcp.crm.find", {}), answered("done")
    )
    conversation.send()
    _, step = conversation.take()
    conversation.act(conversation.decide(step))
    conversation.decide()
    conversation.crm.tools = (FIND,)
    conversation.clock.pause(3000)
    conversation.build()  # another process without a cache
    conversation.act()
    conversation.decide()
    first, second = conversation.systems()
    assert first == second
    assert len(conversation.entries(Listed)) == 1


@pytest.mark.usefixtures("bundle")
def test_turns_share_a_list_until_it_is_too_old() -> None:
    conversation = RemoteConversation(answered("1"), answered("2"), answered("3"))
    for text, pause_s in (("a", 500), ("b", 500), ("c", 0)):
        conversation.say(text)
        conversation.clock.pause(pause_s)
    assert (len(conversation.entries(Listed)), len(conversation.crm.asked)) == (2, 2)
    first, second = conversation.entries(Listed)
    assert first.body == second.body
    assert len(set(conversation.systems())) == 1


@pytest.mark.usefixtures("bundle")
def test_conversations_of_one_process_ask_a_server_once() -> None:
    conversation = RemoteConversation(answered("1"), answered("2"))
    conversation.say("a")
    conversation.send("b", id="b", lane=LANE.__class__(tenant="acme", project="support", conversation="c-2"))
    conversation.run()
    assert len(conversation.crm.asked) == 1


@pytest.mark.usefixtures("bundle")
def test_a_server_may_name_a_shorter_time_than_the_deployments() -> None:
    conversation = RemoteConversation(answered("1"), answered("2"))
    conversation.crm.ttl_s = 100
    conversation.say("a")
    conversation.clock.pause(101)
    conversation.say("b")
    assert len(conversation.entries(Listed)) == 2


@pytest.mark.usefixtures("bundle")
def test_a_changed_list_is_the_next_turns_and_its_bust_has_its_reason() -> None:
    conversation = RemoteConversation(
        Say(text=answered("1"), usage=HELD), Say(text=answered("2"), usage=Usage()), ttl_s=10
    )
    conversation.say("a")
    conversation.crm.tools = (FIND,)
    conversation.clock.pause(20)
    conversation.say("b")
    first, second = conversation.systems()
    assert ("mcp.crm.add" in first, "mcp.crm.add" in second) == (True, False)
    bust = conversation.entries(Decided)[-1].bust
    assert (bust.reason, bust.expected_tokens) == ("tools", 8000)


@pytest.mark.usefixtures("bundle")
def test_a_server_that_does_not_know_its_tool_is_asked_for_its_list_again() -> None:
    conversation = RemoteConversation(called("mcp.crm.add", {}), answered("done"))
    conversation.send()
    _, step = conversation.take()
    conversation.act(conversation.decide(step))
    conversation.decide()
    conversation.crm.tools = (FIND,)
    conversation.drive(conversation.act())
    (result,) = conversation.entries(Resulted)
    assert result.error["code"] == "mcp_call_refused"
    assert [listed.tools for listed in conversation.entries(Listed)] == [2, 1]
    assert "mcp.crm.add" not in conversation.systems()[-1]


@pytest.mark.usefixtures("bundle")
def test_a_server_that_does_not_answer_keeps_its_tools_and_is_asked_again_soon(bundle: Any) -> None:
    bundle.MCP_TOOL_SPECS = [CRM, SHOP]
    servers = {"crm": MemoryServer(tools=(FIND,)), "shop": MemoryServer(tools=(ADD,))}
    conversation = RemoteConversation(answered("1"), answered("2"), answered("3"), ttl_s=100, **servers)
    conversation.say("a")
    shop = conversation.servers.pop("shop")
    conversation.ports = replace(conversation.ports, servers=MemoryMcpServers(**conversation.servers))
    conversation.clock.pause(200)
    conversation.say("b")
    conversation.ports = replace(
        conversation.ports, servers=MemoryMcpServers(shop=shop, **conversation.servers)
    )
    conversation.clock.pause(70)
    conversation.say("c")
    assert [listed.failed for listed in conversation.entries(Listed)] == [
        (),
        (f"shop: {MCP_UNREACHABLE}",),
        (),
    ]
    assert len(set(conversation.systems())) == 1


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize(
    ("cut", "known"), [("mcp_timeout", ["mcp.crm.find", "mcp.crm.add"]), ("mcp_too_large", ["mcp.crm.find"])]
)
def test_a_list_that_was_cut_is_recorded_and_loses_no_tool_to_a_server_that_is_away(
    cut: str, known: list[str]
) -> None:
    conversation = RemoteConversation(answered("1"), answered("2"), ttl_s=100)
    conversation.say("a")
    conversation.crm.tools, conversation.crm.cut = (FIND, RemoteTool(name="odd", schema=False)), cut
    conversation.clock.pause(200)
    conversation.say("b")
    listed = conversation.entries(Listed)[-1]
    assert (listed.failed, listed.left_out) == ((f"crm: {cut}",), ("crm.odd: mcp_bad_schema",))
    assert [
        name for name in ("mcp.crm.find", "mcp.crm.add") if f"## {name}" in conversation.systems()[-1]
    ] == known


@pytest.mark.usefixtures("bundle")
def test_a_secret_that_is_missing_leaves_out_its_server_and_fails_no_turn(bundle: Any) -> None:
    bundle.MCP_TOOL_SPECS = [{**CRM, "auth": {"type": "bearer", "secret": "b:none"}}]
    conversation = RemoteConversation(answered("done"))
    conversation.send()
    conversation.run()
    assert conversation.entries(Listed)[0].failed == ("crm: secret_missing",)
    assert conversation.entries(Closed)[0].outcome == "completed"


@pytest.mark.usefixtures("bundle")
def test_a_taken_over_turn_continues_with_its_list() -> None:
    conversation = RemoteConversation(answered("done"))
    conversation.send()
    _, step = conversation.take()
    conversation.act(conversation.decide(step))
    replace_owner(conversation.ports, LANE, conversation.tail)
    conversation.run()
    assert len(conversation.entries(Listed)) == 1
    assert conversation.entries(Closed)[0].outcome == "completed"


@pytest.mark.usefixtures("bundle")
def test_two_attempts_to_list_put_one_list() -> None:
    conversation = RemoteConversation(answered("done"))
    conversation.send()
    _, step = conversation.take()
    asked = conversation.decide(step)
    first, second = conversation.act(asked), conversation.act(asked)
    assert (first.route, second.route) == ("decide", "decide")
    assert len(conversation.entries(Listed)) == 1


@pytest.mark.usefixtures("bundle")
def test_a_stop_is_not_kept_waiting_for_a_list() -> None:
    conversation = RemoteConversation()
    conversation.send()
    conversation.send("", id="m2", kind="steer")
    conversation.run()
    assert conversation.crm.asked == []
    assert conversation.entries(Closed)[0].reason == "stop"


@pytest.mark.usefixtures("bundle")
def test_a_message_during_the_listing_pins_no_outdated_list() -> None:
    conversation = RemoteConversation(answered("done"))
    conversation.send()
    _, step = conversation.take()
    asked = conversation.decide(step)
    conversation.act(asked)
    pinned = conversation.state
    conversation.history = conversation.history.__class__()
    conversation.act(asked)
    assert conversation.state == pinned


@pytest.mark.usefixtures("bundle")
def test_a_list_that_is_gone_from_the_store_takes_its_tools_and_no_turn() -> None:
    conversation = RemoteConversation(answered("1"), answered("2"))
    conversation.say("a")
    (listed,) = conversation.entries(Listed)
    _remove(conversation, listed.body.key)
    conversation.build()
    conversation.say("b")
    assert "## mcp.crm.find" not in conversation.systems()[1]
    assert [entry.outcome for entry in conversation.entries(Closed)] == ["completed"] * 2


def test_a_wrong_row_is_an_error_when_the_agent_is_made(bundle: Any) -> None:
    bundle.MCP_TOOL_SPECS = [{"alias": "crm"}]
    with pytest.raises(Exception, match="needs either") as refused:
        RemoteConversation()
    assert getattr(refused.value, "reason", "") == "mcp_server_invalid"
    assert not isinstance(refused.value, ToolError)
