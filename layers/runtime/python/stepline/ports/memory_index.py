"""The port of the memory index: rows of closed turns, found by words and by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepline.model.base import Value
from stepline.model.memory_row import MemoryRow, MemoryScope, RowKind


class MemoryQuery(Value):
    """One search; `limit` rows at most.

    Without `conversation` the search covers every conversation of the scope, without `kinds` every kind of row. `since`
    and `before` limit a row's time (ISO-8601, UTC; `before` is exclusive); "" is no limit.
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

    `score` orders the hits of one search and has no meaning outside it. `similarity` is the cosine of row and query,
    -1 to 1; None if the row was found only by its words.
    """

    row: MemoryRow
    score: float
    similarity: float | None = None


class MemoryHits(Value):
    """The hits of one search, best first. `behind`: some newer rows were not searched."""

    hits: tuple[MemoryHit, ...] = ()
    behind: bool = False


class Forgotten(Value):
    """The result of forgetting a conversation: how many of its `rows` still existed.

    With a `prefix`, the index keeps objects below it in the artifact store; only those of `keys` are still needed.
    """

    rows: int = 0
    prefix: str = ""
    keys: tuple[str, ...] = ()


class MemoryIndex(Protocol):
    """An index of the rows of many users; no search sees more than its scope."""

    @property
    def reads_logs(self) -> bool:
        """True if the index reads new rows from the logs itself, so that the end of a turn does not add them."""

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        """Add rows; an existing row (conversation, path, part) is replaced. Raises DependencyError."""

    def search(self, query: MemoryQuery) -> MemoryHits:
        """Return the best rows, each once; a query without words has none. Raises DependencyError."""

    def forget(self, scope: MemoryScope, conversation: str) -> Forgotten:
        """Remove all rows of a conversation from the index. Raises DependencyError."""
