"""An ordinary turn, measured: the requests of each of its invocations to AWS, counted on the wire.

The turn is the second of its conversation, of a user with one device or more: a message of a sentence, a round that writes a file,
a round that answers. Everything is the library's own but AWS, which moto simulates while a front bills every request, and the
model. A round streams for `STREAM_S`; its running text is counted by the relay itself, on a clock that waiting moves.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import greenlet

from bench.paced import SECOND_CHARS, stream_for
from bench.sizes import CALL_S, CORE_MIB
from stepline.adapters.aws.client import connect
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.tenancy.accounts import DynamoAccounts
from stepline.adapters.memory.relay import MemoryRelay, MemoryRelayStream
from stepline.metrics import AWS_USD, MODEL_USD, NAMESPACE, dimensions
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline_cdk.function import SIZES
from tests.contract.fault.billing_front import BillingFront, Touch
from tests.contract.fault.driver import NOTHING, Scenario
from tests.contract.fault.metered_simulation import MeteredDriver, StoredSimulation
from tests.contract.fault.scenario import simulation_of, text
from tests.contract.fault.simulation import LANE, USER, written
from tests.support.aws import create_table, moto
from tests.support.generation import answered

STREAM_S: Final = 5.0
"""Seconds that the model writes in a round: the sizes of the functions were chosen for it."""
ROUNDS: Final = 2
TEXT: Final = "The figures of the last quarter rise by 7 % against the plan, mostly in the north. "
WRITTEN: Final = (TEXT * 20)[: round(STREAM_S * SECOND_CHARS)]
"""The text of a round, at 60 tokens of four characters a second."""
CPU_S: Final = 0.02
"""CPU time of a warm call, of a whole core; a function has the part of one that its memory gives it."""
PLATFORM_LINES: Final = (
    "START RequestId: 00000000-0000-0000-0000-000000000000 Version: 10\n",
    "END RequestId: 00000000-0000-0000-0000-000000000000\n",
    "REPORT RequestId: 00000000-0000-0000-0000-000000000000\tDuration: 5123.45 ms\tBilled Duration: 5124 ms\t",
    "Memory Size: 512 MB\tMax Memory Used: 210 MB\t\n",
)
"""The lines that Lambda logs of a call."""
DONE_LINE: Final = {
    "level": "INFO",
    "location": "follow:199",
    "message": "step done",
    "timestamp": "2026-11-26 07:00:00,000+0000",
    "service": "decide",
    "cold_start": False,
    "function_name": "stepline-prod-decide",
    "function_memory_size": "512",
    "function_arn": "arn:aws:lambda:us-east-1:111122223333:function:stepline-prod-decide:live",
    "function_request_id": "00000000-0000-0000-0000-000000000000",
    "turn_id": "turn_01KAZ0000000000000000000000",
    "conversation": "conv_01KAZ0000000000000000000000",
    "round": 0,
    "attempt": 0,
    "route": "decide",
}
"""The line that a state's handler logs at its end."""
STATES: Final = {"Decide": "decide", "Act": "act", "Prepare": "act", "Close": "close"}


class Call(NamedTuple):
    """One invocation: its function, the units, requests and frames that it is billed for, and the partitions that it touched."""

    function: str
    bill: Mapping[str, int]
    transitions: int
    touches: tuple[Touch, ...]
    series: frozenset[str]

    @property
    def seconds(self) -> float:
        """Its duration when it is warm: computing, waiting for AWS, and waiting for the model."""
        core = min(1.0, SIZES[self.function].memory_mib / CORE_MIB)
        asked = self.bill.get("call", 0) * CALL_S + CPU_S / core
        return asked + (STREAM_S if self.function == "decide" else 0.0)

    @property
    def log_bytes(self) -> int:
        """Bytes that it adds to its log group."""
        lines = sum(map(len, PLATFORM_LINES))
        if self.function in STATES.values():
            lines += len(json.dumps(DONE_LINE)) + 1
        return lines + sum(len(line) for line in _metric_lines(self.series))


class Stream(NamedTuple):
    """The work of the relay for a round: frames to each device, and rows of the table with their write units."""

    posts: int
    rows: int
    write_units: int


@dataclasses.dataclass(frozen=True)
class OrdinaryTurn:
    """The calls of a turn in their order, the stream of each round, and the requests of its clients beside it.

    `starts` are executions started. `ping` is an idle client's request, `connect` a connection's requests to the table, and
    `listed` the read units of a list of conversations.
    """

    calls: tuple[Call, ...]
    stream: Stream
    devices: int
    starts: int
    ping: Call
    connect: Call
    listed_units: float

    @property
    def transitions(self) -> int:
        return sum(call.transitions for call in self.calls)

    @property
    def series(self) -> frozenset[str]:
        """Metrics that the turn counts."""
        return frozenset().union(*(call.series for call in self.calls))

    def total(self, kind: str) -> int:
        """Return the sum of one kind of all bills."""
        return sum(call.bill.get(kind, 0) for call in self.calls)


class _CallerMeter:
    """Notes which metrics a caller counts."""

    def __init__(self, front: BillingFront) -> None:
        self._front = front
        self.series: dict[str, set[str]] = {}

    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        del value
        caller = self._front.callers.get(greenlet.getcurrent(), "")
        self.series.setdefault(caller, set()).add(f"{name}/{reason}" if reason else name)


class _SilentStream(MemoryRelayStream):
    """Notes calls of the model and leaves the text to the relay that is measured beside the turn."""

    def push(self, name: str, text: str) -> None:
        del name, text


class _SilentRelay(MemoryRelay):
    def open(self, lane: Any, claim: int) -> _SilentStream:
        return _SilentStream(self, lane, claim)


class _MeasuredSimulation(StoredSimulation):
    def seen(self, reach: Any) -> Any:
        ports = super().seen(reach)
        relay = _SilentRelay(
            deltas=ports.deltas, subscriptions=ports.subscriptions, publisher=ports.publisher
        )
        return dataclasses.replace(ports, relay=relay)


class _TurnDriver(MeteredDriver):
    """Plays a first turn, then the one that is measured, with some devices listening."""

    def __init__(self, scenario: Scenario, front: BillingFront, name: str, devices: int) -> None:
        super().__init__(scenario, NOTHING, front, name)
        self.devices = devices
        self.starts = 0
        self.meter = _CallerMeter(front)
        ledger: Any = self.ledgers
        accounts = DynamoAccounts(Table(name, ledger=ledger))
        self.simulation.ports = dataclasses.replace(
            self.simulation.ports, meter=self.meter, accounts=accounts
        )
        self.simulation.__class__ = _MeasuredSimulation

    def run(self) -> _TurnDriver:
        self._join(self.desk)
        self._say("m1", self.scenario.first)
        self._settle()
        if self.devices > 1:
            self._join(self.tablet)
        self.begun, self.starts = self._count, 0
        self._say("m2", text("And for this quarter, please?"))
        self._settle()
        self.ended = self._count
        self.desk.ping()
        seen = self.simulation.ports
        self._invoke("list", lambda _: seen.log.conversations(LANE.tenant, LANE.project, USER, most=50))
        self.desk.drop()
        self._join(self.desk)
        return self

    def _drive(self, name: str, step: Any) -> None:
        self.starts += 1
        super()._drive(name, step)

    def call_of(self, caller: str) -> Call:
        name = caller.partition(" ")[2]
        function = next((STATES[word] for word in name.split() if word in STATES), "socket")
        touches = tuple(self.front.touches[caller])
        series = frozenset(self.meter.series.get(caller, ()))
        return Call(function, dict(self.front.bills[caller]), self.transitions[caller], touches, series)


@cache
def measure(*, devices: int = 1, limited: bool = False, open_turns: int = 0) -> OrdinaryTurn:
    """Return the turn of a user with one or two devices.

    With `limited`, its tenant's spending has a limit; with `open_turns`, the stage has a bound of turns at once.
    """
    rounds = {f"{turn}.0": written("figures.md", WRITTEN) for turn in (1, 2)}
    rounds |= {f"{turn}.1": answered(WRITTEN) for turn in (1, 2)}
    limits = ScopeLimits(tenant=Limits(turns_at_once=900, usd_month=10**6)) if limited else ScopeLimits()
    policy = {"limits": limits, "open_turns": open_turns}
    scenario = Scenario(
        name="ordinary",
        simulation=simulation_of(rounds, policy=policy),
        first=text("Sum up the last quarter."),
    )
    with _moto() as name:
        front = BillingFront()
        driver = _TurnDriver(scenario, front, name, devices)
        with front.installed(), driver.listening():
            driver.run()
    numbered = {int(caller.partition(" ")[0]): caller for caller in front.bills}
    calls = [
        driver.call_of(numbered[at]) for at in range(driver.begun + 1, driver.ended + 1) if at in numbered
    ]
    later = [caller for at, caller in sorted(numbered.items()) if at > driver.ended]
    by_name = {caller.partition(" ")[2]: driver.call_of(caller) for caller in later}
    return OrdinaryTurn(
        calls=tuple(calls),
        stream=Stream(*stream_for(STREAM_S)),
        devices=devices,
        starts=driver.starts,
        ping=by_name["desk message:ping"],
        connect=by_name["desk connect"],
        listed_units=sum(touch.units for touch in by_name["list"].touches),
    )


@contextmanager
def _moto() -> Iterator[str]:
    name = f"ordinary-{uuid.uuid4().hex[:8]}"
    disabled = logging.root.manager.disable
    with moto():
        create_table(name)
        connect("s3", read_timeout_s=5).create_bucket(Bucket=name)
        logging.disable(logging.CRITICAL)
        try:
            yield name
        finally:
            logging.disable(disabled)


def _metric_lines(names: frozenset[str]) -> Iterator[str]:
    """Yield the lines by which a call's metrics reach CloudWatch: one for all without a reason, and one for each with one."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name.partition("/")[2], []).append(name.partition("/")[0])
    # The two of a tenant's dollars go out with every call that works for a conversation.
    for reason, group in (*groups.items(), ("tenant", [MODEL_USD, AWS_USD])):
        named = {**dimensions("prod"), **({"of": reason} if reason else {})}
        listed = [{"Name": name, "Unit": "Count"} for name in group]
        metrics = {"Namespace": NAMESPACE, "Dimensions": [list(named)], "Metrics": listed}
        head = {"_aws": {"Timestamp": 1_764_140_000_000, "CloudWatchMetrics": [metrics]}}
        yield json.dumps({**head, **named, **{name: [1.0] for name in group}}) + "\n"
