"""The pool of sources: every source of a conversation once, under a number that never changes.

Source: docs/concepts/sources.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stepline.model.source import URL_CHARS, Source, normalise_url, web_url

SID_MAX: Final = 999_999
TITLE_CHARS, TEXT_CHARS, CONTENT_CHARS = 300, 2_000, 100_000
FACT_CHARS: Final = 200

_LONGER: Final = ("title", "text", "content")
_SCORES: Final = ("objective_relevance", "query_relevance")
_FACTS: Final = (
    "mime",
    "author",
    "authority",
    "published_time_iso",
    "modified_time_iso",
    "fetched_time_iso",
)
_FILLED: Final = tuple(
    name
    for name in Source.__struct_fields__
    if name not in ("sid", "source_type", "turn_id", *_LONGER, *_SCORES)
)


class Merged(NamedTuple):
    """The result of a merge: `rows` of the pool are new or changed, `sids` the rows' numbers in order.

    A row that the pool does not accept has the number 0. `renamed` maps the proposed numbers of rows to the
    ones they got.
    """

    rows: tuple[Source, ...]
    sids: tuple[int, ...]
    renamed: dict[int, int]


def source_key(source: Source) -> str:
    """Return the identity of a row's source."""
    if source.path:
        return f"local:{source.path}"
    return normalise_url(source.url) or f"text:{source.title}\n{source.text}"


def is_eligible(source: Source) -> bool:
    """Return True if the pool accepts a row: web pages, manual entries, documents (`ks:`), and images of files."""
    match source.source_type:
        case "web":
            return bool(web_url(source.url))
        case "manual":
            return bool(source.title or source.text or source.url)
        case "file" if source.path.startswith("ks:"):
            return True
        case _:
            return bool(source.path) and source.mime.startswith("image/")


def fit_source(source: Source) -> Source:
    """Return a row with its untrusted fields cut to their limits."""
    facts = {name: getattr(source, name)[:FACT_CHARS] for name in _FACTS}
    return replace(
        source,
        **facts,
        title=source.title.strip()[:TITLE_CHARS],
        url=source.url.strip()[:URL_CHARS],
        text=source.text[:TEXT_CHARS],
        content=source.content[:CONTENT_CHARS],
        favicon_url=web_url(source.favicon_url),
    )


def merge_sources(
    pool: Mapping[int, Source], incoming: Iterable[Source], *, keys: Mapping[str, int] | None = None
) -> Merged:
    """Merge rows into the pool. A known source keeps its number, a new one its proposed one if free.

    Otherwise it gets the number after the last, or the first free one if the last is the largest possible.

    `keys` are the numbers of the pool's rows by `source_key`, to speed up repeated merges.
    """
    known = dict(keys) if keys is not None else {source_key(row): sid for sid, row in pool.items()}
    last = max(pool, default=0)
    changed: dict[int, Source] = {}
    sids: list[int] = []
    renamed: dict[int, int] = {}
    for proposed in incoming:
        if not is_eligible(proposed):
            sids.append(0)
            continue
        row = fit_source(proposed)
        key = source_key(row)
        sid = known.get(key, 0)
        if not sid:
            sid = next(sid for sid in chain((row.sid, last + 1), count(1)) if _is_free(sid, pool, changed))
            known[key] = sid
        last = max(last, sid)
        before = changed.get(sid) or pool.get(sid)
        after = replace(row, sid=sid) if before is None else _merged(before, row)
        if after != before:
            changed[sid] = after
        sids.append(sid)
        if proposed.sid:
            renamed.setdefault(proposed.sid, sid)
    return Merged(tuple(changed[sid] for sid in sorted(changed)), tuple(sids), renamed)


def _is_free(sid: int, pool: Mapping[int, Source], changed: Mapping[int, Source]) -> bool:
    return 0 < sid <= SID_MAX and sid not in pool and sid not in changed


def _merged(old: Source, new: Source) -> Source:
    """Return one row of two: the longer texts, the better scores, and the missing fields filled in."""
    fields: dict[str, Any] = {name: getattr(old, name) or getattr(new, name) for name in _FILLED}
    for name in _LONGER:
        fields[name] = max(getattr(old, name), getattr(new, name), key=len)
    for name in _SCORES:
        scores = [score for row in (old, new) if (score := getattr(row, name)) is not None]
        fields[name] = max(scores, default=None)
    return replace(old, **fields)


def select_sources(pool: Mapping[int, Source], ranges: Sequence[tuple[int, int]]) -> tuple[Source, ...]:
    """Return the rows whose numbers are in the ranges, ascending; all rows without a range."""
    return tuple(
        pool[sid] for sid in sorted(pool) if not ranges or any(first <= sid <= last for first, last in ranges)
    )
