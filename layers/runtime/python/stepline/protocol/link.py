"""Links that a citation becomes: titles and addresses come from the web, so nothing of them may act as markup."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from stepline.model.source import Citation

TITLE_CHARS: Final = 300
URL_CHARS: Final = 4_000

_UNSAFE: Final = " \"'()<>\\^`{|}"
_IN_URL: Final = {ord(char): f"%{ord(char):02X}" for char in _UNSAFE}
_IN_MARKDOWN: Final = {**{ord(char): f"\\{char}" for char in "\\[]|`<>"}, ord('"'): "'"}
_IN_ATTRIBUTE: Final = {ord("&"): "&amp;"}  # everything else that could end one is encoded by then
# What reorders the text around it, and C0 and C1 controls; joiners stay, which scripts and emoji need.
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def safe_url(url: str) -> str:
    """Return an http(s) address with everything encoded that could end it early; "" for any other."""
    url = url.strip()
    if len(url) > URL_CHARS or _CONTROLS.search(url):
        return ""
    try:
        parts = urlsplit(url)
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
            return ""
    except ValueError:
        return ""
    return url.translate(_IN_URL)


def plain_title(source: Citation) -> str:
    """Return what a source is called, on one line; its number if it has no name at all."""
    title = " ".join(_CONTROLS.sub(" ", source.title or source.url).split())
    if len(title) > TITLE_CHARS:
        title = title[: TITLE_CHARS - 1] + "…"
    return title or f"Source {source.sid}"


def markdown_link(source: Citation) -> str:
    """Return `[title](url)`, or the title alone where there is no address to go to."""
    title, url = plain_title(source).translate(_IN_MARKDOWN), safe_url(source.url)
    return f"[{title}]({url})" if url else title


def html_link(source: Citation) -> str:
    """Return `[S:n]`, as a link if there is an address to go to."""
    text, url = f"[S:{source.sid}]", safe_url(source.url)
    if not url:
        return text
    return f'<a href="{url.translate(_IN_ATTRIBUTE)}" target="_blank" rel="noopener noreferrer">{text}</a>'
