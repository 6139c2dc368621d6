"""A piece of text at each door beside our own client: CPU time and bytes.

The doors of web/packages and our client in TypeScript read a real websocket, in one process of Node, which serves the doors
over HTTP, too: their client is this process. The endpoint for Durable Streams answers in this process, beside a resume of
our client for the same text: once a second, as it is stored.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from bench.chat_page import cut, make_answer
from bench.conversation import LANE, USER, prose
from bench.paced import SECOND_CHARS
from bench.row import MeasureError, Row
from bench.served import MESSAGE, SERVED, granting, read_served
from bench.timing import interleave
from stepline.adapters.memory.channel import MemoryPublisher
from stepline.api.endpoint import Services
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import Request, Router
from stepline.bootstrap.memory_wiring import in_memory
from stepline.ingress.admit import Arrival, admit
from stepline.ingress.message import receive
from stepline.local.page.page_build import WEB
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.model.wire.event import CONTROL_LANE, ClientEvent, DeltaFrame, EventFrame, encode_frame
from stepline.ports.channel import Principal
from stepline.ports.relay import Delta
from stepline.settings import Settings

PACKAGES: Final = ("ai_sdk", "ag_ui")
GOAL: Final = 1.15
ROUNDS: Final = 7
PIECE_CHARS: Final = 40
"""About what the relay posts at a time, at 60 tokens a second."""
PIECES: Final = 1_000
PAUSE_S: Final = 0.001
SECONDS: Final = 60
TURN: Final = "turn_bench"
ANSWER: Final = "answer.0"
OPENED: Final = '{"do":"open","lane":"answer.0","facts":{"marker":"answer"}}\n'
FAR_S: Final = 4_000_000_000
ROUTER: Final = Router(ENDPOINTS)


def rows() -> list[Row]:
    """Return `door_cpu_x_client_<door>` and `door_bytes_x_client_<door>`."""
    return [*_package_rows(), *_stream_rows()]


def _rows_of(door: str, cpu: tuple[float, float], size: tuple[float, float], note: str) -> list[Row]:
    """Return a door's two rows; each pair is the door's and our own client's."""
    values = {"cpu": round(cpu[0] / cpu[1], 2), "bytes": round(size[0] / size[1], 3)}
    notes = {
        "cpu": f"{note}: {cpu[0]:.4g} ms, our own client {cpu[1]:.4g}",
        "bytes": f"{size[0]:.0f} bytes a piece, our own client {size[1]:.0f}",
    }
    return [
        Row(metric=f"door_{what}_x_client_{door}", value=value, unit="x", goal=GOAL, note=notes[what])
        for what, value in values.items()
    ]


def _package_rows() -> list[Row]:
    text = make_answer(PIECES * PIECE_CHARS)[: PIECES * PIECE_CHARS]
    deltas = [_delta(at * PIECE_CHARS, piece) for at, piece in enumerate(cut(text, PIECE_CHARS))]
    turn = [*_begin(), *deltas, *_end(text)]
    doors = (*PACKAGES, *SERVED)
    with _serving(turn) as url, granting(url) as api, Readers(url, api, text) as readers:
        samples: dict[str, Callable[[], float]] = {
            name: partial(readers.sample, name) for name in ("client", *doors)
        }
        cpu = interleave(samples, ROUNDS)
    size = sum(map(len, deltas)) / PIECES
    note = f"{PIECES} pieces of {PIECE_CHARS} characters by a websocket, in Node"
    return [
        row
        for door in doors
        for row in _rows_of(door, (cpu[door], cpu["client"]), (readers.bytes[door] / PIECES, size), note)
    ]


class Readers:
    """A process of Node that reads the turn by our own client or at a door, on request, and that serves the doors."""

    def __init__(self, url: str, api: str, text: str) -> None:
        """Start it; `text` is the answer that every reader must get."""
        command = ["node", "--expose-gc", "tests/bench/doors.ts", url, LANE.conversation, TURN, api]
        self._process = subprocess.Popen(
            command, cwd=WEB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._text = text
        self._served: str = self._receive()["url"]
        self.bytes: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def sample(self, name: str) -> float:
        """Return the CPU milliseconds of one turn; the size of its pieces is in `bytes`."""
        if name in SERVED:
            self._ask("begin")
            text, self.bytes[name] = read_served(self._served, name, LANE.conversation)
            found = self._ask("end")
        else:
            found = self._ask(name)
            text, self.bytes[name] = found["text"], found["bytes"]
        if text != self._text:
            raise MeasureError(f"{name} did not get the text, once and in order")
        return float(found["cpu_ms"])

    def _ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise MeasureError(f"the readers' process ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def _serving(turn: list[bytes]) -> Iterator[str]:
    """Send the turn to everyone who connects and resumes, or sends its message; yield the address."""

    def handle(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):  # a reader leaves when its turn has ended
            if json.loads(socket.recv())["action"] == "send":
                names = {"message_id": MESSAGE, "conversation": LANE.conversation}
                socket.send(json.dumps({"frame": "ack", **names, "n": 1, "kind": ""}))
            for frame in turn:
                socket.send(frame.decode())
                time.sleep(PAUSE_S)
            socket.recv()

    with serve(handle, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()
        thread.join()


def _begin() -> list[bytes]:
    accepted = {"message_id": MESSAGE, "kind": "prompt", "text": "Describe everything."}
    return [
        _batch(1, ("chat.conversation.accepted", accepted), ("chat.start", {"prompts": [1]})),
        _delta(0, OPENED, lane=CONTROL_LANE),
    ]


def _end(text: str) -> list[bytes]:
    decision = {"claim": 1, "action": "complete", "accepted": True, "notes": "", "interrupted": False}
    ended = {"answer": text, "reason": "complete", "followups": []}
    return [_batch(2, ("solver.react.decision", decision)), _batch(3, ("chat.complete", ended))]


def _batch(n: int, *events: tuple[str, dict[str, Any]]) -> bytes:
    made = tuple(
        ClientEvent(type=kind, route="chat_step", ts="2026-01-01T00:00:00.000Z", turn_id=TURN, data=data)
        for kind, data in events
    )
    return encode_frame(EventFrame(conversation=LANE.conversation, n=n, prev=n - 1, claim=1, events=made))


def _delta(off: int, text: str, *, lane: str = ANSWER) -> bytes:
    return encode_frame(DeltaFrame(conversation=LANE.conversation, claim=1, lane=lane, off=off, text=text))


def _stream_rows() -> list[Row]:
    cpu = interleave({"door": lambda: Polled().read_stream(), "client": lambda: Polled().resume()}, ROUNDS)
    polled = Polled()
    polled.read_stream()
    pieces = SECONDS * SECOND_CHARS / PIECE_CHARS
    size = len(_delta(SECONDS * SECOND_CHARS, "x" * PIECE_CHARS))
    note = f"{SECONDS} reads of a second's text, beside as many resumes"
    return _rows_of("durable_streams", (cpu["door"], cpu["client"]), (polled.bytes / pieces, size), note)


class Polled:
    """An open turn whose text is stored once a second, and read then; `bytes` counts what its stream has sent."""

    def __init__(self) -> None:
        """Open it, and connect."""
        self._ports: Ports = in_memory(Settings.from_env({})).ports
        self._who = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR_S)
        self._claim = admit(
            self._ports, LANE, Arrival(message_id="m", user=USER, text="Describe it.")
        ).batch.n
        self._ports.deltas.put(LANE, self._claim, Delta(name=CONTROL_LANE, off=0, text=OPENED))
        self._ports.subscriptions.connect("c", self._who)
        publisher = self._ports.publisher
        assert isinstance(publisher, MemoryPublisher)
        self._posted = publisher.open("c")
        self.bytes = 0

    def read_stream(self) -> float:
        """Read by the endpoint for Durable Streams; return the CPU milliseconds."""
        services = Services(ports=self._ports, history=History())
        path = f"/v1/conversations/{LANE.conversation}/stream"
        offset = "-1"

        def read(_: int) -> None:
            nonlocal offset
            answer = ROUTER.answer(
                services, self._who, Request(method="GET", path=path, query={"offset": offset})
            )
            if b'"frame":"delta"' not in answer.body:
                raise MeasureError(f"a read without text: {answer.code}")
            offset = answer.headers["Stream-Next-Offset"]
            head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
            self.bytes += len(head) + len(answer.body)

        return self._each_second(read)

    def resume(self) -> float:
        """Resume a client of the websocket that has everything before; return the CPU milliseconds."""

        def read(second: int) -> None:
            have = {CONTROL_LANE: len(OPENED), ANSWER: second * SECOND_CHARS} if second else {}
            stream = {"claim": self._claim, "off": have}
            asked = {"conversation": LANE.conversation, "after": min(second, self._claim), "stream": stream}
            receive(self._ports, "c", json.dumps({"action": "resume", **asked}))
            if not any(b'"frame":"delta"' in frame for frame in self._posted):
                raise MeasureError("a resume without text")
            self._posted.clear()

        return self._each_second(read)

    def _each_second(self, read: Callable[[int], None]) -> float:
        spent_s = 0.0
        for second in range(SECONDS):
            off, text = second * SECOND_CHARS, prose(SECOND_CHARS)
            self._ports.deltas.put(LANE, self._claim, Delta(name=ANSWER, off=off, text=text))
            start_s = time.process_time()
            read(second)
            spent_s += time.process_time() - start_s
        return spent_s * 1000
