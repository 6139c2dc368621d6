"""Render citations as links. Titles and URLs come from the web, so none of them may act as markup.

The form of a link depends on its context: after `](` only a URL and its title fit, within a link no other link does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from stepline.model.source import CONTROLS, Citation, web_url
from stepline.model.visible_text import shorten_line

TITLE_CHARS: Final = 300

_FILES: Final = ("fi:", "ks:")
_UNSAFE: Final = " \"'()<>\\^`{|}"
_IN_URL: Final = {ord(char): f"%{ord(char):02X}" for char in _UNSAFE}
# Angle brackets as entities: a backslash does not escape them in HTML within Markdown.
_IN_MARKDOWN: Final = {
    **{ord(char): f"\\{char}" for char in "\\[]|`*~"},
    ord('"'): "'",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_ENTITY: Final = re.compile(r"&(?=#?[A-Za-z0-9]{1,32};)")
# Characters that begin a block, a link's URL, a definition or the value of an attribute, and text that renderers turn into links.
_ACTIVE: Final = re.compile(
    r"^(?=[!#$%'()+,\-./:;=?@^_{}])|^[0-9]{1,9}(?=[.)])|(?<=www)(?=\.)|(?=://)|(?<=[^=])(?==)|(?=!\Z)",
    re.IGNORECASE,
)
_IN_ATTRIBUTE: Final = {ord("&"): "&amp;"}  # everything else that ends an attribute is encoded


class CitationContext(NamedTuple):
    """The context of a citation in a text.

    `is_text` is false where nothing is replaced: in code, in tags. `raised` is within `<sup>`, `linked` within a link.
    `brackets` are the open ones around it, each of which may be a link's. `address`: Markdown reads the following text
    as the URL of a link, `picture`: of an image. `closes` is the character that ends that URL if a title may precede it;
    `titled` is true once that character is found. `edge` is the preceding character.
    """

    is_text: bool = True
    raised: bool = False
    linked: bool = False
    brackets: int = 0
    address: bool = False
    picture: bool = False
    closes: str = ""
    titled: bool = False
    edge: str = ""


def safe_url(url: str) -> str:
    """Return an http(s) URL with every character encoded that could end it early; "" for any other."""
    return web_url(url).translate(_IN_URL)


def plain_title(source: Citation) -> str:
    """Return a source's title on one line, or its number if it has no title."""
    title = shorten_line(CONTROLS.sub(" ", source.title or source.url), TITLE_CHARS)
    return title or f"Source {source.sid}"


def safe_path(path: str) -> str:
    """Return the logical path of a file or a document, encoded like a URL; "" for any other."""
    return path.translate(_IN_URL) if path.startswith(_FILES) and not CONTROLS.search(path) else ""


def markdown_link(source: Citation) -> str:
    """Return `[title](url "S:1")`, whose title distinguishes a citation from a link that the text itself contains.

    A file without a URL uses its logical path as the URL; any other source is only its title.
    """
    title, address = plain_title(source), markdown_address(source, titled=True)
    if not address:
        title = _ACTIVE.sub(lambda mark: f"{mark[0]}\0", title)
    title = _ENTITY.sub("&amp;", title).translate(_IN_MARKDOWN).replace("\0", "\\")
    return f"[{title}]({address})" if address else title


def markdown_address(source: Citation, *, titled: bool) -> str:
    """Return `url "S:1"`, or the URL alone where no title fits; "" for a source without a URL.

    A file's logical path replaces its URL, but not without the title: that would be a link to nowhere.
    """
    url = safe_url(source.url)
    if not titled:
        return url
    url = url or safe_path(source.path)
    return f'{url} "S:{source.sid}"' if url else ""


def markdown_links(sources: Sequence[Citation], context: CitationContext) -> str:
    """Return links to the sources; only the first one if only one URL fits, none where it would be loaded.

    Within a link, which cannot contain another, they are plain numbers.
    """
    if context.picture:
        return ""
    if context.address:
        addresses = (markdown_address(source, titled=context.titled) for source in sources)
        return next(filter(None, addresses), "")
    links = " ".join(rf"\[S:{one.sid}\]" if context.linked else markdown_link(one) for one in sources)
    # Without the blank, the preceding character would turn the link into an image, an autolink or an escaped
    # bracket.
    return f" {links}" if context.edge in ("!", "\\", "<") else links


def html_link(source: Citation) -> str:
    """Return `[S:n]`, as a link if there is a URL."""
    text, url = f"[S:{source.sid}]", safe_url(source.url)
    if not url:
        return text
    return f'<a href="{url.translate(_IN_ATTRIBUTE)}" target="_blank" rel="noopener noreferrer">{text}</a>'


def html_links(sources: Sequence[Citation], context: CitationContext) -> str:
    """Return links to the sources, in `<sup>` unless the context is raised; plain numbers within a link."""
    links = " ".join(f"[S:{source.sid}]" if context.linked else html_link(source) for source in sources)
    if context.raised:
        return links
    return f'<sup class="cite" data-sids="{",".join(str(source.sid) for source in sources)}">{links}</sup>'
