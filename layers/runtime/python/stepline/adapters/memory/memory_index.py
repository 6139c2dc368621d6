"""A memory index in this process that searches only by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock
from typing import Final

from stepline.log.bindings import Ports
from stepline.log.memory_source import LogRows
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import Forgotten, MemoryHit, MemoryHits, MemoryQuery

ALL: Final = 10**9


class MemoryMemoryIndex:
    """Stores every added row; a hit's score is its share of the query's words."""

    def __init__(self, ports: Ports | None = None) -> None:
        """Start without rows, or with those of the log of `ports`, which each search reads."""
        self.reads_logs = ports is not None
        self._source = LogRows(ports) if ports else None
        self._lock = Lock()
        self._rows: dict[MemoryScope, dict[tuple[str, str, int], MemoryRow]] = {}

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        with self._lock:
            self._rows.setdefault(scope, {}).update(
                {(row.conversation, row.path, row.part): row for row in rows}
            )

    def search(self, query: MemoryQuery) -> MemoryHits:
        words = _words(query.text)
        with self._lock:
            held = dict(self._rows.get(query.scope, {}))
        for conversation in self._source.newest(query.scope) if self._source else ():
            assert self._source is not None
            read = self._source.read(query.scope, conversation, after=0, most=ALL)
            held |= {(row.conversation, row.path, row.part): row for row in read.rows}
        found = [
            MemoryHit(row=row, score=len(shared) / len(words))
            for row in held.values()
            if _wanted(row, query) and (shared := words & _words(row.text))
        ]
        found.sort(key=lambda hit: (-hit.score, hit.row.conversation, -hit.row.n, hit.row.path, hit.row.part))
        return MemoryHits(hits=tuple(found[: query.limit]))

    def forget(self, scope: MemoryScope, conversation: str) -> Forgotten:
        with self._lock:
            rows = self._rows.get(scope, {})
            gone = [key for key in rows if key[0] == conversation]
            for key in gone:
                del rows[key]
        return Forgotten(rows=len(gone))


def _wanted(row: MemoryRow, query: MemoryQuery) -> bool:
    return (
        (not query.conversation or row.conversation == query.conversation)
        and (not query.kinds or row.kind in query.kinds)
        and row.at >= query.since
        and (not query.before or row.at < query.before)
    )


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
