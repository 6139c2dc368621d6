"""`web_tools.web_search`: search, and add the results to the pool of sources.

Nothing is fetched here: a page's text is the search engine's copy. All of it is untrusted data.
Source: docs/reference/tools.md#web_toolsweb_search.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import DependencyError, ToolError
from stepline.model.path import SourcesPath
from stepline.model.source import Source, normalise_url
from stepline.model.visible_text import shorten
from stepline.ports.search import Hit, WebSearch, WebSearchQuery
from stepline.timeline.sources_pool import fit_source, is_eligible
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import choice, closed_schema, param
from stepline.tools.read.source_rows import items_stats
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

logger = logging.getLogger(__name__)

QUERIES_MAX: Final = 8
QUERY_CHARS: Final = 400
TEXT_CHARS, TEXTS_CHARS = 400, 6_000
TITLE_CHARS, FACT_CHARS = 120, 60
FILTERED: Final = "web_search.filtered_results"

LETTERS_MIN: Final = 3
"""Shorter words say nothing about a subject; a script without blanks is compared by its characters."""
JUDGED_CHARS: Final = 20_000
"""The part of a page that is compared with the objective."""
_TOKEN: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")

_QUERY: Final = {"type": "string", "minLength": 1, "maxLength": QUERY_CHARS, "pattern": "\\S"}

WEB_SEARCH: Final = ToolSpec(
    tool_id="web_tools.web_search",
    purpose=(
        "Search the web, or what stands in for it: the result says what was searched. What is found gets a number in the pool of sources, by which you cite it: [[S:<sid>]]. Snippets "
        "are shown; react.read at so:sources_pool[<sid>] has the text that the engine gave."
    ),
    schema=closed_schema(
        {
            "queries": {
                **_QUERY,
                **param(
                    ["string", "array"],
                    "a query, or several ways to ask for the same thing; a page is returned once",
                    items=_QUERY,
                    minItems=1,
                    maxItems=QUERIES_MAX,
                ),
            },
            "objective": param("string", "what you want to find out, in a sentence", maxLength=1000),
            "n": param(
                "integer", "how many pages at most, over all queries", minimum=1, maximum=20, default=8
            ),
            "freshness": choice(["day", "week", "month", "year"], "only pages published within this time"),
            "country": param(
                "string", "prefer pages of a country, by its two letters (ISO 3166)", pattern="^[A-Za-z]{2}$"
            ),
            "safesearch": choice(
                ["off", "moderate", "strict"], "how much adult content is left out", default="moderate"
            ),
        },
        "queries",
    ),
    returns=(
        "rows, best first: sid, title, url, text (a snippet), times if known, query_relevance, objective_relevance from 0 to 1; a program "
        "gets the list of rows, with the whole text as content where the engine has it"
    ),
    effect="pure",
    read_only=True,
    in_exec=True,
    cancellable=True,
    strategies=("exploration",),
    reads="outside",
    examples=(
        {
            "queries": ["prompt caching", "cache long prompts"],
            "objective": "How do providers bill cached input?",
        },
    ),
)


def run_search(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Search, number the results, and show them to model and user. Raises ToolError `search_unavailable`."""
    if context.search is None:
        raise ToolError("nothing can be looked up here", code="search_unavailable")
    written = [params["queries"]] if isinstance(params["queries"], str) else params["queries"]
    queries = list(dict.fromkeys(query.strip() for query in written))
    try:
        hits, asked = _search_queries(context.search, queries, params, context)
    except DependencyError as error:
        # The engine was tried again already, and the model can answer without a search: the turn need not fail.
        logger.exception("search failed", extra={"call_id": context.call_id})
        raise _unsearched(error) from error
    cited = context.cite(_source(hit, context.ts) for hit in hits)
    # A known page's row has the snippet of an earlier query: show this query's.
    rows = [_row(source, hit) for source, hit in zip(cited, hits, strict=True)]
    shown = [{**row, "text": shorten(row.get("text", ""), TEXT_CHARS)} for row in rows]
    status = _status(shown, queries[:asked], about=context.search.about)
    if asked < len(queries):
        status["message"] = f"the user steered: {len(queries) - asked} of the queries were not asked"
    result = context.result(WEB_SEARCH.tool_id, status)
    context.emit(
        FILTERED,
        {
            "results": shown,
            "objective": params.get("objective", ""),
            "queries": queries[:asked],
            "search_id": context.call_id,
        },
    )
    return ToolOutput(
        blocks=(
            replace(
                result, meta={"items_stats": items_stats(rows), "sources_used": [row.sid for row in cited]}
            ),
        ),
        ret=[{**row, **_content(hit)} for row, hit in zip(rows, hits, strict=True)],
        sources=cited,
    )


def _search_queries(
    engine: WebSearch, queries: list[str], params: Mapping[str, Any], context: ToolContext
) -> tuple[list[Hit], int]:
    """Return the merged results, and the number of queries sent before a steer.

    Each page is listed once, the best of every query before the second of any. Raises ToolError `cancelled` if
    no query was sent.
    """
    n = params.get("n", 8)
    asked = WebSearchQuery(
        text="",
        at=datetime.fromisoformat(context.ts),
        n=n,
        freshness=params.get("freshness", ""),
        country=params.get("country", "").upper(),
        safesearch=params.get("safesearch", "moderate"),
        objective=params.get("objective", "").strip(),
    )
    context.check_cancelled()
    found: list[Sequence[Hit]] = []
    for query in queries:
        if found and context.cancel.requested:
            break
        found.append([_judged(hit, asked.objective) for hit in engine.search(replace(asked, text=query))])
    kept: dict[str, Hit] = {}
    for rank in range(n):
        for hits in found:
            if rank >= len(hits):
                continue
            hit, key = hits[rank], normalise_url(hits[rank].url)
            if not is_eligible(_source(hit, "")):
                continue  # not a public address
            before = kept.get(key)
            if before is None or (hit.relevance or 0) > (before.relevance or 0):
                kept[key] = hit
    return list(kept.values())[:n], len(found)


def judge_by_words(objective: str, *texts: str) -> float | None:
    """Return the share of the objective's words that the texts contain, 0 to 1; None for one without words."""
    wanted = _words(objective)
    if not wanted:
        return None
    found = wanted & _words("\n".join(texts)[:JUDGED_CHARS])
    return round(len(found) / len(wanted), 3)


def _words(text: str) -> set[str]:
    tokens = (token.casefold() for token in _TOKEN.findall(text))
    return {
        token.removesuffix("s") if len(token) > LETTERS_MIN else token
        for token in tokens
        if len(token) >= LETTERS_MIN or not token[0].isascii()
    }


def _judged(hit: Hit, objective: str) -> Hit:
    """Return the hit with its relevance to the objective, by words if the engine gives none."""
    if hit.objective_relevance is not None or not objective:
        return hit
    return replace(hit, objective_relevance=judge_by_words(objective, hit.title, hit.text, hit.content))


def _unsearched(error: DependencyError) -> ToolError:
    """Return the error that the model reads; only codes of an engine's refusal are its own."""
    if error.reason in ("search_key_missing", "search_key_refused"):
        words = "the search engine takes no searches: its key is missing or wrong, which only its operator can mend"
        return ToolError(words, code=error.reason)
    if error.reason == "search_rate_limited":
        return ToolError("the search engine takes no more searches for now", code=error.reason)
    return ToolError("the search engine does not answer now", code="search_unavailable")


def _source(hit: Hit, fetched: str) -> Source:
    return Source(
        title=hit.title,
        url=hit.url,
        text=hit.text,
        content=hit.content,
        source_type="web",
        mime=hit.mime,
        published_time_iso=hit.published_time_iso,
        modified_time_iso=hit.modified_time_iso,
        fetched_time_iso=fetched,
        author=hit.author,
        authority="web",
        favicon_url=hit.favicon_url,
        query_relevance=hit.relevance,
        objective_relevance=hit.objective_relevance,
    )


def _row(source: Source, hit: Hit) -> dict[str, Any]:
    """Return the row of a page, without unknown fields."""
    own = fit_source(_source(hit, ""))
    row: dict[str, Any] = msgspec.to_builtins(
        replace(
            source,
            text=own.text,
            content="",
            query_relevance=hit.relevance,
            objective_relevance=hit.objective_relevance,
            turn_id="",
        )
    )
    favicon = {"favicon": row.pop("favicon_url")} if "favicon_url" in row else {}
    return {**row, **favicon}


def _content(hit: Hit) -> dict[str, str]:
    return {"content": hit.content} if hit.content else {}


def _status(rows: list[dict[str, Any]], queries: list[str], *, about: str) -> dict[str, Any]:
    """Return the status for the model: rows short enough to be shown whole."""
    head = {"status": "ok", "searched": about, "queries": queries}
    if not rows:
        return {**head, "results": [], "message": "nothing was found"}
    chars = min(TEXT_CHARS, TEXTS_CHARS // len(rows))
    sids = tuple((row["sid"], row["sid"]) for row in rows)
    return {
        **head,
        "artifact_path": str(SourcesPath(ranges=sids)),
        "results": [_brief(row, chars) for row in rows],
    }


def _brief(row: Mapping[str, Any], chars: int) -> dict[str, Any]:
    """Return a row shortened for the model; the whole of it is in the pool."""
    limits = {"text": chars, "title": TITLE_CHARS, "url": TITLE_CHARS}
    return {
        name: shorten(value, limits.get(name, FACT_CHARS)) if isinstance(value, str) else value
        for name, value in row.items()
        if name != "favicon"
    }


WEB_SEARCH_TOOL: Final = Tool(spec=WEB_SEARCH, run=run_search)
