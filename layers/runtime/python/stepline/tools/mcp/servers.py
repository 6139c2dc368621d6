"""The MCP servers of one agent: their tools as last listed, and the agent's catalogue with them.

A process asks a server for its list again when the known one is too old; if a server does not answer, its tools from
earlier in the conversation remain, for a shorter time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

import msgspec

from stepline.errors import ToolError
from stepline.ports.descriptor import SecretReader
from stepline.ports.mcp.mcp_server import MCP_UNREACHABLE, TIMEOUT, McpServers, ToolListing
from stepline.tools.mcp.remote_tool import MCP_UNAVAILABLE, remote_tool
from stepline.tools.mcp.server_row import McpServer, digest_of, resolve_server
from stepline.tools.mcp.tool_list import LeftOut, ToolList, check_tools, join_lists
from stepline.tools.registry import Registry, Tool

logger = logging.getLogger(__name__)

LIST_S: Final = 15.0
"""The timeout of a server's list of tools: a turn waits for it."""
RETRY_S: Final = 60.0
"""After this time the next turn asks a server again that did not answer."""
CATALOGUES: Final = 8
_PASSES: Final = (MCP_UNREACHABLE, TIMEOUT)

Catalogue: TypeAlias = tuple[str, Registry]
"""The instructions of an agent, and its tools."""
Rebuild: TypeAlias = Callable[[Sequence[Tool]], Catalogue]
"""Returns the catalogue of an agent with these tools in addition to its own."""


class ServerTools(NamedTuple):
    """A list of all servers' tools, and the time until which it is valid."""

    tools: ToolList
    until: datetime


class Servers:
    """The servers of one agent, and this process's cache of their tools. Threads may share it."""

    def __init__(
        self, rows: Sequence[McpServer], rebuild: Rebuild, *, timeout_s: float, ttl_s: float
    ) -> None:
        """Serve an agent whose catalogue `rebuild` makes. `timeout_s` is a call's, `ttl_s` a list's."""
        self.rows = tuple(rows)
        self.digest = digest_of(self.rows)
        self._rebuild = rebuild
        self._timeout_s, self._ttl_s = timeout_s, ttl_s
        self._listings: dict[str, tuple[ToolListing, datetime]] = {}
        self._catalogues: dict[str, Catalogue] = {}

    def ask(
        self, port: McpServers | None, secrets: SecretReader, now: datetime, before: ToolList, *, again: bool
    ) -> ServerTools:
        """Return the tools of all servers; with `again` the cache of this process is ignored.

        A server that does not answer, or fails before its last page, keeps its tools from `before`.
        """
        lists, until = [], now + timedelta(seconds=self._ttl_s)
        for server in self.rows:
            try:
                listing, good = self._list(server, port, secrets, now, again=again)
            except ToolError as error:
                logger.warning("tools not listed", extra={"alias": server.alias, "code": error.reason})
                unknown = LeftOut(alias=server.alias, code=error.reason)
                lists.append(ToolList(tools=before.of(server.alias), left_out=(unknown,)))
                until = min(until, now + timedelta(seconds=RETRY_S))
                continue
            found = check_tools(server, listing.tools)
            if listing.cut:
                logger.warning("tools listed in part", extra={"alias": server.alias, "code": listing.cut})
                known = before.of(server.alias) if listing.cut in _PASSES else ()
                found = found.followed_by(known, LeftOut(alias=server.alias, code=listing.cut))
            lists.append(found)
            until = min(until, good)
        return ServerTools(join_lists(lists), until)

    def catalogue(self, key: str, load: Callable[[], bytes]) -> Catalogue:
        """Return the agent's catalogue with the list that is stored as `key`. Raises the errors of `load`."""
        known = self._catalogues.get(key)
        if known is None:
            rows = {server.alias: server for server in self.rows}
            listed = decode_list(load())
            known = self._rebuild(
                [
                    remote_tool(rows[tool.alias], tool, self._timeout_s)
                    for tool in listed.tools
                    if tool.alias in rows
                ]
            )
            if len(self._catalogues) >= CATALOGUES:
                self._catalogues.clear()
            self._catalogues[key] = known
        return known

    def _list(
        self,
        server: McpServer,
        port: McpServers | None,
        secrets: SecretReader,
        now: datetime,
        *,
        again: bool,
    ) -> tuple[ToolListing, datetime]:
        known = self._listings.get(server.alias)
        if known is not None and now < known[1] and not again:
            return known
        if port is None:
            raise ToolError("no server can be asked here", code=MCP_UNAVAILABLE)
        listing = port.list_tools(resolve_server(server, secrets, LIST_S).address)
        good_s = self._ttl_s if listing.ttl_s is None else max(RETRY_S, min(listing.ttl_s, self._ttl_s))
        if listing.cut in _PASSES:
            good_s = RETRY_S
        known = self._listings[server.alias] = (listing, now + timedelta(seconds=good_s))
        return known


def encode_list(tools: ToolList) -> bytes:
    """Return a list in its stored form: the same bytes for the same tools."""
    return msgspec.json.encode(tools)


def decode_list(body: bytes) -> ToolList:
    """Return a stored list."""
    return msgspec.json.decode(body, type=ToolList)
