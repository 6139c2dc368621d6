"""The port of MCP servers: the tools of a server, and calls of those tools.

A server is not trusted: it may be slow, send too much, or lie. An adapter limits time and size, and gives each failure
a code; it never trusts the structure of a server's messages.
Source: docs/how-to/connect-an-mcp-server.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.decision import RemoteTask
from stepline.ports.signal import Cancel

MCP_UNREACHABLE: Final = "mcp_unreachable"
TIMEOUT: Final = "mcp_timeout"
MCP_TOO_LARGE: Final = "mcp_too_large"
REDIRECTED: Final = "mcp_redirected"
PROTOCOL_ERROR: Final = "mcp_protocol_error"
CALL_REFUSED: Final = "mcp_call_refused"
STDIO_REFUSED: Final = "mcp_stdio_refused"
NOT_INSTALLED: Final = "mcp_not_installed"
TASK_FAILED: Final = "mcp_task_failed"
TASK_CANCELLED: Final = "mcp_task_cancelled"
TASK_NEEDS_INPUT: Final = "mcp_task_needs_input"
TASK_LOST: Final = "mcp_task_lost"
TASK_ID_CHARS: Final = 512


OnProgress: TypeAlias = Callable[[float, float, str], None]
"""Takes the progress of a running call: how much is done, of how much (0 if unknown), and the server's words."""


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """A server at an HTTP address, or a server started by a command; headers and variables may hold secrets."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0


class RemoteTool(Value):
    """A tool as its server describes it. A hint that the server does not give is None.

    `schema` may be any value; a tool without a readable name has the name "". `as_task`: the server can, or must, run a
    call of it as a task.
    """

    name: str
    description: str = ""
    schema: Any = None
    read_only: bool | None = None
    idempotent: bool | None = None
    as_task: bool = False


class ToolListing(Value):
    """The tools of a server. `ttl_s` is how long the answer is valid, if the server says so.

    `cut` is the code of the error that cut off the list, "" for a complete list.
    """

    tools: tuple[RemoteTool, ...]
    ttl_s: float | None = None
    cut: str = ""


class ReplyPart(Value):
    """A part of an answer: a text, or the bytes or the address of content with a MIME type."""

    kind: Literal["text", "file", "link"]
    text: str = ""
    data: bytes = b""
    mime: str = ""
    uri: str = ""
    name: str = ""


class Unread(Value):
    """An unreadable part of an answer: `block` is its number from 1, or 0 for all of them; `kind` is its declared kind.

    `why` is `unknown_kind`, `no_block`, `no_text`, `no_base64`, `no_address`, `no_resource`, or, for all of them,
    `no_list` or `no_content`.
    """

    why: str
    block: int = 0
    kind: str = ""


class McpReply(Value):
    """The answer to a call. `failed`: the tool says that it failed; `structured` is its JSON, if it sends any."""

    parts: tuple[ReplyPart, ...] = ()
    structured: Any = None
    failed: bool = False
    unread: tuple[Unread, ...] = ()


class McpServers(Protocol):
    """A client of MCP servers.

    Every method raises ToolError: `mcp_unreachable`, `mcp_timeout`, `mcp_too_large`, `mcp_redirected`,
    `mcp_protocol_error`, `mcp_stdio_refused`, `mcp_not_installed`.
    """

    def list_tools(self, address: ServerAddress) -> ToolListing:
        """Return all tools of a server, or those of the pages before a failure."""

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
        """Call a tool; the call ends early when `cancel` is requested.

        With `on_progress` the server is asked to report its progress, which it may not do.

        Over HTTP the server may answer with a task; `as_task` requests one.

        Also raises ToolError `mcp_call_refused`, the server does not accept the call; `cancelled`.
        """

    def poll_task(self, address: ServerAddress, task_id: str) -> McpReply | RemoteTask:
        """Return the answer of a task that has ended, or the current state of the task.

        Also raises ToolError `mcp_task_failed`, `mcp_task_cancelled`, `mcp_task_needs_input`; `mcp_task_lost`, the
        server does not know the task.
        """

    def cancel_task(self, address: ServerAddress, task_id: str) -> None:
        """Ask the server to end a task, which it may refuse."""
