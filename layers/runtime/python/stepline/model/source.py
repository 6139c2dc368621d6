"""Sources: what an answer may cite, a numbered row each; and a citation, what is left of a source in an answer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value

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
