"""The port of MCP servers: the tools that one offers, and a call of one of them.

A server is foreign: it may be slow, say too much, or something that is not true. An adapter bounds time and size, and
gives each failure a code; it takes nothing that a server says for structure.
Source: docs/how-to/connect-an-mcp-server.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from stepline.model.base import Value
from stepline.model.entry import RemoteTask
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


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """A server at an HTTP address, or one that is started by a command; headers and variables may hold secrets."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0


class RemoteTool(Value):
    """A tool as its server describes it. The hints are None where the server gives none.

    A `schema` may be anything, and one without a name that can be read has the name "". `as_task`: the server can or will only take a call of it as a task.
    """

    name: str
    description: str = ""
    schema: Any = None
    read_only: bool | None = None
    idempotent: bool | None = None
    as_task: bool = False


class ToolListing(Value):
    """The tools of a server. `ttl_s` is how long its answer is good for, if it says so.

    `cut` is the code of the error that came in place of more tools, "" for a list that is whole.
    """

    tools: tuple[RemoteTool, ...]
    ttl_s: float | None = None
    cut: str = ""


class ReplyPart(Value):
    """A part of an answer: a text, or the bytes or the address of something that has a MIME type."""

    kind: Literal["text", "file", "link"]
    text: str = ""
    data: bytes = b""
    mime: str = ""
    uri: str = ""
    name: str = ""


class Unread(Value):
    """A part of an answer that cannot be read: `block` is its number from 1, 0 for all of them, `kind` what it calls itself.

    `why` is `unknown_kind`, `no_block`, `no_text`, `no_base64`, `no_address`, `no_resource`, or, of all of them, `no_list`
    or `no_content`.
    """

    why: str
    block: int = 0
    kind: str = ""


class McpReply(Value):
    """The answer to a call. `failed`: the tool says that it failed; `structured` is its JSON, if it gives one."""

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
        """Return all tools of a server, or those of the pages that came before something went wrong."""

    def call_tool(
        self,
        address: ServerAddress,
        name: str,
        params: Mapping[str, Any],
        cancel: Cancel,
        *,
        as_task: bool = False,
    ) -> McpReply | RemoteTask:
        """Call a tool; the call ends early if `cancel` asks for it.

        Over HTTP the server may answer with a task, and is asked to with `as_task`.

        Raises ToolError also: `mcp_call_refused`, the server does not take the call; `cancelled`.
        """

    def poll_task(self, address: ServerAddress, task_id: str) -> McpReply | RemoteTask:
        """Return the answer of a task that has ended, or the task as it stands.

        Raises ToolError also: `mcp_task_failed`, `mcp_task_cancelled`, `mcp_task_needs_input`; `mcp_task_lost`, the
        server does not know it.
        """

    def cancel_task(self, address: ServerAddress, task_id: str) -> None:
        """Ask the server to end a task, which it may refuse."""
