"""Odd lists of servers: an odd tool, field or page is dropped, and its neighbours stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.mcp.mcp_server import McpClient
from stepline.adapters.mcp.question import read_tool
from stepline.ports.mcp.mcp_server import ServerAddress, ToolListing
from stepline.tools.mcp.server_row import McpServer
from stepline.tools.mcp.servers import decode_list, encode_list
from stepline.tools.mcp.tool_list import check_tools, render_card, spec_of
from tests.support.mcp_peer import INITIALIZED, McpPeer, send, send_json

CLIENT = McpClient(starts_commands=False)
ROW = McpServer(alias="crm", url="https://crm.example/mcp")
OBJECT = {"type": "object"}
FIRST, LAST = {"name": "first", "inputSchema": OBJECT}, {"name": "last", "inputSchema": OBJECT}

ANY = st.recursive(
    st.sampled_from([None, True, False, 0, 7, -1.5, "", "x", "yes", "object", "#/$defs/x", "\n## forged"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "$ref", "$defs", "a"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
ICONS = st.lists(
    ANY | st.fixed_dictionaries({}, optional={"src": ANY, "sizes": ANY, "mimeType": ANY}), max_size=2
)
TOOLS = ANY | st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("title", "description", "outputSchema", "_meta", "version", "ttlMs"), ANY),
        "name": ANY | st.sampled_from(["odd", "odd tool", "größe", "first", "x" * 300, "a\nb"]),
        "inputSchema": ANY
        | st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={"properties": st.dictionaries(st.text(max_size=5), ANY, max_size=3)},
        ),
        "annotations": ANY | st.fixed_dictionaries({}, optional=dict.fromkeys(HINTS, ANY)),
        "execution": ANY | st.fixed_dictionaries({}, optional={"taskSupport": ANY | st.just("sometimes")}),
        "icons": ANY | ICONS,
    },
)


@given(TOOLS)
def test_an_odd_tool_is_accepted_or_reported_and_does_not_affect_others(odd: Any) -> None:
    tools = [read_tool(tool, takes_tasks=True) for tool in (FIRST, odd, LAST)]
    found = check_tools(ROW, tools)
    names = [tool.name for tool in found.tools]
    assert [name for name in names if name in ("first", "last")] == ["first", "last"]
    assert len(found.tools) + len(found.left_out) == 3 or tools[0] == tools[1]
    assert all(left.name and left.code in ("mcp_bad_name", "mcp_bad_schema") for left in found.left_out)
    assert decode_list(encode_list(found)) == found
    for known in found.tools:
        assert isinstance(spec_of(known).validate({"a": 1}), list)
        assert render_card(known).startswith(f"## {known.tool_id}\n")
        assert known.effect == "once" or isinstance(odd, dict)


def listed(*pages: Any, **answers: Any) -> ToolListing:
    """Return the list of a server with these pages."""

    def page(_: Any, message: dict[str, Any]) -> Any:
        cursor = message.get("params", {}).get("cursor")
        return pages[0 if cursor is None else int(cursor)]

    with McpPeer(**{"tools_list": page, **answers}) as peer:
        return CLIENT.list_tools(ServerAddress(url=peer.url, timeout_s=60))


def names(listing: ToolListing) -> list[str]:
    return [tool.name for tool in listing.tools]


@given(st.lists(TOOLS, max_size=3), ANY, ANY)
def test_other_fields_of_a_page_do_not_affect_its_tools(odd: list[Any], meta: Any, ttl: Any) -> None:
    listing = listed(
        {"tools": [FIRST, *odd, LAST], "_meta": meta, "ttlMs": ttl, "cacheScope": meta, "x": odd}
    )
    assert (len(listing.tools), names(listing)[0], names(listing)[-1]) == (len(odd) + 2, "first", "last")


@pytest.mark.parametrize(
    "odd", [None, True, 7, "x", [], {}, {"name": 5}, {"tools": True, "tasks": {"requests": None}}]
)
@pytest.mark.parametrize("field", ["capabilities", "serverInfo", "instructions", "_meta"])
def test_an_odd_field_of_a_handshake_does_not_lose_the_list(field: str, odd: Any) -> None:
    assert names(listed({"tools": [FIRST]}, initialize=lambda *_: {**INITIALIZED, field: odd})) == ["first"]


@pytest.mark.parametrize("odd", [None, 7, "x", [], {"tools": []}])
@pytest.mark.parametrize(
    "field", ["capabilities", "ttlMs", "cacheScope", "resultType", "_meta", "supportedVersions"]
)
def test_an_odd_field_of_a_server_without_handshake_does_not_lose_the_list(field: str, odd: Any) -> None:
    greeting = {
        "supportedVersions": ["2026-07-28", 7],
        "capabilities": {"tools": {}},
        "resultType": "complete",
    }
    answers = {"server_discover": lambda *_: {**greeting, field: odd}}
    assert names(listed({"tools": [FIRST, {"name": 7}], field: odd}, **answers)) == ["first", ""]


@pytest.mark.parametrize("end", [{}, {"nextCursor": None}, {"nextCursor": ""}])
def test_a_list_ends_where_no_cursor_follows(end: dict[str, Any]) -> None:
    listing = listed({"tools": [FIRST], "nextCursor": "1"}, {"tools": [LAST], **end})
    assert (names(listing), listing.cut) == (["first", "last"], "")


def fails(request: Any, message: dict[str, Any]) -> None:
    send_json(request, {"id": message["id"], "error": {"code": -32603, "message": "no"}})


def breaks(request: Any, _: Any) -> None:
    send(request, b"no JSON")


def hangs_up(request: Any, _: Any) -> None:
    request.connection.close()


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"tools": [LAST], "nextCursor": "1"}, "mcp_too_large"),
        ({"tools": [LAST], "nextCursor": 2}, "mcp_protocol_error"),
        ({"tools": [LAST], "nextCursor": {"page": 2}}, "mcp_protocol_error"),
        ({"tools": None}, "mcp_protocol_error"),
        ({}, "mcp_protocol_error"),
        (fails, "mcp_protocol_error"),
        (breaks, "mcp_protocol_error"),
        ({"tools": [{"name": "x" * 9_000_000}]}, "mcp_too_large"),
        (hangs_up, "mcp_unreachable"),
    ],
)
def test_received_pages_are_kept_if_the_next_is_invalid(last: Any, code: str) -> None:
    def page(request: Any, message: dict[str, Any]) -> Any:
        if not message.get("params", {}).get("cursor"):
            return {"tools": [FIRST], "nextCursor": "1"}
        return last(request, message) if isinstance(last, Callable) else last

    with McpPeer(tools_list=page) as peer:
        listing = CLIENT.list_tools(ServerAddress(url=peer.url, timeout_s=60))
    assert (names(listing)[0], listing.cut) == ("first", code)


def test_received_pages_are_kept_if_the_next_never_arrives() -> None:
    def page(_: Any, message: dict[str, Any]) -> Any:
        first = not message.get("params", {}).get("cursor")
        return {"tools": [FIRST], "nextCursor": "1"} if first else peer.over.wait(60) and None

    with McpPeer(tools_list=page) as peer:
        listing = CLIENT.list_tools(ServerAddress(url=peer.url, timeout_s=3))
    assert (names(listing), listing.cut) == (["first"], "mcp_timeout")


def test_pages_without_end_are_bounded() -> None:
    number = iter(range(10_000))

    def page(*_: Any) -> Any:
        at = next(number)
        return {"tools": [{"name": f"t{at}"}], "nextCursor": str(at)}

    with McpPeer(tools_list=page) as peer:
        listing = CLIENT.list_tools(ServerAddress(url=peer.url, timeout_s=60))
    assert (len(listing.tools) < 1_000, listing.cut) == (True, "mcp_too_large")
