"""The pace of a process's posts: slower where the gateway refuses them for the rate of the account, and faster again.

All posts of an account and region share one rate, and no process knows of the others. So each doubles its interval when it is
refused, and shortens it by a twentieth with each piece that goes out: where very many stream at once, about one piece in
fifteen is refused, whatever their number.
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
"""The shortest part of the longer interval that a process takes after a refusal; which part is chance."""
ACCOUNT_POSTS_PER_S: Final = 10_000
"""What an account may post in a region; in thirteen newer regions it is a quarter of that."""
TEXT_PART: Final = 0.8
"""The part of it that running text may take; the rest is for the frames of the log."""


def least_interval_s(open_turns: int) -> float:
    """Return the shortest interval at which so many streams, each with a listener, stay within the rate of an account.

    0 turns: their number is not bounded, and the shortest interval is that of one stream.
    """
    return max(POST_INTERVAL_S, open_turns / (ACCOUNT_POSTS_PER_S * TEXT_PART))


def slower(interval_s: float) -> float:
    """Return the interval after a piece that was refused at this one."""
    return min(interval_s * SLOWER, MOST_INTERVAL_S)


def faster(interval_s: float) -> float:
    """Return the interval after a piece that went out."""
    return max(interval_s * FASTER, POST_INTERVAL_S)


def is_over_limit(error: DependencyError) -> bool:
    return error.reason == OVER_LIMIT


def is_rate(refused: int, listeners: int) -> bool:
    """Return True if the account's rate refused a piece, and not one connection of several that is slow.

    The gateway has one answer for both: it is the rate if more than half of those who should have heard it were refused. A
    conversation's only connection so is taken for the rate, and a slower pace is right for it in either case.
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
        """Note a piece that the rate refused; `at_s` is the interval of its stream, where that is longer."""
        part = secrets.SystemRandom().uniform(
            SCATTER, 1
        )  # or those who were refused together would come again together
        with self._lock:
            self._interval_s = max(slower(max(self._interval_s, at_s)) * part, self._least_s)

    def went_out(self) -> None:
        """Note a piece that went out."""
        with self._lock:
            self._interval_s = max(faster(self._interval_s), self._least_s)
