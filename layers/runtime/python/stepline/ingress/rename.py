"""A user names a conversation and its branches: the title enters the logs, and every client is notified.

The model gives a title only to a conversation that has none, so the user's title is final.
Source: docs/concepts/http-api.md#titles.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepline.delivery.effect import project, publish
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.events.derive import render_title
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_owner
from stepline.log.fork_tree import root_lane, walk_branches
from stepline.log.journal import Draft, Journal
from stepline.log.owned_tail import refuse_absent
from stepline.log.transition import titled
from stepline.model.batch import Batch
from stepline.model.entry import TITLE_CHARS, Titled
from stepline.model.ids import Lane, utc
from stepline.model.visible_text import has_visible


def rename(ports: Ports, lane: Lane, title: str, *, user: str) -> Batch:
    """Put the title, on one line, in a conversation, and in its root and all branches; return the conversation's batch.

    If one has the title already, nothing is written there.

    Raises:
        NotFoundError: the conversation is absent or foreign.
        InputError: `bad_title`, nothing of it is visible.
        LimitError: it is longer than TITLE_CHARS.
        BusyError: the lane is contended.
    """
    line = read_title(title)
    batch = _put_title(ports, lane, line, user)
    root = root_lane(lane, batch.state)
    names = [root.conversation, *(row.conversation for row in walk_branches(ports.log, root))]
    for other in (replace(lane, conversation=name) for name in names if name != lane.conversation):
        try:
            _put_title(ports, other, line, user)
        except NotFoundError as error:  # deleted in the meantime
            if error.reason != DELETED:
                raise
    return batch


def read_title(text: str) -> str:
    """Return a title on one line. Raises InputError `bad_title`, LimitError."""
    line = " ".join(text.split())
    if not has_visible(line):
        raise InputError("a title has at least one visible character", code="bad_title")
    if len(line) > TITLE_CHARS:
        raise LimitError(f"a title has at most {TITLE_CHARS} characters", limit=TITLE_CHARS)
    return render_title(line)


def _put_title(ports: Ports, lane: Lane, title: str, user: str) -> Batch:
    """Put a conversation's title; return its batch, or the one that set the same title before."""
    journal = Journal(ports, lane, "rename")
    entry = Titled(title=title, at=utc(ports.clock.now()))

    def plan(tail: Batch) -> Draft | Batch:
        if not tail.n:
            raise refuse_absent(ports, lane, user)
        check_owner(tail, user)
        current = journal.get(tail.state.titled) if tail.state.titled else None
        if current and any(isinstance(one, Titled) and one.title == entry.title for one in current.entries):
            return current
        return Draft(entries=(entry,), state=titled(tail.state, tail.n + 1))

    newest = journal.tail(consistent=True)
    batch = journal.commit(plan, tail=newest)
    if batch.n <= newest.n:
        row = ports.log.listing(lane)
        if row is not None and row.title == entry.title and row.applied_n >= batch.n:
            return batch
    publish(ports, lane, batch)
    project(ports, lane, batch)
    return batch
