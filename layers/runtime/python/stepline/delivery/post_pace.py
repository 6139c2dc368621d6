"""The pace of a process's posts: it slows when the gateway refuses posts for the account's rate, and recovers after.

All posts of an account and region share one rate, and no process knows of the others. Each process therefore doubles
its interval after a refusal, and shortens it by a twentieth with each piece that is sent: if very many processes
stream at once, about one piece in fifteen is refused, independent of their number.
Source: docs/concepts/streaming.md#the-rate-of-an-account.
"""

from __future__ import annotations

import secrets
from threading import Lock
from typing import Final

from stepline.errors import DependencyError
from stepline.ports.channel import OVER_LIMIT

POST_INTERVAL_S: Final = 0.05
MOST_INTERVAL_S: Final = 2.0
SLOWER: Final = 2.0
FASTER: Final = 0.95
SCATTER: Final = 0.75
"""The shortest part of the longer interval that a process takes after a refusal; the part is random."""
ACCOUNT_POSTS_PER_S: Final = 10_000
"""The posts that an account may make in a region; in thirteen newer regions it is a quarter of that."""
TEXT_PART: Final = 0.8
"""The part of it that running text may take; the rest is for the frames of the log."""


def least_interval_s(open_turns: int) -> float:
    """Return the shortest interval at which this number of streams, with a listener each, keeps to an account's rate.

    0 turns: their number is not bounded, and the shortest interval is that of one stream.
    """
    return max(POST_INTERVAL_S, open_turns / (ACCOUNT_POSTS_PER_S * TEXT_PART))


def slower(interval_s: float) -> float:
    """Return the interval after a piece that was refused at this one."""
    return min(interval_s * SLOWER, MOST_INTERVAL_S)


def faster(interval_s: float) -> float:
    """Return the interval after a piece that was sent."""
    return max(interval_s * FASTER, POST_INTERVAL_S)


def is_over_limit(error: DependencyError) -> bool:
    return error.reason == OVER_LIMIT


def is_rate(refused: int, listeners: int) -> bool:
    """Return True if the account's rate refused a piece, and not a slow connection among several.

    The gateway gives the same answer for both: it is the rate if more than half of the listeners were refused. A
    refusal by a conversation's only connection therefore counts as the rate; a slower pace suits it in either case.
    """
    return 2 * refused > listeners


class PostPace:
    """The interval of this process, which outlives its streams. Thread-safe."""

    def __init__(self, least_s: float = POST_INTERVAL_S) -> None:
        """Begin at the shortest interval, and never go below it."""
        self._lock = Lock()
        self._least_s = self._interval_s = least_s

    @property
    def interval_s(self) -> float:
        """Seconds between two pieces of one stream, at least."""
        return self._interval_s

    def refused(self, at_s: float = 0.0) -> None:
        """Note a piece that the rate refused; `at_s` is the interval of its stream, if that is longer."""
        part = secrets.SystemRandom().uniform(
            SCATTER, 1
        )  # otherwise processes that were refused together would retry together
        with self._lock:
            self._interval_s = max(slower(max(self._interval_s, at_s)) * part, self._least_s)

    def went_out(self) -> None:
        """Note a piece that was sent."""
        with self._lock:
            self._interval_s = max(faster(self._interval_s), self._least_s)
