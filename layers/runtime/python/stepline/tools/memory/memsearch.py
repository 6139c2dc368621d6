"""`react.memsearch`: find earlier turns by meaning and words, by their number, by their time, or list them.

A hit is a turn. It names its matches by paths that `react.read` accepts, each with a preview; only this result enters
the timeline, because a preview stored at the path of the whole text would be mistaken for it.
A turn's number counts the closed turns of the scope that began within the window, from 1, oldest first.
Source: docs/reference/tools.md#reactmemsearch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.ids import utc
from stepline.model.usage import estimate_tokens
from stepline.rendering.turn_facts import Turn
from stepline.timeline.view import index_path
from stepline.tools.context import Resolver, ToolContext, ToolOutput, render_json
from stepline.tools.memory.recall import (
    DEFAULT_TARGETS,
    QUERY_CHARS,
    SCOPES,
    TARGETS,
    Recalled,
    RecallScope,
    TimeWindow,
    by_turn,
    days_before,
    excerpt,
    path_from,
    recall,
)
from stepline.tools.parameter import choice, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

OTHERS_MAX: Final = 20
"""The maximum number of other conversations that one call searches, the most recently used ones."""
ABOUT_CHARS: Final = 800
NOTES_SHOWN: Final = 3
ATTACHMENTS_SHOWN: Final = 5

_USER: Final = ("user.prompt", "user.followup", "user.steer")


class _CatalogueTurn(Value):
    """A turn of the catalogue and its number."""

    conversation: str
    turn: Turn
    ordinal: int


class Catalogue:
    """The closed turns of a scope, oldest first. `complete`: no conversation of the scope was left out."""

    def __init__(self, context: ToolContext, scope: RecallScope, window: TimeWindow) -> None:
        """List them. Raises DependencyError."""
        self._context = context
        self._timelines: dict[str, Resolver] = {context.lane.conversation: context.timeline}
        self.complete = True
        if scope == "user" and context.conversations is not None:
            names, more = context.conversations.newest(OTHERS_MAX)
            found = {name: context.conversations.find(name) for name in names}
            self._timelines |= {name: timeline for name, timeline in found.items() if timeline is not None}
            self.complete = not more
        turns = [
            (turn.started_at, conversation, turn)
            for conversation, timeline in self._timelines.items()
            for turn in timeline.history
            if turn.closed and window.holds(turn.started_at)
        ]
        turns.sort(key=lambda one: (one[0], one[1], one[2].opened))
        self.turns = [
            _CatalogueTurn(conversation=conversation, turn=turn, ordinal=ordinal)
            for ordinal, (_, conversation, turn) in enumerate(turns, 1)
        ]

    def row(self, listed: _CatalogueTurn, targets: Collection[str], chars: int) -> dict[str, Any]:
        """Return the row of a turn, with snippets of at most `chars` characters."""
        turn, conversation = listed.turn, listed.conversation
        timeline, here = self._timelines[conversation], self._context

        def path(own: str) -> str:
            return path_from(here, conversation, own, turn.id)

        blocks = timeline.turn_blocks(turn.id)
        summary = timeline.resolve(f"ws:{turn.id}.conv.working.summary")
        elsewhere = {} if conversation == here.lane.conversation else {"conversation_id": conversation}
        ended = next((block.ts for block in reversed(blocks) if block.type == "react.exit"), "")
        return {
            "turn_id": turn.id,
            **elsewhere,
            "ordinal": listed.ordinal,
            "turn_index_path": path(index_path(turn.id)),
            "working_summary_path": path(f"ws:{turn.id}.conv.working.summary"),
            "started_at": turn.started_at,
            "ended_at": ended,
            "outcome": turn.outcome,
            "about": excerpt(summary[-1].text, "", ABOUT_CHARS) if summary else "",
            "matched_via_role": "turn_catalog",
            "snippets": [
                _block_snippet(role, block, path(block.path), chars)
                for role, block in _chosen(blocks, summary, targets)
            ],
        }


def _block_snippet(role: str, block: Block, path: str, chars: int) -> dict[str, Any]:
    snippet = {"path": path, "role": role, "ts": block.ts}
    preview = "" if role == "summary" else excerpt(block.text, "", chars)  # `about` shows the summary
    return {**snippet, "text": preview} if preview else snippet


def _chosen(
    blocks: Collection[Block], summary: Collection[Block], targets: Collection[str]
) -> Iterator[tuple[str, Block]]:
    """Yield the blocks of a turn that the targets name: its summary, the first message, the last answer, some files and notes."""
    newest = {block.path: block for block in blocks if block.path}
    of: Mapping[str, list[Block]] = {
        "summary": list(summary)[-1:],
        "user": [block for block in blocks if block.type in _USER][:1],
        "assistant": [block for block in blocks if block.type == "assistant.completion"][-1:],
        "attachment": [block for block in newest.values() if block.type == "user.attachment"][
            :ATTACHMENTS_SHOWN
        ],
        "notes": [block for block in newest.values() if block.type == "react.note"][-NOTES_SHOWN:],
        "plans": [block for block in newest.values() if block.type == "react.plan"][-1:],
    }
    for role, chosen in of.items():
        if role in targets:
            yield from ((role, block) for block in chosen)


LISTING_MODES: Final = ("ordinal", "temporal", "timeline", "catalog")
TOP_K, TOP_K_MAX = 5, 200
DAYS, DAYS_LISTED = 365, 3650
SNIPPET_CHARS: Final = 500
SNIPPETS_SHOWN: Final = 3
RESULT_CHARS: Final = 11_000
"""The maximum characters of all hits: of a longer result the model would see only the beginning."""
ROWS_PER_HIT: Final = 16
"""Rows requested from the index for one hit: a row may be a sentence, and all rows of a turn are one hit."""
ROWS_SHOWN: Final = 4
"""Rows of one text that a snippet joins, the best ones in the order of the text."""

_TIME: Final = {"type": "string", "minLength": 4, "maxLength": 40}
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "from": ("from_ts", "start", "start_at"),
    "to": ("to_ts", "end", "end_at"),
}


def _other_names(of: str) -> dict[str, Any]:
    return {
        name: {**_TIME, "description": f"another name of `{of}`", "alias_of": of} for name in _OTHER_NAMES[of]
    }


MEMSEARCH: Final = ToolSpec(
    tool_id="react.memsearch",
    purpose=(
        "Find earlier turns that you no longer see: by what they were about (query), by number (ordinal), by time (from, to), "
        'or all in order (mode "timeline": for an overview of the conversation). Then read the paths of the hits.'
    ),
    schema=closed_schema(
        {
            "query": param(
                "string",
                f"what to look for, in your own words; the first {QUERY_CHARS} characters count",
                maxLength=4_000,
            ),
            "targets": param(
                "array",
                "where to look",
                minItems=1,
                items={"enum": list(TARGETS)},
                default=list(DEFAULT_TARGETS),
            ),
            "mode": param(
                "string",
                "semantic, ordinal, temporal or timeline; follows from the other parameters",
                maxLength=40,
            ),
            "scope": choice(SCOPES, "this conversation, or all of this user", default="conversation"),
            "ordinal": param("integer", "the n-th turn, from 1", minimum=1),
            "from": {**_TIME, "description": "not before this time (ISO 8601)"},
            **_other_names("from"),
            "to": {**_TIME, "description": "before this time"},
            **_other_names("to"),
            "order": choice(["asc", "desc"], "oldest or newest first, without query", default="asc"),
            "top_k": param("integer", "most hits", minimum=1, maximum=TOP_K_MAX, default=TOP_K),
            "days": param("integer", "how far back", minimum=1, maximum=36_500),
        }
    ),
    returns=(
        "hits, a turn each: turn_index_path, working_summary_path, scores, and snippets: path, role, time and the beginning "
        "of the text, unless you see it already; warnings"
    ),
    effect="pure",
    read_only=True,
    any_order=True,
    strategies=("exploration",),
    examples=({"query": "which database was chosen", "targets": ["summary", "assistant"]},),
)


class _MemsearchRequest(Value):
    """One valid call. `query` is "" in a catalogue mode; `mode` is the one that the result names."""

    mode: str
    query: str
    targets: tuple[str, ...]
    scope: RecallScope
    window: TimeWindow
    ordinal: int
    newest_first: bool
    top_k: int
    warnings: tuple[dict[str, str], ...]


def run_memsearch(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Search or list. Raises ToolError `missing_query`, `bad_time`, `memory_not_here`, `memory_unavailable`."""
    request = read_call(params, context.ts)
    facts, hits, warnings = (_list if request.mode in LISTING_MODES else _search)(request, context)
    hits = [hit for hit in hits if hit["snippets"]]
    kept = list(_fit(hits))
    warned = [*request.warnings, *warnings]
    if len(kept) < len(hits):
        warned.append(_warning("hits_left_out", "not all hits fit; narrow the time, the targets or top_k"))
    result: dict[str, Any] = {
        "status": "ok",
        "mode": request.mode,
        "scope": request.scope,
        **facts,
        "hits": kept,
    }
    result["tokens"] = estimate_tokens(render_json({"hits": kept}))
    if warned:
        result["warnings"] = warned
    if not kept:
        result["message"] = "nothing was found"
    return ToolOutput(blocks=(context.result(MEMSEARCH.tool_id, result),))


def read_call(params: Mapping[str, Any], now: str) -> _MemsearchRequest:
    """Return the request that a call makes. Raises ToolError `missing_query`, `bad_time`."""
    given = str(params.get("mode", "")).strip().casefold()
    query = str(params.get("query", "")).strip()
    ordinal, since, before = params.get("ordinal", 0), _time(params, "from"), _time(params, "to")
    bounded = bool(since or before)
    lists = given in LISTING_MODES or ordinal > 0 or (bounded and not query)
    warnings = []
    if given not in ("", "semantic", *LISTING_MODES):
        warnings.append(_warning("mode_unknown", f"there is no mode {given!r}; the parameters decided"))
    if lists and query:
        warnings.append(_warning("query_ignored", "turns are listed, and the query is not used"))
    if not lists and not query:
        raise ToolError(
            "say what to look for in `query`, or list turns with mode timeline, ordinal, or from and to",
            code="missing_query",
        )
    derived = "ordinal" if ordinal else "temporal" if bounded else "timeline"
    mode = (given if given in LISTING_MODES else derived) if lists else "semantic"
    reach = days_before(now, params.get("days", DAYS_LISTED if lists or bounded else DAYS))
    return _MemsearchRequest(
        mode=mode,
        query="" if lists else query,
        targets=tuple(params.get("targets", DEFAULT_TARGETS)),
        scope=cast("RecallScope", params.get("scope", "conversation")),
        window=TimeWindow(since=max(since, reach), before=before),
        ordinal=ordinal,
        newest_first=params.get("order", "asc") == "desc",
        top_k=params.get("top_k", TOP_K),
        warnings=tuple(warnings),
    )


def _time(params: Mapping[str, Any], name: str) -> str:
    """Return a bound in the log's format, by any of its names; "" if there is none. Raises ToolError `bad_time`."""
    written = next((params[one] for one in (name, *_OTHER_NAMES[name]) if one in params), "")
    if not written:
        return ""
    try:
        at = datetime.fromisoformat(written)
        return utc(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise ToolError(f"`{name}` is no time of ISO 8601: {written!r}", code="bad_time") from error


def _warning(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _list(
    request: _MemsearchRequest, context: ToolContext
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, str]]]:
    """Return the facts, hits and warnings of a catalogue."""
    catalogue = Catalogue(context, request.scope, request.window)
    turns = [one for one in catalogue.turns if request.ordinal in (0, one.ordinal)]
    turns = (turns[::-1] if request.newest_first else turns)[: request.top_k]
    hits = [catalogue.row(one, request.targets, SNIPPET_CHARS) for one in turns]
    warnings = []
    if not catalogue.complete:
        warnings.append(
            _warning(
                "older_conversations_not_listed", f"only the {OTHERS_MAX} last used others were looked at"
            )
        )
    return {"total_turns": len(catalogue.turns)}, hits, warnings


def _search(
    request: _MemsearchRequest, context: ToolContext
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, str]]]:
    """Return the facts, hits and warnings of a search by meaning."""
    rows, incomplete = recall(
        context,
        request.query,
        targets=request.targets,
        scope=request.scope,
        window=request.window,
        limit=min(request.top_k, TOP_K_MAX) * ROWS_PER_HIT,
    )
    turns = list(by_turn(rows).values())[: request.top_k]
    warnings = []
    if incomplete:
        warnings.append(
            _warning(
                "index_behind", "the newest turns were not searched; mode timeline with order desc lists them"
            )
        )
    query = request.query[:QUERY_CHARS]
    return {"source_query": query}, [_hit(found, query, context) for found in turns], warnings


def _hit(found: Sequence[Recalled], query: str, context: ToolContext) -> dict[str, Any]:
    """Return the hit of one turn; its best row comes first."""
    best = found[0]
    conversation, turn = best.row.conversation, best.row.turn

    def path(own: str) -> str:
        return path_from(context, conversation, own, turn)

    own = conversation == context.lane.conversation
    at: dict[str, list[Recalled]] = {}
    for one in found:
        at.setdefault(one.path, []).append(one)
    # A turn that runs in another conversation has only rows of its range summaries.
    ended = turn != context.turn if own else any(one.row.kind != "range" for one in found)
    similarity = {} if best.similarity is None else {"sim_score": round(best.similarity, 3)}
    return {
        "turn_id": turn,
        **({} if own else {"conversation_id": conversation}),
        "turn_index_path": path(index_path(turn)),
        **({"working_summary_path": path(f"ws:{turn}.conv.working.summary")} if ended else {}),
        "score": round(best.score, 4),
        **similarity,
        "recency_score": round(best.recency, 3),
        "matched_via_role": best.role,
        "ts": best.row.at,
        "snippets": [_snippet(rows, query, context) for rows in list(at.values())[:SNIPPETS_SHOWN]],
    }


def _snippet(rows: Sequence[Recalled], query: str, context: ToolContext) -> dict[str, Any]:
    """Return the rows at one path as the model reads them; content that it already sees has only its position."""
    best = rows[0]
    said = {"path": best.path, "role": best.role, "ts": best.row.at}
    if context.visible(best.path) is not None:
        return {**said, "exists_in_visible_context": True}
    texts = [one.row.text for one in sorted(rows[:ROWS_SHOWN], key=lambda one: one.row.part)]
    return {**said, "text": excerpt(" … ".join(texts), query, SNIPPET_CHARS)}


def _fit(hits: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield hits until their characters are used up, at least one."""
    left = RESULT_CHARS
    for index, hit in enumerate(hits):
        left -= _size([hit])
        if left < 0 and index:
            return
        yield hit


def _size(hits: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(render_json(hit)) for hit in hits)


MEMSEARCH_TOOL: Final = Tool(spec=MEMSEARCH, run=run_memsearch)
