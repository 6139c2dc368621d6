"""MCP: a call of a server's tool by the adapter, beside the package's own client without bounds, and the layer's size.

The server is the package's, over streamable HTTP on loopback, in a process of its own; its tool answers with what it got.
Both sides connect for each call, as a function does that keeps no session.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.row import Limit, MeasureError, Row
from stepline.adapters.mcp.mcp_server import McpClient
from stepline.ports.mcp.mcp_server import ServerAddress
from stepline.ports.signal import NeverCancelled

CALLS: Final = 40
IMPORTS: Final = 5
TEXT: Final = "x" * 1_000
GOAL_IMPORT_MS: Final = 1_000.0
ROOT: Final = Path(__file__).resolve().parents[1]
SERVER: Final = """\
import socket, uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")

@server.tool(structured_output=False)
def echo(text: str):
    return text

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none")).run([listener])
"""
IMPORT: Final = """\
import time
import stepline.adapters.mcp.mcp_server, lambdas.act, botocore.session
began = time.process_time()
import stepline.adapters.mcp.question
print(time.process_time() - began)
"""


def rows() -> list[Row]:
    """Measure both ways against one server, and the first load of the package."""
    with _server() as url:
        own, bare = _median_ms(_by_adapter(url)), _median_ms(_by_package(url))
    loaded = min(float(_run(IMPORT)) for _ in range(IMPORTS)) * 1_000
    return [
        Row(
            metric="mcp_call_ms",
            value=round(own, 1),
            unit="ms",
            limit=Limit("the package's client", round(bare, 1)),
            goal_times=1.0,
            note=f"median of {CALLS} calls with {len(TEXT)} characters, each with a connection of its own",
        ),
        Row(
            metric="mcp_import_cpu_ms",
            value=round(loaded),
            unit="ms",
            goal=GOAL_IMPORT_MS,
            note="CPU time of the first question's imports in a process of Act, the least of five",
        ),
    ]


def _by_adapter(url: str) -> Callable[[], str]:
    client, address = McpClient(starts_commands=False), ServerAddress(url=url)

    def call() -> str:
        return client.call_tool(address, "echo", {"text": TEXT}, NeverCancelled()).parts[0].text

    return call


def _by_package(url: str) -> Callable[[], str]:
    from mcp import Client

    async def call() -> str:
        async with Client(url, cache=None) as client:
            return (await client.call_tool("echo", {"text": TEXT})).content[0].text

    return lambda: asyncio.run(call())


def _median_ms(call: Callable[[], str]) -> float:
    took = []
    for _ in range(CALLS + 1):
        began = time.perf_counter()
        if call() != TEXT:
            raise MeasureError("the server says something else")
        took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took[1:])


@contextmanager
def _server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.communicate()


def _run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
