"""Broadcast of a conversation's frames over a channel, for servers that hold clients beside the gateway."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from stepline.adapters.redis.connection import Listener, RedisLink, Waker
from stepline.errors import DependencyError, SteplineError
from stepline.model.ids import Lane
from stepline.ports.channel import Broadcast, Feed

logger = logging.getLogger(__name__)

QUIET_S: Final = 25.0
"""The silence after which a follower checks whether the last frame was lost."""
AWAY_S: Final = 1.0
"""The interval of checks while the server is unavailable."""


@dataclass(frozen=True)
class Broadcasts:
    """Sends to several broadcasts in turn; a failing one does not affect the others."""

    ways: tuple[Broadcast, ...]

    def send(self, lane: Lane, frames: Sequence[bytes], feed: Feed | None = None) -> None:
        failed: DependencyError | None = None
        for way in self.ways:
            try:
                way.send(lane, frames, feed)
            except DependencyError as error:
                failed = failed or error
        if failed is not None:
            raise failed


@dataclass(frozen=True, kw_only=True)
class RedisBroadcast:
    """Sends to a conversation's channel, and follows it. A frame that is not sent is in the log.

    A user's feed has no channel: only the gateway's connections watch.
    """

    link: RedisLink
    quiet_s: float = QUIET_S
    away_s: float = AWAY_S

    def send(self, lane: Lane, frames: Sequence[bytes], _feed: Feed | None = None) -> None:
        if frames:
            self.link.publish(lane, "events", frames)

    def follow(self, lane: Lane) -> ChannelFollowing:
        return ChannelFollowing(self, lane)


class ChannelFollowing:
    """Follows one channel, over as many connections as needed."""

    def __init__(self, broadcast: RedisBroadcast, lane: Lane) -> None:
        self._broadcast = broadcast
        self._lane = lane
        self._waker = Waker()
        self._listener: Listener | None = None
        self._begun = False

    def __enter__(self) -> Self:
        self._connect()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._leave()
        self._waker.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes | None:
        heard = None
        if not self._begun:
            self._begun = True
        elif self._listener is not None:
            heard = self._hear(self._listener)
        elif not self._connect():
            self._waker.ended.wait(self._broadcast.away_s)
        if self._waker.ended.is_set():
            raise StopIteration
        return heard

    def end(self) -> None:
        self._waker.end()

    def _connect(self) -> bool:
        if self._broadcast.link.rests:
            return False
        try:
            self._listener = self._broadcast.link.listen(self._lane, "events", self._waker)
        except SteplineError:
            return False  # the link has logged it, and pauses
        return True

    def _hear(self, listener: Listener) -> bytes | None:
        try:
            return listener.hear(self._broadcast.quiet_s)
        except SteplineError as error:
            logger.warning("redis lost", extra={"code": error.reason, **error.context})
            self._leave()
            self._waker.ended.wait(self._broadcast.away_s)  # the connection may be lost again at once
            return None

    def _leave(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
