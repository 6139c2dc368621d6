"""Links that a citation becomes: titles and addresses come from the web, so nothing of them may act as markup.

What a link may look like depends on where it stands: behind `](` only an address fits, within a link none does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from stepline.model.shorten import shorten_line
from stepline.model.source import CONTROLS, Citation, web_url

TITLE_CHARS: Final = 300

_UNSAFE: Final = " \"'()<>\\^`{|}"
_IN_URL: Final = {ord(char): f"%{ord(char):02X}" for char in _UNSAFE}
# Angle brackets as entities: within HTML that stands in Markdown a backslash protects nothing.
_IN_MARKDOWN: Final = {
    **{ord(char): f"\\{char}" for char in "\\[]|`*~"},
    ord('"'): "'",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_ENTITY: Final = re.compile(r"&(?=#?[A-Za-z0-9]{1,32};)")
# What begins a block, a link's address or a definition, or what readers make links of by themselves.
_ACTIVE: Final = re.compile(
    r"^(?=[!#$%'()+,\-./:;=?@^_{}])|^[0-9]{1,9}(?=[.)])|(?<=www)(?=\.)|(?=://)|(?=!\Z)", re.IGNORECASE
)
_IN_ATTRIBUTE: Final = {ord("&"): "&amp;"}  # everything else that could end one is encoded by then


class Place(NamedTuple):
    """Where in a text a citation stands.

    `is_text` is false where nothing is replaced: in code, in tags. `raised` is within `<sup>`, `linked` within `<a>`.
    `address`: Markdown takes what follows for the address of a link, `picture` for that of an image. `edge` is the
    character before.
    """

    is_text: bool = True
    raised: bool = False
    linked: bool = False
    address: bool = False
    picture: bool = False
    edge: str = ""


def safe_url(url: str) -> str:
    """Return an http(s) address with everything encoded that could end it early; "" for any other."""
    return web_url(url).translate(_IN_URL)


def plain_title(source: Citation) -> str:
    """Return what a source is called, on one line; its number if it has no name at all."""
    title = shorten_line(CONTROLS.sub(" ", source.title or source.url), TITLE_CHARS)
    return title or f"Source {source.sid}"


def markdown_link(source: Citation) -> str:
    """Return `[title](url)`, or the title alone where there is no address to go to."""
    title, url = plain_title(source), safe_url(source.url)
    if not url:
        title = _ACTIVE.sub(lambda mark: f"{mark[0]}\0", title)
    title = _ENTITY.sub("&amp;", title).translate(_IN_MARKDOWN).replace("\0", "\\")
    return f"[{title}]({url})" if url else title


def markdown_links(sources: Sequence[Citation], place: Place) -> str:
    """Return the links to these sources; where only an address fits, the first one, and none where it would be loaded."""
    if place.picture:
        return ""
    if place.address:
        return next(filter(None, (safe_url(source.url) for source in sources)), "")
    links = " ".join(map(markdown_link, sources))
    # An image, an autolink, or a bracket that is none, would be made of what stands right before the link.
    return f" {links}" if place.edge in ("!", "\\", "<") else links


def html_link(source: Citation) -> str:
    """Return `[S:n]`, as a link if there is an address to go to."""
    text, url = f"[S:{source.sid}]", safe_url(source.url)
    if not url:
        return text
    return f'<a href="{url.translate(_IN_ATTRIBUTE)}" target="_blank" rel="noopener noreferrer">{text}</a>'


def html_links(sources: Sequence[Citation], place: Place) -> str:
    """Return the links to these sources, raised if the place is not; plain numbers within a link."""
    links = " ".join(f"[S:{source.sid}]" if place.linked else html_link(source) for source in sources)
    if place.raised:
        return links
    return f'<sup class="cite" data-sids="{",".join(str(source.sid) for source in sources)}">{links}</sup>'
