"""MCP servers, called with the official client: over streamable HTTP, or over the standard streams of a command.

Each question has its own connection, so a process keeps no session, and servers of both protocol generations
(2026-07-28, without a handshake; 2025-11-25 and before, with one) are called in the same way. This module does not load
the package; the first question does.
Source: py.sdk.modelcontextprotocol.io, "Protocol versions", "Client transports".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import ToolError
from stepline.model.decision import RemoteTask
from stepline.ports.mcp.mcp_server import (
    NOT_INSTALLED,
    STDIO_REFUSED,
    McpReply,
    OnProgress,
    ServerAddress,
    ToolListing,
)
from stepline.ports.signal import Cancel, NeverCancelled

if TYPE_CHECKING:
    import ssl

PACKAGE: Final = "mcp"


class McpClient:
    """A client of all servers."""

    def __init__(self, *, starts_commands: bool) -> None:
        """Call servers over HTTP, and with `starts_commands` also servers that a command starts."""
        self._starts_commands = starts_commands

    def list_tools(self, address: ServerAddress) -> ToolListing:
        self._check(address)
        from stepline.adapters.mcp.question import ask_server, list_tools  # noqa: PLC0415 - loads the package: 600 ms of CPU

        return ask_server(address, list_tools, NeverCancelled(), self._trusted)

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
        self._check(address)
        from stepline.adapters.mcp.question import ask_server, send_tool_call  # noqa: PLC0415 - as above

        # A command ends with the question, and its tasks with it.
        wanted = as_task and not address.command
        return ask_server(
            address,
            lambda connection: send_tool_call(connection, name, params, wanted, on_progress),
            cancel,
            self._trusted,
        )

    def poll_task(self, address: ServerAddress, task_id: str) -> McpReply | RemoteTask:
        self._check(address)
        from stepline.adapters.mcp.question import ask_server  # noqa: PLC0415 - as above
        from stepline.adapters.mcp.task_question import poll_task  # noqa: PLC0415 - as above

        return ask_server(
            address, lambda connection: poll_task(connection, task_id), NeverCancelled(), self._trusted
        )

    def cancel_task(self, address: ServerAddress, task_id: str) -> None:
        self._check(address)
        from stepline.adapters.mcp.question import ask_server  # noqa: PLC0415 - as above
        from stepline.adapters.mcp.task_question import cancel_task  # noqa: PLC0415 - as above

        ask_server(
            address, lambda connection: cancel_task(connection, task_id), NeverCancelled(), self._trusted
        )

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        from stepline.adapters.mcp.question import read_certificates  # noqa: PLC0415 - as above

        return read_certificates()

    def _check(self, address: ServerAddress) -> None:
        if address.command and not self._starts_commands:
            raise ToolError("a command is started on the local stage only", code=STDIO_REFUSED)
        if find_spec(PACKAGE) is None:
            raise ToolError("the package that asks MCP servers is not installed", code=NOT_INSTALLED)
