"""A remote end without a network, on a simulated clock: hours of a session take milliseconds."""

from __future__ import annotations

import json
from collections import deque
from contextlib import contextmanager

from websockets.exceptions import ConnectionClosedError

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import DependencyError
from stepline.local.client.pace import Pace
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.model.wire.event import encode_frame

C = "c1"
PACE = Pace(tick_s=1.0)


class Over(Exception):  # noqa: N818 - it ends a test's drive, and is not an error
    """The time is up."""


class Wire:
    """One connection: the frames to deliver, and the messages sent with their times."""

    def __init__(self, far):
        self._far = far
        self.inbox = deque()
        self.sent = []
        self.began_s = far.clock.monotonic_s()
        self.ended_s = None

    def send(self, message):
        self._check()
        request = json.loads(message if isinstance(message, str) else "".join(message))
        self.sent.append((self._far.clock.monotonic_s(), request))
        for frame in self._far.script(request):
            self.inbox.append(encode_frame(frame))

    def recv(self, timeout=None):
        if self.inbox:
            return self.inbox.popleft()
        self._check()
        self._far.clock.pause(timeout)
        raise TimeoutError

    def cut(self):
        self.ended_s = self._far.clock.monotonic_s()

    def _check(self):
        if self.ended_s is not None:
            raise ConnectionClosedError(None, None)


class RemoteEnd:
    """Answers each message by `script(request)`, a list of frames; `wires` are all connections so far."""

    def __init__(self, script=lambda _: [], clock=None):
        self.clock = clock or MemoryClock()
        self.script = script
        self.wires = []
        self.tries_s = []
        self.refuses = 0

    @contextmanager
    def dial(self):
        self.tries_s.append(self.clock.monotonic_s())
        if self.refuses:
            self.refuses -= 1
            raise DependencyError("not now", code="socket_unreachable")
        wire = Wire(self)
        self.wires.append(wire)
        yield wire
        wire.cut()

    def session(self, *, cursor=0, pace=PACE, uniform=max, timezone=""):
        state = ClientState(conversation=C, cursor=cursor)
        return Session(self.dial, state, self.clock, pace, uniform=uniform, timezone=timezone)

    def actions(self):
        """Return the requests of every connection in order, each with its time."""
        return [(at_s, request["action"]) for wire in self.wires for at_s, request in wire.sent]

    def of(self, action):
        """Return the times of the requests."""
        return [at_s for at_s, asked in self.actions() if asked == action]


def drive(session, seconds, *, each=None):
    """Iterate over the session's effects for that long, and call `each` between frames; return the effects."""
    clock, seen = session._clock, []
    until_s = clock.monotonic_s() + seconds

    def between():
        if clock.monotonic_s() >= until_s:
            raise Over
        if each:
            each()

    try:
        for effect in session.effects(between):
            seen.append(effect)  # noqa: PERF402 - effects from before the time was up count
    except Over:
        return seen
    raise AssertionError("a session's effects do not end")
