"""What stands between a decision and whoever watches: nothing of an action is shown before it is admitted.

A gate keeps what a decision has to show until `admission.py` has said whether it may run. One reader feeds it in
the order of the text, so nothing can overtake what waits in it.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from stepline.protocol.field import Taker

GateState: TypeAlias = Literal["pending", "allowed", "denied"]


class Gate:
    """Pending: what comes is kept. Allowed: it goes on, what was kept first. Denied: it is dropped, as is what was kept."""

    def __init__(self) -> None:
        self.state: GateState = "pending"
        self._kept: deque[tuple[Taker, str | None]] = deque()

    def guard(self, taker: Taker) -> Taker | None:
        """Return what takes the place of `taker` for a value that begins now; None if nothing of it is shown."""
        if self.state == "pending":
            return _Waiting(self, taker)
        return taker if self.state == "allowed" else None

    def push(self, taker: Taker, text: str | None) -> None:
        """Take a piece for `taker`, or None for its end."""
        if self.state == "pending" or self._kept:
            self._kept.append((taker, text))
        elif self.state == "allowed":
            _pass_on(taker, text)

    def forget(self) -> None:
        """Drop what is kept; what comes is kept or goes on as before."""
        self._kept.clear()

    def allow(self) -> None:
        """Let everything through from here on, in the order in which it came."""
        self.state = "allowed"
        while self._kept:  # what is pushed meanwhile stands behind
            _pass_on(*self._kept[0])
            self._kept.popleft()

    def deny(self) -> None:
        """Let nothing through, neither what came nor what comes."""
        self.state = "denied"
        self._kept.clear()


class _Waiting:
    """Stands for a taker behind a gate."""

    __slots__ = ("_gate", "_taker")

    def __init__(self, gate: Gate, taker: Taker) -> None:
        self._gate = gate
        self._taker = taker

    def take(self, text: str, /) -> None:
        self._gate.push(self._taker, text)

    def end(self) -> None:
        self._gate.push(self._taker, None)


def _pass_on(taker: Taker, text: str | None) -> None:
    if text is None:
        taker.end()
    else:
        taker.take(text)
