"""Behaviour of every client of MCP servers, with servers of both eras of the protocol, over HTTP and standard streams.

`modern` is the official server (2026-07-28), `handshake` one of 2025-11-25 that has nothing of the package, `process` the
official one over standard streams, and `twin` the memory twin.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.adapters.memory.mcp.mcp_server import MemoryMcpServers, MemoryServer, said
from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import (
    CALL_REFUSED,
    McpReply,
    McpServers,
    RemoteTool,
    ReplyPart,
    ServerAddress,
)
from stepline.ports.signal import NeverCancelled
from tests.support.mcp_peer import McpPeer, send, send_json

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

PROGRAM = '''
import base64
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("contract")
PNG = base64.b64decode("{png}")

@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def echo(text: str):
    """Say it again."""
    return text

@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True), structured_output=False)
def draw():
    return Image(data=PNG, format="png")

@server.tool(structured_output=False)
async def count(ctx: Context):
    await ctx.report_progress(1, 4, "one")
    await ctx.report_progress(2.5)
    return "counted"

@server.tool(structured_output=False)
def fail():
    raise ValueError("no such thing")
'''.replace("{png}", base64.b64encode(PNG).decode())


def http_app() -> Any:
    """Return the official server as an application of HTTP."""
    scope: dict[str, Any] = {}
    exec(PROGRAM, scope)
    return scope["server"].streamable_http_app()


def _modern() -> Iterator[tuple[McpServers, ServerAddress]]:
    import uvicorn

    config = uvicorn.Config(http_app(), host="127.0.0.1", port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    began = threading.Event()
    startup = server.startup

    async def start(*args: Any, **kwargs: Any) -> None:
        await startup(*args, **kwargs)
        began.set()

    server.startup = start  # type: ignore[method-assign]  # signals that its port is known
    thread = threading.Thread(target=server.run)
    thread.start()
    assert began.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield McpClient(starts_commands=False), ServerAddress(url=f"http://127.0.0.1:{port}/mcp")
    server.should_exit = True
    thread.join()


def send_counted(request: Any, number: Any, token: Any) -> None:
    """Answer with a stream of events: two progress notifications, then the result."""
    steps = [{"progress": 1, "total": 4, "message": "one"}, {"progress": 2.5}]
    sent: list[dict[str, Any]] = [
        {"method": "notifications/progress", "params": {"progressToken": token, **step}} for step in steps
    ]
    sent.append({"id": number, "result": {"content": [{"type": "text", "text": "counted"}]}})
    body = "".join(f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **one})}\n\n" for one in sent)
    send(request, body.encode(), mime="text/event-stream")


def _handshake() -> Iterator[tuple[McpServers, ServerAddress]]:
    tools = [
        {
            "name": "echo",
            "description": "Say it again.",
            "inputSchema": ECHO,
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "draw",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": False, "idempotentHint": True},
        },
        {"name": "count", "inputSchema": {"type": "object"}},
        {"name": "fail", "inputSchema": {"type": "object"}},
    ]

    def call(request: Any, message: dict[str, Any]) -> Any:
        match message["params"]:
            case {"name": "echo", "arguments": {"text": text}}:
                return {"content": [{"type": "text", "text": text}]}
            case {"name": "draw"}:
                data = base64.b64encode(PNG).decode()
                return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
            case {"name": "count", "_meta": {"progressToken": token}}:
                send_counted(request, message["id"], token)
                return None
            case {"name": "fail"}:
                return {"content": [{"type": "text", "text": "no such thing"}], "isError": True}
        send_json(request, {"id": message["id"], "error": {"code": -32602, "message": "Unknown tool"}})
        return None

    with McpPeer(tools_list=lambda *_: {"tools": tools}, tools_call=call) as peer:
        yield McpClient(starts_commands=False), ServerAddress(url=peer.url)


def _process() -> Iterator[tuple[McpServers, ServerAddress]]:
    command = (sys.executable, "-c", f"{PROGRAM}\nserver.run()\n")
    yield McpClient(starts_commands=True), ServerAddress(command=command)


def _twin() -> Iterator[tuple[McpServers, ServerAddress]]:
    tools = (
        RemoteTool(name="echo", description="Say it again.", schema=ECHO, read_only=True),
        RemoteTool(name="draw", schema={"type": "object"}, read_only=False, idempotent=True),
        RemoteTool(name="count", schema={"type": "object"}),
        RemoteTool(name="fail", schema={"type": "object"}),
    )

    def answer(name: str, params: Any) -> McpReply:
        if name == "fail":
            return said("no such thing", failed=True)
        if name == "draw":
            return McpReply(parts=(ReplyPart(kind="file", data=PNG, mime="image/png"),))
        return said("counted" if name == "count" else params["text"])

    progress = {"count": ((1, 4, "one"), (2.5, 0, ""))}
    twin = MemoryMcpServers(crm=MemoryServer(tools=tools, answer=answer, progress=progress))
    yield twin, ServerAddress(url="https://crm.example/mcp")


MAKERS = {"modern": _modern, "handshake": _handshake, "process": _process, "twin": _twin}


@pytest.fixture(scope="module", params=MAKERS)
def peer(request: Any) -> Iterator[tuple[McpServers, ServerAddress]]:
    yield from MAKERS[request.param]()


def call(peer: tuple[McpServers, ServerAddress], name: str, **params: Any) -> McpReply:
    client, address = peer
    return client.call_tool(address, name, params, NeverCancelled())


def test_tools_are_listed_with_their_schemas_and_hints(peer: Any) -> None:
    client, address = peer
    echo, draw, _, fail = client.list_tools(address).tools
    assert (echo.name, echo.description, echo.read_only) == ("echo", "Say it again.", True)
    assert echo.schema["properties"]["text"]["type"] == "string"
    assert (draw.name, draw.read_only, draw.idempotent) == ("draw", False, True)
    assert (fail.name, fail.read_only, fail.idempotent) == ("fail", None, None)


def test_a_call_answers_with_a_text(peer: Any) -> None:
    reply = call(peer, "echo", text="zwölf\n")
    assert [(part.kind, part.text) for part in reply.parts] == [("text", "zwölf\n")]
    assert not reply.failed


def test_a_call_answers_with_a_picture(peer: Any) -> None:
    (part,) = call(peer, "draw").parts
    assert (part.kind, part.mime, part.data) == ("file", "image/png", PNG)


def test_the_progress_of_a_call_is_reported_while_it_runs(peer: Any) -> None:
    client, address = peer
    heard: list[tuple[float, float, str]] = []
    reply = client.call_tool(
        address,
        "count",
        {},
        NeverCancelled(),
        on_progress=lambda done, total, words: heard.append((done, total, words)),
    )
    assert [part.text for part in reply.parts] == ["counted"]
    assert heard == [(1, 4, "one"), (2.5, 0, "")]


def test_a_tool_that_fails_says_so(peer: Any) -> None:
    reply = call(peer, "fail")
    assert reply.failed
    assert reply.parts[0].text


def test_a_call_of_a_tool_that_is_not_there_is_refused(peer: Any) -> None:
    with pytest.raises(ToolError) as refused:
        call(peer, "none")
    assert refused.value.reason == CALL_REFUSED
