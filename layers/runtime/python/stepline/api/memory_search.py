"""Search: passages of the caller's conversations about a query, found by the index of memory.

An item is the passage at one path of a turn: a message, an answer, a summary, a note. Rows of turns that have ended are
searched, as in the agent's own search. Source: docs/concepts/http-api.md#search.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from stepline.api.conversations import CURSOR_MAX_CHARS
from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.api.project_conversations import Days, days_ago
from stepline.errors import InputError, NotFoundError
from stepline.model.base import Value
from stepline.model.ids import read_utc, utc
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryHit, MemoryQuery

QUERY_MAX_CHARS: Final = 256
ITEMS_MAX: Final = 50
ROWS_MAX: Final = 200
"""The most rows that one query finds over all of its pages: the number that the index ranks."""
EXCERPT_CHARS: Final = 300
ROWS_SHOWN: Final = 4
"""Rows of one text that an excerpt joins, the best ones in the order of the text."""
WORD: Final = re.compile(r"[^\W_]+")
"""A word by the rules of the index."""

Kind = Literal["user", "assistant", "summary", "attachment", "notes", "plans", "sources"]
AnyKind = Literal["", "user", "assistant", "summary", "attachment", "notes", "plans", "sources"]
Target = Literal["user", "assistant", "summary", "attachment"]
TARGETS: Final[tuple[Target, ...]] = ("user", "assistant", "summary", "attachment")
Weight = Annotated[float, Meta(ge=0, le=2)]
Text = Annotated[str, Meta(max_length=QUERY_MAX_CHARS)]


class SearchQuery(StrictInput):
    """The words of `q`: in one `conversation` or in all, of one `kind` or of `TARGETS`, from `since` to `before`.

    Times are ISO-8601; `after` is the cursor of the previous page.
    """

    q: Annotated[str, Meta(min_length=1, max_length=QUERY_MAX_CHARS)]
    conversation: Annotated[str, Meta(max_length=128)] = ""
    kind: AnyKind = ""
    since: Annotated[str, Meta(max_length=64)] = ""
    before: Annotated[str, Meta(max_length=64)] = ""
    after: Annotated[str, Meta(max_length=CURSOR_MAX_CHARS)] = ""
    limit: Annotated[int, Meta(ge=1, le=ITEMS_MAX)] = 20


class Excerpt(Value, omit_defaults=False):
    """A piece of an excerpt, plain text; `hit`: it is a word of the query."""

    text: str
    hit: bool


class SearchItem(Value, omit_defaults=False):
    """A found text. `n` is the batch that ended its turn, or made the summary; `at` is ISO-8601 in UTC."""

    conversation: str
    turn_id: str
    n: int
    kind: Kind
    at: str
    excerpt: tuple[Excerpt, ...]


class SearchPage(Value, omit_defaults=False):
    """Items, best first; `next` is "" on the last page. `behind`: some newer turns were not searched."""

    items: tuple[SearchItem, ...]
    next: str
    behind: bool


class Weights(StrictInput):
    """The weight of each part of a score; the index itself fixes the weights of words and meaning."""

    semantic: Weight = 1.0
    lexical: Weight = 1.0
    recency: Weight = 1.0


class SearchRequest(StrictInput):
    """A search of one conversation or of all of the user's, in the last `days`, from `from_ts` to `to_ts`."""

    query: Text
    scope: Literal["user", "conversation"] = "user"
    conversation_id: Annotated[str, Meta(max_length=128)] = ""
    targets: Annotated[tuple[Target, ...], Meta(min_length=1, max_length=len(TARGETS))] = TARGETS
    from_ts: Annotated[str, Meta(max_length=64)] = ""
    to_ts: Annotated[str, Meta(max_length=64)] = ""
    days: Days = 365
    limit: Annotated[int, Meta(ge=1, le=ITEMS_MAX)] = 20
    weights: Weights = Weights()


class SearchHit(Value, omit_defaults=False):
    """A found text; `similarity` is null for one found only by its words."""

    conversation_id: str
    turn_id: str
    role: Kind
    ts: str
    text: str
    score: float
    similarity: float | None


class FoundConversation(Value, omit_defaults=False):
    """A conversation in which something was found."""

    title: str
    last_activity_at: str


class SearchAnswer(Value, omit_defaults=False):
    """Hits, best first, and their conversations by id. `effective_mode` is `semantic`: by words and by meaning."""

    user_id: str
    effective_mode: str
    warnings: tuple[str, ...]
    hits: tuple[SearchHit, ...]
    conversations: dict[str, FoundConversation]


class _MemorySearch(NamedTuple):
    """A query. `at` is the time as of which it is answered: nothing newer is found, and recency is relative to it."""

    text: str
    conversation: str
    kinds: tuple[Kind, ...]
    since: str
    before: str
    at: str
    recency: float = 1.0


class _PathHits(NamedTuple):
    """The rows that were found at one path, best first; `score` is that of the best one."""

    rows: tuple[MemoryRow, ...]
    score: float
    similarity: float | None


def search(call: Call[SearchQuery, None]) -> SearchPage:
    """Search the caller's conversations by words and by meaning, best first.

    A ranking has no keys to continue after, so a cursor holds a position in it and the time of the first page: later
    pages are answered as of that time, and newer messages do not shift them. A cursor belongs to its user and its
    query.
    """
    query, mark = call.query, _mark(call)
    at, begin = _read_cursor(query.after, mark) if query.after else (utc(call.ports.clock.now()), 0)
    asked = _MemorySearch(
        text=query.q,
        conversation=query.conversation,
        kinds=(query.kind,) if query.kind else TARGETS,
        since=query.since and read_utc(query.since, "since"),
        before=query.before and read_utc(query.before, "before"),
        at=at,
    )
    found, is_stale = _find(call, asked)
    end = begin + query.limit
    return SearchPage(
        items=tuple(_item(one, asked) for one in found[begin:end]),
        next=_write_cursor(at, end, mark) if end < len(found) else "",
        behind=is_stale,
    )


def search_project(call: Call[Nothing, SearchRequest]) -> SearchAnswer:
    """Search the caller's conversations by words and by meaning, best first."""
    here, body = call.principal, call.body
    if (call.path["tenant"], call.path["project"]) != (here.tenant, here.project):
        raise NotFoundError("no such project")
    named = body.scope == "conversation"
    if named and not body.conversation_id:
        raise InputError("a search of one conversation needs its `conversation_id`", code="bad_conversation")
    asked = _MemorySearch(
        text=body.query,
        conversation=body.conversation_id if named else "",
        kinds=body.targets,
        since=max(days_ago(call, body.days), body.from_ts and read_utc(body.from_ts, "from_ts")),
        before=body.to_ts and read_utc(body.to_ts, "to_ts"),
        at=utc(call.ports.clock.now()),
        recency=body.weights.recency,
    )
    found, is_stale = _find(call, asked)
    hits = tuple(_hit(one, asked) for one in found[: body.limit])
    warnings = {"weights_not_taken": body.weights.semantic != body.weights.lexical, "index_behind": is_stale}
    return SearchAnswer(
        user_id=here.user,
        effective_mode="semantic",
        warnings=tuple(name for name, holds in warnings.items() if holds),
        hits=hits,
        conversations=dict(_conversations(call, hits)),
    )


def mark_words(text: str, query: str) -> tuple[Excerpt, ...]:
    """Return a text in pieces: the words of the query, and the text between them."""
    words = {word.casefold() for word in WORD.findall(query)}
    pieces, end = [], 0
    for found in WORD.finditer(text):
        if found[0].casefold() in words:
            pieces += [Excerpt(text=text[end : found.start()], hit=False), Excerpt(text=found[0], hit=True)]
            end = found.end()
    pieces.append(Excerpt(text=text[end:], hit=False))
    return tuple(piece for piece in pieces if piece.text)


def _find(call: Call[Any, Any], asked: _MemorySearch) -> tuple[list[_PathHits], bool]:
    """Return the hits, best first, and True if some newer turns were not searched.

    Raises NotFoundError for a conversation that is not the caller's; InputError `missing_query`; DependencyError.
    """
    from stepline.tools.memory import recall  # noqa: PLC0415 - other functions have the table and never search

    if not WORD.search(asked.text):
        raise InputError("a search needs a word", code="missing_query")
    if asked.conversation:
        replace(call, path={**call.path, "conversation": asked.conversation}).tail()
    index, here = call.ports.memory, call.principal
    if index is None:
        raise NotFoundError("there is nothing here")
    soon = utc(datetime.fromisoformat(asked.at) + timedelta(milliseconds=1))  # the bound is exclusive
    found = index.search(
        MemoryQuery(
            scope=MemoryScope(tenant=here.tenant, project=here.project, user=here.user),
            text=asked.text,
            conversation=asked.conversation,
            kinds=tuple(kind for target in asked.kinds for kind in recall.TARGETS[target]),
            since=asked.since,
            before=min(asked.before or soon, soon),
            limit=ROWS_MAX,
        )
    )

    def score(hit: MemoryHit) -> float:
        return hit.score * (1 + asked.recency * recall.recency(hit.row.at, asked.at))

    ranked = sorted(found.hits, key=lambda hit: -score(hit))
    texts: dict[tuple[str, str], list[MemoryHit]] = {}
    for hit in ranked:
        texts.setdefault((hit.row.conversation, hit.row.path), []).append(hit)
    return [
        _PathHits(tuple(hit.row for hit in hits), score(hits[0]), hits[0].similarity)
        for hits in texts.values()
    ], found.behind


def _item(found: _PathHits, asked: _MemorySearch) -> SearchItem:
    row = found.rows[0]
    return SearchItem(
        conversation=row.conversation,
        turn_id=row.turn,
        n=row.n,
        kind=_kind(row),
        at=row.at,
        excerpt=mark_words(_excerpt(found, asked), asked.text),
    )


def _hit(found: _PathHits, asked: _MemorySearch) -> SearchHit:
    row = found.rows[0]
    return SearchHit(
        conversation_id=row.conversation,
        turn_id=row.turn,
        role=_kind(row),
        ts=row.at,
        text=_excerpt(found, asked),
        score=round(found.score, 4),
        similarity=None if found.similarity is None else round(found.similarity, 3),
    )


def _kind(row: MemoryRow) -> Kind:
    from stepline.tools.memory.recall import KIND_ROLES  # noqa: PLC0415 - as above

    return cast("Kind", KIND_ROLES[row.kind])


def _excerpt(found: _PathHits, asked: _MemorySearch) -> str:
    from stepline.tools.memory.recall import excerpt  # noqa: PLC0415 - as above

    texts = [row.text for row in sorted(found.rows[:ROWS_SHOWN], key=lambda row: row.part)]
    return excerpt(" … ".join(texts), asked.text, EXCERPT_CHARS)


def _conversations(
    call: Call[Any, Any], hits: Iterable[SearchHit]
) -> Iterator[tuple[str, FoundConversation]]:
    for name in dict.fromkeys(hit.conversation_id for hit in hits):
        row = call.ports.log.listing(replace(call, path={"conversation": name}).lane())
        if row is not None:
            yield name, FoundConversation(title=row.title, last_activity_at=row.last_at)


def _mark(call: Call[SearchQuery, None]) -> str:
    """Return the check word of a user and a query: a cursor is valid only with its own."""
    here, query = call.principal, call.query
    of = (query.q, query.conversation, query.kind, query.since, query.before)
    text = msgspec.json.encode((here.tenant, here.project, here.user, of))
    return hashlib.sha256(text).hexdigest()[:16]


def _write_cursor(at: str, position: int, mark: str) -> str:
    return urlsafe_b64encode(msgspec.json.encode((at, position, mark))).decode().rstrip("=")


def _read_cursor(text: str, mark: str) -> tuple[str, int]:
    """Return a cursor's time and position. Raises InputError `bad_cursor`."""
    try:
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        at, position, of = msgspec.json.decode(raw, type=tuple[str, int, str])
        fits = of == mark and read_utc(at, "after") == at and 0 < position < ROWS_MAX
    except (ValueError, InputError) as error:
        raise InputError("the cursor is not one of this search", code="bad_cursor") from error
    if not fits:
        raise InputError("the cursor is not one of this search", code="bad_cursor")
    return at, position


_SEARCHED: Final = {**OWNED, HTTPStatus.BAD_REQUEST: ("missing_query", "bad_conversation")}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/search",
        search,
        counts="searches",
        gives={"after": "/next"},
        codes={**_SEARCHED, HTTPStatus.BAD_REQUEST: (*_SEARCHED[HTTPStatus.BAD_REQUEST], "bad_cursor")},
    ),
    Endpoint(
        "POST", "/conversations/{tenant}/{project}/search", search_project, counts="searches", codes=_SEARCHED
    ),
)
