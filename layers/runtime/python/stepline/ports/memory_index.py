"""The port of the memory index: rows of closed turns, found again by words and by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepline.model.base import Value
from stepline.model.memory_row import MemoryRow, MemoryScope, RowKind


class MemoryQuery(Value):
    """One search; `limit` rows at most.

    Without `conversation` every conversation of the scope is searched, without `kinds` every kind of row. `since` and
    `before` bound a row's time (ISO-8601, UTC; `before` is exclusive); "" is no bound.
    """

    scope: MemoryScope
    text: str
    conversation: str = ""
    kinds: tuple[RowKind, ...] = ()
    since: str = ""
    before: str = ""
    limit: int = 20


class MemoryHit(Value):
    """A row that was found.

    `score` orders the hits of one search and means nothing beyond it. `similarity` is the cosine of row and query, -1
    to 1; None if the row was found by its words alone.
    """

    row: MemoryRow
    score: float
    similarity: float | None = None


class MemoryHits(Value):
    """The hits of one search, best first. `behind`: some newer rows were not searched."""

    hits: tuple[MemoryHit, ...] = ()
    behind: bool = False


class Forgotten(Value):
    """The end of a conversation in the memory of its owner: how many of its `rows` were still there.

    With a `prefix`, the index keeps objects below it in the artifact store, of which only those of `keys` are needed now.
    """

    rows: int = 0
    prefix: str = ""
    keys: tuple[str, ...] = ()


class MemoryIndex(Protocol):
    """An index of the rows of many users; no search sees more than its scope."""

    @property
    def reads_logs(self) -> bool:
        """True if it reads new rows from the logs by itself, so that the end of a turn adds none."""

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        """Add rows; a row that is there (conversation, path, part) is replaced. Raises DependencyError."""

    def search(self, query: MemoryQuery) -> MemoryHits:
        """Return the best rows, each once; none for a query without words. Raises DependencyError."""

    def forget(self, scope: MemoryScope, conversation: str) -> Forgotten:
        """Remove the rows of a conversation, so that nothing of them is left in the index. Raises DependencyError."""
