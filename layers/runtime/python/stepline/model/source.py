"""Sources, the numbered rows an answer may cite, and citations, their short form in an answer.

URLs are normalised for comparison: two spellings of one page are one source.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from stepline.model.base import Value

_PORTS: Final = {"http": 80, "https": 443}
URL_CHARS: Final = 2_048

CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""Characters that reorder text, and C0 and C1 controls; joiners, which scripts and emoji need, are allowed."""

_SPACES: Final = re.compile(r"\s+")
_TRACKING: Final = re.compile(r"(?:utm_[^=]*|gclid|fbclid)(?:=|\Z)", re.IGNORECASE)


def normalise_url(url: str) -> str:
    """Return the normalised form of an http(s) URL, for comparison; other text is only stripped.

    Scheme and host in lower case, without default port, fragment, campaign parameters and trailing slash.
    `http` and `https` stay different URLs.
    """
    text = _SPACES.sub("%20", url.strip())
    parts = split_web(text)
    if parts is None:
        return text
    userinfo, at, _ = parts.netloc.rpartition("@")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    query = "&".join(pair for pair in parts.query.split("&") if not _TRACKING.match(pair))
    return f"{parts.scheme}://{userinfo}{at}{host}{port}{parts.path.rstrip('/')}{query and f'?{query}'}"


def web_url(url: str) -> str:
    """Return a URL that can be linked to: http(s), with a host, not too long; "" for any other."""
    url = url.strip()
    if len(url) > URL_CHARS or CONTROLS.search(url) or split_web(url) is None:
        return ""
    return url


def split_web(url: str) -> SplitResult | None:
    """Return the parts of an http(s) URL with a host; None for any other text."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for an invalid port
    except ValueError:
        return None
    return parts if parts.scheme in _PORTS and parts.hostname else None


def host_of(url: str) -> str:
    """Return the host of an http(s) URL; "" for any other text."""
    parts = split_web(url)
    return (parts.hostname or "") if parts else ""


SourceType: TypeAlias = Literal["web", "file", "attachment", "manual"]


class Source(Value):
    """One row of a conversation's pool. `sid` never changes and is never reused; 0 means: not in a pool yet.

    `text` is a snippet, `content` the whole text if it was fetched. A source is `url`, or a file of the conversation at
    the logical `path`; http(s) ones and a bundle's documents (`ks:`) are evidence, images are for display. Relevances
    are 0 to 1.
    """

    sid: int = 0
    title: str = ""
    url: str = ""
    text: str = ""
    content: str = ""
    source_type: SourceType = "web"
    mime: str = ""
    size_bytes: int = 0
    path: str = ""
    turn_id: str = ""
    published_time_iso: str = ""
    modified_time_iso: str = ""
    fetched_time_iso: str = ""
    author: str = ""
    authority: str = ""
    favicon_url: str = ""
    objective_relevance: float | None = None
    query_relevance: float | None = None


class Citation(Value):
    """The part of a cited source that a client needs; `path` is that of a file without a URL."""

    sid: int
    title: str = ""
    url: str = ""
    path: str = ""
