"""The view: a timeline's blocks by logical path, for tools to resolve.

Only the turn that a path names is derived, on demand. Source: docs/concepts/timeline.md#paths.

The index of a turn lists every path of the turn, each with a line about its content. It is rendered when
`ar:<turn>.react.turn.index` is read, and never stored. The id of a turn is enough to find everything in it.
Source: docs/reference/paths.md#the-index-of-a-turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from stepline.model.batch import Batch
from stepline.model.block import NOTE_TAGS, Block
from stepline.model.entry import Decided, Dropped, Entry, Feedback, Inbound, Resulted
from stepline.model.ids import TURN, Lane
from stepline.model.path import PlanPath
from stepline.model.plan_steps import Plan
from stepline.model.source import Source
from stepline.rendering.plan_text import plan_history
from stepline.rendering.quote import clip, inline
from stepline.rendering.turn_facts import Turn, feedback_block
from stepline.timeline.turn_blocks import BlockGroup, derive_groups
from stepline.timeline.working_summary import summarize_turn

_OF_TURN = re.compile(rf"[a-z]{{2}}:({TURN.pattern})\.(.+)", re.DOTALL)
_ATTEMPT = "assistant.completion.attempt"
_LATEST_PLAN: Final = "ar:plan.latest:"
LAST: Final = 10**12
"""Larger than every batch number."""


class TimelineView:
    """Blocks by path. Built for one timeline; derived blocks are kept."""

    def __init__(
        self,
        history: Sequence[Turn],
        since: Callable[[int, int], Sequence[Batch]],
        plans: Mapping[str, Plan],
        sources: Mapping[int, Source],
        feedback: Mapping[str, Feedback],
        *,
        lane: Lane,
    ) -> None:
        self._lane = lane
        self._turns, self._history = history, {turn.id: turn for turn in history}
        self._ended = {turn.id: last.closed for last, turn in pairwise(history)}
        self._since = since
        self._plans, self._sources, self._feedback = plans, sources, feedback
        self._groups: dict[str, tuple[BlockGroup, ...]] = {}

    def blocks(self) -> tuple[Block, ...]:
        """Return every block of every turn, in the order of the log."""
        return tuple(block for turn in self._history for group in self.groups(turn) for block in group)

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for an unknown turn."""
        return tuple(block for group in self.groups(turn) for block in group) if turn in self._history else ()

    def groups(self, turn: str) -> tuple[BlockGroup, ...]:
        """Return the blocks of a turn, entry by entry."""
        if turn not in self._groups:
            found = self._history[turn]
            before = self._ended.get(turn, 0)
            first = min([before, *(n - 1 for n in found.prompts)])
            batches = self._since(first, found.closed or LAST)
            by_n = {batch.n: batch for batch in batches}
            prompts = [inbound for n in found.prompts for inbound in _inbound(by_n[n])]
            waited = [inbound for n in self._waiting(batches, found) for inbound in _inbound(by_n[n])]
            own = [batch for batch in batches if batch.n >= found.opened]
            groups = derive_groups(self._lane, found, own, prompts, waited, turns=self._turns)
            feedback = sorted(
                (entry for entry in self._feedback.values() if entry.turn == turn),
                key=lambda entry: entry.origin != "user",
            )
            self._groups[turn] = (*groups, tuple(map(feedback_block, feedback))) if feedback else groups
        return self._groups[turn]

    def waited(self, turn: str) -> tuple[int, ...]:
        """Return the batches of the events that arrived before a turn and were queued for it."""
        found = self._history[turn]
        return self._waiting(self._since(self._ended.get(turn, 0), found.opened), found)

    def _waiting(self, batches: Sequence[Batch], turn: Turn) -> tuple[int, ...]:
        before = self._ended.get(turn.id, 0)
        return _waited([batch for batch in batches if before < batch.n <= turn.opened], turn)

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest blocks at a logical path; none if there are none.

        An alias resolves to its target. A view of another path (`meta.source_path`) is found at its own
        path only.
        """
        if path.startswith(_LATEST_PLAN):
            plan = self._plans.get(path.removeprefix(_LATEST_PLAN))
            return self._newest(f"ar:{plan.last_turn_id}.react.plan.{plan.plan_id}") if plan else ()
        return self._newest(path) or self._alias(path)

    def _newest(self, path: str) -> tuple[Block, ...]:
        for group in self._where(path):
            found = tuple(b for b in group if b.path == path and b.meta.get("source_path", path) == path)
            if found:
                return found
        return ()

    def _where(self, path: str) -> Iterator[BlockGroup]:
        """Yield the groups that may hold a path, newest first."""
        named = _OF_TURN.fullmatch(path)
        if named and named[1] in self._history:
            yield from reversed(self.groups(named[1]))

    def _alias(self, path: str) -> tuple[Block, ...]:
        named = _OF_TURN.fullmatch(path)
        if named is None or named[1] not in self._history:
            return ()
        turn, name = named[1], named[2]
        kind, _, number = name.rpartition(".")
        return (
            self._numbered(turn, kind, int(number)) if number.isdecimal() else self._plain(turn, name, path)
        )

    def _plain(self, turn: str, name: str, path: str) -> tuple[Block, ...]:
        """Return the newest of several numbered blocks, or a block that is made on demand."""
        match name:
            case "react.turn.index":
                return (self._index(self._history[turn]),)
            case "artifacts.summary":
                return (self._artifacts(path, self._history[turn]),)
            case "react.plan.history":
                return (self._plan_history(path, self._history[turn]),)
            case "conv.working.summary":
                return self._last(turn, name) or self._summary(turn)
            case "assistant.completion":
                return self._last(turn, _ATTEMPT)
            case _:
                return ()

    def _numbered(self, turn: str, kind: str, number: int) -> tuple[Block, ...]:
        """Return one of several blocks by its number, from 1."""
        match kind:
            case "assistant.completion":
                return self._newest(f"ar:{turn}.{_ATTEMPT}.{number}")
            case "conv.range.summary" if number:
                return tuple(b for b in self.turn_blocks(turn) if b.type == kind)[number - 1 : number]
            case _:
                return ()

    def _last(self, turn: str, kind: str) -> tuple[Block, ...]:
        return tuple(block for block in self.turn_blocks(turn) if block.type == kind)[-1:]

    def _plan_history(self, path: str, turn: Turn) -> Block:
        facts = msgspec.json.encode(plan_history(self._plans.values())).decode()
        return _made("react.plan.history", path, facts, turn, {})

    def _artifacts(self, path: str, turn: Turn) -> Block:
        newest = {block.path: block for block in self.turn_blocks(turn.id) if block.path}
        rows = _artifacts(newest.values())
        listing = _section("artifacts", rows) if rows else "artifacts: none"
        text = f"[TURN ARTIFACTS]\n[path: {path}]\nturn_id: {turn.id}\n\n{listing}\n"
        return _made("artifacts.summary", path, text, turn, {"generated": "on_demand"})

    def _summary(self, turn: str) -> tuple[Block, ...]:
        """Return the runtime's summary for a closed turn without a summary of the model; none while the turn runs."""
        found = self._history[turn]
        if not found.closed:
            return ()
        path, meta = f"ws:{turn}.conv.working.summary", {"kind": "working_summary", "created_by": "runtime"}
        text = summarize_turn(self.turn_blocks(turn))
        return (_made("conv.working.summary", path, text, found, meta),)

    def _index(self, turn: Turn) -> Block:
        entries = [e for batch in self._since(turn.opened - 1, turn.closed or LAST) for e in batch.entries]
        statuses = {entry.call_id: entry.status for entry in entries if isinstance(entry, Resulted)}
        wanted = {sid for entry in entries for sid in _sids(entry)}
        sources = [row for row in self._sources.values() if row.sid in wanted or row.turn_id == turn.id]
        text = render_turn_index(turn, self.turn_blocks(turn.id), sources, statuses)
        meta = {"artifact_kind": "react.turn.index", "generated": "on_demand", "source_turn_id": turn.id}
        return _made("react.turn.index", index_path(turn.id), text, turn, meta)


def _made(kind: str, path: str, text: str, turn: Turn, meta: dict[str, str]) -> Block:
    """Return a block that is made on demand and not stored."""
    return Block(
        type=kind, author="react", ts=turn.started_at, turn_id=turn.id, path=path, text=text, meta=dict(meta)
    )


def _sids(entry: Entry) -> list[int]:
    """Return the sids that an entry adds or cites."""
    match entry:
        case Resulted():
            return [source.sid for source in entry.sources]
        case Decided():
            return [source.sid for source in entry.citations]
        case _:
            return []


def _waited(batches: Sequence[Batch], turn: Turn) -> tuple[int, ...]:
    """Return the batches of the events that arrived after the end of the previous turn, and opened none."""
    settled = {entry.n for batch in batches for entry in batch.entries if isinstance(entry, Dropped)}
    settled.update(turn.prompts)
    return tuple(batch.n for batch in batches if batch.n not in settled and _inbound(batch))


def _inbound(batch: Batch) -> list[Inbound]:
    return [entry for entry in batch.entries if isinstance(entry, Inbound)]


HINT_CHARS: Final = 220

_MESSAGES: Final = ("user.prompt", "user.attachment", "assistant.completion")
_SUMMARIES: Final = ("ws:", "su:")


class _IndexRow(NamedTuple):
    """One line of the index: a label, the path, facts, and a hint of the content."""

    label: str
    path: str
    facts: Mapping[str, str] = {}
    hint: str = ""


def index_path(turn: str) -> str:
    """Return the path of a turn's index."""
    return f"ar:{turn}.react.turn.index"


def render_turn_index(
    turn: Turn, blocks: Sequence[Block], sources: Iterable[Source], statuses: Mapping[str, str]
) -> str:
    """Return the index. `blocks` are all of the turn's, `sources` the rows that it added or cites.

    `statuses` maps each call that has a result to its status.
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


def _section(name: str, rows: Iterable[_IndexRow]) -> str:
    lines = [f"{name}:"]
    for row in rows:
        lines.append(f"- {inline(row.label)}: {row.path}")
        lines += [f"    {key}: {inline(value)}" for key, value in row.facts.items() if value]
        lines += [f"    hint: {row.hint}"] if row.hint else []
    return "\n".join(lines)


def _summaries(turn: Turn, blocks: Iterable[Block]) -> list[_IndexRow]:
    found = [block for block in blocks if block.path.startswith(_SUMMARIES)]
    written = [block for block in found if block.path.startswith("ws:")]
    rows = (
        [_IndexRow("of the turn, newest", f"ws:{turn.id}.conv.working.summary")]
        if written or turn.closed
        else []
    )
    return rows + [_IndexRow(block.type, block.path, hint=_hint(block)) for block in found]


def _messages(blocks: Iterable[Block]) -> list[_IndexRow]:
    return [
        _IndexRow(block.type, block.path, {"at": block.ts}, _hint(block))
        for block in blocks
        if _index_section(block) == "messages"
    ]


def _events(blocks: Iterable[Block]) -> list[_IndexRow]:
    return [
        _IndexRow(
            block.type,
            block.path,
            {"at": block.ts, "message_id": str(block.meta.get("message_id", "")), "from": block.author},
            _hint(block),
        )
        for block in blocks
        if _index_section(block) == "events"
    ]


def _tools(blocks: Iterable[Block], statuses: Mapping[str, str]) -> list[_IndexRow]:
    """Return a row for each call with its result, and rows for the other blocks below a call."""
    calls: dict[str, list[Block]] = {}
    for block in blocks:
        if block.path.startswith("tc:"):
            calls.setdefault(block.path.split(".")[1], []).append(block)
    return [row for call, own in calls.items() for row in _call(own, statuses.get(call, ""))]


def _call(own: Sequence[Block], status: str) -> Iterator[_IndexRow]:
    by_part = {block.path.split(".", 2)[2]: block for block in own}
    call = by_part.pop("call", None)
    result = by_part.pop("result", None)
    others = [_IndexRow(part, block.path, hint=_hint(block)) for part, block in by_part.items()]
    if call is not None:
        facts = {"status": status or "no result yet", "result": result.path if result else ""}
        yield _IndexRow(call.tool_id, call.path, facts, _hint(result or call))
    elif result is not None:
        yield _IndexRow(result.tool_id or "result", result.path, {"status": status}, _hint(result))
    yield from others


def _artifacts(blocks: Iterable[Block]) -> list[_IndexRow]:
    rows = []
    for block in blocks:
        if block.path.startswith("fi:"):
            mime = block.body.mime if block.body else block.mime
            kind, visibility = (str(block.meta.get(name, "")) for name in ("kind", "visibility"))
            noted = block.meta.get("note_tags")  # a block of a bundle may hold anything
            tags = [tag for tag in NOTE_TAGS if isinstance(noted, list | tuple) and tag in noted]
            facts = {
                "mime": mime,
                "kind": kind,
                "source_tool": block.tool_id,
                "visibility": visibility,
                "tags": ", ".join(tags),
            }
            rows.append(_IndexRow(block.type, block.path, facts, _hint(block)))
    return rows


def _plans(blocks: Iterable[Block]) -> list[_IndexRow]:
    rows = []
    for block in blocks:
        if block.type == "react.plan":
            plan = block.path.partition(".react.plan.")[2]
            rows.append(_IndexRow("plan", block.path, {"newest": str(PlanPath(plan=plan))}, _hint(block)))
    return rows


def _record(blocks: Iterable[Block]) -> list[_IndexRow]:
    return [
        _IndexRow(block.type, block.path, hint=_hint(block))
        for block in blocks
        if _index_section(block) == "record"
    ]


def _source(source: Source) -> _IndexRow:
    return _IndexRow(
        source.title or f"source {source.sid}", f"so:sources_pool[{source.sid}]", {"url": source.url}
    )


def _index_section(block: Block) -> str:
    """Return the section of a block that the family of its path does not determine."""
    if block.type == "react.plan" or block.path[:3] in ("ws:", "su:", "tc:", "fi:"):
        return ""
    if ".external." in block.path:
        return "events"
    return "messages" if block.type.startswith(_MESSAGES) else "record"


def _hint(block: Block) -> str:
    return clip(block.text, HINT_CHARS)
