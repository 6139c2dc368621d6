"""The division of a stage's concurrent executions: turns that run at once, what its doors keep, and what its gateways let in.

A turn holds at most one execution of a function at a time: Decide, Act and Close follow each other. So a bound on open
turns bounds what the loop takes. Source: docs/how-to/deploy.md#how-many-turns-at-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from stepline.model.base import Value

NEW_ACCOUNT: Final = 10
"""The executions at once that a new account may have."""
UNRESERVED: Final = 100
"""AWS lets nobody reserve the last hundred of an account."""
FREE: Final = 4
"""Executions that turns leave to the doors where nothing is reserved."""
DOORS: Final[Mapping[str, int]] = {"authorizer": 1, "socket": 2, "api": 2}
"""The functions that a client comes through, and their shares of what is reserved for doors: who connects by a browser asks
`api` for a ticket, and each request, connection and ticket is looked at by `authorizer`."""
SHARE_LEAST: Final = 5
"""The smallest share."""

CONNECTIONS_PER_S: Final = 500
"""New connections in a second that an account may take, over all its websocket APIs."""
GATEWAY_REQUESTS_PER_S: Final = 10_000
GATEWAY_BURST: Final = 5_000
"""Requests that an account may take, over all its APIs: in a second, and at one moment."""
DEVICES: Final = 2
"""Connections of one person: tabs, or a phone beside a desk."""
IDLE: Final = 20
"""People who are connected and wait for nothing, for each who waits for a turn."""
PING_S: Final = 25
"""Between two pings of a client while a turn is open: `Pace.ping_every_s`."""
IDLE_PING_S: Final = 240
"""Between two pings otherwise: `Pace.idle_ping_every_s`."""
TURN_S: Final = 10
"""The length of a short turn. Each turn is two messages: what opens it, and what is said while it runs."""
REQUESTS: Final = 5
"""Requests of a page for each turn: lists, what was read, files."""
BACK_S: Final = 30
"""After a loss of all connections, every client is back within this time, if an account takes so many."""
REQUESTS_LEAST: Final = 50
"""Requests in a second that the smallest stage takes."""


class Division(Value):
    """The turns that run at once, and the executions that are reserved, by function.

    Unless `open_turns` was chosen smaller, it is what Decide may take at once. `claimed_most` is a number of executions of
    all other functions together, at which little is left for them.
    """

    open_turns: int
    reserved: dict[str, int]
    claimed_most: int


class Throttle(Value):
    """The limit of an API: requests in a second, and requests at one moment."""

    requests_per_s: int
    burst: int


def divide(concurrency: int) -> Division:
    """Divide the executions that a stage may count on; 0 is as many as a new account has.

    Where a reservation would leave fewer turns than an account has that can reserve nothing, nothing is reserved. So more
    executions never make fewer turns.
    """
    concurrency = concurrency or NEW_ACCOUNT
    shares = sum(DOORS.values())
    decide = min(concurrency - UNRESERVED - shares * SHARE_LEAST, concurrency * 7 // 10)
    unreserved_turns = max(1, min(concurrency, UNRESERVED) - FREE)
    if decide <= unreserved_turns:
        claimed = max(1, concurrency - FREE // 2)
        return Division(open_turns=unreserved_turns, reserved={}, claimed_most=claimed)
    spare = concurrency - UNRESERVED - decide
    share = max(SHARE_LEAST, min(concurrency // 50, spare // shares))
    reserved = {"decide": decide} | {name: parts * share for name, parts in DOORS.items()}
    others = concurrency - sum(reserved.values())
    return Division(open_turns=decide, reserved=reserved, claimed_most=others * 4 // 5)


def plan_socket_throttle(open_turns: int) -> Throttle:
    """Return the limit within which the websocket API lets in what it must: pings, messages, and everybody's return, each a connection and a sync."""
    waiting = open_turns * DEVICES / PING_S
    idle = open_turns * IDLE * DEVICES / IDLE_PING_S
    messages = open_turns * 2 / TURN_S
    return _throttle(waiting + idle + messages + 2 * _returns_per_s(open_turns))


def plan_http_throttle(open_turns: int) -> Throttle:
    """Return the limit within which the HTTP API lets in what it must: the requests of pages, and for everybody who returns a ticket."""
    return _throttle(open_turns * REQUESTS / TURN_S + _returns_per_s(open_turns))


def _returns_per_s(open_turns: int) -> float:
    connections = open_turns * (1 + IDLE) * DEVICES
    return min(CONNECTIONS_PER_S, connections / BACK_S)


def _throttle(requests_per_s: float) -> Throttle:
    rate = min(GATEWAY_REQUESTS_PER_S, max(REQUESTS_LEAST, ceil(requests_per_s)))
    return Throttle(requests_per_s=rate, burst=min(GATEWAY_BURST, 2 * rate))
