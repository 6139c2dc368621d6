"""Citations in streamed text: `[[S:1,3-5]]` becomes a link; the stored text keeps its tokens.

In HTML a whole `<sup class="cite" data-sids="1,3">…</sup>` is a token, too. Other text passes unchanged. A
possible start of a token is held back until it is known to be one: never more than the longest token, which
is some hundred characters, or two thousand with an element's content. Nothing is replaced inside code. A
token in the position of a link's address waits for the next character: the title that distinguishes a citation from
a link fits only at the link's end. A token within brackets waits for their end: within a link's brackets it becomes
a plain number.

A sid without a source is left out of the shown text. So is an unreadable part, and a token without any known sid.
`unresolved` lists the sids, `unreadable` counts the tokens of which a part could not be read. Without any
sources nothing is replaced: no token could be meant as a citation.

Source: docs/concepts/sources.md#citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from msgspec.structs import replace

from stepline.model.source import Citation, Source, web_url
from stepline.protocol.citation.hyperlink import CitationContext, html_links, markdown_links
from stepline.protocol.citation.prose import ProseScanner
from stepline.protocol.citation.token import (
    SIDS_MAX,
    TOKEN,
    TOKEN_ATOMS,
    TOKEN_MARK,
    UNREADABLE_SID,
    CitationForm,
    Range,
    expand,
    make_prefix_pattern,
    read_ids,
)

CitedFormat: TypeAlias = Literal["markdown", "text", "html"]

CITED_FORMATS: Final = frozenset(get_args(CitedFormat))
"""Formats that show links; text of any other format passes unchanged."""

_PIECES_MAX: Final = 4_000
_MARK = re.compile(TOKEN_MARK)
_FORM: Final = CitationForm(
    TOKEN, re.compile(make_prefix_pattern(TOKEN_ATOMS)), lambda token: read_ids(token["ids"])
)
_BLANKS_MAX: Final = 16
_LABEL_CHARS: Final = 400
"""The characters searched for the end of the brackets around a token; after that they are no link's."""
_LABEL: Final = re.compile(r"\\.|[\[\]]|\n[ \t\r]*\n", re.DOTALL)
_BLANKS: Final = re.compile(rf"[ \t]{{0,{_BLANKS_MAX}}}")


class _Scanner(Protocol):
    def read(self, text: str) -> CitationContext: ...

    def skip(self, shown: str) -> None: ...


class CitationStream:
    """Replaces citations in one streamed text; the result does not depend on how the text is cut.

    `used` are the known sids that the text cites, `unresolved` the others, each once and in text order. Of a
    range only the ends are reported if unknown, because within it only known sids are looked for.
    """

    def __init__(
        self,
        sources: Mapping[int, Citation],
        format: str,  # noqa: A002 - the word of a channel's facts
        *,
        pooled: bool = False,
    ) -> None:
        """Create a stream for these sources; a format without links (json, code) passes unchanged.

        `pooled`: the conversation has more sources than these, so a missing sid is unresolved even if these are none.
        """
        self._sources = sources
        self._sids = sorted(sources)
        self._live = (pooled or bool(sources)) and format in CITED_FORMATS
        self._html = format == "html"
        self._forms: Mapping[str, CitationForm] = {}
        self._mark = _MARK
        self._scanner: _Scanner = ProseScanner()
        if self._html:
            self._read_markup()
        self._held = ""
        self._unread: list[str] = []
        self._shown: dict[tuple[tuple[Range, ...], CitationContext], str] = {}
        self._used: dict[int, None] = {}
        self._unresolved: dict[int, None] = {}
        self.unreadable = 0
        """The number of tokens of which a part could not be read."""

    @property
    def used(self) -> tuple[int, ...]:
        """The known sids that were cited."""
        return tuple(self._used)

    @property
    def unresolved(self) -> tuple[int, ...]:
        """The sids that were cited and are unknown."""
        return tuple(self._unresolved)

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that can be shown."""
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
        """Return the text held back; it can no longer become a token."""
        return self._take(self._held, final=True) if self._held else ""

    def _read_markup(self) -> None:
        # Most answers are Markdown, and the HTML module takes 4 ms to load.
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
            form = self._forms.get(text[start], _FORM)
            token = form.whole.match(text, start)
            ids = form.read(token) if token else None
            if ids is None and (token or final or not form.cut.fullmatch(text, start)):
                at = start + 1
                continue
            shown.append(text[done:start])
            context = self._read(text[done:start])
            done, at = start, start + 1
            if not context.is_text:
                continue
            settled = _settle(context, text, token.end(), final=final) if token else None
            if token is None or ids is None or settled is None:
                self._held = text[start:]
                return "".join(shown)
            self.unreadable += ids.unreadable
            shown.append(self._render(ids.ranges, settled))
            self._scanner.skip(shown[-1])
            done = at = token.end()
        self._unread.append(text[done:])
        shown.append(text[done:])
        return "".join(shown)

    def _read(self, text: str) -> CitationContext:
        """Return the context at the end of the text so far."""
        text = "".join((*self._unread, text))
        self._unread.clear()
        return self._scanner.read(text)

    def _render(self, ranges: Iterable[Range], context: CitationContext) -> str:
        cited = (tuple(ranges), context)
        shown = self._shown.get(cited)
        if shown is None:
            shown = self._shown[cited] = self._link(*cited)
        return shown

    def _link(self, ranges: Iterable[Range], context: CitationContext) -> str:
        """Return the shown form of a token, and record its citations."""
        known, unknown = expand(ranges, self._sids)
        self._used |= dict.fromkeys(known)
        self._unresolved |= dict.fromkeys(unknown)
        if not known:
            return ""
        return (html_links if self._html else markdown_links)([self._sources[sid] for sid in known], context)


def _settle(context: CitationContext, text: str, end: int, *, final: bool) -> CitationContext | None:
    """Return a token's context, completed by the text after its `end`; None if more text is needed."""
    if context.brackets:
        linked = _is_linked(text, end, context.brackets)
        return None if linked is None and not final else context._replace(brackets=0, linked=bool(linked))
    if context.closes:
        blanks = _BLANKS.match(text, end)
        assert blanks
        if blanks.end() == len(text) and not final and len(blanks[0]) < _BLANKS_MAX:
            return None
        return context._replace(titled=_closes(context, blanks))
    return context


def _is_linked(text: str, at: int, brackets: int) -> bool | None:
    """Return True if one of the open brackets around `at` ends as a link's text does; None if none has ended yet."""
    inner = 0
    for mark in _LABEL.finditer(text, at):
        if mark.start() >= at + _LABEL_CHARS or mark[0][0] == "\n":
            return False
        if mark[0] == "[":
            inner += 1
        elif mark[0] == "]" and inner:
            inner -= 1
        elif mark[0] == "]":
            after = text[mark.end() : mark.end() + 1]
            if after in ("", "(", "["):
                return bool(after) or None
            brackets -= 1
            if not brackets:
                return False
    return None if len(text) < at + _LABEL_CHARS else False


def _closes(context: CitationContext, blanks: re.Match[str]) -> bool:
    """Return True if the `blanks` after an address lead to its end, so that a title fits between the two.

    A title that the model wrote leaves no room for another.
    """
    next_char = blanks.string[blanks.end() : blanks.end() + 1] or "\n"
    return len(blanks[0]) < _BLANKS_MAX and next_char == context.closes


def _may_raise(text: str) -> bool:
    """Return True if the text may contain the start of a `<sup`; most pieces have only other tags."""
    return "<s" in text or "<S" in text or text[-1:] == "<"


def render_citations(text: str, sources: Mapping[int, Citation], format: str) -> str:  # noqa: A002 - as above
    """Return a whole text with citations as links."""
    stream = CitationStream(sources, format)
    return stream.feed(text) + stream.close()


class Cited(NamedTuple):
    """The citations of several texts, in order, each once: existing rows, and unknown sids; UNREADABLE is the first of them."""

    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()


def citable(pool: Mapping[int, Source]) -> dict[int, Citation]:
    """Return the sources that a text may cite: a web page by its URL, a file by its path."""
    return {
        sid: Citation(sid=sid, title=row.title, url=row.url, path="" if web_url(row.url) else row.path)
        for sid, row in pool.items()
    }


def cite(known: Mapping[int, Citation], texts: Iterable[str], *, pooled: bool = False) -> Cited:
    """Return the citations in Markdown texts; a row that is no web page has a title and no URL."""
    used: dict[int, None] = {}
    unresolved: dict[int, None] = {}
    unreadable = False
    for text in texts:
        if _MARK.search(text):
            stream = CitationStream(known, "markdown", pooled=pooled)
            stream.feed(text)
            stream.close()
            used |= dict.fromkeys(stream.used)
            unresolved |= dict.fromkeys(stream.unresolved)
            unreadable = unreadable or stream.unreadable > 0
    rows = (known[sid] for sid in used)
    unknown = (*[UNREADABLE_SID] * unreadable, *unresolved)[:SIDS_MAX]
    return Cited(tuple(replace(row, url=web_url(row.url)) for row in rows), unknown)
