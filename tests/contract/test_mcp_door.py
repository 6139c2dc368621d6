"""The MCP server of `stepline serve`, with the clients of PyPI and our own, and the protocol's conformance suite from npm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.errors import ToolError
from stepline.local.page.page_build import SERVER, WEB, digest_sources, is_built
from stepline.model.decision import RemoteTask
from stepline.ports.mcp.mcp_server import CALL_REFUSED, MCP_UNREACHABLE, McpReply, ServerAddress
from stepline.ports.signal import NeverCancelled
from tests.contract.mcp_stage import TOKEN, RecordedStage, SigningProxy, serving_doors

SUITE: Final = "@modelcontextprotocol/conformance@0.1.16"
WAIT_S: Final = 60
NO_TOOL: Final = "the suite's own tool, which an agent has not"
NO_PROMPT: Final = "there are no prompts: a message is the user's own"
NO_INPUT: Final = "the server asks its clients for nothing: an approval is a person's"
FINDINGS: Final = {
    "logging-set-level": "the log of a turn is not a client's",
    "completion-complete": "no parameter has values to complete",
    "tools-call-simple-text": NO_TOOL,
    "tools-call-image": NO_TOOL,
    "tools-call-audio": NO_TOOL,
    "tools-call-embedded-resource": NO_TOOL,
    "tools-call-mixed-content": NO_TOOL,
    "tools-call-with-logging": NO_TOOL,
    "tools-call-error": NO_TOOL,
    "tools-call-with-progress": NO_TOOL,
    "json-schema-2020-12": NO_TOOL,
    "tools-call-sampling": NO_INPUT,
    "tools-call-elicitation": NO_INPUT,
    "elicitation-sep1034-defaults": NO_INPUT,
    "elicitation-sep1330-enums": NO_INPUT,
    "resources-read-text": "the suite's own resource; files belong to conversations",
    "resources-read-binary": "as above",
    "resources-templates-read": "as above",
    "resources-subscribe": "a file of a conversation does not change",
    "resources-unsubscribe": "as above",
    "prompts-list": NO_PROMPT,
    "prompts-get-simple": NO_PROMPT,
    "prompts-get-with-args": NO_PROMPT,
    "prompts-get-embedded-resource": NO_PROMPT,
    "prompts-get-with-image": NO_PROMPT,
}
"""Why a scenario fails. The others pass: the handshake, ping, the lists, streams, and protection against rebinding."""

pytestmark = pytest.mark.skipif(
    not (is_built(digest_sources(WEB, SERVER), WEB, SERVER) or (WEB / "node_modules").is_dir()),
    reason="the packages of web/ are not installed: make web",
)


@pytest.fixture(scope="module")
def stage() -> Iterator[RecordedStage]:
    with RecordedStage("an answer").running() as running:
        yield running


@pytest.fixture(scope="module")
def url(stage: RecordedStage) -> Iterator[str]:
    with serving_doors(stage.url, "--issuer", "https://issuer.example.com") as running:
        yield f"{running}/mcp"


# --- The client of PyPI


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_published_client_asks_and_reads_the_status(url: str, mode: str, revision: str) -> None:
    progress: list[str] = []

    async def heard(_: float, __: float | None, message: str | None) -> None:
        progress.append(message or "")

    async def ask() -> list[Any]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=WAIT_S) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            assert client.protocol_version == revision
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["ask", "status", "files"]
            first = await client.call_tool("ask", {"message": "go"}, progress_callback=heard)
            named = {"conversation": first.structured_content["conversation"]}
            with pytest.raises(MCPError) as refused:
                await client.call_tool("drop", {})
            assert refused.value.error.data == {"code": "unknown_tool_id"}
            return [first, await client.call_tool("status", named)]

    first, status = anyio.run(ask)
    assert first.content[0].text == "Hello."
    assert first.structured_content["status"] == "done"
    assert status.structured_content["last"]["answer"] == "Hello."
    assert "Round 1." in progress


# --- Our own client


def test_our_client_runs_a_turn_as_a_task_and_reads_its_result(url: str, stage: RecordedStage) -> None:
    client, address = McpClient(starts_commands=False), address_of(url)
    listing = client.list_tools(address)
    assert [tool.name for tool in listing.tools] == ["ask", "status", "files"]
    assert [tool.read_only for tool in listing.tools] == [False, True, True]
    task = client.call_tool(address, "ask", {"message": "go"}, NeverCancelled())
    assert isinstance(task, RemoteTask)
    assert task.poll_s == 1
    reply = client.poll_task(address, task.id)
    assert isinstance(reply, McpReply)
    assert reply.parts[0].text == "Hello."
    assert reply.structured["status"] == "done"
    client.cancel_task(address, task.id)
    assert not [one for one in stage.said if one["action"] == "event"]


def test_our_client_refuses_a_task_of_no_message_and_a_call_without_a_token(url: str) -> None:
    client = McpClient(starts_commands=False)
    with pytest.raises(ToolError) as lost:
        client.poll_task(address_of(url), "c.m")
    assert lost.value.reason == "mcp_task_lost"
    with pytest.raises(ToolError) as refused:
        client.call_tool(address_of(url), "drop", {}, NeverCancelled())
    assert refused.value.reason == CALL_REFUSED
    with pytest.raises(ToolError) as unsigned:
        client.list_tools(ServerAddress(url=url))
    assert unsigned.value.reason != MCP_UNREACHABLE


def address_of(url: str) -> ServerAddress:
    return ServerAddress(url=url, headers={"Authorization": f"Bearer {TOKEN}"})


# --- The conformance suite


def test_the_conformance_suite_has_no_finding_beside_the_accepted_ones(
    tmp_path: Path, stage: RecordedStage
) -> None:
    npm, node = (str(Path(sys.executable).parent / name) for name in ("npm", "node"))
    run(tmp_path, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", SUITE)
    program = tmp_path / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    with SigningProxy().running() as proxy, serving_doors(stage.url, "--origin", proxy.url) as served:
        proxy.target = served
        options = ("--url", f"{proxy.url}/mcp", "--suite", "all", "-o", "out")
        run(tmp_path, node, str(program), "server", *options, check=False)
    failed, known = set(), 0
    for path in (tmp_path / "out").glob("server-*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", path.parent.name.removeprefix("server-"))
        known += 1
        if any(check["status"] == "FAILURE" for check in json.loads(path.read_text())):
            failed.add(scenario)
    assert failed == set(FINDINGS)
    assert known == 32


def run(folder: Path, *command: str, check: bool = True) -> None:
    subprocess.run(command, cwd=folder, check=check, capture_output=True, timeout=10 * WAIT_S)
