"""What a client asks for by resumes: when, how often, and whether it came."""

from __future__ import annotations

from stepline.local.client.pace import Pace
from stepline.local.client.state import ClientState
from stepline.ports.clock import Clock

_DOUBLINGS = 6


class Catchup:
    """`synced` tells whether the last resume was answered; `tries` counts resumes since the last progress."""

    def __init__(self, clock: Clock, pace: Pace, cursor: int) -> None:
        """Begin at event `cursor`, with nothing asked for."""
        self._clock = clock
        self._pace = pace
        self._due_s = 0.0
        self._was_behind = False
        self._cursor = cursor
        self.synced = True
        self.tries = 0

    def note(self) -> None:
        """Note that a resume goes out now."""
        self.synced = False
        self.tries += 1
        self._due_s = self._clock.monotonic_s() + self._pace.resume_answer_s

    def is_due(self, state: ClientState) -> bool:
        """Tell whether to ask now for what is missing; a gap may close by itself for a moment."""
        now_s, behind = self._clock.monotonic_s(), state.behind()
        if behind and not self._was_behind:
            self._due_s = max(self._due_s, now_s + self._pace.gap_s)
        self._was_behind = behind
        if state.cursor != self._cursor or (not behind and self.synced):
            self._cursor, self.tries = state.cursor, 0
        return (behind or not self.synced) and now_s >= self._due_s

    @property
    def is_spent(self) -> bool:
        """Tell whether resumes have brought nothing for too long."""
        return self.tries >= self._pace.resumes

    def put_off(self) -> None:
        """Ask a little later each time: what is missing may not be stored yet, or the server is busy."""
        wait_s = self._pace.resume_every_s * 2 ** min(self.tries, _DOUBLINGS)
        self._due_s = self._clock.monotonic_s() + wait_s / 2

    def give_up(self) -> None:
        """Begin anew, after a pause."""
        self.put_off()
        self.synced, self.tries = True, 0
