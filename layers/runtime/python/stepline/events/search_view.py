"""The results of a search as HTML: a list of links with their snippets, nothing of a page's own markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from stepline.model.shorten import shorten_line
from stepline.model.source import CONTROLS, host_of, web_url

TITLE_CHARS, SNIPPET_CHARS, HEAD_CHARS = 160, 280, 300
DAY_CHARS: Final = 10


def render_search(objective: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return a section with a list; rows are untrusted, so that each text is escaped and only http(s) is linked to."""
    head = f"<h3>{_text(objective, HEAD_CHARS)}</h3>" if objective.strip() else ""
    rows = "".join(map(_item, results))
    return f'<section class="web-search">{head}<ol>{rows}</ol></section>'


def _item(row: Mapping[str, Any]) -> str:
    url = web_url(str(row.get("url", "")))
    title = _text(row.get("title") or url, TITLE_CHARS)
    if url:
        title = f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{title}</a>'
    host = f"<cite>{_text(host_of(url), TITLE_CHARS)}</cite>" if url else ""
    day = _text(str(row.get("published_time_iso") or "")[:DAY_CHARS], DAY_CHARS)
    sid = row.get("sid")
    number = f' data-sid="{sid}"' if isinstance(sid, int) else ""
    return (
        f"<li{number}>{title} {host}{f' <time>{day}</time>' if day else ''}"
        f"<p>{_text(row.get('text', ''), SNIPPET_CHARS)}</p></li>"
    )


def _text(value: Any, chars: int) -> str:
    return escape(shorten_line(CONTROLS.sub(" ", value), chars)) if isinstance(value, str) else ""
