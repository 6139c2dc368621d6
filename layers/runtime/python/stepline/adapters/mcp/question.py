"""One question to a server: connect, ask, and map what comes, or whatever goes wrong, to the port's values and codes.

No callback is given to the client, so a server that asks for one (elicitation, sampling, roots) gets an error. Structured
content is not checked against a schema of the server's: that would list its tools once more for every call.
"""

from __future__ import annotations

import base64
import binascii
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from stepline.adapters.mcp.bounded_http import http_client
from stepline.adapters.mcp.bounded_process import process_streams
from stepline.adapters.mcp.trouble import BYTES_MAX, Trouble
from stepline.errors import ToolError
from stepline.model.shorten import shorten
from stepline.ports.mcp.mcp_server import (
    CALL_REFUSED,
    PROTOCOL_ERROR,
    REDIRECTED,
    TIMEOUT,
    TOO_LARGE,
    UNREACHABLE,
    Listing,
    RemoteTool,
    Reply,
    ReplyPart,
    ServerAddress,
)
from stepline.ports.signal import Cancel, NeverCancelled
from stepline.tools.context import CANCELLED

logger = logging.getLogger(__name__)
T = TypeVar("T")

for _name in ("mcp", "httpx2"):  # their lines quote addresses, and what a server said
    logging.getLogger(_name).setLevel(logging.CRITICAL)

PAGES_MAX, TOOLS_MAX = 20, 1_000
CLOSE_S: Final = 2.0
"""The time to end a connection after its answer has come."""
POLL_S: Final = 0.2
MESSAGE_CHARS: Final = 300
_CAUSES: Final = {
    UNREACHABLE: "the server cannot be reached",
    TIMEOUT: "the server did not answer in time; what was asked for may have happened",
    TOO_LARGE: f"the server says more than {BYTES_MAX} bytes",
    REDIRECTED: "the server leads to another address, which is not followed",
    PROTOCOL_ERROR: "what the server answers is not the protocol",
}


Question: TypeAlias = Callable[[Client], Awaitable[T]]


def read_certificates() -> ssl.SSLContext:
    """Return the trusted certificates, which take longer to read than a server to answer."""
    return httpx2.create_ssl_context()


def ask(address: ServerAddress, question: Question[T], cancel: Cancel, trusted: ssl.SSLContext) -> T:
    """Connect to a server and ask it. Raises ToolError: those of the port."""
    return anyio.run(_ask, address, question, cancel, trusted)


async def list_tools(client: Client) -> Listing:
    """Return all tools of a server, page by page."""
    tools: list[RemoteTool] = []
    cursor, ttl_ms = None, 0
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools += map(_tool, page.tools)
        ttl_ms = page.ttl_ms if not ttl_ms else min(ttl_ms, page.ttl_ms or ttl_ms)
        cursor = page.next_cursor
        if cursor is None:
            return Listing(tools=tuple(tools), ttl_s=ttl_ms / 1000 if ttl_ms else None)
        if len(tools) > TOOLS_MAX:
            break
    raise ToolError("the server's list of tools has no end", code=TOO_LARGE)


async def call_tool(client: Client, name: str, params: Mapping[str, Any]) -> Reply:
    """Call a tool and return its answer."""
    asked = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(params)))
    try:
        result = await client.session.send_request(asked, types.CallToolResult)
    except MCPError as error:
        if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
            said = shorten(error.message, MESSAGE_CHARS)
            raise ToolError(
                f"the server does not take the call; its words: {said}", code=CALL_REFUSED
            ) from None
        raise
    parts = tuple(map(_part, result.content))
    if result.is_error and any(part.text == f"Unknown tool: {name}" for part in parts):
        # The package's own server says it so, others by an error.
        raise ToolError("the server does not know the tool", code=CALL_REFUSED)
    return Reply(parts=parts, structured=result.structured_content, failed=result.is_error)


async def _ask(address: ServerAddress, question: Question[T], cancel: Cancel, trusted: ssl.SSLContext) -> T:
    trouble, answers = Trouble(), list[T]()
    steered = False
    with anyio.move_on_after(address.timeout_s) as scope:

        async def watch() -> None:
            nonlocal steered
            while not cancel.requested:  # noqa: ASYNC110 - it is another thread's
                await anyio.sleep(POLL_S)
            steered = True
            scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                if not isinstance(cancel, NeverCancelled):
                    tasks.start_soon(watch)
                await _answer(address, question, trouble, answers, scope=scope, trusted=trusted)
                tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - a foreign package on foreign input: each of its errors gets a code
            if not answers:
                raise _failure(error, trouble) from None
    if answers:
        return answers[0]
    if steered:
        raise ToolError("the user steered, and the call ended before it was done", code=CANCELLED)
    raise ToolError(_CAUSES[trouble.code or TIMEOUT], code=trouble.code or TIMEOUT)


async def _answer(
    address: ServerAddress,
    question: Question[T],
    trouble: Trouble,
    answers: list[T],
    *,
    scope: anyio.CancelScope,
    trusted: ssl.SSLContext,
) -> None:
    """Add the answer to `answers`; after it the connection has little time to end."""

    async def put(transport: Any) -> None:
        async with Client(transport, cache=None, read_timeout_seconds=address.timeout_s) as client:
            answers.append(await question(client))
            scope.deadline = min(scope.deadline, anyio.current_time() + CLOSE_S)

    if address.command:
        await put(process_streams(address, trouble))
        return
    async with http_client(address, trouble, trusted) as http:
        await put(streamable_http_client(address.url, http_client=http, max_sse_event_size=BYTES_MAX))


def _failure(error: Exception, trouble: Trouble) -> ToolError:
    """Return the error with its code: the transport's, if it saw one."""
    first = _first(error)
    if isinstance(first, ToolError):
        return first
    code = trouble.code
    if not code and isinstance(first, MCPError) and first.code == types.REQUEST_TIMEOUT:
        code = TIMEOUT
    if not code:
        code = UNREACHABLE if trouble.status >= 500 or isinstance(first, OSError) else PROTOCOL_ERROR
    logger.warning(
        "server not asked", extra={"code": code, "error": type(first).__name__, "status": trouble.status}
    )
    status = f" (status {trouble.status})" if trouble.status >= 400 else ""
    words = f"; its words: {shorten(first.message, MESSAGE_CHARS)}" if isinstance(first, MCPError) else ""
    return ToolError(f"{_CAUSES[code]}{status}{words}", code=code)


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group that is none itself; a ToolError before others."""
    while isinstance(error, BaseExceptionGroup):
        told = error.subgroup(ToolError)
        error = (told or error).exceptions[0]
    return error


def _tool(tool: types.Tool) -> RemoteTool:
    hints = tool.annotations or types.ToolAnnotations()
    return RemoteTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint,
        idempotent=hints.idempotent_hint,
    )


def _part(block: types.ContentBlock) -> ReplyPart:
    match block:
        case types.TextContent():
            return ReplyPart(kind="text", text=block.text)
        case types.ImageContent() | types.AudioContent():
            return ReplyPart(kind="file", data=_bytes(block.data), mime=block.mime_type)
        case types.ResourceLink():
            return ReplyPart(kind="link", uri=str(block.uri), name=block.name, mime=block.mime_type or "")
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            return ReplyPart(kind="text", text=text.text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return ReplyPart(
                kind="file", data=_bytes(blob.blob), mime=blob.mime_type or "", uri=str(blob.uri)
            )
    raise ToolError("the server answers with content of an unknown kind", code=PROTOCOL_ERROR)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the server answers with bytes that are none", code=PROTOCOL_ERROR) from None
