"""One question to a server: connect, ask, and map the answer or the failure to the port's values and codes.

The client gets no callbacks, so a server that requests one (elicitation, sampling, roots) gets an error. Structured
content is not checked against the server's schema: that would list its tools again for every call. The package accepts
or refuses an answer as a whole: one field of another type would lose a whole tool list. So between the transport and
the package each result is kept unprocessed, and the package gets a valid result of the same kind instead.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from msgspec.structs import replace

from stepline.adapters.mcp.bounded_transport import (
    MCP_RESPONSE_BYTES_MAX,
    TransportFailure,
    http_client,
    process_streams,
)
from stepline.adapters.mcp.call_reply import MESSAGE_CHARS, read_reply
from stepline.adapters.mcp.connection import McpConnection
from stepline.adapters.mcp.task_question import TasksExtension, read_created
from stepline.errors import ToolError
from stepline.model.decision import RemoteTask
from stepline.model.visible_text import shorten
from stepline.ports.mcp.mcp_server import (
    CALL_REFUSED,
    MCP_TOO_LARGE,
    MCP_UNREACHABLE,
    PROTOCOL_ERROR,
    REDIRECTED,
    TIMEOUT,
    McpReply,
    OnProgress,
    RemoteTool,
    ServerAddress,
    ToolListing,
)
from stepline.ports.signal import Cancel, NeverCancelled
from stepline.tools.context import CALL_CANCELLED

Item = TypeVar("Item")

_WHOLE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_EMPTY: Final[Mapping[str, dict[str, Any]]] = {
    "tools/list": {"tools": [], **_WHOLE},
    "tools/call": {"content": [], **_WHOLE},
}


@contextlib.asynccontextmanager
async def raw_results(transport: Any, results: dict[str, Any]) -> AsyncIterator[tuple[Any, Any]]:
    """Connect over a transport; put each kept result into `results`, by the method that it answers."""
    asked: dict[Any, str] = {}
    async with transport as (heard, said):
        yield _Incoming(heard, asked, results), _Outgoing(said, asked)


class _Stream(Generic[Item]):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        left: bool | None = await self._inner.__aexit__(kind, error, trace)
        return left


class _Outgoing(_Stream[SessionMessage]):
    """The stream to the server, which records the method of each request by its number."""

    def __init__(self, inner: Any, asked: dict[Any, str]) -> None:
        super().__init__(inner)
        self._asked = asked

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._asked[item.message.id] = item.message.method
        await self._inner.send(item)


class _Incoming(_Stream[SessionMessage]):
    """The stream from the server."""

    def __init__(self, inner: Any, asked: dict[Any, str], results: dict[str, Any]) -> None:
        super().__init__(inner)
        self._asked, self._results = asked, results

    @property
    def last_context(self) -> Any:
        """The context of the sender, which the package reads."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._kept(await self._inner.__anext__())

    async def receive(self) -> Any:
        return self._kept(await self._inner.receive())

    def _kept(self, item: Any) -> Any:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse):
            message.result = self._valid(self._asked.pop(message.id, ""), message.result)
        return item

    def _valid(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result for the package."""
        if method in _EMPTY:
            self._results[method] = result
            return dict(_EMPTY[method])
        if method == "initialize":
            return {
                "protocolVersion": result.get("protocolVersion"),
                **_capabilities(result),
                **_named(result),
            }
        versions = result.get("supportedVersions")
        if method == "server/discover" and isinstance(versions, list):
            named = [version for version in versions if isinstance(version, str)]
            return {"supportedVersions": named, **_capabilities(result), **_WHOLE}
        return result


def _takes_tasks(said: Any) -> bool:
    """Return True if the capabilities of a server of 2025-11-25 include tool calls as tasks."""
    for name in ("tasks", "requests", "tools", "call"):
        said = said.get(name) if isinstance(said, Mapping) else None
    return isinstance(said, Mapping)


def _capabilities(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities of a server that are used here."""
    can: dict[str, Any] = {"tools": {}}
    if _takes_tasks(result.get("capabilities")):
        can["tasks"] = {"requests": {"tools": {"call": {}}}}
    return {"capabilities": can}


def _named(result: Mapping[str, Any]) -> dict[str, Any]:
    said = result.get("serverInfo")
    fields = said if isinstance(said, Mapping) else {}
    texts = {name: fields.get(name) for name in ("name", "version")}
    return {"serverInfo": {name: text if isinstance(text, str) else "" for name, text in texts.items()}}


def read_tool(said: Any, *, takes_tasks: bool) -> RemoteTool:
    """Return a tool as its server describes it; a tool whose name is not a text has the name ""."""
    tool = _fields(said)
    hints, execution = _fields(tool.get("annotations")), _fields(tool.get("execution"))
    about = (tool.get("description"), tool.get("title"), hints.get("title"))
    name, support = tool.get("name"), execution.get("taskSupport")
    return RemoteTool(
        name=name if isinstance(name, str) else "",
        description=next((text for text in about if isinstance(text, str) and text), ""),
        schema=tool.get("inputSchema"),
        read_only=_hint(hints.get("readOnlyHint")),
        idempotent=_hint(hints.get("idempotentHint")),
        as_task=takes_tasks and support in ("optional", "required"),
    )


def _fields(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}


def _hint(said: Any) -> bool | None:
    return said if isinstance(said, bool) else None


logger = logging.getLogger(__name__)
T = TypeVar("T")

for _name in ("mcp", "httpx2"):  # their log lines quote addresses and server messages
    logging.getLogger(_name).setLevel(logging.CRITICAL)

PAGES_MAX, TOOLS_MAX = 100, 1_000
TTL_MAX_MS: Final = 1e12
CLOSE_S: Final = 2.0
"""The time to end a connection after its answer has arrived."""
POLL_S: Final = 0.2
TASK_TTL_MS: Final = 3_600_000
"""The requested lifetime of a task on the server: no turn lasts longer."""
_CAUSES: Final = {
    MCP_UNREACHABLE: "the server cannot be reached",
    TIMEOUT: "the server did not answer in time; what was asked for may have happened",
    MCP_TOO_LARGE: f"the server says more than {MCP_RESPONSE_BYTES_MAX} bytes",
    REDIRECTED: "the server leads to another address, which is not followed",
    PROTOCOL_ERROR: "what the server answers is not the protocol",
}


Question: TypeAlias = Callable[[McpConnection[T]], Awaitable[T]]


def read_certificates() -> ssl.SSLContext:
    """Return the trusted certificates; reading them takes longer than an answer of a server."""
    return httpx2.create_ssl_context()


def ask_server(address: ServerAddress, question: Question[T], cancel: Cancel, trusted: ssl.SSLContext) -> T:
    """Connect to a server and ask it. Raises ToolError: those of the port."""
    return anyio.run(_ask, address, question, cancel, trusted)


async def list_tools(connection: McpConnection[ToolListing]) -> ToolListing:
    """Return all tools of a server, page by page. If a page fails, the pages before it are kept."""
    tools: list[RemoteTool] = []
    cursors: list[str | None] = [None]
    ttl_ms = 0.0
    while True:
        params = types.PaginatedRequestParams(cursor=cursors[-1])
        page = await connection.send(types.ListToolsRequest(params=params))
        listed = page.get("tools")
        if not isinstance(listed, list):
            raise ToolError("the server's list of tools is none", code=PROTOCOL_ERROR)
        tools += (read_tool(tool, takes_tasks=connection.takes_tasks) for tool in listed)
        ttl_ms = min(filter(None, (ttl_ms, _milliseconds(page.get("ttlMs")))), default=0.0)
        listing = ToolListing(tools=tuple(tools), ttl_s=ttl_ms / 1000 if ttl_ms else None)
        cursor = page.get("nextCursor")
        if cursor is None or cursor == "":
            return listing
        connection.rest = partial(replace, listing)
        if not isinstance(cursor, str):
            raise ToolError("the server's list of tools has an invalid cursor", code=PROTOCOL_ERROR)
        if cursor in cursors or len(cursors) == PAGES_MAX or len(tools) > TOOLS_MAX:
            raise ToolError("the server's list of tools has no end", code=MCP_TOO_LARGE)
        cursors.append(cursor)


async def send_tool_call(
    connection: McpConnection[McpReply | RemoteTask],
    name: str,
    params: Mapping[str, Any],
    as_task: bool,
    on_progress: OnProgress | None = None,
) -> McpReply | RemoteTask:
    """Call a tool and return its answer, or the task that the server creates for it."""
    said = types.CallToolRequestParams(name=name, arguments=dict(params))
    if as_task and connection.shakes_hands:
        said = said.model_copy(update={"task": types.TaskMetadata(ttl=TASK_TTL_MS)})
    try:
        result = await connection.send(types.CallToolRequest(params=said), on_progress)
    except MCPError as error:
        if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
            words = shorten(error.message, MESSAGE_CHARS)
            raise ToolError(
                f"the server does not take the call; its words: {words}", code=CALL_REFUSED
            ) from None
        raise
    if (task := read_created(result, wanted=said.task is not None)) is not None:
        return task
    reply = read_reply(result)
    if reply.failed and any(part.text == f"Unknown tool: {name}" for part in reply.parts):
        # The package's own server reports it this way, other servers by an error.
        raise ToolError("the server does not know the tool", code=CALL_REFUSED)
    return reply


async def _ask(address: ServerAddress, question: Question[T], cancel: Cancel, trusted: ssl.SSLContext) -> T:
    transport_failure, connection = TransportFailure(), McpConnection[T]()
    failure: ToolError | None = None
    steered = False
    with anyio.move_on_after(address.timeout_s) as scope:

        async def watch() -> None:
            nonlocal steered
            while not cancel.requested:  # noqa: ASYNC110 - another thread sets it
                await anyio.sleep(POLL_S)
            steered = True
            scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                if not isinstance(cancel, NeverCancelled):
                    tasks.start_soon(watch)
                await _answer(address, question, transport_failure, connection, scope=scope, trusted=trusted)
                tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - each error of the foreign package gets a code; received answers are kept
            if not connection.answers:
                failure = _failure(error, transport_failure)
    if connection.answers:
        return connection.answers[0]
    if steered:
        raise ToolError("the user steered, and the call ended before it was done", code=CALL_CANCELLED)
    code = transport_failure.code or TIMEOUT
    failure = failure or ToolError(_CAUSES[code], code=code)
    if connection.rest is not None:
        return connection.rest(cut=failure.reason)
    raise failure


async def _answer(
    address: ServerAddress,
    question: Question[T],
    failure: TransportFailure,
    connection: McpConnection[T],
    *,
    scope: anyio.CancelScope,
    trusted: ssl.SSLContext,
) -> None:
    """Ask over a connection and keep the answer; after it, the connection has little time to end."""

    async def put(transport: Any) -> None:
        extensions = [] if address.command else [TasksExtension()]
        async with Client(
            raw_results(transport, connection.results),
            cache=None,
            read_timeout_seconds=address.timeout_s,
            extensions=extensions,
        ) as connection.client:
            connection.answers.append(await question(connection))
            scope.deadline = min(scope.deadline, anyio.current_time() + CLOSE_S)

    if address.command:
        await put(process_streams(address, failure))
        return
    async with http_client(address, failure, trusted) as http:
        await put(
            streamable_http_client(address.url, http_client=http, max_sse_event_size=MCP_RESPONSE_BYTES_MAX)
        )


def _failure(error: Exception, transport: TransportFailure) -> ToolError:
    """Return the error with its code, which is the transport's code if it saw a failure."""
    first = _first(error)
    if isinstance(first, ToolError):
        return first
    code = transport.code
    if not code and isinstance(first, MCPError) and first.code == types.REQUEST_TIMEOUT:
        code = TIMEOUT
    if not code:
        code = MCP_UNREACHABLE if transport.status >= 500 or isinstance(first, OSError) else PROTOCOL_ERROR
    logger.warning(
        "server not asked", extra={"code": code, "error": type(first).__name__, "status": transport.status}
    )
    status = f" (status {transport.status})" if transport.status >= 400 else ""
    words = f"; its words: {shorten(first.message, MESSAGE_CHARS)}" if isinstance(first, MCPError) else ""
    return ToolError(f"{_CAUSES[code]}{status}{words}", code=code)


def _first(error: BaseException) -> BaseException:
    """Return the first error in nested groups; a ToolError takes precedence."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(ToolError)
        error = (ours or error).exceptions[0]
    return error


def _milliseconds(said: Any) -> float:
    fits = isinstance(said, int | float) and not isinstance(said, bool) and 0 < said < TTL_MAX_MS
    return said if fits else 0.0
