"""The other conversations of an owner, read from their logs for the tools of one of them.

The log names the owner of a conversation: a conversation of another user is not found, as if it did not exist.
Source: docs/reference/paths.md#other-conversations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepline.errors import NotFoundError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED
from stepline.log.journal import Journal
from stepline.model.ids import Lane

if TYPE_CHECKING:
    from stepline.log.timeline_cache import History
    from stepline.timeline.fold import Timeline


class OwnedConversations:
    """The conversations of one user in the project of a lane (`stepline.tools.context.Conversations`)."""

    def __init__(self, ports: Ports, history: History, lane: Lane, owner: str) -> None:
        """Prepare for the conversation `lane` of `owner`; nothing is read yet."""
        self._ports, self._history, self._lane = ports, history, lane
        self.owner = owner

    def find(self, conversation: str) -> Timeline | None:
        """Return a conversation's timeline; None if it is missing, another user's, deleted or being imported."""
        journal = Journal(self._ports, replace(self._lane, conversation=conversation), "recall")
        try:
            tail = journal.tail(consistent=False)
            if not (tail.n and self.owner and tail.state.owner == self.owner) or tail.state.deleted:
                return None
            if tail.state.importing:
                return None
            return self._history.load(journal, segment=tail.state.segment)
        except NotFoundError as error:
            if error.reason != DELETED:
                raise
            return None

    def newest(self, limit: int) -> tuple[tuple[str, ...], bool]:
        """Return the most recently used ones by name, without this one, and True if there are more."""
        lane = self._lane
        rows = self._ports.log.conversations(lane.tenant, lane.project, self.owner) if self.owner else []
        names = [row.lane.conversation for row in rows if row.lane != lane and not row.importing]
        return tuple(names[:limit]), len(names) > limit
