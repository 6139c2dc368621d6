"""Signals with a bell: a published message says that it is time to look at the log, and the log says what is there.

While a server is heard, looks without a message are rare; while none is, they are as frequent as without Redis. So a
lost message costs time, and never more.
"""

from __future__ import annotations

import logging
from typing import Final

from stepline.adapters.polling_signals import LogWatch
from stepline.adapters.redis.connection import Listener, RedisLink, Waker
from stepline.errors import SteplineError
from stepline.model.ids import Lane
from stepline.ports.log import Log

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.05
"""A step that is over sooner never connects."""
HEARING_S: Final = 2.0
"""Between two looks that nobody asked for, while the server is heard."""
SOON_S: Final = 0.05
SOON_TIMES: Final = 20
"""How soon, and how often, we look again for a batch that a message names and the log does not show."""
DIGITS: Final = 12
"""Of a batch number in the longest log there can be."""


class ChannelBell:
    """Rings when somebody publishes on the conversation's channel, and at an interval besides."""

    def __init__(self, link: RedisLink, lane: Lane, *, poll_s: float, hearing_s: float) -> None:
        """Look every `hearing_s` seconds while a server is heard, and every `poll_s` while none is."""
        self._link = link
        self._lane = lane
        self._poll_s = poll_s
        self._hearing_s = hearing_s
        self._waker = Waker()
        self._listener: Listener | None = None
        self._begun = False
        self._named = 0
        self._again = 0

    def wait(self, at: int) -> int:
        if not self._begun:
            self._begun = True
            if self._waker.ended.wait(min(SETTLE_S, self._poll_s)):
                return 0
        if self._listener is None and self._connect():
            return 0  # what was published before we heard is in the log by now
        if self._listener is None:
            self._waker.ended.wait(self._poll_s)
            return 0
        pause_s = self._hearing_s
        if self._named > at and self._again:
            self._again -= 1
            pause_s = SOON_S
        if (named := self._hear(self._listener, pause_s)) > self._named:
            self._named, self._again = named, SOON_TIMES
        return self._named if self._named > at else 0

    def end(self) -> None:
        self._waker.end()

    def close(self) -> None:
        self._leave()
        self._waker.close()

    def _connect(self) -> bool:
        if self._link.rests:
            return False
        try:
            self._listener = self._link.listen(self._lane, "steer", self._waker)
        except SteplineError:
            return False  # the link has told, and rests for a while
        return True

    def _hear(self, listener: Listener, pause_s: float) -> int:
        """Return the batch that the next message names; 0 if none comes in time."""
        try:
            heard = listener.hear(pause_s)
        except SteplineError as error:
            logger.warning("redis lost", extra={"code": error.reason, **error.context})
            self._leave()
            self._waker.ended.wait(self._poll_s)  # it may be lost as soon as it is heard, again and again
            return 0
        return int(heard) if heard and heard.isdigit() and len(heard) <= DIGITS else 0

    def _leave(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


class RedisSignals:
    """Tells and hears of steers by a channel per conversation."""

    def __init__(self, log: Log, link: RedisLink, *, poll_s: float, hearing_s: float = HEARING_S) -> None:
        """Look for steers in `log` when told, every `hearing_s` seconds besides, and every `poll_s` while nobody can tell."""
        self._log = log
        self._link = link
        self.poll_s = poll_s
        self._hearing_s = hearing_s

    def notify(self, lane: Lane, n: int) -> None:
        self._link.publish(lane, "steer", [b"%d" % n])

    def watch(self, lane: Lane, after: int) -> LogWatch:
        bell = ChannelBell(self._link, lane, poll_s=self.poll_s, hearing_s=self._hearing_s)
        return LogWatch(self._log, lane, after, bell)
