"""A client of one conversation that keeps what it received, for the judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

from stepline.errors import DependencyError
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    Refused,
    StreamReset,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import Dial
from stepline.local.cloud.deploy import DeadlineClock
from stepline.model.wire.event import ClientEvent

ROW_S: Final = 600.0
"""How long one client of a proof may wait: cold starts, and a turn of a few rounds that is taken over."""


class ProofClient:
    """A session, and all effects of it, in order. A wait raises DependencyError `no_answer` after ten minutes."""

    def __init__(self, dial: Dial, state: ClientState) -> None:
        """Create the client; `with` connects it."""
        self.session = Session(dial, state, DeadlineClock(ROW_S))
        self.received: list[Effect] = []
        self._effects = self.session.effects()

    def __enter__(self) -> Self:
        """Connect."""
        self.session.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.session.__exit__(*error)

    @property
    def state(self) -> ClientState:
        """The state of the client."""
        return self.session.state

    def settle(self) -> None:
        """Receive until every message is answered and no turn runs; a turn that waits for a person does not run.

        Raises as `until` does.
        """
        if not self._is_settled():
            self.until(lambda _: self._is_settled())

    def _is_settled(self) -> bool:
        state = self.state
        running = state.open and not state.approval
        known = bool(self.ends or state.approval)
        return known and self.session.whole and not (state.unacked or running or state.newest > state.cursor)

    def until(self, wanted: Callable[[Effect], bool]) -> Effect:
        """Return the first later effect that is wanted. Raises DependencyError with the code of a refusal."""
        for effect in self._effects:
            self.note(effect)
            if wanted(effect):
                return effect
            if isinstance(effect, Refused):
                raise DependencyError(effect.frame.message, code=effect.frame.code)
        raise AssertionError("a session's effects do not end")

    def catch_up(self, n: int) -> None:
        """Receive until event `n` has been applied. Raises as `until` does."""
        if self.state.cursor < n:
            self.session.listen()
        if not self._has(n):
            self.until(lambda _: self._has(n))

    def _has(self, n: int) -> bool:
        return self.session.whole and self.state.cursor >= n

    def note(self, effect: Effect) -> None:
        """Keep an effect; a stream that is reset takes its text away."""
        if isinstance(effect, StreamReset):
            self.received = [one for one in self.received if not _is_text(one, effect.claim)]
        self.received.append(effect)

    @property
    def batches(self) -> list[EventsApplied]:
        """The batches of durable events."""
        return [one for one in self.received if isinstance(one, EventsApplied)]

    @property
    def ends(self) -> list[TurnEnded]:
        """The ends of turns."""
        return [one for one in self.received if isinstance(one, TurnEnded)]

    @property
    def acknowledged(self) -> list[Acknowledged]:
        """The messages of this client that are in the log."""
        return [one for one in self.received if isinstance(one, Acknowledged)]

    @property
    def pieces(self) -> list[TextAppended]:
        """The pieces of running text."""
        return [one for one in self.received if isinstance(one, TextAppended)]

    def events(self, kind: str) -> list[tuple[int, ClientEvent]]:
        """Return the durable events of a type, each with the number of its batch."""
        return [(one.n, event) for one in self.batches for event in one.events if event.type == kind]


def _is_text(effect: Effect, stream: int) -> bool:
    return isinstance(effect, TextAppended) and effect.claim == stream
