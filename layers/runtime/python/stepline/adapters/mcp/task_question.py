"""Calls that a server answers with a task, in both protocol revisions that support tasks.

    2025-11-25   the caller requests a task; `tasks/get` has its state, and `tasks/result` has its answer
    2026-07-28   the server decides, if the extension is declared; `tasks/get` has its state, with its answer

A server that requests input never gets an answer. Source: modelcontextprotocol.io, "Tasks", SEP-2663.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

import mcp_types as types
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from msgspec.structs import replace

from stepline.adapters.mcp.call_reply import MESSAGE_CHARS, read_reply
from stepline.adapters.mcp.connection import McpConnection
from stepline.errors import ToolError
from stepline.model.decision import RemoteTask
from stepline.model.visible_text import shorten
from stepline.ports.mcp.mcp_server import (
    PROTOCOL_ERROR,
    TASK_CANCELLED,
    TASK_FAILED,
    TASK_ID_CHARS,
    TASK_LOST,
    TASK_NEEDS_INPUT,
    McpReply,
)

TIME_MAX_MS: Final = 1e12


class _TaskState(NamedTuple):
    """A task as a server describes it; the revisions name its times differently."""

    task_id: str
    status: str
    words: str
    ttl_s: float | None
    poll_s: float | None
    result: Any
    error: str | None
    """The server's message, if there is one."""


class _Created(types.Result):
    result_type: Literal["task"] = "task"


class _About(types.RequestParams):
    task_id: str


class _Get(types.Request[_About, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param: ClassVar[str | None] = "taskId"


class _Result(types.Request[_About, Literal["tasks/result"]]):
    method: Literal["tasks/result"] = "tasks/result"


class _Cancel(types.Request[_About, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param: ClassVar[str | None] = "taskId"


class TasksExtension(ClientExtension):
    """Declares to servers of 2026-07-28 that a call may be answered with a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the claim, which is not declared to older servers."""
        return (ResultClaim(result_type="task", model=_Created, resolve=_resolve),)


async def _resolve(_: _Created, __: ClaimContext) -> types.CallToolResult:
    raise ToolError("a task is asked for by a later step", code=PROTOCOL_ERROR)


def read_created(said: Any, *, wanted: bool) -> RemoteTask | None:
    """Return the task that a server creates for a call; None if it answers the call.

    `wanted`: a task was requested, in revision 2025-11-25. Raises ToolError `mcp_protocol_error`.
    """
    if wanted and isinstance(said, dict) and "task" in said:
        return _task(_read(said["task"]))
    if isinstance(said, dict) and said.get("resultType") == "task":
        return _task(_read(said))
    return None


async def poll_task(connection: McpConnection[McpReply | RemoteTask], task_id: str) -> McpReply | RemoteTask:
    """Return the answer of a task that has ended, or its current state. Raises ToolError: those of the port."""
    try:
        state = _read(await connection.send(_Get(params=_About(task_id=task_id))))
    except MCPError as error:
        raise _lost(error) from None
    if state.task_id != task_id:
        raise ToolError("the server speaks of another task", code=PROTOCOL_ERROR)
    match state.status:
        case "working":
            return _task(state)
        case "completed" | "failed":
            return await _outcome(connection, state)
        case "cancelled":
            raise ToolError(f"the server has cancelled the task{state.words}", code=TASK_CANCELLED)
        case "input_required":
            raise ToolError(
                f"the task asks for input, which a turn cannot give{state.words}", code=TASK_NEEDS_INPUT
            )
    raise ToolError("the task has a status that does not exist", code=PROTOCOL_ERROR)


async def cancel_task(connection: McpConnection[None], task_id: str) -> None:
    """Ask a server to end a task."""
    await connection.send(_Cancel(params=_About(task_id=task_id)))


async def _outcome(connection: McpConnection[McpReply | RemoteTask], state: _TaskState) -> McpReply:
    said, error = state.result, state.error
    if connection.shakes_hands:
        try:
            said = await connection.send(_Result(params=_About(task_id=state.task_id)))
        except MCPError as refused:
            if state.status == "completed":
                raise _lost(refused) from None
            error = refused.message
    if state.status == "failed" and (error is not None or said is None):
        words = state.words if error is None else _quoted(error)
        raise ToolError(f"the task has failed{words}", code=TASK_FAILED)
    reply = read_reply(said)
    return replace(reply, failed=True) if state.status == "failed" else reply


def _lost(error: MCPError) -> Exception:
    if error.code not in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
        return error
    words = shorten(error.message, MESSAGE_CHARS)
    return ToolError(
        f"the server does not know the task any more; it may have been done; its words: {words}",
        code=TASK_LOST,
    )


def _read(said: Any) -> _TaskState:
    """Return a task as the server describes it, without unreadable fields."""
    fields = said if isinstance(said, Mapping) else {}
    error = fields.get("error")
    message = error.get("message") if isinstance(error, Mapping) else None
    return _TaskState(
        task_id=_text(fields.get("taskId")),
        status=_text(fields.get("status")),
        words=_quoted(_text(fields.get("statusMessage"))),
        ttl_s=_seconds(fields.get("ttl"), fields.get("ttlMs")),
        poll_s=_seconds(fields.get("pollInterval"), fields.get("pollIntervalMs")),
        result=fields.get("result"),
        error=None if error is None else _text(message),
    )


def _task(state: _TaskState) -> RemoteTask:
    """Return a task with its valid times."""
    name = state.task_id
    if not (0 < len(name) <= TASK_ID_CHARS and name.isascii() and name.isprintable()):
        raise ToolError("the id of the task is none", code=PROTOCOL_ERROR)
    return RemoteTask(id=name, poll_s=state.poll_s, ttl_s=state.ttl_s)


def _text(said: Any) -> str:
    return said if isinstance(said, str) else ""


def _quoted(said: str) -> str:
    return f"; its words: {shorten(said, MESSAGE_CHARS)}" if said else ""


def _seconds(*values_ms: Any) -> float | None:
    numbers = (ms for ms in values_ms if isinstance(ms, int | float) and not isinstance(ms, bool))
    return next((ms / 1000 for ms in numbers if 0 < ms < TIME_MAX_MS), None)
