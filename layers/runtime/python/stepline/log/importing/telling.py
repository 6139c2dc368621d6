"""The telling of a turn: what all that read its blocks need to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stepline.log.importing.foreign_value import Findings
from stepline.model.block import Body
from stepline.model.entry import Inbound
from stepline.model.file.attachment import attachment_key
from stepline.model.ids import Lane
from stepline.model.source import Citation, Source


@dataclass
class Telling:
    """One import: whose it becomes, the pool of its sources, what was found, and the events so far by their batches."""

    lane: Lane
    user: str
    pool: Mapping[int, Source]
    findings: Findings
    admitted: dict[int, Inbound] = field(default_factory=dict)

    def body(self, body: Body | None) -> Body | None:
        """Return a body at the place where this conversation keeps bytes with this hash."""
        if body is None:
            return None
        key = attachment_key(self.lane, body.sha256)
        return Body(key=key, sha256=body.sha256, size_bytes=body.size_bytes, mime=body.mime)

    def citations(self, sids: Iterable[int]) -> tuple[Citation, ...]:
        """Return the sources with these numbers that there are, in the short form."""
        rows = [self.pool[sid] for sid in dict.fromkeys(sids) if sid in self.pool]
        return tuple(Citation(sid=row.sid, title=row.title, url=row.url, path=row.path) for row in rows)

    def sources(self, sids: Iterable[int]) -> tuple[Source, ...]:
        """Return the rows with these numbers that there are."""
        return tuple(self.pool[sid] for sid in dict.fromkeys(sids) if sid in self.pool)
