"""The index of a turn: every path that leads to something of it, with what stands there in a line.

It is written when somebody reads `ar:<turn>.react.turn.index`, and stored nowhere. Whoever remembers only that a
turn was, finds everything of it here.
Source: docs/reference/paths.md#the-index-of-a-turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stepline.model.block import Block
from stepline.model.path import PlanPath
from stepline.model.source import Source
from stepline.timeline.render.quote import inline
from stepline.timeline.turn import Turn

HINT_CHARS: Final = 220

_MESSAGES: Final = ("user.prompt", "user.attachment", "assistant.completion")
_SUMMARIES: Final = ("ws:", "su:")


class Row(NamedTuple):
    """One path, what it is called, and what there is to know before it is read."""

    label: str
    path: str
    facts: Mapping[str, str] = {}
    hint: str = ""


def index_path(turn: str) -> str:
    """Return where the index of a turn stands."""
    return f"ar:{turn}.react.turn.index"


def render_turn_index(
    turn: Turn, blocks: Sequence[Block], sources: Iterable[Source], statuses: Mapping[str, str]
) -> str:
    """Return the index. `blocks` are all of the turn's, `sources` the rows that it brought or cites.

    `statuses` say how the calls that have a result ended, by call.
    """
    newest = {block.path: block for block in blocks if block.path}
    ended = next((block.ts for block in reversed(blocks) if block.type == "react.exit"), "")
    head = ["[TURN INDEX]", f"[path: {index_path(turn.id)}]", f"turn_id: {turn.id}"]
    head.append(f"started_at: {turn.started_at}")
    if ended:
        head += [f"ended_at: {ended}", f"outcome: {turn.outcome} ({turn.reason})"]
    sections = {
        "summaries": _summaries(turn, newest.values()),
        "messages": _messages(newest.values()),
        "events": _events(newest.values()),
        "tools": _tools(newest.values(), statuses),
        "artifacts": _artifacts(newest.values()),
        "plans": _plans(newest.values()),
        "record": _record(newest.values()),
        "sources": [_source(source) for source in sorted(sources, key=lambda source: source.sid)],
    }
    parts = ["\n".join(head)]
    parts += [_section(name, rows) for name, rows in sections.items() if rows]
    return "\n\n".join(parts) + "\n"


def _section(name: str, rows: Iterable[Row]) -> str:
    lines = [f"{name}:"]
    for row in rows:
        lines.append(f"- {inline(row.label)}: {row.path}")
        lines += [f"    {key}: {inline(value)}" for key, value in row.facts.items() if value]
        lines += [f"    hint: {row.hint}"] if row.hint else []
    return "\n".join(lines)


def _summaries(turn: Turn, blocks: Iterable[Block]) -> list[Row]:
    found = [block for block in blocks if block.path.startswith(_SUMMARIES)]
    written = [block for block in found if block.path.startswith("ws:")]
    rows = (
        [Row("of the turn, newest", f"ws:{turn.id}.conv.working.summary")] if written or turn.closed else []
    )
    return rows + [Row(block.type, block.path, hint=_hint(block)) for block in found]


def _messages(blocks: Iterable[Block]) -> list[Row]:
    return [
        Row(block.type, block.path, {"at": block.ts}, _hint(block))
        for block in blocks
        if _place(block) == "messages"
    ]


def _events(blocks: Iterable[Block]) -> list[Row]:
    return [
        Row(
            block.type,
            block.path,
            {"at": block.ts, "message_id": str(block.meta.get("message_id", "")), "from": block.author},
            _hint(block),
        )
        for block in blocks
        if _place(block) == "events"
    ]


def _tools(blocks: Iterable[Block], statuses: Mapping[str, str]) -> list[Row]:
    """Return a row for each call, with all that stands under it; a notice of no call that ran has one, too."""
    calls: dict[str, list[Block]] = {}
    for block in blocks:
        if block.path.startswith("tc:"):
            calls.setdefault(block.path.split(".")[1], []).append(block)
    return [row for call, own in calls.items() for row in _call(own, statuses.get(call, ""))]


def _call(own: Sequence[Block], status: str) -> Iterator[Row]:
    by_part = {block.path.split(".", 2)[2]: block for block in own}
    asked = by_part.pop("call", None)
    result = by_part.pop("result", None)
    others = [Row(part, block.path, hint=_hint(block)) for part, block in by_part.items()]
    if asked is not None:
        facts = {"status": status or "no result yet", "result": result.path if result else ""}
        yield Row(asked.tool_id, asked.path, facts, _hint(result or asked))
    elif result is not None:
        yield Row(result.tool_id or "result", result.path, {"status": status}, _hint(result))
    yield from others


def _artifacts(blocks: Iterable[Block]) -> list[Row]:
    rows = []
    for block in blocks:
        if block.path.startswith("fi:"):
            mime = block.body.mime if block.body else block.mime
            kind, visibility = (str(block.meta.get(name, "")) for name in ("kind", "visibility"))
            facts = {"mime": mime, "kind": kind, "source_tool": block.tool_id, "visibility": visibility}
            rows.append(Row(block.type, block.path, facts, _hint(block)))
    return rows


def _plans(blocks: Iterable[Block]) -> list[Row]:
    rows = []
    for block in blocks:
        if block.type == "react.plan":
            plan = block.path.partition(".react.plan.")[2]
            rows.append(Row("plan", block.path, {"newest": str(PlanPath(plan=plan))}, _hint(block)))
    return rows


def _record(blocks: Iterable[Block]) -> list[Row]:
    return [Row(block.type, block.path, hint=_hint(block)) for block in blocks if _place(block) == "record"]


def _source(source: Source) -> Row:
    return Row(source.title or f"source {source.sid}", f"so:sources_pool[{source.sid}]", {"url": source.url})


def _place(block: Block) -> str:
    """Return the section of a block that its path's family does not tell."""
    if block.type == "react.plan" or block.path[:3] in ("ws:", "su:", "tc:", "fi:"):
        return ""
    if ".external." in block.path:
        return "events"
    return "messages" if block.type.startswith(_MESSAGES) else "record"


def _hint(block: Block) -> str:
    text = inline(block.text[: HINT_CHARS * 4])
    return text if len(text) <= HINT_CHARS else f"{text[: HINT_CHARS - 1]}…"
