"""HTML: raised citations, and the parts that are not running text.

A raised citation is `<sup class="cite" data-sids="1,3">[[S:1,3]]</sup>`. Running text excludes tags,
comments, code and elements that browsers do not parse. Pieces may be cut before any `<` and any bracket.
"""

from __future__ import annotations

import re
from typing import Final

from stepline.protocol.citation.hyperlink import CitationContext
from stepline.protocol.citation.token import (
    SHORT,
    TOKEN,
    TOKEN_MARK,
    CitationForm,
    Ids,
    make_prefix_pattern,
    parse_ids,
    read_ids,
)

_BODY_CHARS: Final = 1_000

_GAP, _QUOTE = "\\s{0,9}", "[\"']?"
_CLASS = (*"class", _GAP, "=", _GAP, _QUOTE, *"cite", _QUOTE)
_DATA = (*"data-sids", _GAP, "=", _GAP, _QUOTE, "[0-9,;\\s\u2013\u2014-]{0,400}", _QUOTE)
_BODY = f"(?:[^<]|<(?!/?sup)){{0,{_BODY_CHARS}}}"
_HEAD, _TAIL = ("<", *"sup", "\\s{1,9}"), (_GAP, ">", _BODY, *"</sup", _GAP, ">")
_ORDERS = (
    (*_HEAD, *_CLASS, "\\s{1,9}", *_DATA, *_TAIL),
    (*_HEAD, *_DATA, "\\s{1,9}", *_CLASS, *_TAIL),
)
_SIDS = re.compile("data-sids\\s*=([^>a-z]*)", re.IGNORECASE)
_SHORT = re.compile(SHORT, re.IGNORECASE)

MARK: Final = re.compile(f"{TOKEN_MARK}|<(?=[Ss]|\\Z)")
"""Positions in HTML where a citation, raised or not, may begin."""


def _read(element: re.Match[str]) -> Ids | None:
    """Return the sids cited by an element: from its content, otherwise from its attribute."""
    head, _, body = element[0].partition(">")
    tokens = [read_ids(token["ids"]) for token in TOKEN.finditer(body)]
    short = [parse_ids(token["ids"]) for token in _SHORT.finditer(body)]
    attribute = _SIDS.search(head)
    ranges = [span for spans in (*(token.ranges for token in tokens), *short) for span in spans]
    ranges = ranges or (parse_ids(attribute[1].strip("\"' ")) if attribute else [])
    return Ids(ranges, any(token.unreadable for token in tokens)) if ranges else None


RAISED: Final = CitationForm(
    re.compile("|".join(map("".join, _ORDERS)), re.IGNORECASE),
    re.compile("|".join(map(make_prefix_pattern, _ORDERS)), re.IGNORECASE),
    _read,
)


_NO_TEXT: Final = CitationContext(is_text=False)
_CODE: Final = frozenset({"code", "pre"})
_UNPARSED: Final = frozenset(
    {"iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"}
)
_MARK: Final = re.compile(r"<(?:!--|(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*)|[!/?])")
# Text and whole tags that change no state, which is nearly all of a page, in one match.
_PLAIN: Final = re.compile(
    rf"(?:[^<]+|<(?!/?(?:{'|'.join(sorted(_CODE | _UNPARSED))}|sup|a)(?![A-Za-z0-9-]))/?[A-Za-z][^<>\"'=]*"
    r"(?:=\s*(?:\"[^\"]*\"|'[^']*')[^<>\"'=]*)*>)*",
    re.IGNORECASE,
)
_IN_TAG: Final = re.compile(r"=\s*(?P<quote>[\"'])|>")


class MarkupScanner:
    """Tracks the markup of one HTML body."""

    __slots__ = ("_code", "_link", "_name", "_sup", "_unparsed", "_until")

    def __init__(self) -> None:
        self._until = ""  # the end of the open markup: a quote, ">", "-->"
        self._name = ""  # the open tag, with its slash
        self._unparsed = ""  # the element whose content is no markup
        self._code = 0
        self._sup = 0
        self._link = False

    def read(self, text: str) -> CitationContext:
        """Continue reading, and return the context at the end of `text`."""
        at = 0
        while at >= 0:
            at = self._in_markup(text, at) if self._until else self._in_text(text, at)
        if self._until or self._unparsed or self._code:
            return _NO_TEXT
        return CitationContext(raised=self._sup > 0, linked=self._link)

    def skip(self, shown: str) -> None:
        """Skip a citation as shown: it closes everything that it opens."""

    def _in_text(self, text: str, at: int) -> int:
        """Go to the end of the next mark and open it; return -1 if there is none."""
        if not self._unparsed and (plain := _PLAIN.match(text, at)):
            at = plain.end()
        for mark in _MARK.finditer(text, at):
            name = (mark["name"] or "").lower()
            if self._unparsed and not (mark["end"] and name == self._unparsed):
                continue
            self._name = (mark["end"] or "") + name
            self._until = "-->" if mark[0] == "<!--" else ">"
            return mark.end()
        return -1

    def _in_markup(self, text: str, at: int) -> int:
        """Go to the end of the open markup; return -1 if it stays open."""
        if self._until != ">":
            end = text.find(self._until, at)
            if end < 0:
                return -1
            at = end + len(self._until)
            self._until = ">" if len(self._until) == 1 else ""
            return at
        mark = _IN_TAG.search(text, at)
        if mark is None:
            return -1
        self._until = mark["quote"] or ""
        if not self._until:
            self._pass_tag()
        return mark.end()

    def _pass_tag(self) -> None:
        name, step = self._name.removeprefix("/"), -1 if self._name.startswith("/") else 1
        if name in _CODE:
            self._code = max(0, self._code + step)
        elif name == "sup":
            self._sup = max(0, self._sup + step)
        elif name == "a":
            self._link = step > 0  # a link within a link ends the first one
        elif name in _UNPARSED:
            self._unparsed = name if step > 0 else ""
