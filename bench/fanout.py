"""Durable events to all followers: posted as a step posts them, over the emulator's real websockets.

Measured is our own time from a batch's frames to the last byte at the last client: listeners are read for
each batch, and each post is a call of the gateway. Turns would measure the scripted model.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.row import MeasureError, Row
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.memory.clock import MemoryMeter
from stepline.adapters.parallel import ParallelPosts
from stepline.adapters.system import SystemClock
from stepline.delivery.posting import GatewayBroadcast
from stepline.local.caller import PROJECT, TENANT, Caller, find_caller
from stepline.local.client.websocket import dial_gateway
from stepline.local.command.batches import open_log
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.lifecycle import stage_status, start_stage
from stepline.model.ids import Lane, make_lane
from stepline.model.wire.event import ClientEvent, EventFrame, SyncFrame, decode_frame, encode_frame

STEPLINE = str(Path(sys.executable).with_name("stepline"))
CLIENTS = (1, 10)
BATCHES = 200
WARM_BATCHES = 10
PREVIEW_CHARS = 400
WAIT_S = 120
USER = "bench"


def rows() -> list[Row]:
    """Return `events_per_s_<clients>_clients`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    open_log(stage)  # from here on the adapters find the emulator
    caller = find_caller("", USER, token="", token_command="")
    lane = make_lane(TENANT, PROJECT, _conversation())
    posting = _posting(stage)
    return [_row(posting, caller, lane, clients) for clients in CLIENTS]


def _row(posting: GatewayBroadcast, caller: Caller, lane: Lane, clients: int) -> Row:
    with ExitStack() as stack:
        sockets = [_listener(stack, caller, lane) for _ in range(clients)]
        _deliver(posting, lane, sockets, WARM_BATCHES)
        seconds = _deliver(posting, lane, sockets, BATCHES)
    size = len(next(_frames(lane, 1)))
    note = (
        f"{BATCHES} batches of one event of {size} bytes, over the emulator's websockets to {clients} client(s); "
        "until the last one has them all, everything on this machine"
    )
    return Row(
        metric=f"events_per_s_{clients}_clients",
        value=round(BATCHES / seconds, 1),
        unit="events/s",
        note=note,
    )


def _posting(stage: LocalStage) -> GatewayBroadcast:
    clock = SystemClock()
    return GatewayBroadcast(
        subscriptions=DynamoSubscriptions(Table(stage.table), clock),
        publisher=GatewayPublisher(stage.socket_url.replace("ws://", "http://", 1)),
        meter=MemoryMeter(),
        clock=clock,
        post_all=ParallelPosts(),
    )


def _conversation() -> str:
    """Return an existing conversation with one turn."""
    name = f"bench-{secrets.token_hex(6)}"
    command = [STEPLINE, "send", "Answer with one word.", "--conversation", name, "--new", "--user", USER]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise MeasureError(f"no turn could be taken: {done.stderr}")
    return name


def _listener(stack: ExitStack, caller: Caller, lane: Lane) -> Any:
    """Return a connection subscribed to the conversation."""
    socket = stack.enter_context(dial_gateway(caller.url, caller.token)())
    socket.send(json.dumps({"action": "resume", "conversation": lane.conversation, "after": 0}))
    until_s = time.monotonic() + WAIT_S
    while not isinstance(decode_frame(socket.recv(timeout=until_s - time.monotonic())), SyncFrame):
        continue
    return socket


def _deliver(posting: GatewayBroadcast, lane: Lane, sockets: list[Any], batches: int) -> float:
    """Post this many batches; return the seconds until every client has all of them, in order."""
    heard: list[list[int]] = [[] for _ in sockets]
    clients = [
        threading.Thread(target=_hear, args=(socket, numbers, batches))
        for socket, numbers in zip(sockets, heard, strict=True)
    ]
    for client in clients:
        client.start()
    began_s = time.perf_counter()
    for frame in _frames(lane, batches):
        posting.send(lane, [frame])
    for client in clients:
        client.join(WAIT_S)
    seconds = time.perf_counter() - began_s
    if any(numbers != list(range(1, batches + 1)) for numbers in heard):
        raise MeasureError("a client did not get every event once and in order")
    return seconds


def _hear(socket: Any, numbers: list[int], batches: int) -> None:
    while len(numbers) < batches:
        frame = decode_frame(socket.recv(timeout=WAIT_S))
        if isinstance(frame, EventFrame):
            numbers.append(frame.n)


def _frames(lane: Lane, batches: int) -> Iterator[bytes]:
    """Yield frames like those of a tool's result."""
    data = {"tool_id": "react.read", "call_id": "tc_0123456789ab", "preview": "x" * PREVIEW_CHARS}
    event = ClientEvent(
        type="react.tool.result", route="chat_step", ts="2026-01-01T00:00:00Z", turn_id="t", data=data
    )
    for n in range(1, batches + 1):
        yield encode_frame(EventFrame(conversation=lane.conversation, n=n, prev=n - 1, events=(event,)))
