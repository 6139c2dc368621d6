"""SOURCES POOL: the sources that may be cited, a line each. Sent anew with every request, behind the last cache mark.

Every token here is paid in full in every round. So the rows cited last and the newest ones are shown, and the others
counted; what a source says stands in the timeline, or is read at its path.
Source: docs/concepts/context.md#sources-pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepline.model.source import Source, host_of
from stepline.timeline.render.quote import clip, label

ROWS_SHOWN: Final = 10
CITED_SHOWN: Final = 4
TITLE_CHARS: Final = 36
PLACE_CHARS: Final = 60
MIME_CHARS: Final = 40
PAGES: Final = frozenset({"", "text/html", "application/xhtml+xml", "text/plain"})
"""The types of a page, which a row does not name."""


def render_pool(pool: Mapping[int, Source], cited: Mapping[int, int] | None = None) -> str:
    """Return the pool as the request shows it, "" if it is empty. `cited` says when a row was cited last."""
    if not pool:
        return ""
    shown = shown_rows(pool, cited or {})
    many = f"{len(pool)} {'source' if len(pool) == 1 else 'sources'}"
    hidden = len(pool) - len(shown)
    count = f": {len(shown)} cited or newest ones; the other {hidden} at so:sources_pool" if hidden else ""
    return "".join([f"[SOURCES POOL] {many}{count}\n", *(_row(pool[sid]) for sid in shown)])


def shown_rows(pool: Mapping[int, Source], cited: Mapping[int, int]) -> list[int]:
    """Return the sids of the rows to show, ascending: those cited last, and the newest."""
    again = sorted((sid for sid in cited if sid in pool), key=lambda sid: (cited[sid], sid))
    shown = dict.fromkeys(again[-CITED_SHOWN:])
    for sid in sorted(pool, reverse=True):
        if len(shown) >= ROWS_SHOWN:
            break
        shown[sid] = None
    return sorted(shown)


def _row(row: Source) -> str:
    mime = "" if row.mime.partition(";")[0] in PAGES else f" {clip(row.mime, MIME_CHARS)}"
    place = clip(host_of(row.url) or row.path, PLACE_CHARS)
    return f"SID:{row.sid:02} {label(clip(row.title, TITLE_CHARS))}{mime} {place}".rstrip() + "\n"
