"""A user names a conversation: the title enters the log, and every client is notified.

The model gives a title only to a conversation that has none, so the user's title is final.
Source: docs/concepts/http-api.md#titles.
"""

from __future__ import annotations

from stepline.delivery.effect import project, publish
from stepline.errors import InputError, LimitError
from stepline.events.derive import render_title
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.owned_tail import refuse_absent
from stepline.log.transition import titled
from stepline.model.batch import Batch
from stepline.model.entry import TITLE_CHARS, Titled
from stepline.model.ids import Lane, utc
from stepline.model.visible_text import has_visible


def rename(ports: Ports, lane: Lane, title: str, *, user: str) -> Batch:
    """Put the title, on one line; return its batch, or the one that set the same title before.

    If the conversation has the title already, nothing is written.

    Raises:
        NotFoundError: the conversation is absent or foreign.
        InputError: `bad_title`, nothing of it is visible.
        LimitError: it is longer than TITLE_CHARS.
        BusyError: the lane is contended.
    """
    line = " ".join(title.split())
    if not has_visible(line):
        raise InputError("a title has at least one visible character", code="bad_title")
    if len(line) > TITLE_CHARS:
        raise LimitError(f"a title has at most {TITLE_CHARS} characters", limit=TITLE_CHARS)
    journal = Journal(ports, lane, "rename")
    entry = Titled(title=render_title(line), at=utc(ports.clock.now()))

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
