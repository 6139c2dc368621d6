"""The time from a steer's admission until the model's stream is aborted.

The path is the deployed one, from admission to the watch beside the stream. DynamoDB is moto in this process,
with Python's own time in place of the network. Redis is a real server on this machine.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bench.meter import Store, metered_store
from bench.row import Limit, MeasureError, Row
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.bootstrap.choice import live_of
from stepline.bootstrap.memory_wiring import in_memory
from stepline.delivery.posting import GatewayBroadcast
from stepline.ingress.admit import Arrival, admit
from stepline.log.bindings import Ports
from stepline.model.ids import Lane
from stepline.model.wire.live_event import STEER
from stepline.settings import Settings

GOAL_TIMES: Final = 1.5
SAMPLES: Final = 15
SETTLED_S: Final = 0.2
"""The minimum duration of a generation before the steer: a watch begins with it."""
PATIENCE_S: Final = 30.0


def rows() -> list[Row]:
    """Return `steer_ms_log` and `steer_ms_redis`; the second without a value if no server can be started."""
    with metered_store() as store:
        found = [_row("steer_ms_log", _ports(store, redis_url=""))]
        program = shutil.which("redis-server")
        if program is None:
            note = "redis-server is not on this machine"
            return [
                *found,
                Row(metric="steer_ms_redis", value=None, unit="ms", note=note),
            ]
        with redis_server(program) as url:
            return [*found, _row("steer_ms_redis", _ports(store, redis_url=url))]


def _row(metric: str, ports: Ports) -> Row:
    taken = [_sample(ports, f"{metric}-{number}") for number in range(SAMPLES + 1)][1:]
    whole = [whole_ms for whole_ms, _ in taken]
    polls = metric == "steer_ms_log"
    name, waits_ms = (
        ("an admission and half an interval", Settings.from_env({}).steer_poll_ms / 2)
        if polls
        else ("an admission", 0.0)
    )
    admitted_ms = statistics.median(admitted_ms for _, admitted_ms in taken)
    return Row(
        metric=metric,
        value=round(statistics.median(whole), 1),
        unit="ms",
        limit=Limit(name, round(admitted_ms + waits_ms, 1)),
        goal_times=GOAL_TIMES,
        note=(
            f"median of {SAMPLES}, {min(whole):.0f} to {max(whole):.0f}, on moto; wall clock, at any moment between two "
            f"looks; admission as a whole takes {admitted_ms:.0f}"
        ),
    )


def _sample(ports: Ports, conversation: str) -> tuple[float, float]:
    """Steer one running generation.

    Return the milliseconds until it is aborted, and until the steer is admitted.
    """
    lane = Lane(tenant="bench", project="bench", conversation=conversation.replace("_", "-"))
    opened = admit(ports, lane, Arrival(message_id="m0", user="bench", text="Tell me everything.")).batch
    cut, cut_s = threading.Event(), [0.0]

    def abort() -> None:
        cut_s[0] = time.perf_counter()
        cut.set()

    with ports.signals.watch(lane, opened.n) as watch, watch.calling(abort):
        time.sleep(SETTLED_S + random.uniform(0, 0.3))
        began_s = time.perf_counter()
        admit(ports, lane, Arrival(message_id="m1", user="bench", text="Stop there.", kind=STEER))
        admitted_s = time.perf_counter()
        if not cut.wait(PATIENCE_S):
            raise MeasureError("a steer was not seen")
    return (cut_s[0] - began_s) * 1000, (admitted_s - began_s) * 1000


def _ports(store: Store, *, redis_url: str) -> Ports:
    base = in_memory(Settings.from_env({})).ports
    log, subscriptions = DynamoLog(store.table), DynamoSubscriptions(store.table, base.clock)
    posting = GatewayBroadcast(
        subscriptions=subscriptions, publisher=base.publisher, meter=base.meter, clock=base.clock
    )
    live = live_of(Settings.from_env({"STEPLINE_REDIS_URL": redis_url}), log, posting)
    return replace(base, log=log, subscriptions=subscriptions, signals=live.signals, broadcast=live.broadcast)


@contextlib.contextmanager
def redis_server(program: str) -> Iterator[str]:
    """Run a server without persistence; yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True) as server:
            try:
                if not any("eady to accept connections" in line for line in server.stdout or ()):
                    raise MeasureError("redis-server did not start")
                yield f"redis://127.0.0.1:{port}"
            finally:
                server.kill()
