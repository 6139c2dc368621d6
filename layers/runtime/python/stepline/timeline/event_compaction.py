"""What clients hear of a compaction: that it began, and how it ended, under one id."""

from __future__ import annotations

from typing import Annotated

from stepline.model.entry import Compacted, Compacting
from stepline.model.event import ClientEvent
from stepline.timeline.event_data import Doc, EventData, make_event


class CompactionTold(EventData):
    """Older turns are being summarised, because the conversation outgrew its budget; or that has ended."""

    EVENT = "chat.compaction"
    ROUTE = "chat_compaction"
    STEP = "context.compaction"

    compaction_id: Annotated[str, Doc(description="the same when it begins and when it ends")]
    kind: Annotated[str, Doc(description="what is summarised")]
    trigger_reason: Annotated[str, Doc(description="why")]
    before_tokens: Annotated[int, Doc(description="of the request, estimated")]
    max_tokens: Annotated[int, Doc(description="what a request may have")]
    after_tokens: Annotated[int, Doc(description="of the request, estimated")] = 0
    reason: Annotated[str, Doc(description="why nothing changed")] = ""


def compaction_event(entry: Compacting | Compacted) -> ClientEvent:
    """Return the event of a compaction's beginning or end."""
    data = CompactionTold(
        compaction_id=entry.id,
        kind=entry.scope,
        trigger_reason=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
    )
    if isinstance(entry, Compacting):
        return make_event(data, entry.at, entry.turn, "started")
    ended = CompactionTold(
        compaction_id=entry.id,
        kind=entry.scope,
        trigger_reason=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
        after_tokens=entry.after_tokens,
        reason=entry.reason,
    )
    return make_event(ended, entry.at, entry.turn, entry.status)
