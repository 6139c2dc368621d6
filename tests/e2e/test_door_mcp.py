"""The MCP server of `stepline serve` beside the stage, with the client of PyPI, and with our own agent as the client."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.model.decision import RemoteTask
from stepline.ports.mcp.mcp_server import ServerAddress
from stepline.ports.signal import NeverCancelled
from tests.e2e.mode import approvals
from tests.e2e.order import terminals
from tests.e2e.stage import WAIT_S, a_word, answer_of
from tests.e2e.test_door_server import serving
from tests.support.generation import answered, called
from tests.support.issuer import Issuer

pytestmark = pytest.mark.emulator

SLOW_MS = 150
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}
WRITE = "react.write"
DESK = "incident-desk"
PEER = """
from stepline import BaseWorkflow

TOOLS = ()
MCP_TOOL_SPECS = [{{"alias": "peer", "url": {url!r}, "headers": {{"Authorization": {token!r}}}}}]


class Desk(BaseWorkflow):
    tools_module = __name__


WORKFLOW = Desk
"""


@pytest.fixture(scope="module")
def url(deployed_script):
    assert deployed_script
    with serving("--mcp-answers", DESK) as (_, running):
        yield f"{running}/mcp"


@pytest.fixture
def word(scripted):
    """A word about which the model writes for some seconds."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return word


def token_of(stage, **claims):
    """Return a token of the stage's user."""
    named = {"sub": stage.user, "tenant": "local", "project": "default", **claims}
    return Issuer(Path(stage.deployed.home), stage.deployed.issuer_url).token(**named)


@contextmanager
def connecting(url, token):
    """Yield a function that runs a coroutine of a client."""

    def run(use, mode="auto"):
        async def connected():
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                return await use(client)

        return anyio.run(connected)

    yield run


@pytest.fixture
def client(url, scripted):
    with connecting(url, token_of(scripted)) as run:
        yield run


def call(name, **params):
    """Return a use of a client: one call of a tool."""
    return lambda client: client.call_tool(name, params)


def refused(use):
    """Return a use whose error of the protocol is its result: the data of it."""

    async def asked(client):
        with pytest.raises(MCPError) as found:
            await use(client)
        return found.value.error.data

    return asked


def ends(stage, conversation):
    """Wait until the conversation's turn has ended, and return its end."""
    api = stage.over_http()
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        page = api.get(f"/v1/conversations/{conversation}/events")
        events = [event for frame in page["events"] for event in frame["events"]]
        if found := [event["data"] for event in events if event["type"] == "chat.complete"]:
            return found[-1]
        time.sleep(0.2)
    raise AssertionError("the turn does not end")


# --- Calls


def test_the_published_client_asks_continues_and_reads_the_log(client, scripted, conversation):
    word = a_word()
    scripted.fault(kind="fixture", match=word, text=answered(f"About {word}."))

    async def use(mcp):
        asked = await mcp.call_tool("ask", {"message": f"Describe {word}.", "conversation": conversation})
        status = await mcp.call_tool("status", {"conversation": conversation})
        again = await mcp.call_tool("ask", {"message": "And now?", "conversation": conversation})
        return asked, status, again

    asked, status, again = client(use)
    assert asked.content[0].text == f"About {word}."
    assert asked.structured_content["status"] == "done"
    assert status.structured_content["open"] is False
    assert status.structured_content["last"] == {
        "turn": asked.structured_content["turn"],
        "answer": f"About {word}.",
        "reason": "complete",
        "code": "",
    }
    assert again.structured_content["turn"] != asked.structured_content["turn"]
    assert again.structured_content["answer"] == ends(scripted, conversation)["answer"]


@pytest.mark.parametrize("mode", MODES)
def test_files_of_a_turn_are_links_that_are_read(client, scripted, conversation, mode):
    word = a_word()
    wanted = {"path": "outputs/note.md", "channel": "canvas", "content": f"# {word} ü", "kind": "file"}
    scripted.fault(kind="fixture", match=word, count=1, text=called(WRITE, wanted))

    async def use(mcp):
        assert mcp.protocol_version == MODES[mode]
        asked = await mcp.call_tool("ask", {"message": f"Write {word}.", "conversation": conversation})
        listed = await mcp.call_tool("files", {"conversation": conversation})
        (link,) = [block for block in listed.content if block.type == "resource_link"]
        path = listed.structured_content["files"][0]["path"]
        one = await mcp.call_tool("files", {"conversation": conversation, "path": path})
        return asked, link, await mcp.read_resource(link.uri), one

    asked, link, read, one = client(use, mode)
    assert asked.structured_content["status"] == "done"
    assert link.name == "note.md"
    assert read.contents[0].text == f"# {word} ü"
    assert one.structured_content["url"].startswith("http")


def test_a_foreign_conversation_and_a_bad_token_are_refused(url, client, scripted, conversation):
    client(call("ask", message="Hello there.", conversation=conversation))
    with connecting(url, token_of(scripted, sub=f"{scripted.user}x")) as stranger:
        for use in (
            call("status", conversation=conversation),
            call("files", conversation=conversation),
            call("ask", message="Hello there.", conversation=conversation),
        ):
            assert stranger(refused(use)) == {"code": "not_found"}
    for token in ("a.b.c", token_of(scripted, exp=1)):
        answer = httpx2.post(url, json={}, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
        metadata = answer.headers["WWW-Authenticate"].partition('"')[2].rstrip('"')
        found = httpx2.get(metadata).json()
        assert found["authorization_servers"] == [scripted.deployed.issuer_url]
        assert found["resource"] == url


# --- Cancellation


@pytest.mark.parametrize("ending", [("auto", "stop"), ("legacy", "complete")])
def test_a_closed_response_stops_the_turn_if_the_revision_says_so(
    client, scripted, conversation, word, ending
):
    mode, reason = ending

    async def use(mcp):
        begun = anyio.Event()

        async def progressed(*_):
            begun.set()

        async def ask():
            params = {"message": f"Describe the word {word}.", "conversation": conversation}
            await mcp.call_tool("ask", params, progress_callback=progressed)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await begun.wait()
            await anyio.sleep(0.5)
            tasks.cancel_scope.cancel()

    client(use, mode)
    assert ends(scripted, conversation)["reason"] == reason
    assert len(scripted.model_requests(word)) == 1


# --- Tasks


def test_a_task_is_continued_at_another_process_and_has_the_recorded_answer(scripted, conversation, word):
    ours, token = McpClient(starts_commands=False), f"Bearer {token_of(scripted)}"
    params = {"message": f"Describe the word {word}.", "conversation": conversation}
    with serving() as (_, running):
        address = ServerAddress(url=f"{running}/mcp", headers={"Authorization": token})
        task = ours.call_tool(address, "ask", params, NeverCancelled())
    assert isinstance(task, RemoteTask)
    with serving() as (_, running):
        address = ServerAddress(url=f"{running}/mcp", headers={"Authorization": token})
        states = [ours.poll_task(address, task.id)]
        while isinstance(states[-1], RemoteTask):
            time.sleep(task.poll_s)
            states.append(ours.poll_task(address, task.id))
        assert len(states) > 1
        assert states[-1].parts[0].text == ends(scripted, conversation)["answer"]


def test_a_cancelled_task_stops_its_turn(url, scripted, conversation, word):
    ours = McpClient(starts_commands=False)
    address = ServerAddress(url=url, headers={"Authorization": f"Bearer {token_of(scripted)}"})
    params = {"message": f"Describe the word {word}.", "conversation": conversation}
    task = ours.call_tool(address, "ask", params, NeverCancelled())
    while not scripted.model_requests(word):
        time.sleep(0.2)
    ours.cancel_task(address, task.id)
    assert ends(scripted, conversation)["reason"] == "stop"


# --- Approvals


def test_an_approval_is_answered_by_a_named_client_whom_the_record_names(url, client, scripted, conversation):
    word = a_word()
    wanted = {"path": "outputs/note.md", "channel": "canvas", "content": f"# {word}", "kind": "file"}
    scripted.fault(kind="fixture", match=word, count=1, text=called(WRITE, wanted))
    with approvals(scripted, {WRITE: "always"}), connecting(url, token_of(scripted, azp=DESK)) as desk:
        waits = client(call("ask", message=f"Write {word}.", conversation=conversation)).structured_content
        assert waits["status"] == "waits_for_approval"
        assert waits["approval"]["params"] == wanted
        named = {"conversation": conversation, "call_id": waits["approval"]["call_id"], "verdict": "approve"}
        assert client(refused(call("answer", **named))) == {"code": "unknown_tool_id"}
        assert desk(call("answer", **named)).structured_content == named
        ends(scripted, conversation)
    (answer,) = scripted.entries(conversation, "approval_answered")
    assert (answer["verdict"], answer["client"]) == ("approved", DESK)
    (result,) = scripted.entries(conversation, "result")
    assert result["status"] == "ok"


# --- Our agent as the client of another agent


def test_our_agent_asks_another_agent_by_a_task(url, scripted, conversation, tmp_path):
    outer, inner = a_word(), a_word()
    token = f"Bearer {token_of(scripted)}"
    (tmp_path / "desk_agent.py").write_text(PEER.format(url=url, token=token))
    scripted.command("up", "--bundle", "desk_agent", cwd=tmp_path, env={"EXEC_RUNTIME_MODE": "process"})
    try:
        ask = called("mcp.peer.ask", {"message": f"Look at {inner}."})
        scripted.fault(kind="fixture", match=inner, count=1, text=answered(f"Seen: {inner}."))
        scripted.fault(kind="fixture", match=outer, count=1, text=ask)
        lines = scripted.send(f"Ask about {outer}.", conversation)
        assert terminals(lines)
        tasks = [
            entry["task"]["id"] for entry in scripted.entries(conversation, "started") if "task" in entry
        ]
        assert [task.partition("_")[0] for task in tasks] == ["conv"]
        (result,) = scripted.entries(conversation, "result")
        assert result["status"] == "ok"
        assert f"Seen: {inner}." in json.dumps(result)
        assert answer_of(lines)
    finally:
        scripted.command("up", env={"EXEC_RUNTIME_MODE": "process"})
