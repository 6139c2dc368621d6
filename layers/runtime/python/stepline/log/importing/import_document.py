"""Documents of an import: a kind and a payload, bounded and decoded, and the report of the import.

Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.timeline.export import SOURCES, TIMELINE_KIND, TURN_LOG

DOCUMENTS_MAX: Final = 2_048
"""The most documents of one import: the timeline, its sources, and a log for each turn."""
IMPORT_FILES_MAX: Final = 500
"""The most files of one import."""


class Document(Value):
    """One document: its kind, as an export names it, and its payload.

    `name` is shown in errors: a file name, or a position in a list.
    """

    kind: str
    payload: dict[str, Any]
    name: str = ""


class ImportReport(Value, omit_defaults=False):
    """The report of an import: the same each time for the same documents.

    `kept`, `changed` and `left_out` count by kind of block or by reason. `files` have their bytes, `files_missing` do not.
    `origin` is `stepline` for documents that Stepline exported, `foreign` for others.
    """

    digest: str
    origin: str
    turns: int
    batches: int
    blocks: int
    sources: int
    files: int
    files_missing: int
    kept: dict[str, int]
    changed: dict[str, int]
    left_out: dict[str, int]


class ImportPlan(Value):
    """All that an import writes: batches, dense from 1, complete with their states. `stored` are files by hash and size."""

    digest: str
    batches: tuple[Batch, ...]
    report: ImportReport
    stored: Mapping[str, int]


class ReferencedFile(Value):
    """A file that documents name: its bytes are uploaded before the import, or the import marks them as missing."""

    sha256: str
    size_bytes: int
    mime: str
    path: str


def read_document(body: bytes, name: str) -> Document:
    """Return the document in a file: an export's payload, or a whole export with `kind` and `payload`.

    Raises InputError `import_not_json`, `import_unknown_document`.
    """
    found = decode_document(body, name)
    if (
        isinstance(found, dict)
        and isinstance(found.get("kind"), str)
        and isinstance(found.get("payload"), dict)
    ):
        return Document(kind=found["kind"], payload=found["payload"], name=name)
    kind = _kind(found) if isinstance(found, dict) else ""
    if not kind:
        raise InputError(f"{name[:120]} is no document of a conversation", code="import_unknown_document")
    return Document(kind=kind, payload=found, name=name)


def decode_document(body: bytes, name: str) -> Any:
    """Return the value of a JSON file; a lone surrogate, which only some JSON can hold, becomes a question mark."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        spelled = json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(spelled)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name[:120]} is not JSON", code="import_not_json") from error


def _kind(payload: dict[str, Any]) -> str:
    """Return the kind of a payload by its fields."""
    if "turn_id" in payload and "blocks" in payload:
        return TURN_LOG
    if "blocks" in payload:
        return TIMELINE_KIND
    return SOURCES if "sources_pool" in payload else ""
