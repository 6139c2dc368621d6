"""The client of MCP servers: its requests, its imports, and the early end of a call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.bootstrap.choice import servers_of
from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import ServerAddress
from stepline.ports.signal import NeverCancelled
from stepline.settings import Settings
from tests.support.mcp_peer import McpPeer, send

CLIENT = McpClient(starts_commands=True)
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
MACHINE = "arn:aws:states:us-east-1:111122223333:stateMachine:turns"


class Steered:
    """A cancellation that is requested once the server has a request."""

    def __init__(self, peer: McpPeer) -> None:
        self.peer = peer

    @property
    def requested(self) -> bool:
        return "tools/call" in self.peer.methods()

    def wait(self, seconds: float) -> bool:
        return self.requested


def test_a_server_gets_the_headers_of_its_address_with_every_message() -> None:
    with McpPeer(tools_list=lambda *_: {"tools": [TOOL]}) as peer:
        CLIENT.list_tools(ServerAddress(url=peer.url, headers={"Authorization": "Bearer s3cret"}))
        assert {headers["Authorization"] for headers, _ in peer.heard} == {"Bearer s3cret"}


def test_a_redirect_on_the_same_host_is_followed() -> None:
    with McpPeer(tools_list=lambda *_: {"tools": [TOOL]}) as peer:
        whole = peer.reply

        def redirecting(request: Any, message: Any) -> None:
            if request.path == "/mcp":
                send(request, b"", status=307, location="/mcp/")
            else:
                whole(request, message)

        peer.reply = redirecting  # type: ignore[method-assign]
        assert [tool.name for tool in CLIENT.list_tools(ServerAddress(url=peer.url)).tools] == ["t"]


def test_a_call_ends_early_when_the_user_steers() -> None:
    with McpPeer(tools_call=lambda *_: peer.over.wait(60) and None) as peer:
        with pytest.raises(ToolError) as ended:
            CLIENT.call_tool(ServerAddress(url=peer.url), "t", {}, Steered(peer))
        assert ended.value.reason == "cancelled"


def test_a_call_lists_no_tools() -> None:
    answer = {"content": [], "structuredContent": {"a": 1}}
    with McpPeer(tools_call=lambda *_: answer, tools_list=lambda *_: {"tools": [TOOL]}) as peer:
        reply = CLIENT.call_tool(ServerAddress(url=peer.url), "t", {}, NeverCancelled())
        assert reply.structured == {"a": 1}
        assert "tools/list" not in peer.methods()


def test_embedded_resources_and_links_are_parts() -> None:
    content = [
        {"type": "resource", "resource": {"uri": "a:1", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a:2", "blob": "AAE=", "mimeType": "x/y"}},
        {"type": "resource_link", "uri": "a:3", "name": "there"},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    ]
    with McpPeer(tools_call=lambda *_: {"content": content}) as peer:
        parts = CLIENT.call_tool(ServerAddress(url=peer.url), "t", {}, NeverCancelled()).parts
    assert [(part.kind, part.text, part.data, part.uri) for part in parts] == [
        ("text", "inside", b"", ""),
        ("file", "", b"\0\1", "a:2"),
        ("link", "", b"", "a:3"),
        ("file", "", b"\0", ""),
    ]


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({"STEPLINE_STAGE": "prod", "STEPLINE_MACHINE_ARN": MACHINE}, True),
        ({"STEPLINE_STAGE": "local", "STEPLINE_MACHINE_ARN": MACHINE}, False),
        ({}, False),
    ],
)
def test_a_command_is_refused_in_a_deployed_stage(variables: dict[str, str], refused: bool) -> None:
    client = servers_of(Settings.from_env(variables))
    with pytest.raises(ToolError) as error:
        client.list_tools(ServerAddress(command=("/there/is/none",)))
    assert error.value.reason == ("mcp_stdio_refused" if refused else "mcp_unreachable")


def test_a_server_gets_a_small_environment_and_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    program = (
        "import os\nfrom mcp.server.mcpserver import MCPServer\nserver = MCPServer('s')\n"
        "@server.tool(structured_output=False)\ndef t():\n"
        "    return os.environ.get('AWS_SECRET_ACCESS_KEY', '-') + os.environ['OWN']\nserver.run()"
    )
    address = ServerAddress(command=(sys.executable, "-c", program), env={"OWN": "mine"})
    (part,) = CLIENT.call_tool(address, "t", {}, NeverCancelled()).parts
    assert part.text == "-mine"


def test_the_package_is_not_loaded_before_the_first_request() -> None:
    script = (
        "import sys; import lambdas.act, lambdas.decide, stepline.bootstrap.aws_wiring, stepline.bundle.assembly; "
        "sys.exit(bool({'mcp', 'mcp_types', 'starlette', 'pydantic', 'stepline.tools.mcp'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
