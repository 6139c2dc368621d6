"""Transform a channel's text for display: usage tags are removed, citations become links.

A possible start of a tag or token is held back until it is known to be one; an incomplete one at the end is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stepline.model.source import Citation, Source
from stepline.protocol.citation.citation_stream import CITED_FORMATS, CitationStream
from stepline.protocol.citation.token import cited_sids
from stepline.protocol.parser.grammar import ChannelSpec, make_tail_pattern

_IDS_CHARS_MAX = 256
_PARTS = (
    r"\[",
    "[ \t]{0,4}",
    *"USAGE",
    "[ \t]{0,4}",
    ":",
    rf"[0-9Ss,; \t\u2013-]{{0,{_IDS_CHARS_MAX}}}",
    r"\]",
    r"\]",
)
# A whole tag, or a prefix of one at the end of the text; only a whole one ends in "]]".
_USAGE = re.compile(rf"\[(?:{''.join(_PARTS)}|{make_tail_pattern(*_PARTS)})", re.IGNORECASE)


SourceLike: TypeAlias = Source | Citation | Mapping[str, Any]
"""A row with a sid, a title and a url."""


def read_sources(rows: Iterable[SourceLike]) -> dict[int, Citation]:
    """Return the citable sources by sid; a row without a sid cannot be cited."""
    citations = (one if isinstance(one, Citation) else _read_source(one) for one in rows)
    return {one.sid: one for one in citations if one.sid}


def _read_source(row: Source | Mapping[str, Any]) -> Citation:
    if isinstance(row, Source):
        return Citation(sid=row.sid, title=row.title, url=row.url, path=row.path)
    title, url, path = (str(row.get(name) or "") for name in ("title", "url", "path"))
    return Citation(sid=int(row.get("sid") or 0), title=title, url=url, path=path)


class UsageFilter:
    """Removes `[[USAGE:1,3]]` from streamed text."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Take the next piece, return the text that can be shown."""
        if not self._held and "[" not in text:
            return text
        text = self._held + text
        self._held = ""
        shown: list[str] = []
        at = 0
        for found in _USAGE.finditer(text):
            shown.append(text[at : found.start()])
            at = found.end()
            if not found[0].endswith("]]"):
                self._held = found[0]
        return "".join([*shown, text[at:]])

    def close(self) -> str:
        """Return the text held back."""
        held, self._held = self._held, ""
        return held


class ShownText:
    """The displayed text of one instance, or of one artifact in it."""

    __slots__ = ("_citations", "_usage")

    def __init__(self, spec: ChannelSpec, sources: Mapping[int, Citation]) -> None:
        self._usage = UsageFilter() if spec.strip_usage else None
        cites = spec.replace_citations and spec.format in CITED_FORMATS and sources
        self._citations = CitationStream(sources, spec.format) if cites else None

    def feed(self, text: str) -> str:
        """Take the next piece, return the text that can be shown."""
        if self._usage:
            text = self._usage.feed(text)
        return self._citations.feed(text) if self._citations else text

    def close(self) -> str:
        """End the text, return the part held back."""
        rest = self._usage.close() if self._usage else ""
        return self._citations.feed(rest) + self._citations.close() if self._citations else rest

    def cited(self, raw: str, sources: Mapping[int, Citation]) -> tuple[set[int], set[int]]:
        """Return the sids that the text cites, and those of them that the sources do not have.

        `raw` is the whole text; it is searched if nothing in it was replaced.
        """
        if self._citations:
            unresolved = set(self._citations.unresolved)
            return set(self._citations.used) | unresolved, unresolved
        sids = set(cited_sids(raw))
        return sids, {sid for sid in sids if sid not in sources}
