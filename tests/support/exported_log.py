"""Conversations that move: the content of a log's export, its documents, and the log that an import makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.events.derive import derive
from stepline.log.importing.import_document import Document, ImportPlan
from stepline.log.importing.plan_import import named_files, plan_import
from stepline.model.batch import decode_batch, encode_batch
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.timeline.export import export_conversation
from stepline.timeline.fold import Timeline
from stepline.timeline.memory_rows import turn_rows
from stepline.timeline.segment import encode_segment
from tests.support.log_builder import LogBuilder

THERE: Final = Lane(tenant="globex", project="help", conversation="moved-1")
USER: Final = "grace"


def settled(log: LogBuilder) -> LogBuilder:
    """End the open turn of a log, and the turn that it may open, and tidy the log."""
    while tidied(log).state.status == "open":
        log.close(code="step_failed")
    return log


def tidied(log: LogBuilder) -> LogBuilder:
    """Give the files of a log names that a client may send."""
    for index, batch in enumerate(log.batches):
        entries = tuple(_tidy(entry) if isinstance(entry, Inbound) else entry for entry in batch.entries)
        log.batches[index] = replace(batch, entries=entries)
    return log


def documents_of(timeline: Timeline) -> list[Document]:
    """Return the documents of an export, as a file has them."""
    return [
        Document(kind=one.kind, payload=msgspec.json.decode(msgspec.json.encode(one.payload)))
        for one in export_conversation(timeline, ttl_s=300)
    ]


def moved(
    documents: list[Document], *, lane: Lane = THERE, files: Mapping[str, int] | None = None
) -> ImportPlan:
    """Return the plan of importing these documents, with the bytes of all of their files by default."""
    there = {file.sha256: file.size_bytes for file in named_files(documents)} if files is None else files
    return plan_import(documents, lane=lane, user=USER, files=there)


def log_of(plan: ImportPlan, lane: Lane = THERE) -> Timeline:
    """Return the fold of an imported log, from the stored bytes."""
    return Timeline.empty(lane).extended([decode_batch(encode_batch(batch)) for batch in plan.batches])


def told(timeline: Timeline) -> dict[tuple[str, str], Any]:
    """Return the content of an export, document by document, without the keys of bytes, which only locate them."""
    found = {}
    for one in export_conversation(timeline, ttl_s=300):
        payload = msgspec.json.decode(msgspec.json.encode(one.payload))
        for block in payload.get("blocks", ()):
            if block["body"]:
                block["body"]["key"] = ""
        found[one.kind, payload.get("turn_id", "")] = (one.tags, one.text, payload)
    return found


def read_everywhere(plan: ImportPlan, lane: Lane = THERE) -> Timeline:
    """Read an imported log as clients, the model, the index and a segment read it; return its timeline."""
    timeline = log_of(plan, lane)
    for batch in plan.batches:
        derive(batch, lane)
    assert "".join(piece.text for piece in timeline.pieces)
    encode_segment(timeline)
    for block in timeline.blocks():
        if block.path:
            timeline.resolve(block.path)
    for turn in timeline.turns:
        turn_rows(timeline, turn)
        timeline.resolve(f"ar:{turn}.react.turn.index")
        timeline.resolve(f"ws:{turn}.conv.working.summary")
    return timeline


def values_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value within a value."""
    yield at
    if isinstance(value, dict):
        for name, one in value.items():
            yield from values_in(one, (*at, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from values_in(one, (*at, index))


def _tidy(entry: Inbound) -> Inbound:
    files = (replace(file, filename=file.filename.replace("\t", "_")) for file in entry.attachments)
    return replace(entry, attachments=tuple(files))
