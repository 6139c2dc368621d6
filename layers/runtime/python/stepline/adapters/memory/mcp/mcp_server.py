"""MCP servers in this process, each with a list of tools and a function that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stepline.errors import ToolError
from stepline.model.decision import RemoteTask
from stepline.ports.mcp.mcp_server import (
    CALL_REFUSED,
    MCP_UNREACHABLE,
    McpReply,
    OnProgress,
    RemoteTool,
    ReplyPart,
    ServerAddress,
    ToolListing,
)
from stepline.ports.signal import Cancel

Answer: TypeAlias = Callable[[str, Mapping[str, Any]], McpReply | RemoteTask]
Poll: TypeAlias = Callable[[str], McpReply | RemoteTask]
"""Called with a task's id. Raises ToolError."""
"""Called with a tool's name and its parameters. Raises ToolError for a server that fails."""


def said(text: str, **fields: Any) -> McpReply:
    """Return an answer with one text."""
    return McpReply(parts=(ReplyPart(kind="text", text=text),), **fields)


@dataclass
class MemoryServer:
    """One server. `asked` are the addresses of its requests, `calls` are the received calls.

    `cancelled` are the tasks that clients have cancelled, `progress` is that of a call, by tool.
    """

    tools: tuple[RemoteTool, ...] = ()
    answer: Answer = lambda name, _: said(name)
    ttl_s: float | None = None
    cut: str = ""
    poll: Poll = lambda task_id: RemoteTask(id=task_id)
    asked: list[ServerAddress] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    progress: Mapping[str, Sequence[tuple[float, float, str]]] = field(default_factory=dict)


class MemoryMcpServers:
    """Servers by URL; any other address is unreachable."""

    def __init__(self, **servers: MemoryServer) -> None:
        """Serve each server at `https://<name>.example/mcp`."""
        self.servers = servers

    def list_tools(self, address: ServerAddress) -> ToolListing:
        server = self._find(address)
        return ToolListing(tools=server.tools, ttl_s=server.ttl_s, cut=server.cut)

    def call_tool(
        self,
        address: ServerAddress,
        name: str,
        params: Mapping[str, Any],
        cancel: Cancel,
        *,
        as_task: bool = False,
        on_progress: OnProgress | None = None,
    ) -> McpReply | RemoteTask:
        server = self._find(address)
        server.calls.append((name, dict(params)))
        if name not in {tool.name for tool in server.tools}:
            raise ToolError("the server does not take the call: Unknown tool", code=CALL_REFUSED)
        if on_progress is not None:
            for progress in server.progress.get(name, ()):
                on_progress(*progress)
        return server.answer(name, params)

    def poll_task(self, address: ServerAddress, task_id: str) -> McpReply | RemoteTask:
        return self._find(address).poll(task_id)

    def cancel_task(self, address: ServerAddress, task_id: str) -> None:
        self._find(address).cancelled.append(task_id)

    def _find(self, address: ServerAddress) -> MemoryServer:
        for name, server in self.servers.items():
            if address.url == f"https://{name}.example/mcp":
                server.asked.append(address)
                return server
        raise ToolError("the server cannot be reached", code=MCP_UNREACHABLE)
