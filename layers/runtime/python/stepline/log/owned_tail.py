"""The newest batch of a user's conversation, or one of two refusals: it does not exist, or it was deleted.

Only its owner learns that it was deleted, however much of it is left; to any other user it does not exist.
Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

from stepline.errors import NotFoundError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_owner
from stepline.log.journal import Journal
from stepline.model.batch import EMPTY, Batch
from stepline.model.ids import Lane, person


def owned_tail(journal: Journal, user: str) -> Batch:
    """Return the newest batch of a user's conversation, by a strong read.

    Raises NotFoundError: `conversation_deleted`, or `not_found` if it is absent or belongs to another user.
    """
    try:
        tail = journal.tail(consistent=True)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
        tail = EMPTY
    if not tail.n:
        raise refuse_absent(journal.ports, journal.lane, user)
    check_owner(tail, user)
    return tail


def refuse_absent(ports: Ports, lane: Lane, user: str) -> NotFoundError:
    """Return the refusal of a conversation that cannot be read."""
    tombstone = ports.erasure.tombstone(lane) if ports.erasure else None
    if tombstone and tombstone.whose == person(lane.tenant, lane.project, user):
        return NotFoundError("the conversation was deleted", code=DELETED)
    return NotFoundError("no such conversation")


def conceal_deletion(ports: Ports, lane: Lane, user: str, error: SteplineError) -> SteplineError:
    """Return the refusal that a user may see: only the owner learns that a conversation was deleted."""
    return refuse_absent(ports, lane, user) if error.reason == DELETED and ports.erasure else error
