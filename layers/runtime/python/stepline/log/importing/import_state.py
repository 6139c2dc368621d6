"""The state of an import, shared by all functions that read the blocks of its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stepline.log.importing.foreign_value import Findings, refuse_import
from stepline.model.block import Block, Body
from stepline.model.entry import Inbound
from stepline.model.file.attachment import attachment_key
from stepline.model.ids import Lane
from stepline.model.source import Citation, Source

PLAIN: Final = "text/plain"
COPIED_MAX: Final = 32_000_000
"""The most characters of sources and texts that entries repeat."""
_ROW: Final = 100
"""About how many characters a row has besides its texts."""


@dataclass
class ImportState:
    """One import: its owner, the pool of its sources, the findings, and the events so far by their batches.

    `files` are the sizes of the files whose bytes are uploaded, by hash; `copied` counts the characters that the log
    repeats.
    """

    lane: Lane
    user: str
    pool: Mapping[int, Source]
    findings: Findings
    files: Mapping[str, int]
    copied: int = 0
    admitted: dict[int, Inbound] = field(default_factory=dict)

    def has(self, body: Body) -> bool:
        """Return True if the bytes of a body are uploaded."""
        return body.sha256 in self.files

    def body(self, body: Body | None) -> Body | None:
        """Return a body under the key that this conversation has for this hash; None without the bytes."""
        if body is None or not self.has(body):
            return None
        key = attachment_key(self.lane, body.sha256)
        return Body(key=key, sha256=body.sha256, size_bytes=self.files[body.sha256], mime=body.mime)

    def without_bytes(self, block: Block, body: Body) -> Block:
        """Return a block that says that the bytes of its file are missing."""
        self.findings.change("bytes_missing")
        facts = {
            "bytes": "missing",
            "filename": block.path.rpartition("/")[2],
            "mime": body.mime,
            "size_bytes": body.size_bytes,
            "sha256": body.sha256,
        }
        text = block.text or f"The bytes of this file did not come with the conversation: {_spelled(facts)}\n"
        return replace(block, body=None, mime=PLAIN, text=text, meta={**block.meta, **facts})

    def citations(self, sids: Iterable[int]) -> tuple[Citation, ...]:
        """Return the sources of the pool with these numbers, in the short form."""
        rows = [self.pool[sid] for sid in dict.fromkeys(sids) if sid in self.pool]
        self.copy(sum(len(row.title) + len(row.url) + len(row.path) + _ROW for row in rows))
        return tuple(Citation(sid=row.sid, title=row.title, url=row.url, path=row.path) for row in rows)

    def sources(self, sids: Iterable[int]) -> tuple[Source, ...]:
        """Return the rows of the pool with these numbers."""
        rows = tuple(self.pool[sid] for sid in dict.fromkeys(sids) if sid in self.pool)
        self.copy(
            sum(len(row.text) + len(row.content) + len(row.title) + len(row.url) + _ROW for row in rows)
        )
        return rows

    def copy(self, chars: int) -> None:
        """Count characters that a log repeats, so that a small import cannot grow large.

        Raises InputError `import_too_large`.
        """
        self.copied += chars
        if self.copied > COPIED_MAX:
            refuse_import(
                "import_too_large", "documents", f"a log repeats at most {COPIED_MAX} characters of them"
            )


def _spelled(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if name != "bytes")
