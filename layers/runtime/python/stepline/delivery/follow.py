"""Following: send one client its frames from a server that holds the connection, from the log and then live.

It subscribes to the feed before it reads the log, so no event is lost between the two; duplicates are dropped, and
gaps (`prev` shows those of events, the character offset those of text) are read from the log. An interrupted feed
therefore costs a read, but no event is lost, repeated or out of order.
Source: docs/how-to/redis.md#serving-clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from stepline.delivery.effect import event_frames
from stepline.delivery.resume import open_claim, running_text
from stepline.events.derive import newest_event
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.log.owned_tail import owned_tail
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.wire.event import DeltaFrame, EventFrame, Frame, SyncFrame, decode_frame, encode_frame
from stepline.ports.channel import Following


def follow(
    ports: Ports,
    following: Following,
    lane: Lane,
    *,
    user: str,
    after: int = 0,
    claim: int = 0,
    have: Mapping[str, int] | None = None,
) -> Iterator[bytes]:
    """Yield the frames for a client that has every event up to `after`, until `following` ends.

    `have` counts the characters that it has of stream `claim`, by lane name.

    Raises:
        NotFoundError: the conversation is absent or foreign.
        DependencyError: the log does not answer; the client retries from its cursor.
    """
    follower = Follower(ports, lane, after=after, claim=claim, have=have or {})
    with following as heard:
        owned_tail(Journal(ports, lane, "follow"), user)
        for frame in heard:
            yield from follower.catch_up() if frame is None else follower.take(frame)


class Follower:
    """One client's position: its newest complete batch, its parts of the next one, and its running text."""

    def __init__(self, ports: Ports, lane: Lane, *, after: int, claim: int, have: Mapping[str, int]) -> None:
        self._ports = ports
        self._lane = lane
        self._journal = Journal(ports, lane, "follow")
        self._cursor = after
        self._begun_n, self._parts = 0, 0
        self._claim = claim
        self._have = dict(have)
        self._tail: Batch | None = None

    def catch_up(self) -> list[bytes]:
        """Return everything in the log that the client lacks, then a sync frame with the position."""
        missed = self._journal.since(self._cursor, consistent=True)
        tail = missed[-1] if missed else self._newest()
        frames = [
            body
            for batch in missed
            for body, frame in self._framed(batch)
            if isinstance(frame, EventFrame) and self._is_next(frame)
        ]
        self._tail, self._cursor = tail, max(self._cursor, tail.n)
        frames += self._stored_text(tail)
        state = tail.state
        sync = SyncFrame(
            conversation=self._lane.conversation,
            n=newest_event(tail),
            claim=state.claim,
            open=state.status == "open",
            turn_id=state.turn,
        )
        return [*frames, encode_frame(sync)]

    def _newest(self) -> Batch:
        """Return the batch at the cursor: the one read last, unless live frames moved the cursor on."""
        if self._tail is None or self._tail.n < self._cursor:
            return self._journal.tail(consistent=True)
        return self._tail

    def take(self, body: bytes) -> list[bytes]:
        """Return the frames to send to the client for a frame from the feed."""
        match decode_frame(body):
            case EventFrame() as frame if self._is_next(frame):
                return [body]
            case EventFrame() as frame if not self._has(frame):
                return self.catch_up()
            case DeltaFrame() as frame:
                return self._take_text(frame)
            case _:
                return []

    def _framed(self, batch: Batch) -> list[tuple[bytes, Frame]]:
        return [(body, decode_frame(body)) for body in event_frames(self._ports, self._lane, batch)]

    def _has(self, frame: EventFrame) -> bool:
        return frame.n <= self._cursor or (frame.n == self._begun_n and frame.part <= self._parts)

    def _is_next(self, frame: EventFrame) -> bool:
        """Return True if the frame continues the client's position, and advance the position to it."""
        parts = self._parts if frame.n == self._begun_n else 0
        if not frame.prev <= self._cursor < frame.n or frame.part != parts + 1:
            return False
        self._begun_n, self._parts = frame.n, frame.part
        if frame.part == frame.parts:
            self._cursor = frame.n
        return True

    def _take_text(self, frame: DeltaFrame) -> list[bytes]:
        self._go_over(frame.claim)
        have = max(self._have.get(frame.lane, 0), frame.start)
        if frame.claim < self._claim or frame.off + len(frame.text) <= have:
            return []
        if frame.off > have:
            return self.catch_up()  # lost text is stored within a second
        return [self._frame_text(replace(frame, off=have, text=frame.text[have - frame.off :]))]

    def _stored_text(self, tail: Batch) -> list[bytes]:
        claim = open_claim(self._ports, self._lane, tail)
        self._go_over(claim)
        if claim < self._claim:
            return []
        stored = running_text(self._ports, self._lane, tail, claim, self._have)
        return [
            self._frame_text(frame) for body in stored if isinstance(frame := decode_frame(body), DeltaFrame)
        ]

    def _go_over(self, claim: int) -> None:
        if claim > self._claim:
            self._claim, self._have = claim, {}

    def _frame_text(self, frame: DeltaFrame) -> bytes:
        self._have[frame.lane] = frame.off + len(frame.text)
        return encode_frame(frame)
