"""What clients hear of a compaction: that it began, and how it ended, under one id."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from stepline.model.entry import Compacted, Compacting
from stepline.model.wire.event import ClientEvent
from stepline.timeline.event_data import Doc, EventData, Status, make_event

_TITLES: Final[dict[Status, str]] = {
    "started": "Context Compaction Started",
    "completed": "Context Compaction Completed",
    "skipped": "Context Compaction Skipped",
    "error": "Context Compaction Failed",
}


class CompactionTold(EventData):
    """The conversation outgrew its budget, so older parts of it are being summed up; or that has ended.

    One that no model is asked for has an end only.
    """

    EVENT = "chat.compaction"
    ROUTE = "chat_compaction"
    STEP = "context.compaction"

    compaction_id: Annotated[str, Doc(description="the same when it begins and when it ends")]
    title: Annotated[str, Doc(description="what to call it")]
    kind: Annotated[
        str,
        Doc(
            description="what is summed up: `history` (turns), `current_turn_prefix` (earlier rounds of this turn) "
            "or `history_with_split_turn` (both)"
        ),
    ]
    trigger_reason: Annotated[
        str,
        Doc(
            description="`render_token_limit`: by our estimate; `forced`: the provider found the request too large"
        ),
    ]
    before_tokens: Annotated[int, Doc(description="of the request, estimated")]
    max_tokens: Annotated[int, Doc(description="what a request may have")]
    force: Annotated[bool, Doc(description="whether the provider asked for it")] = False
    after_tokens: Annotated[int, Doc(description="of the request, estimated")] = 0
    compacted_tokens: Annotated[int, Doc(description="how many fewer that is")] = 0
    input_tokens: Annotated[int, Doc(description="what the model read for its summaries")] = 0
    output_tokens: Annotated[int, Doc(description="what it wrote")] = 0
    reason: Annotated[
        str, Doc(description="why nothing changed, or why the words are the runtime's and no model's")
    ] = ""
    covered_turns: Annotated[int, Doc(description="how many turns the summary covers")] = 0
    covered_turn_ids: Annotated[
        list[str], Doc(description="the first and the last turn that the summary covers")
    ] = msgspec.field(default_factory=list)
    split_turn_id: Annotated[str, Doc(description="the turn whose earlier rounds a checkpoint covers")] = ""


def compaction_event(entry: Compacting | Compacted) -> ClientEvent:
    """Return the event of a compaction's beginning or end."""
    ended = entry if isinstance(entry, Compacted) else None
    status: Status = ended.status if ended else "started"
    usage = ended.usage if ended else None
    changed = ended is not None and ended.status == "completed"
    data = CompactionTold(
        compaction_id=entry.id,
        title=_TITLES[status],
        kind=entry.scope,
        trigger_reason=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
        force=entry.trigger == "forced",
        after_tokens=ended.after_tokens if ended else 0,
        compacted_tokens=max(0, entry.before_tokens - ended.after_tokens) if ended and changed else 0,
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reason=ended.reason if ended else "",
        covered_turns=ended.turns if ended and changed else 0,
        covered_turn_ids=list(ended.covered) if ended and changed else [],
        split_turn_id=entry.turn if ended and changed and ended.split else "",
    )
    return make_event(data, entry.at, entry.turn, status)
