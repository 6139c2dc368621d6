"""A server that is a process: started with a small environment, bounded in what it says, and ended with its children.

The package's own transport keeps whatever a server writes before the end of a line; this one counts it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from stepline.adapters.mcp.half_surrogates import HalfSurrogates
from stepline.adapters.mcp.trouble import Trouble
from stepline.ports.mcp.mcp_server import TOO_LARGE, UNREACHABLE, ServerAddress

GRACE_S: Final = 2.0
"""A server's time to end by itself, once its input has."""


@contextlib.asynccontextmanager
async def process_streams(address: ServerAddress, trouble: Trouble) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server; yield the stream of its messages, and the one of ours. What it writes to stderr is not read."""
    try:
        process = await anyio.open_process(
            address.command,
            env=get_default_environment() | dict(address.env),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        trouble.note(UNREACHABLE)
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


async def _hear(process: Process, heard: Any, trouble: Trouble) -> None:
    """Pass on what the server says, a message a line, until it says too much or nothing more."""
    assert process.stdout is not None
    line: list[bytes] = []
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async with heard:
            async for chunk in process.stdout:
                if trouble.count(len(chunk)):
                    trouble.note(TOO_LARGE)
                    return
                begun, *lines = chunk.split(b"\n")
                line.append(begun)
                for following in lines:
                    await heard.send(_message(b"".join(line)))
                    line = [following]
            trouble.note(UNREACHABLE)  # it ended while it was asked


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
