"""`web_tools.web_fetch`: read pages by their addresses, and add them to the pool of sources.

A page is readable text, and untrusted: the result holds it as data. The adapter decides which addresses may be
requested, at every redirect.
Source: docs/reference/tools.md#web_toolsweb_fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import DependencyError, ToolError
from stepline.model.path import SourcesPath
from stepline.model.source import URL_CHARS, Source, host_of, normalise_url
from stepline.model.visible_text import shorten
from stepline.ports.search import Page, WebPages
from stepline.timeline.sources_pool import fit_source
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import closed_schema, param
from stepline.tools.read.source_rows import items_stats
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.web.web_search import judge_by_words

logger = logging.getLogger(__name__)

URLS_MAX: Final = 5
SNIPPET_CHARS: Final = 400
TEXTS_CHARS: Final = 8_000
FETCHED: Final = "web_fetch.results"
UNAVAILABLE: Final = "fetch_unavailable"

_URL: Final = {"type": "string", "minLength": 1, "maxLength": URL_CHARS, "pattern": "\\S"}

WEB_FETCH: Final = ToolSpec(
    tool_id="web_tools.web_fetch",
    purpose=(
        "Read public pages by their addresses. Each becomes a source; the rest of a long one is in react.read."
    ),
    schema=closed_schema(
        {
            "urls": {
                **_URL,
                **param(
                    ["string", "array"],
                    f"at most {URLS_MAX}; HTML, text, JSON, XML, no PDF",
                    items=_URL,
                    minItems=1,
                    maxItems=URLS_MAX,
                ),
            },
            "objective": param("string", "what you want to find out", maxLength=1000),
        },
        "urls",
    ),
    returns="a row each: sid, title, url, text, times if known, status: success or why not",
    effect="pure",
    read_only=True,
    in_exec=True,
    cancellable=True,
    strategies=("exploration",),
    reads="outside",
    examples=({"urls": ["https://example.com/"]},),
)


def run_web_fetch(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Fetch the pages, number them, and show them to model and user.

    Raises ToolError: the code of the first failure if there is no page at all; `cancelled`, `fetch_unavailable`.
    """
    if context.pages is None:
        raise ToolError("no page can be fetched here", code=UNAVAILABLE)
    written = [params["urls"]] if isinstance(params["urls"], str) else params["urls"]
    urls = list({normalise_url(url): url.strip() for url in written}.values())
    objective = params.get("objective", "").strip()
    context.check_cancelled()
    got: list[Page | ToolError] = []
    for url in urls:
        if got and context.cancel.requested:
            break
        got.append(_fetch(context.pages, url, context))
    sources = [_source(page, context.ts, objective) for page in got if isinstance(page, Page)]
    cited = context.cite(sources)
    rows = _rows(urls, got, sources, cited)
    shown = [{**row, "text": shorten(row["text"], SNIPPET_CHARS)} if "text" in row else row for row in rows]
    context.emit(
        FETCHED,
        {
            "execution_id": context.call_id,
            "objective": objective,
            "urls": urls,
            "results": [{name: value for name, value in row.items() if name != "content"} for row in shown],
        },
    )
    if not cited:
        failures = [one for one in got if isinstance(one, ToolError)]
        raise ToolError("; ".join(map(str, failures)), code=failures[0].reason)
    status = _status(rows, cited)
    if len(got) < len(urls):
        status["message"] = f"the user steered: {len(urls) - len(got)} of the addresses were not asked"
    used = [row for row in rows if "sid" in row]
    meta = {"items_stats": items_stats(used), "sources_used": [row.sid for row in cited]}
    return ToolOutput(
        blocks=(replace(context.result(WEB_FETCH.tool_id, status), meta=meta),), ret=rows, sources=cited
    )


def _fetch(pages: WebPages, url: str, context: ToolContext) -> Page | ToolError:
    try:
        return pages.fetch(url)
    except ToolError as refused:
        logger.info("page not fetched", extra={"call_id": context.call_id, "code": refused.reason})
        return refused
    except DependencyError:
        logger.exception("pages cannot be fetched", extra={"call_id": context.call_id})
        return ToolError("pages cannot be fetched now", code=UNAVAILABLE)


def _source(page: Page, fetched: str, objective: str) -> Source:
    """Return the row of a page, under the requested address, which a search may have found."""
    return Source(
        title=page.title or host_of(page.final_url),
        url=page.url,
        text=shorten(page.text, SNIPPET_CHARS),
        content=page.text,
        source_type="web",
        mime=page.mime,
        published_time_iso=page.published_time_iso,
        fetched_time_iso=fetched,
        author=page.author,
        authority="web",
        objective_relevance=judge_by_words(objective, page.title, page.text),
    )


def _rows(
    urls: Sequence[str], got: Sequence[Page | ToolError], sources: Sequence[Source], cited: Sequence[Source]
) -> list[dict[str, Any]]:
    """Return a row for each requested address, in order, with the whole text of a page."""
    own_rows, numbers = iter(sources), iter(cited)
    rows: list[dict[str, Any]] = []
    for url, page in zip(urls, got, strict=False):
        if isinstance(page, ToolError):
            rows.append({"url": url, "status": page.reason, "error": str(page)})
            continue
        own = replace(fit_source(next(own_rows)), sid=next(numbers).sid)
        moved = {"final_url": page.final_url} if page.final_url != page.url else {}
        cut = {"truncated": True} if page.truncated or len(page.text) > len(own.content) else {}
        rows.append(
            {
                **msgspec.to_builtins(own),
                "status": "success",
                **moved,
                **cut,
                "text_symbols": len(own.content),
            }
        )
    return rows


def _status(rows: Sequence[Mapping[str, Any]], cited: Sequence[Source]) -> dict[str, Any]:
    """Return the status for the model: the beginning of each page, and the range of the rest."""
    chars = TEXTS_CHARS // len(cited)
    results = []
    for row in rows:
        shown = {name: value for name, value in row.items() if name not in ("content", "objective_relevance")}
        if "sid" in row:
            shown["text"] = shorten(row["content"], chars)
        results.append(shown)
    sids = tuple((row.sid, row.sid) for row in cited)
    return {"status": "ok", "artifact_path": str(SourcesPath(ranges=sids)), "results": results}


WEB_FETCH_TOOL: Final = Tool(spec=WEB_FETCH, run=run_web_fetch)
