"""Posting: send frames to the connections that listen; a connection that cannot keep up catches up by resume.

    accepts a frame      gets the frames in order, independent of the others
    cannot accept it     is tried again a few times, from the frame that failed; then it is left to its resume
    was just left        gets one try per batch, until it accepts one again
    is gone              loses its subscription

A step waits for all slow connections together, for less than a second per batch; a gateway that answers late is
asked once.
Source: docs/concepts/streaming.md#durable-events.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from stepline.delivery.post_pace import PostPace, is_over_limit, is_rate
from stepline.errors import DependencyError, Gone
from stepline.metrics import FRAMES_POSTED, POSTS_OVER_LIMIT, SOCKETS_GONE
from stepline.model.ids import Lane
from stepline.ports.channel import Feed, Publisher, Subscriptions
from stepline.ports.clock import Clock, Meter

logger = logging.getLogger(__name__)

PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4)
"""Longest pauses between two tries. Their sum bounds how long slow connections delay a step."""

PATIENCE_S: Final = 1.0
"""Seconds after the first try during which a batch is tried again: a slow gateway makes each try long."""

QUIET_S: Final = 10.0
"""Seconds for which a skipped connection is not retried."""

PendingFrames: TypeAlias = Mapping[str, Sequence[bytes]]
"""The frames that each connection has not received yet."""

UnsentFrames: TypeAlias = Sequence[bytes] | None
"""The frames that a connection could not accept; None if it is gone."""

PostOne: TypeAlias = Callable[[str, Sequence[bytes]], UnsentFrames]
PostAll: TypeAlias = Callable[[PostOne, PendingFrames], Mapping[str, UnsentFrames]]
"""Posts to each connection, in sequence or concurrently; its `PostOne` uses only the publisher."""


def in_turn(post: PostOne, waiting: PendingFrames) -> Mapping[str, UnsentFrames]:
    """Post to the connections in sequence."""
    return {connection: post(connection, frames) for connection, frames in waiting.items()}


@dataclass(frozen=True, kw_only=True)
class GatewayBroadcast:
    """Broadcast through the gateway that holds the connections.

    Its frames are sent at any pace: running text yields to them when the account's rate is reached.
    """

    subscriptions: Subscriptions
    publisher: Publisher
    meter: Meter
    clock: Clock
    post_all: PostAll = in_turn
    pace: PostPace = field(default_factory=PostPace)
    _quiet_until_s: dict[str, float] = field(default_factory=dict)

    def send(self, lane: Lane, frames: Sequence[bytes], feed: Feed | None = None) -> None:
        if feed is None:
            self._post(lane, dict.fromkeys(self.subscriptions.listeners(lane), frames))
            return
        listeners, watchers = self.subscriptions.audience(lane, feed.user)
        waiting = dict.fromkeys(listeners, frames) if frames else {}
        waiting |= {watcher: (*waiting.get(watcher, ()), *feed.frames) for watcher in watchers}
        self._post(lane, waiting, watcher=feed.user)

    def deliver(self, lane: Lane, connection: str, frames: Sequence[bytes]) -> None:
        """Post frames to one connection; its resume requests those that are lost."""
        self._post(lane, {connection: frames})

    def _post(self, lane: Lane, waiting: PendingFrames, *, watcher: str = "") -> None:
        until_s = self.clock.monotonic_s() + PATIENCE_S
        everyone = len(waiting)
        waiting = self._try(lane, waiting, watcher, everyone)
        quiet = [connection for connection in waiting if self._is_quiet(connection)]
        waiting = {connection: left for connection, left in waiting.items() if connection not in quiet}
        for pause_s in PAUSES_S:
            if not waiting or self.clock.monotonic_s() >= until_s:
                break
            self.clock.pause(secrets.SystemRandom().uniform(pause_s / 2, pause_s))
            waiting = self._try(lane, waiting, watcher, everyone)
        self._leave([*quiet, *waiting])

    def _try(self, lane: Lane, waiting: PendingFrames, watcher: str, everyone: int) -> PendingFrames:
        """Post to each connection that still waits, of `everyone`; return the remaining frames."""
        pending: dict[str, Sequence[bytes]] = {}
        posted = 0
        over: list[str] = []
        for connection, left in self.post_all(partial(self._post_frames, over), waiting).items():
            if left:
                pending[connection] = left
                posted += len(waiting[connection]) - len(left)
                continue
            self._quiet_until_s.pop(connection, None)
            if left is None:
                self._drop(lane, connection, watcher)
            else:
                posted += len(waiting[connection])
        self.meter.count(FRAMES_POSTED, posted)
        if over:
            self.meter.count(POSTS_OVER_LIMIT, len(over))
        if is_rate(len(over), everyone):
            self.pace.refused()
        return pending

    def _post_frames(self, over: list[str], connection: str, frames: Sequence[bytes]) -> UnsentFrames:
        for at, frame in enumerate(frames):
            try:
                self.publisher.post(connection, frame)
            except Gone:
                return None
            except DependencyError as error:
                if is_over_limit(error):
                    over.append(connection)
                return frames[at:]
        return ()

    def _drop(self, lane: Lane, connection: str, watcher: str) -> None:
        self.meter.count(SOCKETS_GONE)
        try:
            self.subscriptions.drop(lane, connection, watcher=watcher)
        except DependencyError as error:  # the next frame finds it gone as well
            logger.warning("subscription not dropped", extra={"code": error.reason})

    def _is_quiet(self, connection: str) -> bool:
        return self._quiet_until_s.get(connection, 0.0) > self.clock.monotonic_s()

    def _leave(self, connections: Sequence[str]) -> None:
        now_s = self.clock.monotonic_s()
        known = self._quiet_until_s.copy()  # other threads may post meanwhile
        for connection in [name for name, until_s in list(known.items()) if until_s <= now_s]:
            self._quiet_until_s.pop(connection, None)
        self._quiet_until_s.update(dict.fromkeys(connections, now_s + QUIET_S))
        if connections:
            logger.warning("connections left to their resume", extra={"connections": len(connections)})
