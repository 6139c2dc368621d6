"""A websocket link that reconnects: opened, replaced before the gateway closes it, reopened when it breaks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from websockets.exceptions import ConnectionClosed

from stepline.errors import DependencyError, SteplineError
from stepline.local.client.pace import Pace
from stepline.local.client.websocket import Connection, Dial
from stepline.ports.clock import Clock

Uniform = Callable[[float, float], float]
"""Draws a number between two bounds."""


class Link:
    """One connection at a time. `broken` is true once it can no longer be used."""

    def __init__(self, dial: Dial, clock: Clock, pace: Pace, uniform: Uniform) -> None:
        """Create the link without connecting; `uniform` draws the jitter that keeps clients out of step."""
        self._dial = dial
        self._clock = clock
        self._pace = pace
        self._uniform = uniform
        self._stack = ExitStack()
        self._connection: Connection | None = None
        self._breaks = 0
        self.broken = False
        self._replace_due_s = float("inf")

    def open(self) -> None:
        """Open a connection, then close the previous one. Raises AuthError, DependencyError."""
        stack = ExitStack()
        connection = stack.enter_context(self._dial())
        self._stack.close()
        self._stack, self._connection, self.broken = stack, connection, False
        self._replace_due_s = self._clock.monotonic_s() + self._uniform(*self._pace.replace_s)

    def replace(self) -> bool:
        """Replace a connection that is due; return True if it was.

        If no new one can be opened, keep the old one for now.
        """
        if self._clock.monotonic_s() < self._replace_due_s:
            return False
        try:
            self.open()
        except SteplineError:
            self._replace_due_s = self._clock.monotonic_s() + self._pace.answer_s
            return False
        return True

    def reopen(self) -> None:
        """Reconnect, with delays that grow until a connection has brought a frame.

        Raises:
            AuthError: the gateway refuses our token.
            DependencyError: `socket_unreachable`, after the last try.
        """
        for delay_s in self._pace.reconnect_delays_s[self._breaks :]:
            self._breaks += 1
            self._clock.pause(self._uniform(0.0, delay_s))
            try:
                self.open()
            except DependencyError:
                continue
            return
        raise DependencyError("the connection broke and does not come back", code="socket_unreachable")

    def close(self) -> None:
        """Close the connection."""
        self._stack.close()

    def send(self, message: str | list[str]) -> None:
        """Send a message; mark the link broken if that fails."""
        try:
            self._open_connection().send(message)
        except ConnectionClosed:
            self.broken = True

    def receive(self) -> str | bytes | None:
        """Return the next frame, or None if there was none within a tick."""
        try:
            text = self._open_connection().recv(timeout=self._pace.tick_s)
        except TimeoutError:
            return None
        except ConnectionClosed:
            self.broken = True
            return None
        self._breaks = 0
        return text

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise DependencyError("the session is not connected", code="socket_unreachable")
        return self._connection
