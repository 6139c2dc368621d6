"""Replays of single rounds: the rows of their results, and the call of the function that makes one."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.entry import Decided
from stepline.model.ids import Lane
from stepline.ports.model import Effort

ReplayState: TypeAlias = Literal["queued", "running", "ended", "failed"]

REPLAY_TTL_S: Final = 3600
"""How long the row of a replay is kept."""


class ReplayWish(Value):
    """The wish of a client: the request that batch `decided_n` answered, with another model, effort or system part.

    An empty field is that of the record, or of the role's configuration.
    """

    decided_n: int
    model: str = ""
    effort: Effort | Literal[""] = ""
    system: str = ""


class RoundReplay(Value):
    """One replay. It counts as failed if it is not over at `until`, and is gone after `expires_at` (epoch seconds).

    `text` is the model's text so far. An ended one has the decision, as it would be in the log: `equal` if the request
    without the changes is that of the record in bytes, `usd` its price if that is known, `first_ms` the time from the
    request to the first text. A failed one has the `code` and a sentence.
    """

    id: str
    wish: ReplayWish
    asked_at: str
    until: str
    expires_at: int
    state: ReplayState = "queued"
    text: str = ""
    decided: Decided | None = None
    equal: bool = True
    usd: float | None = None
    first_ms: int | None = None
    ended_at: str = ""
    code: str = ""
    message: str = ""


class ReplayCall(Value):
    """The event of the function that makes a replay: whose it is, and the bundle of the conversation."""

    lane: Lane
    user: str
    replay: str
    bundle: str = ""


class RoundReplays(Protocol):
    """Rows of replays, by conversation and user. A row that has expired does not exist."""

    def add(self, lane: Lane, user: str, replay: RoundReplay) -> bool:
        """Put a new row; return False if there is one with this id. Raises DependencyError."""

    def change(self, lane: Lane, user: str, replay: RoundReplay, *, was: ReplayState) -> bool:
        """Replace a row in the state `was`; return False if there is none. Raises DependencyError."""

    def get(self, lane: Lane, user: str, replay_id: str) -> RoundReplay | None:
        """Return a row, by a strong read. Raises DependencyError."""

    def of_round(self, lane: Lane, user: str, decided_n: int) -> list[RoundReplay]:
        """Return the rows of a round, oldest first, by a strong read. Raises DependencyError."""

    def drop(self, lane: Lane, user: str, replay_id: str) -> None:
        """Delete a row; do nothing if there is none. Raises DependencyError."""


class StartReplay(Protocol):
    def __call__(self, call: ReplayCall) -> None:
        """Have the function make a replay, without waiting for it. Raises DependencyError: it may not be called."""
