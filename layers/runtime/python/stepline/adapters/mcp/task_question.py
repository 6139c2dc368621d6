"""Calls that a server answers with a task: what it says of one, in both revisions of the protocol that know them.

    2025-11-25   the caller asks for a task; `tasks/get` says how it stands, and `tasks/result` has its answer
    2026-07-28   the server decides, if the extension is declared; `tasks/get` says how it stands, with its answer

No answer is ever given to a server that asks for input. Source: modelcontextprotocol.io, "Tasks", SEP-2663.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from stepline.adapters.mcp.call_reply import MESSAGE_CHARS, read_reply
from stepline.errors import ToolError
from stepline.model.entry import RemoteTask
from stepline.model.shorten import shorten
from stepline.ports.mcp.mcp_server import (
    PROTOCOL_ERROR,
    TASK_CANCELLED,
    TASK_FAILED,
    TASK_ID_CHARS,
    TASK_LOST,
    TASK_NEEDS_INPUT,
    Reply,
)

_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)


class _Stands(types.Result):
    """A task as a server describes it; the revisions name its times differently."""

    task_id: str
    status: str
    status_message: str | None = None
    ttl: float | None = None
    ttl_ms: float | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None
    result: Any = None
    error: types.ErrorData | None = None


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
        """Return the claim by which the extension is declared to no older server."""
        return (ResultClaim(result_type="task", model=_Created, resolve=_resolve),)


async def _resolve(_: _Created, __: ClaimContext) -> types.CallToolResult:
    raise ToolError("a task is asked for by a later step", code=PROTOCOL_ERROR)


def read_created(said: Any, *, wanted: bool) -> RemoteTask | None:
    """Return the task that a server makes of a call; None if it answers the call.

    `wanted`: it was asked to, by the revision 2025-11-25. Raises ValidationError, ToolError `mcp_protocol_error`.
    """
    if wanted and isinstance(said, dict) and "task" in said:
        return _task(_Stands.model_validate(said["task"], by_name=False))
    if isinstance(said, dict) and said.get("resultType") == "task":
        return _task(_Stands.model_validate(said, by_name=False))
    return None


async def poll_task(client: Client, task_id: str) -> Reply | RemoteTask:
    """Return the answer of a task that has ended, or the task as it stands. Raises ToolError: those of the port."""
    try:
        stands = await client.session.send_request(_Get(params=_About(task_id=task_id)), _Stands)
    except MCPError as error:
        raise _lost(error) from None
    if stands.task_id != task_id:
        raise ToolError("the server speaks of another task", code=PROTOCOL_ERROR)
    words = f"; its words: {shorten(stands.status_message, MESSAGE_CHARS)}" if stands.status_message else ""
    match stands.status:
        case "working":
            return _task(stands)
        case "completed" | "failed":
            return await _outcome(client, stands, words)
        case "cancelled":
            raise ToolError(f"the server has cancelled the task{words}", code=TASK_CANCELLED)
        case "input_required":
            raise ToolError(
                f"the task asks for input, which nobody can give it{words}", code=TASK_NEEDS_INPUT
            )
    raise ToolError("the task has a status that does not exist", code=PROTOCOL_ERROR)


async def cancel_task(client: Client, task_id: str) -> None:
    """Ask a server to end a task."""
    await client.session.send_request(_Cancel(params=_About(task_id=task_id)), _ANYTHING)


async def _outcome(client: Client, stands: _Stands, words: str) -> Reply:
    said = stands.result
    if client.session.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        asked = _Result(params=_About(task_id=stands.task_id))
        try:
            said = await client.session.send_request(asked, _ANYTHING)
        except MCPError as error:
            if stands.status == "completed":
                raise _lost(error) from None
            stands.error = error.error
    if stands.status == "failed" and (stands.error is not None or said is None):
        if stands.error is not None:
            words = f"; its words: {shorten(stands.error.message, MESSAGE_CHARS)}"
        raise ToolError(f"the task has failed{words}", code=TASK_FAILED)
    reply = read_reply(said)
    return (
        Reply(parts=reply.parts, structured=reply.structured, failed=True)
        if stands.status == "failed"
        else reply
    )


def _lost(error: MCPError) -> Exception:
    if error.code not in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
        return error
    words = shorten(error.message, MESSAGE_CHARS)
    return ToolError(
        f"the server does not know the task any more; it may have been done; its words: {words}",
        code=TASK_LOST,
    )


def _task(stands: _Stands) -> RemoteTask:
    """Return a task with its times, as far as they are times."""
    name = stands.task_id
    if not (0 < len(name) <= TASK_ID_CHARS and name.isascii() and name.isprintable()):
        raise ToolError("the id of the task is none", code=PROTOCOL_ERROR)
    return RemoteTask(
        id=name,
        poll_s=_seconds(stands.poll_interval, stands.poll_interval_ms),
        ttl_s=_seconds(stands.ttl, stands.ttl_ms),
    )


def _seconds(*told_ms: float | None) -> float | None:
    return next((ms / 1000 for ms in told_ms if ms is not None and math.isfinite(ms) and ms > 0), None)
