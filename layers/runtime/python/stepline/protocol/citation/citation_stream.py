"""Citations: `[[S:1,3-5]]` in a text that grows becomes links, and the text that is stored keeps its tokens.

In HTML a whole `<sup class="cite" data-sids="1,3">…</sup>` is a token, too. Text that is no token goes through as
it came, and what may become one is held back until that is known: never more than a token may have, which is some
hundred characters, and with what an element may hold two thousand. Nothing is replaced inside code.

A sid that the sources do not hold is left out of what is shown, and so is a token of which nothing remains; both
are told by `unresolved`. Where there are no sources at all nothing is replaced: no text could mean one.
Source: docs/concepts/sources.md#citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from msgspec.structs import replace

from stepline.model.source import Citation, Source, web_url
from stepline.protocol.citation.hyperlink import Place, html_links, markdown_links
from stepline.protocol.citation.prose import ProseScanner
from stepline.protocol.citation.token import MARK, SIDS_MAX, TOKEN, Form, Range, expand

CitedFormat: TypeAlias = Literal["markdown", "text", "html"]

CITED_FORMATS: Final = frozenset(get_args(CitedFormat))
"""Formats that show links; in any other a text goes through as it is."""

_PIECES_MAX: Final = 4_000
_MARK = re.compile(MARK)


class _Scanner(Protocol):
    def read(self, text: str) -> Place: ...

    def skip(self, shown: str) -> None: ...


class CitationStream:
    """One text that grows: what is fed comes back with links in it, the same however it was cut.

    `used` are the known sids that it cites, `unresolved` the others, each once and in the order of the text; of a
    range only the ends are told if they are not known, because only known sids are looked for within.
    """

    def __init__(
        self,
        sources: Mapping[int, Citation],
        format: str,  # noqa: A002 - the word of a channel's facts
        *,
        pooled: bool = False,
    ) -> None:
        """Take what sids mean; a format that shows no links (json, code) goes through as it is.

        `pooled`: there are more sources than these, so what these do not have is unknown even if they are none.
        """
        self._sources = sources
        self._sids = sorted(sources)
        self._live = (pooled or bool(sources)) and format in CITED_FORMATS
        self._html = format == "html"
        self._forms: Mapping[str, Form] = {}
        self._mark = _MARK
        self._scanner: _Scanner = ProseScanner()
        if self._html:
            self._read_markup()
        self._held = ""
        self._unread: list[str] = []
        self._shown: dict[tuple[tuple[Range, ...], Place], str] = {}
        self._used: dict[int, None] = {}
        self._unresolved: dict[int, None] = {}

    @property
    def used(self) -> tuple[int, ...]:
        """The known sids that were cited."""
        return tuple(self._used)

    @property
    def unresolved(self) -> tuple[int, ...]:
        """The sids that were cited and are not known."""
        return tuple(self._unresolved)

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown."""
        if not self._live:
            return text
        if self._held or "[" in text or (self._html and "<" in text and _may_raise(text)):
            return self._take(self._held + text, final=False)
        if not text.isascii() and ("\uff3b" in text or "\ufe47" in text or "\ufe5d" in text):
            return self._take(text, final=False)
        unread = self._unread
        unread.append(text)
        if len(unread) > _PIECES_MAX:
            unread[:] = ["".join(unread)]
        return text

    def close(self) -> str:
        """Return what was held back: it can become no token any more."""
        return self._take(self._held, final=True) if self._held else ""

    def _read_markup(self) -> None:
        # Most answers are Markdown: what they do not need takes 4 ms to load.
        from stepline.protocol.citation import html  # noqa: PLC0415 - see above

        self._forms = {"<": html.RAISED}
        self._mark = html.MARK
        self._scanner = html.MarkupScanner()

    def _take(self, text: str, *, final: bool) -> str:
        self._held = ""
        shown: list[str] = []
        done = at = 0
        while mark := self._mark.search(text, at):
            start = mark.start()
            form = self._forms.get(text[start], TOKEN)
            token = form.whole.match(text, start)
            ranges = form.read(token) if token else []
            if not ranges and (token or final or not form.cut.fullmatch(text, start)):
                at = start + 1
                continue
            shown.append(text[done:start])
            place = self._read(text[done:start])
            done, at = start, start + 1
            if not place.is_text:
                continue
            if token is None:
                self._held = text[start:]
                return "".join(shown)
            shown.append(self._render(ranges, place))
            self._scanner.skip(shown[-1])
            done = at = token.end()
        self._unread.append(text[done:])
        shown.append(text[done:])
        return "".join(shown)

    def _read(self, text: str) -> Place:
        """Return where the text so far ends."""
        text = "".join((*self._unread, text))
        self._unread.clear()
        return self._scanner.read(text)

    def _render(self, ranges: Iterable[Range], place: Place) -> str:
        cited = (tuple(ranges), place)
        shown = self._shown.get(cited)
        if shown is None:
            shown = self._shown[cited] = self._link(*cited)
        return shown

    def _link(self, ranges: Iterable[Range], place: Place) -> str:
        """Return what is shown of a token, and note what it cites."""
        known, unknown = expand(ranges, self._sids)
        self._used |= dict.fromkeys(known)
        self._unresolved |= dict.fromkeys(unknown)
        if not known:
            return ""
        return (html_links if self._html else markdown_links)([self._sources[sid] for sid in known], place)


def _may_raise(text: str) -> bool:
    """Tell whether a `<sup` may begin in a text; nearly every piece of a page has some other tag."""
    return "<s" in text or "<S" in text or text[-1:] == "<"


def render_citations(text: str, sources: Mapping[int, Citation], format: str) -> str:  # noqa: A002 - as above
    """Return a whole text with links in it."""
    stream = CitationStream(sources, format)
    return stream.feed(text) + stream.close()


class Cited(NamedTuple):
    """What texts cite, in their order, each once: rows that are there, and numbers that are not."""

    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()


def citable(pool: Mapping[int, Source]) -> dict[int, Citation]:
    """Return what a text may cite. What is no address of a page becomes no link, whatever it is."""
    return {sid: Citation(sid=sid, title=row.title, url=row.url) for sid, row in pool.items()}


def cite(known: Mapping[int, Citation], texts: Iterable[str], *, pooled: bool = False) -> Cited:
    """Return what Markdown texts cite; a row that is no page of the web has a title and no address."""
    used: dict[int, None] = {}
    unresolved: dict[int, None] = {}
    for text in texts:
        if _MARK.search(text):
            stream = CitationStream(known, "markdown", pooled=pooled)
            stream.feed(text)
            stream.close()
            used |= dict.fromkeys(stream.used)
            unresolved |= dict.fromkeys(stream.unresolved)
    rows = (known[sid] for sid in used)
    return Cited(tuple(replace(row, url=web_url(row.url)) for row in rows), tuple(unresolved)[:SIDS_MAX])
