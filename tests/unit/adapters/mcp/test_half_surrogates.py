r"""Half a surrogate pair from a server becomes `\ufffd`, wherever the bytes are cut, and nothing else changes."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.mcp.half_surrogates import HalfSurrogates
from stepline.adapters.mcp.mcp_server import McpClient
from stepline.ports.mcp.mcp_server import McpReply, ServerAddress
from stepline.ports.signal import NeverCancelled
from tests.support.mcp_peer import McpPeer, send

TEXTS = st.lists(
    st.sampled_from(["a", "\\", '"', "\n", "u", "d83d", "😀", "\ud83d", "\ude00", "é", "\\ud83d"]), max_size=8
)


@given(TEXTS, st.lists(st.integers(0, 60), max_size=6))
def test_halves_are_replaced_wherever_the_bytes_are_cut(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    data = json.dumps([text]).encode()
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    halves = HalfSurrogates()
    mended = b"".join(halves.mend(data[a:b]) for a, b in itertools.pairwise(bounds))
    mended += halves.mend(b"", last=True)
    whole = json.loads(json.dumps(text)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert len(mended) == len(data)
    assert json.loads(mended) == [whole]


def test_a_complete_message_is_not_held_back() -> None:
    assert HalfSurrogates().mend(b'data: {"a": "\\\\"}\n\n') == b'data: {"a": "\\\\"}\n\n'


ANSWER = '{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "cut \\ud83d"}]}}'


@pytest.mark.parametrize("mime", ["application/json", "text/event-stream"])
def test_an_answer_that_ends_within_an_emoji_is_read_over_http(mime: str) -> None:
    def call(request: Any, message: dict[str, Any]) -> None:
        body = ANSWER % message["id"]
        send(request, (body if mime == "application/json" else f"data: {body}\n\n").encode(), mime=mime)

    with McpPeer(tools_call=call) as peer:
        check(ServerAddress(url=peer.url, timeout_s=60))


def test_an_answer_that_ends_within_an_emoji_is_read_from_a_process() -> None:
    program = f"""
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said["method"] == "tools/call":
        print({ANSWER!r} % said["id"], flush=True)
    elif said["method"] == "initialize":
        greeting = {{"protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": {{"name": "p", "version": "1"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": said["id"], "result": greeting}}), flush=True)
    elif "id" in said:
        print(json.dumps({{"jsonrpc": "2.0", "id": said["id"], "error": {{"code": -32601, "message": "no"}}}}), flush=True)
"""
    check(ServerAddress(command=(sys.executable, "-c", program), timeout_s=60))


def check(address: ServerAddress) -> None:
    reply = McpClient(starts_commands=True).call_tool(address, "t", {}, NeverCancelled())
    assert isinstance(reply, McpReply)
    assert [part.text for part in reply.parts] == ["cut \ufffd"]
