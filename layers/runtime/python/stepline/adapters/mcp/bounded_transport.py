"""The transports of a connection, with bounds: streamable HTTP, and a server that is a process.

An answer is as large as it says, not larger than is taken, and from the host that was asked. A process is started with
a small environment, and ended with its children; the package's own transport keeps whatever it writes before the end of
a line, this one counts it.
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
"""All that a server may say while it is asked one question."""
CONNECT_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
GRACE_S: Final = 2.0
"""A server's time to end by itself, once its input has."""


@dataclass
class TransportFailure:
    """The first thing that went wrong on the way to a server, as the transport saw it.

    A code if the transport failed, the status of the last HTTP answer, and the bytes that came. The client tells a failure
    of its transport in many ways, and tries another era of the protocol after some of them; the transport knows the cause.
    """

    code: str = ""
    status: int = 0
    size_bytes: int = 0

    def note(self, code: str) -> None:
        """Keep the first code."""
        self.code = self.code or code

    def count(self, size_bytes: int) -> bool:
        """Count bytes that came; return True if they are too many."""
        self.size_bytes += size_bytes
        return self.size_bytes > MCP_RESPONSE_BYTES_MAX


def http_client(
    address: ServerAddress, trouble: TransportFailure, trusted: ssl.SSLContext
) -> httpx2.AsyncClient:
    """Return a client with a server's headers. No proxy, cookie or password of the environment is used."""
    return httpx2.AsyncClient(
        headers={**address.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(address.timeout_s, connect=min(CONNECT_S, address.timeout_s)),
        transport=_Bounded(httpx2.AsyncHTTPTransport(verify=trusted), trouble),
        trust_env=False,
    )


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, trouble: TransportFailure) -> None:
        self._inner = inner
        self._trouble = trouble

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError:
            self._trouble.note(MCP_UNREACHABLE)
            raise
        self._trouble.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # It could be a thousand times as large as what is counted.
            self._trouble.note(PROTOCOL_ERROR)
            await response.aclose()
            raise httpx2.DecodingError("the answer is compressed", request=request)
        if (
            "location" in response.headers
            and 300 <= response.status_code < 400
            and leads_away(request, response)
        ):
            self._trouble.note(REDIRECTED)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response.stream, self._trouble, _tail(response)),
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
    """Return the end of the last event: a stream that ends in one has said it."""
    return (
        b"\n\n" if response.headers.get("content-type", "").lower().startswith("text/event-stream") else b""
    )


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, trouble: TransportFailure, tail: bytes) -> None:
        self._inner = inner
        self._trouble = trouble
        self._tail = tail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        halves = HalfSurrogates()
        async for chunk in self._inner:
            if self._trouble.count(len(chunk)):
                self._trouble.note(MCP_TOO_LARGE)
                raise httpx2.ReadError("the answer is too large")
            yield halves.mend(chunk)
        yield halves.mend(self._tail, last=True)

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextlib.asynccontextmanager
async def process_streams(
    address: ServerAddress, trouble: TransportFailure
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server; yield the stream of its messages, and the one of ours. What it writes to stderr is not read."""
    try:
        process = await anyio.open_process(
            address.command,
            env=get_default_environment() | dict(address.env),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        trouble.note(MCP_UNREACHABLE)
        raise
    heard_in, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, said_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, heard_in, heard, said, said_out:
        tasks.start_soon(_hear, process, heard_in, trouble)
        tasks.start_soon(_say, process, said_out, heard_in)
        try:
            yield heard, said
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            tasks.cancel_scope.cancel()


async def _hear(process: Process, heard: Any, trouble: TransportFailure) -> None:
    """Pass on what the server says, a message a line, until it says too much or nothing more."""
    assert process.stdout is not None
    line: list[bytes] = []
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async with heard:
            async for chunk in process.stdout:
                if trouble.count(len(chunk)):
                    trouble.note(MCP_TOO_LARGE)
                    return
                begun, *lines = chunk.split(b"\n")
                line.append(begun)
                for following in lines:
                    await heard.send(_message(b"".join(line)))
                    line = [following]
            trouble.note(MCP_UNREACHABLE)  # it ended while it was asked


async def _say(process: Process, said: Any, heard: Any) -> None:
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
        while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for children that hold the pipes, too
            await anyio.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(GRACE_S):
        await process.aclose()
