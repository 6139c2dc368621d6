"""Answers of tools that have run: the readable parts are kept, and the others are reported."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.mcp.call_reply import read_reply
from stepline.adapters.mcp.mcp_server import McpClient
from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import McpReply, ReplyPart, ServerAddress, Unread
from stepline.ports.signal import NeverCancelled
from tests.support.mcp_peer import McpPeer, send

CLIENT = McpClient(starts_commands=False)
SEEN = {"type": "text", "text": "seen"}
TEXT = ReplyPart(kind="text", text="seen")
ANY = st.recursive(
    st.sampled_from([None, True, 0, 1.5, "", "x", "text", "image", "resource", "resource_link", "aGk="]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "uri", "blob"]), inner, max_size=2)
    ),
    max_leaves=4,
)
BLOCKS = ANY | st.fixed_dictionaries(
    {"type": ANY},
    optional=dict.fromkeys(
        ("text", "data", "mimeType", "uri", "name", "resource", "annotations", "_meta"), ANY
    ),
)
MODERN = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "public",
}


def said(answer: Any, *, modern: bool = False) -> McpReply:
    """Return a server's answer to a call."""
    discovered = {"server_discover": lambda *_: MODERN} if modern else {}
    with McpPeer(tools_call=lambda *_: answer, **discovered) as peer:
        reply = CLIENT.call_tool(ServerAddress(url=peer.url, timeout_s=60), "t", {}, NeverCancelled())
    assert isinstance(reply, McpReply)
    return reply


@given(st.lists(BLOCKS, max_size=3), ANY)
def test_an_odd_block_is_reported_and_does_not_affect_others(odd: list[Any], fact: Any) -> None:
    reply = read_reply({"content": [SEEN, *odd, SEEN], "_meta": fact, "isError": fact, "x": fact})
    assert (reply.parts[0], reply.parts[-1]) == (TEXT, TEXT)
    assert len(reply.parts) + len(reply.unread) == len(odd) + 2
    assert all(1 < one.block < len(odd) + 2 for one in reply.unread)


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({"structuredContent": {"a": 1}}, McpReply(structured={"a": 1})),
        ({"content": None, "structuredContent": [1]}, McpReply(structured=[1])),
        ({"content": [], "structuredContent": "x"}, McpReply(structured="x")),
        ({"content": "seen"}, McpReply(parts=(TEXT,))),
        ({"content": SEEN}, McpReply(parts=(TEXT,))),
        ({"content": ["seen"]}, McpReply(parts=(TEXT,))),
        ({"content": 7, "structuredContent": 1}, McpReply(structured=1, unread=(Unread(why="no_list"),))),
        ({}, McpReply(unread=(Unread(why="no_content"),))),
        ({"content": [], "isError": "false"}, McpReply()),
        ({"content": [SEEN], "isError": True, "_meta": 5}, McpReply(parts=(TEXT,), failed=True)),
        (
            {"content": [{"type": "video", "data": ""}, SEEN]},
            McpReply(parts=(TEXT,), unread=(Unread(why="unknown_kind", block=1, kind="video"),)),
        ),
    ],
)
def test_an_answer_in_any_shape_is_read(answer: Any, reply: McpReply, modern: bool) -> None:
    assert said(answer, modern=modern) == reply


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"type": "text"}, "no_text"),
        ({"type": "text", "text": 5}, "no_text"),
        ({"text": "seen"}, "unknown_kind"),
        ({"type": ["text"], "text": "seen"}, "unknown_kind"),
        ({"type": "image", "data": "no base64!", "mimeType": "image/png"}, "no_base64"),
        ({"type": "image"}, "no_base64"),
        ({"type": "resource_link", "name": "there"}, "no_address"),
        ({"type": "resource", "resource": "a:1"}, "no_resource"),
        ({"type": "resource", "resource": {"mimeType": "x/y"}}, "no_address"),
        (None, "no_block"),
    ],
)
def test_an_unreadable_block_has_a_reason(block: Any, why: str) -> None:
    reply = read_reply({"content": [block, SEEN]})
    assert ([one.why for one in reply.unread], reply.parts) == ([why], (TEXT,))


PICTURE = bytes(range(256))


@pytest.mark.parametrize(
    "written",
    [
        base64.b64encode(PICTURE).decode(),
        base64.b64encode(PICTURE).decode().rstrip("="),
        base64.urlsafe_b64encode(PICTURE).decode(),
        base64.encodebytes(PICTURE).decode(),
        base64.encodebytes(PICTURE).decode().replace("\n", "\r\n"),
        "data:image/png;base64," + base64.b64encode(PICTURE).decode(),
    ],
)
def test_bytes_are_read_as_base64_is_written(written: str) -> None:
    (part,) = read_reply({"content": [{"type": "image", "data": written, "mimeType": 7}]}).parts
    assert (part.data, part.mime) == (PICTURE, "")


def test_a_link_without_a_name_and_a_resource_without_content_are_links() -> None:
    blocks = [{"type": "resource_link", "uri": "a:1"}, {"type": "resource", "resource": {"uri": "a:2"}}]
    assert [(part.kind, part.uri) for part in read_reply({"content": blocks}).parts] == [
        ("link", "a:1"),
        ("link", "a:2"),
    ]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_the_last_event_of_a_stream_is_read_with_any_line_ending(end: str) -> None:
    def call(request: Any, message: dict[str, Any]) -> None:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [SEEN]}}
        send(request, f"event: message\ndata: {json.dumps(answer)}{end}".encode(), mime="text/event-stream")

    with McpPeer(tools_call=call) as peer:
        reply = CLIENT.call_tool(ServerAddress(url=peer.url, timeout_s=60), "t", {}, NeverCancelled())
    assert reply == McpReply(parts=(TEXT,))


def test_an_answer_that_requests_input_is_refused() -> None:
    with pytest.raises(ToolError) as refused:
        said({"resultType": "input_required", "inputRequests": {}}, modern=True)
    assert refused.value.reason == "mcp_protocol_error"
