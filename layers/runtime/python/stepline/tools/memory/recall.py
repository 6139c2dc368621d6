"""Recall: rows of the memory index for one conversation, the newer of two equals first.

The index fuses the results of its retrievers into one score. The final score is that times 1 + recency; the recency of
a row halves in `half_life_days`, by default seven.
Source: docs/reference/tools.md#reactmemsearch.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, TypedDict

from stepline.errors import DependencyError, InputError, ToolError
from stepline.model.base import Value
from stepline.model.ids import utc
from stepline.model.memory_row import MemoryRow, MemoryScope, RowKind
from stepline.model.path import LoggedPath, name_foreign, parse_path
from stepline.ports.memory_index import MemoryQuery
from stepline.timeline.view import index_path
from stepline.tools.context import ToolContext

logger = logging.getLogger(__name__)

RecallScope: TypeAlias = Literal["conversation", "user"]

TARGETS: Final[dict[str, tuple[RowKind, ...]]] = {
    "assistant": ("answer",),
    "user": ("prompt", "event"),
    "attachment": ("attachment",),
    "summary": ("summary", "range"),
    "notes": ("note",),
    "plans": ("plan",),
    "sources": ("source",),
}
"""The kinds of rows that each target searches."""
DEFAULT_TARGETS: Final = ("assistant", "user", "attachment", "summary")
KIND_ROLES: Final = {kind: role for role, kinds in TARGETS.items() for kind in kinds}

_TAGS: Final[Mapping[RowKind, tuple[str, ...]]] = {
    "prompt": ("chat:user",),
    "event": ("chat:user",),
    "answer": ("chat:assistant",),
    "summary": ("chat:assistant", "chat:summary", "kind:working.summary"),
    "note": ("chat:internal_note", "kind:react.note"),
    "plan": ("kind:react.plan",),
    "source": ("artifact:conv:sources_pool",),
    "attachment": ("artifact:user.attachment",),
    "range": ("artifact:conv.range.summary",),
}
"""The tags of a hit by its kind, in the names of the design's index. They are made from the row, and stored nowhere."""

QUERY_CHARS: Final = 256
HALF_LIFE_DAYS: Final = 7.0
SCOPES: Final = ("conversation", "user")

NOT_HERE: Final = "memory_not_here"
UNAVAILABLE: Final = "memory_unavailable"


class Recalled(Value):
    """A row with its scores. `path` leads to it from here; `similarity` is None for one found by its words alone."""

    row: MemoryRow
    path: str
    score: float
    recency: float
    similarity: float | None

    @property
    def role(self) -> str:
        """The target that the row belongs to."""
        return KIND_ROLES[self.row.kind]


class TimeWindow(Value):
    """A span of time: from `since` until just before `before`, ISO-8601 in UTC; "" is unbounded."""

    since: str = ""
    before: str = ""

    def holds(self, at: str) -> bool:
        """Return True if a time lies in it."""
        return at >= self.since and (not self.before or at < self.before)


def recall(
    context: ToolContext,
    query: str,
    *,
    targets: Collection[str],
    scope: RecallScope,
    window: TimeWindow,
    limit: int,
    half_life_days: float = HALF_LIFE_DAYS,
) -> tuple[list[Recalled], bool]:
    """Return at most `limit` rows, best first, and whether newer ones were not searched.

    Raises ToolError: `memory_not_here`, there is no index; `memory_unavailable`, it cannot be reached now.
    """
    if context.memory is None or context.conversations is None:
        raise ToolError("there is no search of memory here", code=NOT_HERE)
    lane = context.lane
    asked = MemoryQuery(
        scope=MemoryScope(tenant=lane.tenant, project=lane.project, user=context.conversations.owner),
        text=query[:QUERY_CHARS],
        conversation=lane.conversation if scope == "conversation" else "",
        kinds=tuple(kind for target in TARGETS if target in targets for kind in TARGETS[target]),
        since=window.since,
        before=window.before,
        limit=limit,
    )
    try:
        found = context.memory.search(asked)
    except DependencyError as error:
        # The model can continue without it, and is informed; the turn need not fail.
        logger.exception("memory not searched", extra={"call_id": context.call_id})
        raise ToolError("the memory index does not answer now", code=UNAVAILABLE) from error
    rows = []
    for hit in found.hits:
        rec = recency(hit.row.at, context.ts, half_life_days)
        rows.append(
            Recalled(
                row=hit.row,
                path=path_from(context, hit.row.conversation, hit.row.path, hit.row.turn),
                score=hit.score * (1 + rec),
                recency=rec,
                similarity=hit.similarity,
            )
        )
    rows.sort(key=lambda one: -one.score)
    return rows, found.behind


class SearchOptions(TypedDict, total=False):
    """The options of `search_memory`."""

    kind: str | Collection[str]
    scope: RecallScope
    days: int
    top_k: int
    limit: int
    half_life_days: float


def search_memory(
    context: ToolContext,
    query: str,
    *,
    kind: str | Collection[str] = (),
    scope: RecallScope = "conversation",
    days: int = 90,
    top_k: int = 12,
    limit: int = 0,
    half_life_days: float = HALF_LIFE_DAYS,
) -> dict[str, Any]:
    """Return the `items` of closed turns that match a query, best first, for the code of a bundle.

    `kind` is one of `TARGETS` or several of them, by default all but notes, plans and sources; `limit` is another
    name of `top_k`. An item has `path`, `role`, `text`, `ts`, `tags`, `turn_id`, `conversation_id`, and `score`, `sim`, `rec`.
    `behind` is true if newer turns were not searched.

    Raises:
        InputError: `bad_kind`.
        ToolError: `memory_not_here`, `memory_unavailable`.
    """
    kinds = ((kind,) if isinstance(kind, str) else tuple(kind)) or DEFAULT_TARGETS
    if unknown := sorted(set(kinds) - TARGETS.keys()):
        raise InputError(
            f"there is no kind {unknown[0][:40]!r}; there are {', '.join(TARGETS)}", code="bad_kind"
        )
    rows, incomplete = recall(
        context,
        query,
        targets=kinds,
        scope=scope,
        window=TimeWindow(since=days_before(context.ts, days)),
        limit=limit or top_k,
        half_life_days=half_life_days,
    )
    return {"items": [_item(one) for one in rows], "behind": incomplete}


def _item(one: Recalled) -> dict[str, Any]:
    return {
        "path": one.path,
        "role": one.role,
        "text": one.row.text,
        "ts": one.row.at,
        "tags": [f"turn:{one.row.turn}", *_TAGS[one.row.kind], *(f"note_tag:{tag}" for tag in one.row.tags)],
        "turn_id": one.row.turn,
        "conversation_id": one.row.conversation,
        "score": one.score,
        "sim": one.similarity,
        "rec": one.recency,
    }


def recency(at: str, now: str, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """Return 1 for a row from now, half of that after each half-life."""
    age = datetime.fromisoformat(now) - datetime.fromisoformat(at)
    return math.exp(-math.log(2) * max(0.0, age / timedelta(days=half_life_days)))


def path_from(context: ToolContext, conversation: str, path: str, turn: str) -> str:
    """Return a path of another conversation in the form that can be read from this one.

    Content with numbers of that conversation, such as a row of the pool of sources, is found by the index of its turn.
    """
    if conversation == context.lane.conversation:
        return path
    own = path if isinstance(parse_path(path), LoggedPath) else index_path(turn)
    return name_foreign(own, conversation)


def days_before(now: str, days: int) -> str:
    """Return the time `days` days before another one."""
    return utc(datetime.fromisoformat(now) - timedelta(days=days))


_WORD: Final = re.compile(r"\w{3,64}")
LEAD_CHARS: Final = 120
"""The text shown before the first word of the query."""


def excerpt(text: str, query: str, chars: int) -> str:
    """Return at most `chars` characters of a text on one line, from a little before the first word of the query."""
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    folded = line.casefold()
    places = [at for word in _WORD.findall(query.casefold()) if (at := folded.find(word)) >= 0]
    # A case-folded text may be longer than the original: the position is close enough.
    begin = max(0, min(min(places, default=0) - LEAD_CHARS, len(line) - chars + 1))
    head = "…" if begin else ""
    cut = line[begin : begin + chars - len(head)]
    return head + (cut if begin + len(cut) >= len(line) else cut[:-1] + "…")


def by_turn(rows: Sequence[Recalled]) -> dict[tuple[str, str], list[Recalled]]:
    """Return the rows by conversation and turn, in the order in which each turn was found first."""
    turns: dict[tuple[str, str], list[Recalled]] = {}
    for one in rows:
        turns.setdefault((one.row.conversation, one.row.turn), []).append(one)
    return turns
