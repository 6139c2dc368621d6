"""The callers of the matrix of tenants: users other than the owner, in every role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from stepline.ports.channel import ROLES, Principal, Role
from tests.support.conversation import FAR, LANE, USER
from tests.support.draw import share

T = TypeVar("T")

OTHERS: Final[tuple[dict[str, str], ...]] = (
    {"user": "eve"},
    {"tenant": "umbrella"},
    {"project": "sales"},
    {"tenant": "umbrella", "project": "lab", "user": "eve"},
    {"project": "lab", "user": "eve"},
    {"tenant": "umbrella", "project": "sales"},
)
"""Each way to be another than the owner, each in a place of its own; her name in another one is another user."""


class Stranger(NamedTuple):
    """Another user than the owner, with a role."""

    tenant: str = LANE.tenant
    project: str = LANE.project
    user: str = USER
    role: Role = "user"

    def __str__(self) -> str:
        return f"{self.tenant}.{self.project}.{self.user}.{self.role}"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the caller's principal."""
        return self._asdict()


STRANGERS: Final = tuple(Stranger(**other, role=role) for other in OTHERS for role in ROLES)
OWNERS: Final = tuple(Stranger(role=role) for role in ROLES)
"""The owner in every role: no role takes away what is one's own."""


def principal(**who: Any) -> Principal:
    """Return the owner's principal, but for these fields."""
    known: dict[str, Any] = {"tenant": LANE.tenant, "project": LANE.project, "user": USER, "expires_at": FAR}
    return Principal(**{**known, **who})


def asked_by(asked: Sequence[T], strangers: Sequence[Stranger] = STRANGERS) -> list[tuple[T, Stranger]]:
    """Return every request with every stranger: a quarter of the pairs in a landing."""
    turns = enumerate(asked)
    played: list[tuple[T, Stranger]] = share(
        [(one, stranger) for by, one in turns for stranger in turned(strangers, by)], 4
    )
    return played


def turned(strangers: Sequence[Stranger], by: int) -> list[Stranger]:
    """Return the same strangers, begun with another: so no share of the pairs leaves a stranger out."""
    start = by % len(strangers)
    return [*strangers[start:], *strangers[:start]]
