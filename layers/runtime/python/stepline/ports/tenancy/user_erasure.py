"""The erasure of a user: that it was asked for, how far it is, and that it is done."""

from __future__ import annotations

from typing import Final, Protocol

from stepline.model.base import Value

KEPT_S: Final = 90 * 86_400
"""Seconds for which it is remembered that a user was erased."""


class UserErasure(Value):
    """An erasure; `whose` stands for the user for good (`model.ids.person`), and `user` is "" once nothing is left.

    It concerns what was there at `asked_at`; `done_at` is "" as long as something may be left. Times are ISO-8601 in UTC.
    `conversations` counts those deleted so far. `by_admin`: an admin asked, so what was counted for the user goes, too.
    `told`: the user's connections heard of it and were closed.
    """

    tenant: str
    project: str
    whose: str
    user: str
    asked_at: str
    done_at: str = ""
    conversations: int = 0
    by_admin: bool = False
    told: bool = False


class UserErasures(Protocol):
    """One row a user; each method raises DependencyError."""

    def ask(self, erasure: UserErasure) -> UserErasure:
        """Keep an erasure unless one of this user is not done yet; return the one that is kept."""
        ...

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        """Return a user's erasure, by a strong read; None if there was none within KEPT_S."""
        ...

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        """Replace a user's erasure, if it is still the one `before`; one that is done is no longer pending."""
        ...

    def pending(self) -> list[UserErasure]:
        """Return the erasures that are not done, oldest first; a new one may be late."""
        ...
