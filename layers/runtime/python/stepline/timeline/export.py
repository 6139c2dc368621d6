"""Exports: a conversation, its sources and its turns as documents for other programs.

    artifact:conv.timeline.v1     the visible conversation: the newest summary and the blocks of the turns
        after it
    artifact:conv:sources_pool    the pool, whole rows
    artifact:turn.log             one turn, all its blocks

The log holds all of their content; they are made on demand, and nothing here is read back.
Source: docs/reference/exports.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from stepline.errors import NotFoundError
from stepline.model.base import Value
from stepline.model.batch import Batch, forked_from
from stepline.model.block import Block
from stepline.model.entry import Decided, Inbound, Resulted
from stepline.model.source import Source
from stepline.model.usage import estimate_tokens
from stepline.rendering.turn_facts import Turn
from stepline.timeline.entry_rows import OutsideRow, batch_rows, outside_rows
from stepline.timeline.fold import Timeline
from stepline.timeline.turn_blocks import SOURCES_USED, own_entries

TIMELINE_KIND: Final = "artifact:conv.timeline.v1"
SOURCES: Final = "artifact:conv:sources_pool"
TURN_LOG: Final = "artifact:turn.log"
VERSION: Final = 1
TEXT_CHARS: Final = 500
_SUMMARY: Final = "conv.range.summary"


class Export(Value):
    """One document: its kind, its tags for lookup, and its payload. `text` is the part to index."""

    kind: str
    tags: tuple[str, ...]
    text: str
    payload: dict[str, Any]


def export_conversation(timeline: Timeline, *, ttl_s: float) -> Iterator[Export]:
    """Yield every document of a conversation; a cache of its prompts lives `ttl_s`."""
    whole = timeline.whole()
    yield export_timeline(whole, ttl_s=ttl_s)
    yield export_sources(whole)
    for turn in whole.turns:
        yield export_turn(whole, turn)


def export_timeline(timeline: Timeline, *, ttl_s: float) -> Export:
    """Return the conversation from its newest summary on. Reads the batches that are not loaded."""
    timeline = timeline.whole()
    first, summary = _since_summary(timeline)
    turns = timeline.history[first:]
    blocks = summary + [
        block for turn in turns for block in timeline.turn_blocks(turn.id) if block.type != _SUMMARY
    ]
    inbound = list(_inbound(timeline, turns))
    newest = inbound[-1] if inbound else None
    payload = {
        "version": VERSION,
        "ts": timeline.tail.at,
        "blocks": _plain(blocks),
        "sources_pool": _plain(timeline.sources.values()),
        "turn_ids": list(timeline.turns),
        "conversation_title": timeline.title,
        "conversation_started_at": timeline.history[0].started_at if timeline.history else "",
        "last_activity_at": timeline.tail.at,
        "last_external_event_id": newest[1].message_id if newest else "",
        "last_external_event_seq": newest[0] if newest else 0,
        "last_rendered_event_cursor": _cursor(timeline, inbound, blocks),
        "cache_last_touch_at": timeline.asked.at,
        "cache_last_ttl_seconds": ttl_s,
        "last_known_feedback_ts": max((entry.at for entry in timeline.feedback.values()), default=""),
        "agent_selection_snapshot": {"model": timeline.asked.model},
        "forked_from": _origin(timeline),
        "last_sequence": timeline.n,
        "outside": msgspec.to_builtins(list(_outside(timeline))),
    }
    header = {
        "title": payload["conversation_title"],
        "started_at": payload["conversation_started_at"],
        "last_activity_at": payload["last_activity_at"],
        "blocks_count": len(blocks),
        "sources_count": len(timeline.sources),
        "turn_ids": payload["turn_ids"],
        "sources": [_compact(source) for source in timeline.sources.values()],
    }
    tags = (TIMELINE_KIND, *(f"turn:{turn}" for turn in timeline.turns))
    return Export(kind=TIMELINE_KIND, tags=tags, text=_json(header), payload=payload)


def _origin(timeline: Timeline) -> dict[str, Any] | None:
    """Return the origin of a fork, the number of its last batch there, and the root of a branch."""
    n = timeline.state.forked
    first = forked_from(timeline.since(n - 1, n)[0]) if n else None
    if first is None:
        return None
    return {"conversation": first.origin, "n": first.n, "branch_of": first.branch_of}


def export_sources(timeline: Timeline) -> Export:
    """Return the pool of sources."""
    rows = timeline.sources.values()
    text = _json({"sources": [_compact(source) for source in rows]})
    return Export(kind=SOURCES, tags=(SOURCES,), text=text, payload={"sources_pool": _plain(rows)})


def export_turn(timeline: Timeline, turn: str) -> Export:
    """Return all blocks of one turn. Raises NotFoundError `turn_not_found`."""
    found = next((one for one in timeline.history if one.id == turn), None)
    if found is None:
        raise NotFoundError(f"this conversation has no turn {turn[:80]}", code="turn_not_found")
    blocks = timeline.turn_blocks(turn)
    batches = _batches(timeline, found)
    facts = {
        "turn_id": turn,
        "ts": found.started_at,
        "end_ts": batches[-1].at if found.closed else "",
        "sources_used": _used(batches, blocks),
        "blocks_count": len(blocks),
        "tokens": sum(estimate_tokens(block.text) for block in blocks),
    }
    given = [row for row in timeline.feedback.values() if row.turn == turn and not row.withdrawn]
    ordered = sorted(given, key=lambda row: row.origin != "user")
    feedback = {
        "feedback": [{"origin": row.origin, "reaction": row.reaction, "ts": row.at} for row in ordered]
    }
    rows = batch_rows(found, batches, timeline.view.groups(turn), timeline.view.waited(turn))
    return Export(
        kind=TURN_LOG,
        tags=(TURN_LOG, "kind:turn.log", f"turn:{turn}"),
        text=_json(facts | (feedback if ordered else {})),
        payload={**facts, "blocks": _plain(blocks), "batches": msgspec.to_builtins(list(rows))},
    )


def _since_summary(timeline: Timeline) -> tuple[int, list[Block]]:
    """Return the index of the first turn after the newest summary, and that summary's blocks."""
    memory = timeline.compaction.memory
    if memory is None:
        return 0, []
    first = next(i for i, turn in enumerate(timeline.history) if turn.opened >= memory.cut)
    return first, list(timeline.resolve(f"su:{memory.turn}.{_SUMMARY}"))


def _inbound(timeline: Timeline, turns: Sequence[Turn]) -> Iterator[tuple[int, Inbound]]:
    """Yield the inbound events since the first of these turns began, each with its batch number."""
    first = min(turns[0].prompts, default=turns[0].opened) if turns else timeline.n + 1
    for batch in timeline.since(first - 1):
        for entry in batch.entries:
            if isinstance(entry, Inbound):
                yield batch.n, entry


def _outside(timeline: Timeline) -> Iterator[OutsideRow]:
    """Yield the events that no turn shows."""
    whole = timeline.since(0)
    shown = {n for turn in timeline.history for n in (*turn.prompts, *timeline.view.waited(turn.id))}
    for turn in timeline.history:
        own = timeline.since(turn.opened, turn.closed or timeline.n)  # after the one that opened it
        shown |= {
            batch.n for batch in own for entry in own_entries(turn, batch) if isinstance(entry, Inbound)
        }
    return outside_rows(whole, frozenset(shown))


def _cursor(
    timeline: Timeline, inbound: Sequence[tuple[int, Inbound]], blocks: Sequence[Block]
) -> dict[str, Any] | None:
    """Return the newest event that the model has seen, and its position."""
    seen = [(n, event) for n, event in inbound if n <= timeline.state.rendered]
    if not seen:
        return None
    n, event = seen[-1]
    positions = [i for i, block in enumerate(blocks) if block.meta.get("message_id") == event.message_id]
    at = positions[-1] if positions else -1
    return {
        "timestamp": event.at,
        "event_id": event.message_id,
        "block_path": blocks[at].path if positions else "",
        "block_index": at,
        "sequence": n,
        "fingerprint": hashlib.sha256(event.text.encode()).hexdigest()[:16],
    }


def _batches(timeline: Timeline, turn: Turn) -> tuple[Batch, ...]:
    return timeline.since(turn.opened - 1, turn.closed or timeline.n)


def _used(batches: Iterable[Batch], blocks: Iterable[Block]) -> list[int]:
    """Return the sids of the sources that a turn found or cites, in its answers, its notes or its files."""
    cited = [block.meta.get(SOURCES_USED) for block in blocks]  # a bundle's block may hold anything
    found = {sid for sids in cited if isinstance(sids, list | tuple) for sid in sids if isinstance(sid, int)}
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Resulted():
                    found |= {source.sid for source in entry.sources}
                case Decided():
                    found |= {source.sid for source in entry.citations}
                case _:
                    pass
    return sorted(found)


def _compact(source: Source) -> dict[str, Any]:
    """Return the fields of a source for an index."""
    row: Mapping[str, Any] = {
        "sid": source.sid,
        "title": source.title,
        "url": source.url,
        "text": source.text[:TEXT_CHARS],
        "published": source.published_time_iso,
        "favicon": source.favicon_url,
    }
    return {name: value for name, value in row.items() if value}


def _plain(values: Iterable[Value]) -> list[dict[str, Any]]:
    """Return values with every field, also those with their default, so that a reader need not know the defaults."""
    return [
        {name: asdict(own) if isinstance(own, Value) else own for name, own in asdict(value).items()}
        for value in values
    ]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
