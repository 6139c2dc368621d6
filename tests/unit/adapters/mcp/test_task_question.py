"""Tasks of MCP servers of both revisions that support them, and servers that lie about a task."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.errors import ToolError
from stepline.model.decision import RemoteTask
from stepline.ports.mcp.mcp_server import McpReply, ServerAddress, Unread
from stepline.ports.signal import NeverCancelled
from tests.support import mcp_peer
from tests.support.mcp_peer import McpPeer, send_json

CLIENT = McpClient(starts_commands=False)
DONE = {"content": [{"type": "text", "text": "done"}], "structuredContent": {"n": 1}}
TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "public",
}
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


def task(status: str = "working", **fields: Any) -> dict[str, Any]:
    return {"taskId": "t-1", "status": status, "ttl": None, "ttlMs": None, **TIMES, **fields}


def peer(revision: str, **answers: Any) -> McpPeer:
    """Return a server of a revision; an answer is a result, or the code of an error."""

    def answer(said: Any) -> Any:
        def reply(request: Any, message: dict[str, Any]) -> Any:
            if not isinstance(said, int):
                return said
            send_json(request, {"id": message["id"], "error": {"code": said, "message": "no such task"}})
            return None

        return reply

    if revision == MODERN:
        answers["server_discover"] = DISCOVERED
    return McpPeer(**{name: answer(said) for name, said in answers.items()})


def poll(server: McpPeer) -> McpReply | RemoteTask:
    with server:
        return CLIENT.poll_task(ServerAddress(url=server.url, timeout_s=30), "t-1")


def refused(server: McpPeer) -> str:
    with pytest.raises(ToolError) as error:
        poll(server)
    return error.value.reason


def call(server: McpPeer, *, as_task: bool = False) -> McpReply | RemoteTask:
    with server:
        address = ServerAddress(url=server.url, timeout_s=30)
        return CLIENT.call_tool(address, "t", {}, NeverCancelled(), as_task=as_task)


def test_a_server_with_handshake_gets_a_task_request_only_if_the_tool_supports_it() -> None:
    server = peer(HANDSHAKE, tools_call={"task": task(ttl=60_000, pollInterval=5_000)})
    assert call(server, as_task=True) == RemoteTask(id="t-1", poll_s=5.0, ttl_s=60.0)
    (said,) = [message["params"] for _, message in server.heard if message["method"] == "tools/call"]
    assert said["task"] == {"ttl": 3_600_000}
    plain = peer(HANDSHAKE, tools_call=DONE)
    assert isinstance(call(plain), McpReply)
    assert "task" not in plain.heard[-2][1].get("params", {})


def test_a_server_without_handshake_learns_that_tasks_are_supported_and_creates_one() -> None:
    server = peer(MODERN, tools_call={"resultType": "task", **task(ttlMs=60_000, pollIntervalMs=5_000)})
    assert call(server) == RemoteTask(id="t-1", poll_s=5.0, ttl_s=60.0)
    (said,) = [message["params"] for _, message in server.heard if message["method"] == "tools/call"]
    declared = said["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
    assert (declared, "task" in said) == ({"io.modelcontextprotocol/tasks": {}}, False)


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_task_that_is_done_has_the_answer_of_its_call(revision: str) -> None:
    inline = {"result": DONE} if revision == MODERN else {}
    reply = poll(peer(revision, tasks_get=task("completed", **inline), tasks_result=DONE))
    assert isinstance(reply, McpReply)
    assert (reply.parts[0].text, reply.structured, reply.failed) == ("done", {"n": 1}, False)


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_running_task_reports_its_state(revision: str) -> None:
    server = peer(revision, tasks_get=task())
    assert poll(server) == RemoteTask(id="t-1")
    if revision == MODERN:
        assert {k.lower(): v for k, v in server.heard[-1][0].items()}["mcp-name"] == "t-1"


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"tasks_get": task("cancelled")}, "mcp_task_cancelled"),
        ({"tasks_get": task("input_required")}, "mcp_task_needs_input"),
        (
            {"tasks_get": task("failed", error={"code": 1, "message": "m"}), "tasks_result": 1},
            "mcp_task_failed",
        ),
        ({"tasks_get": -32602}, "mcp_task_lost"),
        ({"tasks_get": task(taskId="t-2")}, "mcp_protocol_error"),
        ({"tasks_get": task("dreaming")}, "mcp_protocol_error"),
        ({"tasks_get": {"status": "working"}}, "mcp_protocol_error"),
    ],
)
def test_a_failed_or_invalid_task_has_a_code(revision: str, answers: Any, code: str) -> None:
    assert refused(peer(revision, **answers)) == code


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_task_that_ends_without_an_answer_is_reported(revision: str) -> None:
    answer = {"tools": []}
    reply = poll(peer(revision, tasks_get=task("completed", result=answer), tasks_result=answer))
    assert reply == McpReply(unread=(Unread(why="no_content"),))


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
@pytest.mark.parametrize("odd", [5, "x", [1], {"a": 1}, True])
def test_unreadable_fields_of_a_task_do_not_lose_the_task(revision: str, odd: Any) -> None:
    facts = dict.fromkeys(("statusMessage", "createdAt", "lastUpdatedAt", "_meta", "result", "error"), odd)
    assert poll(peer(revision, tasks_get=task(**facts))) == RemoteTask(id="t-1")


@pytest.mark.parametrize(
    "times", [{"ttl": -5, "ttlMs": -5}, {"pollInterval": "1", "ttlMs": [1], "ttl": True}, {}]
)
@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_invalid_times_are_omitted(revision: str, times: Any) -> None:
    assert poll(peer(revision, tasks_get=task(**times))) == RemoteTask(id="t-1")


@pytest.mark.parametrize("name", ["", "x" * 513, "a\nb", "ü", 7])
def test_an_invalid_id_is_refused(name: Any) -> None:
    with pytest.raises(ToolError) as error:
        call(peer(HANDSHAKE, tools_call={"task": task(taskId=name)}), as_task=True)
    assert error.value.reason == "mcp_protocol_error"


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_task_is_cancelled_by_its_id(revision: str) -> None:
    server = peer(revision, tasks_cancel={"resultType": "complete"})
    with server:
        CLIENT.cancel_task(ServerAddress(url=server.url, timeout_s=30), "t-1")
    (said,) = [message["params"] for _, message in server.heard if message["method"] == "tasks/cancel"]
    assert said["taskId"] == "t-1"


@pytest.mark.parametrize("declared", [True, False])
def test_a_tool_is_called_as_a_task_if_its_server_and_the_tool_support_it(
    declared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities = {"tools": {}} | ({"tasks": {"requests": {"tools": {"call": {}}}}} if declared else {})
    monkeypatch.setitem(mcp_peer.INITIALIZED, "capabilities", capabilities)
    schema = {"type": "object"}
    supports = ("optional", "required", "forbidden")
    tools = [{"name": one, "inputSchema": schema, "execution": {"taskSupport": one}} for one in supports]
    with peer(HANDSHAKE, tools_list={"tools": [*tools, {"name": "none", "inputSchema": schema}]}) as server:
        listed = CLIENT.list_tools(ServerAddress(url=server.url)).tools
    assert [tool.name for tool in listed if tool.as_task] == (["optional", "required"] if declared else [])
