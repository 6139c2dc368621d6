"""The relay of a deployed function: one thread next to the model's stream, so that posts never delay it.

Text is posted in small and stored in large pieces: posted after 50 ms or 4 KiB during the first second, then
200 ms; stored after a second or 4 KiB. A connection that cannot keep up is skipped for a while: its next piece shows
the gap, and it requests the rest. A closed connection loses its subscription. A failed store is repeated at the next
interval, with the same text, and so is a post that the account's rate refuses, at a slower pace
(`delivery/post_pace.py`). With many listeners, pieces are less frequent. Servers that hold clients themselves get the
same pieces by a broadcast.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from stepline.delivery.post_pace import POST_INTERVAL_S, PostPace, is_over_limit, is_rate
from stepline.delivery.posting import PostAll, UnsentFrames, in_turn
from stepline.errors import DependencyError, Gone, SteplineError
from stepline.metrics import POSTS_OVER_LIMIT
from stepline.model.ids import Lane
from stepline.model.usage import ModelCall
from stepline.model.wire.event import DELTA_CHARS, DeltaFrame, cut_delta, encode_frame
from stepline.ports.channel import Broadcast, Publisher, Subscriptions
from stepline.ports.clock import Clock, Meter
from stepline.ports.relay import Delta, Deltas

logger = logging.getLogger(__name__)

POST_FIRST_S = POST_INTERVAL_S
POST_LATER_S = 0.2
FIRST_S = 1.0
POSTS_PER_S = 50
"""The maximum for one lane's text to all listeners.

All posts of an account share one rate, and with many devices each gets little of it.
"""
STORE_S = 1.0
LISTENERS_S = 1.0
CLOSE_S = 5.0
"""How long the end of a stream waits for its thread; a thread that still runs then sends and stores nothing more."""
BACKOFF_S = 2.0
_END = ("", "")


@dataclass
class _Lane:
    """The pending output of one lane: its text from `posted` and from `stored` on."""

    text: str = ""
    base: int = 0
    posted: int = 0
    stored: int = 0

    def trim(self) -> None:
        done = min(self.posted, self.stored)
        self.text, self.base = self.text[done - self.base :], done


@dataclass
class ThreadedRelayStream:
    """One claim's stream. `push` only queues; the thread does everything else."""

    relay: ThreadedRelay
    lane: Lane
    claim: int
    _queue: queue.SimpleQueue[tuple[str, str] | ModelCall] = field(default_factory=queue.SimpleQueue)
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _notes: dict[str, ModelCall] = field(default_factory=dict)
    _quiet_until_s: dict[str, float] = field(default_factory=dict)
    _listeners: list[str] = field(default_factory=list)
    _listened_s: float = float("-inf")
    _settled: bool = False
    _given_up: bool = False

    def __post_init__(self) -> None:
        """Start the stream's clock."""
        self._began_s = self._posted_s = self._stored_s = self.relay.clock.monotonic_s()
        self._posts = self._stores = True

    def start(self) -> ThreadedRelayStream:
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()
        return self

    def push(self, name: str, text: str) -> None:
        self._queue.put((name, text))

    def note(self, call: ModelCall) -> None:
        self._queue.put(call)

    def settle(self) -> None:
        self._settled = True

    def close(self) -> None:
        self._queue.put(_END)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self._given_up = True
            logger.warning("relay did not finish", extra={"seconds": CLOSE_S})

    def _run(self) -> None:
        try:
            self._pump()
        except SteplineError as error:
            logger.exception("relay stopped", extra={"code": error.reason})

    def _pump(self) -> None:
        now_s = self.relay.clock.monotonic_s
        ended = False
        while not ended:
            ended = self.take(self.due_s() - now_s())
            self.work(now_s(), ended=ended)

    def due_s(self) -> float:
        """Return the time when pending text is due."""
        return self._posted_s + self._interval_s()

    def _interval_s(self) -> float:
        is_first = self.relay.clock.monotonic_s() - self._began_s < FIRST_S
        usual_s = POST_FIRST_S if is_first else POST_LATER_S
        return max(usual_s, len(self._listeners) / POSTS_PER_S, self.relay.pace.interval_s)

    def work(self, at_s: float, *, ended: bool) -> None:
        """Post and store the text that is due at this time; at the end, all that no batch will hold."""
        is_due = ended or at_s - self._posted_s >= self._interval_s()
        if is_due or (self._posts and self._waiting("posted") >= DELTA_CHARS):
            self._posts, self._posted_s = self._post(at_s), at_s
        is_due = ended or at_s - self._stored_s >= STORE_S
        is_held = ended and self._settled  # by the batch that the writer puts next
        if not is_held and (is_due or (self._stores and self._waiting("stored") >= DELTA_CHARS)):
            self._stores, self._stored_s = self._store(), at_s
        self._store_notes()
        for lane in self._lanes.values():
            lane.trim()

    def take(self, wait_s: float) -> bool:
        """Move queued text into the lanes, waiting at most `wait_s` for the first piece.

        Return True at the end.
        """
        try:
            piece = self._queue.get(timeout=max(0.0, wait_s)) if wait_s > 0 else self._queue.get_nowait()
            while piece != _END:
                if isinstance(piece, ModelCall):
                    self._notes[piece.id] = piece
                else:
                    name, text = piece
                    self._lanes.setdefault(name, _Lane()).text += text
                piece = self._queue.get_nowait()
        except queue.Empty:
            return False
        return True

    def _waiting(self, mark: str) -> int:
        return sum(lane.base + len(lane.text) - int(getattr(lane, mark)) for lane in self._lanes.values())

    def _listen(self, at_s: float) -> bool:
        """Refresh the listeners if they are old; return False if they cannot be read now."""
        if at_s - self._listened_s < LISTENERS_S:
            return True
        try:
            self._listeners = self.relay.subscriptions.listeners(self.lane)
        except DependencyError as error:
            logger.warning("listeners not read", extra={"code": error.reason})
            return False
        self._listened_s = at_s
        return True

    def _post(self, at_s: float) -> bool:
        """Post pending text; return False if the listeners are unknown or the rate is reached, and keep the rest.

        The first second also reads the listeners in advance; a stream without new text reads none later.
        """
        if at_s - self._began_s > FIRST_S and not self._waiting("posted"):
            return True
        if not self._listen(at_s):
            return False
        for name, lane in self._lanes.items():
            for off, text in cut_delta(lane.text[lane.posted - lane.base :], lane.posted):
                if not self._post_piece(name, off, text):
                    return False
                lane.posted = off + len(text)
        return True

    def _post_piece(self, name: str, off: int, text: str) -> bool:
        """Post one piece; return False if the rate refused it. A client may get it twice, which offsets make harmless."""
        if self._given_up:
            return True
        frame = DeltaFrame(
            conversation=self.lane.conversation, claim=self.claim, lane=name, off=off, text=text
        )
        body = encode_frame(frame)
        is_out = self._post_body(body)
        if self.relay.broadcast is not None:
            self._broadcast(self.relay.broadcast, body)
        return is_out

    def _post_body(self, body: bytes) -> bool:
        now_s = self.relay.clock.monotonic_s()
        heard = [name for name in self._listeners if self._quiet_until_s.get(name, 0.0) <= now_s]
        over: list[str] = []
        posted = self.relay.post_all(partial(self._post_frames, over), dict.fromkeys(heard, (body,)))
        if over:
            self.relay.meter.count(POSTS_OVER_LIMIT, len(over))
        is_refused = is_rate(len(over), len(heard))
        for connection, left in posted.items():
            if left is None:
                self._quiet_until_s[connection] = float("inf")
                self._drop(connection)
            elif left and not (is_refused and connection in over):
                self._quiet_until_s[connection] = self.relay.clock.monotonic_s() + BACKOFF_S
        if is_refused:
            self.relay.pace.refused(self._interval_s())
        elif heard:
            self.relay.pace.went_out()
        return not is_refused

    def _post_frames(self, over: list[str], connection: str, frames: Sequence[bytes]) -> UnsentFrames:
        try:
            for frame in frames:
                self.relay.publisher.post(connection, frame)
        except Gone:
            return None
        except DependencyError as error:
            if is_over_limit(error):
                over.append(connection)
            logger.warning("connection cannot keep up", extra={"code": error.reason})
            return frames
        return ()

    def _broadcast(self, broadcast: Broadcast, body: bytes) -> None:
        try:
            broadcast.send(self.lane, [body])
        except DependencyError as error:
            logger.warning("piece not broadcast", extra={"code": error.reason})

    def _drop(self, connection: str) -> None:
        try:
            self.relay.subscriptions.drop(self.lane, connection)
        except DependencyError as error:
            logger.warning("subscription not dropped", extra={"code": error.reason})

    def _store(self) -> bool:
        """Store pending text; return False if the table refuses, and keep the rest."""
        for pieces in self._rows():
            if self._given_up:
                return False
            try:
                self.relay.deltas.put(self.lane, self.claim, *pieces)
            except DependencyError as error:
                logger.warning("text not stored", extra={"code": error.reason})
                return False
            for piece in pieces:
                self._lanes[piece.name].stored += len(piece.text)
        return True

    def _store_notes(self) -> None:
        """Store the noted calls; keep those that the table refuses."""
        for call in list(self._notes.values()):
            if self._given_up:
                return
            try:
                self.relay.deltas.note(self.lane, self.claim, call)
            except DependencyError as error:
                logger.warning("call not noted", extra={"code": error.reason})
                return
            del self._notes[call.id]

    def _rows(self) -> list[list[Delta]]:
        """Return the text to store, grouped into rows, because a lane's text is often only a few words."""
        rows: list[list[Delta]] = []
        room = 0
        for name, lane in self._lanes.items():
            for off, text in cut_delta(lane.text[lane.stored - lane.base :], lane.stored):
                if len(text) > room:
                    rows.append([])
                    room = DELTA_CHARS
                rows[-1].append(Delta(name=name, off=off, text=text))
                room -= len(text)
        return rows


@dataclass(frozen=True, kw_only=True)
class ThreadedRelay:
    """Starts one thread per claim. `broadcast` is an optional second route; `post_all` posts to connections.

    `pace` is shared by the process.
    """

    deltas: Deltas
    subscriptions: Subscriptions
    publisher: Publisher
    clock: Clock
    meter: Meter
    pace: PostPace = field(default_factory=PostPace)
    broadcast: Broadcast | None = None
    post_all: PostAll = in_turn

    def open(self, lane: Lane, claim: int) -> ThreadedRelayStream:
        return ThreadedRelayStream(self, lane, claim).start()
