"""A thousand silent streams at one server of doors: its memory.

The stage is a program of this process: it grants tickets, has no conversations, and acknowledges each message.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from bench.row import MeasureError, Row
from bench.served import RUN
from stepline.local.command.door.serve import HEAP, UNREAD_S, find_node
from stepline.local.page.page_build import build_server

STREAMS: Final = 1_000
AT_ONCE: Final = 25
BEAT_S: Final = 1
BEATS: Final = 20
GOAL_MB: Final = 200


def rows() -> list[Row]:
    """Return `door_streams_mb`."""
    before, after = asyncio.run(_measure(build_server(lambda text: print(text, file=sys.stderr))))
    note = f"{STREAMS} runs of AG-UI that wait for their turn; {before:.0f} MB before the first"
    return [Row(metric="door_streams_mb", value=round(after), unit="MB", goal=GOAL_MB, note=note)]


async def _measure(program: Path) -> tuple[float, float]:
    """Return the resident MB of a server before its first stream and with all of them."""
    async with serve(_acknowledge, "127.0.0.1", 0, compression=None) as sockets:
        grant = {
            "ticket": "t",
            "expires_in_s": 60,
            "url": f"ws://127.0.0.1:{sockets.sockets[0].getsockname()[1]}/",
        }
        api = await asyncio.start_server(lambda *given: _answer(grant, *given), "127.0.0.1", 0)
        options = {
            "url": f"http://127.0.0.1:{api.sockets[0].getsockname()[1]}",
            "host": "127.0.0.1",
            "port": 0,
        }
        options |= {"streams": STREAMS, "origins": [], "beatS": BEAT_S, "unreadS": UNREAD_S}
        options |= {"issuer": "", "mcpAnswers": [], "version": "0"}
        server = await asyncio.create_subprocess_exec(
            find_node(), HEAP, program, json.dumps(options), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            port = int(json.loads(await server.stdout.readline())["url"].rpartition(":")[2])
            before, streams = _resident_mb(server.pid), []
            for first in range(0, STREAMS, AT_ONCE):
                streams += await asyncio.gather(*(_open(port, at) for at in range(first, first + AT_ONCE)))
            for _ in range(BEATS):
                await asyncio.gather(*(stream.readuntil(b":\n\n") for stream in streams))
            return before, _resident_mb(server.pid)
        finally:
            server.kill()
            await server.wait()
            api.close()


async def _open(port: int, at: int) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"threadId": f"c-{at}", **RUN})
    head = f"POST /agui HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer a.b.c\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    found = await reader.readuntil(b"\n\n")
    if b"RUN_STARTED" not in found:
        raise MeasureError(f"no stream: {found[:200]!r}")
    return reader


async def _acknowledge(socket: ServerConnection) -> None:
    with suppress(ConnectionClosed):  # the server is killed in the end
        async for text in socket:
            asked = json.loads(text)
            if asked["action"] == "send":
                names = {"message_id": asked["message_id"], "conversation": asked["conversation"]}
                await socket.send(json.dumps({"frame": "ack", **names, "n": 1, "kind": ""}))


async def _answer(
    grant: dict[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection to the HTTP API: a ticket, else that there is no conversation."""
    while head := await _head(reader):
        missing = {"status": 404, "code": "not_found", "detail": "no such conversation"}
        status, found = ("404 Not Found", missing) if "/events" in head else ("201 Created", grant)
        body = json.dumps(found)
        fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n{body}".encode())
    writer.close()


async def _head(reader: asyncio.StreamReader) -> str:
    """Return the head of the next request, "" at the end of the connection; its bodies are empty."""
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return ""


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
