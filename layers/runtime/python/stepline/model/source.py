"""Sources: what an answer may cite, a numbered row each; and a citation, what is left of a source in an answer.

Addresses of the web, compared: two spellings of one page are one source.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from stepline.model.base import Value

_PORTS: Final = {"http": 80, "https": 443}
URL_CHARS: Final = 2_048

CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""What reorders the text around it, and C0 and C1 controls; joiners are none, which scripts and emoji need."""

_SPACES: Final = re.compile(r"\s+")
_TRACKING: Final = re.compile(r"(?:utm_[^=]*|gclid|fbclid)(?:=|\Z)", re.IGNORECASE)


def normalise_url(url: str) -> str:
    """Return the one spelling of an http(s) address, for comparing; any other text comes back trimmed.

    Scheme and host in lower case, without the scheme's own port, the fragment, what campaigns add to the query,
    and a slash at the end. `http` and `https` stay two addresses.
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
    """Return an address as it can be linked to: http(s), with a host, of bearable length; "" for any other."""
    url = url.strip()
    if len(url) > URL_CHARS or CONTROLS.search(url) or split_web(url) is None:
        return ""
    return url


def split_web(url: str) -> SplitResult | None:
    """Return the parts of an http(s) address that names a host; None for everything else."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # refuses what is no port
    except ValueError:
        return None
    return parts if parts.scheme in _PORTS and parts.hostname else None


def host_of(url: str) -> str:
    """Return the host of an http(s) address; "" for everything else."""
    parts = split_web(url)
    return (parts.hostname or "") if parts else ""


SourceType: TypeAlias = Literal["web", "file", "attachment", "manual"]


class Source(Value):
    """One row of a conversation's pool. `sid` never changes and is never given again; 0 means: not in a pool yet.

    `text` is a snippet, `content` the whole text if it was fetched. A source is `url`, or a file of ours at the
    logical `path`; only http(s) ones are evidence, images are there to be shown. Relevances are 0 to 1.
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
    """What a client needs of a source that a text cites."""

    sid: int
    title: str = ""
    url: str = ""
