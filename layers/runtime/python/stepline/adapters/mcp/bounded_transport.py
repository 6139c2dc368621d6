"""The transports of a connection, with limits: streamable HTTP, and a server process.

An answer must have its declared size, be within the size limit, and come from the requested host. A process is started
with a small environment, and ended with its children. The package's own transport buffers a line without a limit; this
one counts its bytes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx2
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from stepline.adapters.mcp.half_surrogates import HalfSurrogates
from stepline.ports.mcp.mcp_server import (
    MCP_TOO_LARGE,
    MCP_UNREACHABLE,
    PROTOCOL_ERROR,
    REDIRECTED,
    ServerAddress,
)

MCP_RESPONSE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The maximum bytes that a server may send for one question."""
CONNECT_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
GRACE_S: Final = 2.0
"""The time for a server to end after its input has ended."""


@dataclass
class TransportFailure:
    """The first failure of a connection, as the transport saw it.

    It has a code if the transport failed, the status of the last HTTP answer, and the number of received bytes. The
    client reports a failure of its transport in many forms, and tries another protocol version after some of them; the
    transport knows the cause.
    """

    code: str = ""
    status: int = 0
    size_bytes: int = 0

    def note(self, code: str) -> None:
        """Keep the first code."""
        self.code = self.code or code

    def count(self, size_bytes: int) -> bool:
        """Count received bytes; return True if they exceed the limit."""
        self.size_bytes += size_bytes
        return self.size_bytes > MCP_RESPONSE_BYTES_MAX


def http_client(
    address: ServerAddress, failure: TransportFailure, trusted: ssl.SSLContext
) -> httpx2.AsyncClient:
    """Return a client with a server's headers. It uses no proxy, cookie or password from the environment."""
    return httpx2.AsyncClient(
        headers={**address.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(address.timeout_s, connect=min(CONNECT_S, address.timeout_s)),
        transport=_Bounded(httpx2.AsyncHTTPTransport(verify=trusted), failure),
        trust_env=False,
    )


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, failure: TransportFailure) -> None:
        self._inner = inner
        self._failure = failure

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError:
            self._failure.note(MCP_UNREACHABLE)
            raise
        self._failure.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Decompressed, it could be a thousand times as large as the counted bytes.
            self._failure.note(PROTOCOL_ERROR)
            await response.aclose()
            raise httpx2.DecodingError("the answer is compressed", request=request)
        if (
            "location" in response.headers
            and 300 <= response.status_code < 400
            and leads_away(request, response)
        ):
            self._failure.note(REDIRECTED)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response.stream, self._failure, _tail(response)),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def leads_away(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return True if a redirect leads to another host or port, or away from https."""
    try:
        there = request.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return True
    here = request.url
    if (here.scheme, there.scheme) == ("http", "https") and here.port == there.port:
        return here.host != there.host
    ports = [url.port or _PORTS.get(url.scheme) for url in (here, there)]
    return (here.scheme, here.host, ports[0]) != (there.scheme, there.host, ports[1])


def _tail(response: httpx2.Response) -> bytes:
    """Return the line breaks that complete the last event of a stream that ends within one."""
    return (
        b"\n\n" if response.headers.get("content-type", "").lower().startswith("text/event-stream") else b""
    )


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, failure: TransportFailure, tail: bytes) -> None:
        self._inner = inner
        self._failure = failure
        self._tail = tail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        halves = HalfSurrogates()
        async for chunk in self._inner:
            if self._failure.count(len(chunk)):
                self._failure.note(MCP_TOO_LARGE)
                raise httpx2.ReadError("the answer is too large")
            yield halves.mend(chunk)
        yield halves.mend(self._tail, last=True)

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextlib.asynccontextmanager
async def process_streams(
    address: ServerAddress, failure: TransportFailure
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server; yield the stream of its messages and the stream of ours. Its stderr is not read."""
    try:
        process = await anyio.open_process(
            address.command,
            env=get_default_environment() | dict(address.env),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        failure.note(MCP_UNREACHABLE)
        raise
    heard_in, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, said_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, heard_in, heard, said, said_out:
        tasks.start_soon(_read_messages, process, heard_in, failure)
        tasks.start_soon(_write_messages, process, said_out, heard_in)
        try:
            yield heard, said
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            tasks.cancel_scope.cancel()


async def _read_messages(process: Process, heard: Any, failure: TransportFailure) -> None:
    """Forward the server's messages, one per line, until it sends too much or its output ends."""
    assert process.stdout is not None
    line: list[bytes] = []
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async with heard:
            async for chunk in process.stdout:
                if failure.count(len(chunk)):
                    failure.note(MCP_TOO_LARGE)
                    return
                begun, *lines = chunk.split(b"\n")
                line.append(begun)
                for following in lines:
                    await heard.send(_message(b"".join(line)))
                    line = [following]
            failure.note(MCP_UNREACHABLE)  # it ended during the question


async def _write_messages(process: Process, said: Any, heard: Any) -> None:
    assert process.stdin is not None
    try:
        async for message in said:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(line.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await heard.aclose()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(
            jsonrpc_message_adapter.validate_json(HalfSurrogates().mend(line, last=True), by_name=False)
        )
    except ValueError as error:
        return error


async def _end(process: Process) -> None:
    """End the server and its children."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    with anyio.move_on_after(GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110 - `wait` also waits for children that hold the pipes
            await anyio.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(GRACE_S):
        await process.aclose()
