"""The price table of AWS: list prices of its units, and the cost of invocations at these prices.

A deployment overrides them with its own prices (`STEPLINE_PRICES`, under `aws`, by the names here). Source: the price
pages of AWS, on-demand, without free tiers, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stepline.model.base import Value
from stepline.model.tenancy.consumption import Consumption
from stepline.model.tenancy.limits import NANOS_PER_USD

PRICE_REGION: Final = "us-east-1"
LIST_PRICES_AS_OF: Final = "November 2026"
GB_S: Final = 1024 * 1000
"""Megabytes times milliseconds."""
HOUR_MS: Final = 3_600_000


class UnitPrice(NamedTuple):
    """One list price in US dollars."""

    usd: float
    unit: str


UNITS: Final[Mapping[str, UnitPrice]] = {
    "alarm": UnitPrice(0.10, "metric that an alarm reads, a month"),
    "dashboard": UnitPrice(3.00, "dashboard of CloudWatch, a month; the first three of an account are free"),
    "secret": UnitPrice(0.40, "secret, a month; by the hour, each hour begun"),
    "snapshot": UnitPrice(
        0.0000015046, "GB of a function's memory, a second, while a version has a snapshot"
    ),
    "restore": UnitPrice(0.00014, "GB of a function's memory, for each environment restored from a snapshot"),
    "function time": UnitPrice(0.0000133334, "GB of a function's memory, a second (arm64)"),
    "function call": UnitPrice(0.0000002, "call of a function"),
    "transition": UnitPrice(0.000025, "state that an execution enters, and each retry"),
    "read unit": UnitPrice(0.000000125, "4 KB read consistently from the table, or twice as much eventually"),
    "write unit": UnitPrice(0.000000625, "KB written to the table; twice in a transaction"),
    "S3 put": UnitPrice(0.000005, "put, copy or list of objects"),
    "S3 get": UnitPrice(0.0000004, "any other request for an object; deletes are free"),
    "post": UnitPrice(0.000001, "frame to one connection, each 32 KB begun"),
    "message": UnitPrice(0.000001, "message from a client over the websocket, each 32 KB begun"),
    "connection": UnitPrice(0.00000025, "minute of a connection"),
    "request": UnitPrice(0.000001, "request to the HTTP API, each 512 KB begun"),
    "scanned file": UnitPrice(
        0.000215, "file scanned by GuardDuty; the first 1,000 a month are free for a year"
    ),
    "scanned GB": UnitPrice(0.09, "GB of such files; the first one a month is free for a year"),
    "log": UnitPrice(0.50, "GB written to logs"),
    "metric": UnitPrice(
        0.30, "metric of our own with its dimensions, a month; by the hour in which it is counted"
    ),
    "image": UnitPrice(0.10, "GB in ECR, a month"),
    "secret call": UnitPrice(0.000005, "request to the service of secrets"),
    "task processor": UnitPrice(0.03238, "vCPU of a task, an hour (arm64)"),
    "task memory": UnitPrice(0.00356, "GB of a task, an hour (arm64)"),
    "task address": UnitPrice(0.005, "public IPv4 address, an hour"),
}
FOREIGN: Final = ("search", "fetch", "embedding")
"""Units priced by another provider, or not by the unit: 0, unless a deployment sets its own."""


class UnitLine(Value, omit_defaults=False):
    """One line of a receipt: the unit's name, how many were used, and their cost in billionths of a US dollar."""

    what: str
    quantity: float
    nanos: int


def price_consumption(used: Consumption, own: Mapping[str, float] | None = None) -> tuple[UnitLine, ...]:
    """Return a line for each unit that was used; `own` prices override those of the table."""
    quantities: Mapping[str, float] = {
        "function call": used.invocations,
        "function time": used.mb_ms / GB_S,
        "transition": used.transitions,
        "read unit": used.read_units_x2 / 2,
        "write unit": used.write_units,
        "S3 put": used.object_puts,
        "S3 get": used.object_gets,
        "post": used.posts,
        "task processor": used.task_vcpu_ms / HOUR_MS,
        "task memory": used.exec_mb_ms / 1024 / HOUR_MS,
        "task address": used.task_ms / HOUR_MS,
        "search": used.searches,
        "fetch": used.fetches,
        "embedding": used.embeddings,
    }
    prices = {
        **dict.fromkeys(FOREIGN, 0.0),
        **{name: price.usd for name, price in UNITS.items()},
        **(own or {}),
    }
    return tuple(
        UnitLine(what=what, quantity=round(quantity, 6), nanos=round(quantity * prices[what] * NANOS_PER_USD))
        for what, quantity in quantities.items()
        if quantity
    )


def sum_lines(lines: tuple[UnitLine, ...]) -> int:
    """Return the cost of all lines in billionths of a US dollar."""
    return sum(line.nanos for line in lines)
