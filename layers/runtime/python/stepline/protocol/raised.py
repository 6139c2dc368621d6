"""A raised citation as models write it in HTML: `<sup class="cite" data-sids="1,3">[[S:1,3]]</sup>`."""

from __future__ import annotations

import re
from typing import Final

from stepline.protocol.sid_token import MARK as TOKEN_MARK
from stepline.protocol.sid_token import SHORT, TOKEN, Form, Range, cut_off, parse_ids

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
"""Where in HTML a citation may begin, raised or not."""


def _read(element: re.Match[str]) -> list[Range]:
    """Return what an element cites: what it shows, or else what its attribute says."""
    head, _, body = element[0].partition(">")
    tokens = (*TOKEN.whole.finditer(body), *_SHORT.finditer(body))
    if shown := [span for token in tokens for span in parse_ids(token["ids"])]:
        return shown
    told = _SIDS.search(head)
    return parse_ids(told[1].strip("\"' ").replace(";", ",")) if told else []


RAISED: Final = Form(
    re.compile("|".join(map("".join, _ORDERS)), re.IGNORECASE),
    re.compile("|".join(map(cut_off, _ORDERS)), re.IGNORECASE),
    _read,
)
