"""Signals with a bell: a published message triggers a read of the log, and the log holds the steer.

While the server is available, polls without a message are rare; while it is not, they are as frequent as without Redis.
So a lost message only costs time.
"""

from __future__ import annotations

from typing import Final

from stepline.adapters.polling_signals import LogWatch
from stepline.adapters.redis.connection import KeptListener, RedisLink
from stepline.model.ids import Lane
from stepline.ports.log import Log

SETTLE_S: Final = 0.05
"""A step shorter than this never connects."""
HEARING_S: Final = 2.0
"""The time between two polls without a message, while the server is available."""
SOON_S: Final = 0.05
SOON_TIMES: Final = 20
"""Interval and number of reads for a batch that was announced and is not yet visible in the log."""
DIGITS: Final = 12
"""Digits of a batch number in the longest possible log."""


class ChannelBell:
    """Rings on every message of the conversation's channel, and at an interval."""

    def __init__(self, link: RedisLink, lane: Lane, *, poll_s: float, hearing_s: float) -> None:
        """Poll every `hearing_s` seconds while the server is available, and every `poll_s` while it is not."""
        self._listener = KeptListener(link, lane, "steer")
        self._poll_s = poll_s
        self._hearing_s = hearing_s
        self._begun = False
        self._named = 0
        self._again = 0

    def wait(self, at: int) -> int:
        if not self._begun:
            self._begun = True
            if self._listener.ended.wait(min(SETTLE_S, self._poll_s)):
                return 0
        if not self._listener.is_connected:
            # Messages published before a new connection are in the log by now.
            if not self._listener.connect():
                self._listener.ended.wait(self._poll_s)
            return 0
        pause_s = self._hearing_s
        if self._named > at and self._again:
            self._again -= 1
            pause_s = SOON_S
        if (named := self._next_number(pause_s)) > self._named:
            self._named, self._again = named, SOON_TIMES
        return self._named if self._named > at else 0

    def end(self) -> None:
        self._listener.end()

    def close(self) -> None:
        self._listener.close()

    def _next_number(self, pause_s: float) -> int:
        """Return the batch number in the next message; 0 if none arrives in time."""
        heard = self._listener.hear(pause_s, away_s=self._poll_s)
        return int(heard) if heard and heard.isdigit() and len(heard) <= DIGITS else 0


class RedisSignals:
    """Publishes and receives steers over a channel per conversation."""

    def __init__(self, log: Log, link: RedisLink, *, poll_s: float, hearing_s: float = HEARING_S) -> None:
        """Look for steers in `log` on messages and every `hearing_s` seconds.

        Without a server, every `poll_s`.
        """
        self._log = log
        self._link = link
        self.poll_s = poll_s
        self._hearing_s = hearing_s

    def notify(self, lane: Lane, n: int) -> None:
        self._link.publish(lane, "steer", [b"%d" % n])

    def watch(self, lane: Lane, after: int) -> LogWatch:
        bell = ChannelBell(self._link, lane, poll_s=self.poll_s, hearing_s=self._hearing_s)
        return LogWatch(self._log, lane, after, bell)
