"""Broadcast of a conversation's frames over a channel, for servers that hold clients in addition to the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from stepline.adapters.redis.connection import KeptListener, RedisLink
from stepline.errors import DependencyError
from stepline.model.ids import Lane
from stepline.ports.channel import Broadcast, Feed

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
    """Sends to a conversation's channel and follows it. A frame that is not sent is still in the log.

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
        self._listener = KeptListener(broadcast.link, lane, "events")
        self._begun = False

    def __enter__(self) -> Self:
        self._listener.connect()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listener.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes | None:
        heard = None
        if not self._begun:
            self._begun = True
        elif self._listener.is_connected:
            heard = self._listener.hear(self._broadcast.quiet_s, away_s=self._broadcast.away_s)
        elif not self._listener.connect():
            self._listener.ended.wait(self._broadcast.away_s)
        if self._listener.ended.is_set():
            raise StopIteration
        return heard

    def end(self) -> None:
        self._listener.end()
