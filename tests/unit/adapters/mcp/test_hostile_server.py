"""Servers that are slow, send too much, redirect or lie: each call ends with a code, and none hangs."""

from __future__ import annotations

import gzip
import json
import sys
from functools import partial
from typing import Any

import pytest

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import ServerAddress
from stepline.ports.signal import NeverCancelled
from tests.support.mcp_peer import McpPeer, flood, send, send_json

CLIENT = McpClient(starts_commands=True)
IN_TIME_S, SHORT_S = 300.0, 1.0
FOREVER = b"data: " + b"x" * 65_536


def refused(url: str, *, timeout_s: float = IN_TIME_S, call: bool = False) -> ToolError:
    """Call a server; return the error."""
    address = ServerAddress(url=url, timeout_s=timeout_s)
    ask = (
        partial(CLIENT.call_tool, address, "t", {}, NeverCancelled())
        if call
        else partial(CLIENT.list_tools, address)
    )
    with pytest.raises(ToolError) as error:
        ask()
    return error.value


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:1/mcp",
        "//localhost/mcp",
        "https://127.0.0.1/mcp",
        "http://127.0.0.1:1/mcp",
        "http://2130706433/mcp",
        "file:///etc/passwd",
    ],
)
def test_a_redirect_to_another_address_is_not_followed(location: str) -> None:
    with McpPeer() as peer:
        peer.whole = lambda request: send(request, b"", status=307, location=location)
        assert refused(peer.url).reason == "mcp_redirected"


def test_redirects_without_end_on_one_host_end() -> None:
    with McpPeer() as peer:
        peer.whole = lambda request: send(request, b"", status=307, location="/mcp/")
        assert refused(peer.url).reason == "mcp_protocol_error"


@pytest.mark.parametrize(
    ("mime", "head", "rest"),
    [
        ("application/json", b'{"jsonrpc": "2.0", "result": "', b"x" * 65_536),
        ("text/event-stream", b"event: message\ndata: ", b"x" * 65_536),
        ("text/event-stream", b"", b": nothing yet\n\n" * 1_000),
    ],
)
def test_an_answer_without_end_is_cut(mime: str, head: bytes, rest: bytes) -> None:
    with McpPeer() as peer:
        peer.whole = lambda request: flood(request, peer.over, mime=mime, head=head, rest=rest)
        assert refused(peer.url).reason == "mcp_too_large"


def test_a_compressed_answer_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    with McpPeer() as peer:
        peer.whole = lambda request: send(request, bomb, content_encoding="gzip")
        assert refused(peer.url).reason == "mcp_protocol_error"


def test_a_silent_server_times_out() -> None:
    with McpPeer(tools_call=lambda *_: peer.over.wait(60) and None) as peer:
        assert refused(peer.url, timeout_s=SHORT_S, call=True).reason == "mcp_timeout"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no JSON", 200, "mcp_protocol_error"),
        (b"[" * 100_000, 200, "mcp_protocol_error"),
        (b'{"jsonrpc": "2.0", "id": 999, "result": {}}', 200, "mcp_timeout"),
        (b"", 401, "mcp_protocol_error"),
        (b"", 503, "mcp_unreachable"),
    ],
)
def test_an_answer_outside_the_protocol_is_refused(body: bytes, status: int, code: str) -> None:
    with McpPeer() as peer:
        peer.whole = lambda request: send(request, body, status=status)
        time_s = SHORT_S if code == "mcp_timeout" else IN_TIME_S
        assert refused(peer.url, timeout_s=time_s).reason == code


def test_an_address_without_a_server_is_unreachable() -> None:
    with McpPeer() as peer:
        url = peer.url
    assert refused(url).reason == "mcp_unreachable"


@pytest.mark.parametrize("tools", ["no list", None, 7, {"t": {"name": "t"}}])
def test_an_invalid_tool_list_is_refused(tools: Any) -> None:
    with McpPeer(tools_list=lambda *_: {"tools": tools}) as peer:
        assert refused(peer.url).reason == "mcp_protocol_error"


def test_a_server_that_asks_the_user_gets_no_answer_and_the_call_ends() -> None:
    def ask(request: Any, message: dict[str, Any]) -> None:
        asked = {"id": 7, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
        ended = {"id": message["id"], "error": {"code": -32603, "message": "no answer"}}
        events = "".join(
            f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **one})}\n\n" for one in (asked, ended)
        )
        send(request, events.encode(), mime="text/event-stream")

    with McpPeer(tools_call=ask) as peer:
        assert refused(peer.url, call=True).reason == "mcp_protocol_error"


def test_no_log_line_contains_text_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    with McpPeer() as peer:
        peer.whole = lambda request: send(request, b"data: forged words\n\n", mime="text/event-stream")
        refused(peer.url)
        assert "forged words" not in caplog.text
        assert peer.url not in caplog.text


def test_the_message_of_an_error_is_cut() -> None:
    def fail(request: Any, message: dict[str, Any]) -> None:
        send_json(request, {"id": message["id"], "error": {"code": -32603, "message": "x" * 100_000}})

    with McpPeer(tools_call=fail) as peer:
        assert len(str(refused(peer.url, call=True))) < 1_000


def command(code: str, *, timeout_s: float = IN_TIME_S) -> str:
    """Call a server that is a program; return the code of the error."""
    address = ServerAddress(command=(sys.executable, "-c", code), timeout_s=timeout_s)
    with pytest.raises(ToolError) as error:
        CLIENT.list_tools(address)
    return error.value.reason


def test_a_process_that_writes_without_end_is_cut() -> None:
    assert command("while True: print('x' * 65536, end='')") == "mcp_too_large"
    assert command("while True: print('x' * 9000)") == "mcp_too_large"


def test_a_silent_or_useless_process_times_out() -> None:
    assert command("import sys; sys.stdin.read()", timeout_s=SHORT_S) == "mcp_timeout"


def test_a_process_that_ends_or_never_begins_is_unreachable() -> None:
    assert command("pass") == "mcp_unreachable"
    with pytest.raises(ToolError) as error:
        CLIENT.list_tools(ServerAddress(command=("/there/is/none",)))
    assert error.value.reason == "mcp_unreachable"


def test_a_child_that_holds_its_servers_streams_does_not_block() -> None:
    held = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    assert command(f"{held}; sys.stdin.read()", timeout_s=SHORT_S) == "mcp_timeout"


def test_a_server_that_ignores_every_signal_but_one_is_ended() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    assert command(deaf, timeout_s=SHORT_S) == "mcp_timeout"
