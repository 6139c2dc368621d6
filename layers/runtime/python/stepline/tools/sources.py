"""The sources that a call or a run can cite: those of its conversation, and those it has added so far."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from stepline.errors import ToolError
from stepline.model.source import Source
from stepline.timeline.sources_pool import merge_sources, source_key

NEW_SOURCES_MAX: Final = 500
"""Maximum new sources of one call, or of one run with all its calls."""

ROWS_MAX: Final = 5_000
"""Maximum rows cited at once, known ones included: each of them takes time."""


class SourcePool:
    """A conversation's pool for one call, or for one run whose calls share it. Several threads may cite."""

    def __init__(self, known: Mapping[int, Source] | None = None) -> None:
        """Begin with the rows of the conversation, which do not change meanwhile."""
        self.known: Mapping[int, Source] = known or {}
        self._rows = dict(self.known)
        self._keys: dict[str, int] | None = None
        self._lock = threading.Lock()

    @property
    def rows(self) -> Mapping[int, Source]:
        """Every row, by its number."""
        with self._lock:
            return dict(self._rows)

    def cite(self, rows: Iterable[Source]) -> tuple[Source, ...]:
        """Give every row a number, the existing one if its source is known; return the rows in order.

        Rows that the pool does not accept, such as files that are not images, are left out. Raises ToolError
        `too_many_sources`.
        """
        incoming = list(islice(rows, ROWS_MAX + 1))
        if not incoming:
            return ()
        if len(incoming) > ROWS_MAX:
            raise ToolError(f"at most {ROWS_MAX} rows are cited at once", code="too_many_sources")
        with self._lock:
            keys = self._keys = self._keys or {source_key(row): sid for sid, row in self._rows.items()}
            merged = merge_sources(self._rows, incoming, keys=keys)
            new = sum(row.sid not in self._rows for row in merged.rows)
            if len(self._rows) - len(self.known) + new > NEW_SOURCES_MAX:
                raise ToolError(
                    f"one call brings at most {NEW_SOURCES_MAX} new sources", code="too_many_sources"
                )
            self._rows |= {row.sid: row for row in merged.rows}
            keys |= {source_key(row): row.sid for row in merged.rows}
            return tuple(self._rows[sid] for sid in merged.sids if sid)

    def take(self, rows: Iterable[Source]) -> bool:
        """Add rows that another pool, made of this one's rows, has numbered; False if a number is no longer free.

        Nothing is added then.
        """
        incoming = tuple(rows)
        with self._lock:
            merged = merge_sources(self._rows, incoming)
            if merged.sids != tuple(row.sid for row in incoming):
                return False
            self._rows |= {row.sid: row for row in merged.rows}
            self._keys = None
        return True

    def changed(self, rows: Iterable[Source]) -> tuple[Source, ...]:
        """Return the cited rows that the log has to store: new or changed ones, ascending."""
        with self._lock:
            now = [self._rows[sid] for sid in sorted({row.sid for row in rows} & self._rows.keys())]
        return tuple(row for row in now if self.known.get(row.sid) != row)
