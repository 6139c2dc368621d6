"""The list of a user's conversations as a pure fold: pages of the list, and the frames of the feed.

`watch` first, and read the list when the feed has begun: what changes meanwhile comes as frames. Each field remembers the
batch that it is known from, so frames and pages give the same list in any order, and what comes twice changes nothing.
Source: docs/concepts/streaming.md#the-feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.wire.event import ClientEvent, FeedFrame


class FeedRow(Value):
    """A conversation: `state` as in `conv.status`, "" while unknown; `active_n` is the newest batch with something to read.

    `waits_for` belongs to the state. `title_at` and `state_at` are the batches that these are known from. Of one batch, a frame
    says more than a row, which may have been read before the effects of that batch were done. A conversation whose state is
    `deleted` stays so, and is not shown: a page may have been read before.
    """

    conversation: str
    title: str = ""
    title_at: int = 0
    state: str = ""
    waits_for: str = ""
    state_at: tuple[int, bool] = (0, False)
    active_n: int = 0
    read_n: int = 0

    @property
    def unread_n(self) -> int:
        """The first batch that the user has not read; 0 if there is none."""
        return self.read_n + 1 if self.read_n < self.active_n else 0


DELETED: Final = "deleted"

FeedRows: TypeAlias = Mapping[str, FeedRow]
"""Conversations by name."""


def take_page(rows: FeedRows, items: Iterable[Mapping[str, Any]]) -> FeedRows:
    """Return the list with the `items` of a page of `GET /v1/conversations`."""
    return {
        **rows,
        **{item["conversation"]: _take_item(_row(rows, item["conversation"]), item) for item in items},
    }


def fold_feed(rows: FeedRows, frame: FeedFrame) -> FeedRows:
    """Return the list after a frame of the feed."""
    row = _row(rows, frame.conversation)
    row = replace(row, read_n=max(row.read_n, frame.read_n))
    for event in frame.events:
        row = _take_event(row, frame.n, event)
    return {**rows, frame.conversation: row}


def _row(rows: FeedRows, conversation: str) -> FeedRow:
    return rows.get(conversation) or FeedRow(conversation=conversation)


def _take_item(row: FeedRow, item: Mapping[str, Any]) -> FeedRow:
    if row.state == DELETED:
        return row
    n, active_n, unread_n = item["n"], item["active_n"], item["unread_n"]
    row = replace(
        row,
        active_n=max(row.active_n, active_n),
        read_n=max(row.read_n, unread_n - 1 if unread_n else active_n),
    )
    if n >= row.title_at:
        row = replace(row, title=item["title"], title_at=n)
    if (n, False) >= row.state_at:
        row = replace(row, state=item["state"], waits_for=item.get("waits_for", ""), state_at=(n, False))
    return row


def _take_event(row: FeedRow, n: int, event: ClientEvent) -> FeedRow:
    if row.state == DELETED:
        return row
    if event.type == "chat.conversation.title" and n >= row.title_at:
        return replace(row, title=str(event.data.get("title", "")), title_at=n)
    if event.type != "conv.status":
        return row
    if event.data.get("state") == DELETED:
        return replace(
            row, title="", title_at=n, state=DELETED, waits_for="", state_at=(n, True), active_n=row.read_n
        )
    waits_for = str(event.data.get("waits_for", ""))
    if n == 1 or event.data.get("completion") or waits_for:
        row = replace(row, active_n=max(row.active_n, n))
    if (n, True) >= row.state_at:
        row = replace(row, state=str(event.data.get("state", "")), waits_for=waits_for, state_at=(n, True))
    return row
