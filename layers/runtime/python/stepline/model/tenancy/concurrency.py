"""The division of a stage's concurrent executions: open turns, reservations of entry functions, gateway limits.

A turn holds at most one execution of a function at a time: Decide, Act and Close follow each other. So a limit on open
turns limits the executions of the loop. Source: docs/how-to/deploy.md#how-many-turns-at-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from stepline.model.base import Value

NEW_ACCOUNT: Final = 10
"""The executions at once that a new account may have."""
UNRESERVED: Final = 100
"""The last hundred executions of an account, which AWS does not let an account reserve."""
FREE: Final = 4
"""Executions that turns leave to the entry functions if nothing is reserved."""
DOORS: Final[Mapping[str, int]] = {"authorizer": 1, "socket": 2, "api": 2}
"""The entry functions of clients, and their shares of the reservations: a browser requests a ticket from `api` before it
connects, and `authorizer` checks each request, connection and ticket."""
SHARE_LEAST: Final = 5
"""The smallest share."""

CONNECTIONS_PER_S: Final = 500
"""The limit of an account on new connections a second, over all its websocket APIs."""
GATEWAY_REQUESTS_PER_S: Final = 10_000
GATEWAY_BURST: Final = 5_000
"""The limits of an account on requests, over all its APIs: a second, and at one moment."""
DEVICES: Final = 2
"""Connections of one person: tabs, or a phone and a computer."""
IDLE: Final = 20
"""Connected users without an open turn for each user with one."""
PING_S: Final = 25
"""The seconds between two pings of a client while a turn is open: `Pace.ping_every_s`."""
IDLE_PING_S: Final = 240
"""The seconds between two pings otherwise: `Pace.idle_ping_every_s`."""
TURN_S: Final = 10
"""The length of a short turn. Each turn is two messages: one that opens it, and one while it runs."""
REQUESTS: Final = 5
"""Requests of a page for each turn: lists, read positions, files."""
BACK_S: Final = 30
"""After a loss of all connections, every client reconnects within this time, if the limit of the account allows it."""
REQUESTS_LEAST: Final = 50
"""Requests a second that the smallest stage accepts."""


class Division(Value):
    """The turns that run at once, and the executions that are reserved, by function.

    Unless `open_turns` was set to less, it equals the executions that Decide may have at once. `claimed_most` is the
    number of executions of all other functions together at which few are left for them.
    """

    open_turns: int
    reserved: dict[str, int]
    claimed_most: int


class Throttle(Value):
    """The limit of an API: requests a second, and requests at one moment."""

    requests_per_s: int
    burst: int


def divide(concurrency: int) -> Division:
    """Divide the executions of a stage; 0 means those of a new account.

    If reservations would leave fewer turns than an account without reservations has, nothing is reserved. So more
    executions never mean fewer turns.
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
    """Return the limit that the websocket API needs for pings, messages, and the reconnection of every client.

    A reconnection is a connection and a sync.
    """
    waiting = open_turns * DEVICES / PING_S
    idle = open_turns * IDLE * DEVICES / IDLE_PING_S
    messages = open_turns * 2 / TURN_S
    return _throttle(waiting + idle + messages + 2 * _reconnections_per_s(open_turns))


def plan_http_throttle(open_turns: int) -> Throttle:
    """Return the limit that the HTTP API needs for requests of pages, and for a ticket of every reconnecting client."""
    return _throttle(open_turns * REQUESTS / TURN_S + _reconnections_per_s(open_turns))


def _reconnections_per_s(open_turns: int) -> float:
    connections = open_turns * (1 + IDLE) * DEVICES
    return min(CONNECTIONS_PER_S, connections / BACK_S)


def _throttle(requests_per_s: float) -> Throttle:
    rate = min(GATEWAY_REQUESTS_PER_S, max(REQUESTS_LEAST, ceil(requests_per_s)))
    return Throttle(requests_per_s=rate, burst=min(GATEWAY_BURST, 2 * rate))
