"""The plan of an import: all batches of the new log, complete with their states, and a report of what became of the documents.

    documents → blocks, rows, sources → entries by batch → batches and states → folded once, as every reader will

Pure: nothing is read, nothing is written. Texts, times, ids, paths and numbers are the documents'; owner, keys, states,
costs, limits and approvals are not. Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.errors import InputError, LimitError
from stepline.log.importing.brought import BATCHES_MAX, Brought, ToldTurn, read_brought
from stepline.log.importing.check_log import check_log
from stepline.log.importing.foreign_value import (
    BEGIN,
    STORED_MAX,
    Findings,
    json_of,
    message_of,
    refuse,
    source_of,
    text_of,
    time_of,
)
from stepline.log.importing.import_document import (
    FILES_MAX,
    Document,
    ImportPlan,
    ImportReport,
    NamedFile,
)
from stepline.log.importing.infer_rows import OPEN, closed_open, infer_rows
from stepline.log.importing.read_inbound import kind_of_event
from stepline.log.importing.replay_state import follow_state
from stepline.log.importing.telling import Telling
from stepline.log.importing.turn_entries import Slots, TurnReader
from stepline.log.spill import plan_spill
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.entry import (
    TITLE_CHARS,
    Dropped,
    Entry,
    Imported,
    Importing,
    Inbound,
    Owner,
    Resulted,
    Titled,
)
from stepline.model.file.attachment import check_attachment
from stepline.model.ids import DEFAULT_BUNDLE, Lane
from stepline.model.shorten import shorten
from stepline.rendering.quote import inline
from stepline.timeline.entry_rows import BatchRow, ClosedRow, OutsideRow, ResultedRow
from stepline.timeline.fold import Timeline

MAPPING: Final = 1
"""The version of the mapping from documents to entries: another one makes other batches, which are another import."""
STEP: Final = "import"
KINDS_MAX: Final = 200
"""The most kinds of blocks, and reasons, that a report counts apart."""
OTHER: Final = "other"


def plan_import(
    documents: Sequence[Document], *, lane: Lane, user: str, bundle: str = "", files: Mapping[str, int]
) -> ImportPlan:
    """Return the batches and the report of an import; `files` are those whose bytes are there, by hash, with their sizes.

    Raises:
        InputError: `import_*`, with the document, the place and the reason: nothing of it can be imported.
    """
    digest = digest_of(documents, bundle)
    findings = Findings()
    brought = read_brought(documents, findings)
    telling = Telling(lane=lane, user=user, pool=brought.pool, findings=findings, files=files)
    slots = Slots()
    turns, last = _numbered(brought, findings)
    for told in turns:
        reader = TurnReader(telling, slots, told.turn, told.blocks, title=brought.title, where=told.where)
        reader.read(told.rows or ())
        if not reader.closed:
            last = _end_open(reader, told, turns[-1], max(last, brought.last), findings)
    last = max(last, brought.last, *slots.entries, 1)
    if last > BATCHES_MAX:
        refuse("import_too_large", "documents", f"an import has at most {BATCHES_MAX} batches")
    for row in brought.outside:
        _put_outside(telling, slots, row)
    for said in slots.feedback.values():
        slots.entries[slots.closed[said.turn]].append(said)
    check_log(slots.entries)
    begun = Importing(digest=digest, at=slots.times.get(1) or _first_at(slots), files=_files(files))
    batches = _batches(slots, brought, begun, user=user, bundle=bundle, last=last, lane=lane)
    named = {file.sha256: file.size_bytes for file in named_blocks(turns, brought.outside)}
    report = _report(brought, batches, named, files, findings, digest=digest)
    stored = {sha: files[sha] for sha in named if sha in files}
    return ImportPlan(digest=digest, batches=batches, report=report, stored=stored)


def named_files(documents: Sequence[Document]) -> tuple[NamedFile, ...]:
    """Return the files that documents name, each hash once. Raises InputError `import_*`."""
    brought = read_brought(documents, Findings())
    return tuple({file.sha256: file for file in named_blocks(brought.turns, brought.outside)}.values())


def named_blocks(turns: Iterable[ToldTurn], outside: Iterable[OutsideRow]) -> Iterable[NamedFile]:
    """Yield the files of blocks and of events outside of turns. Raises InputError `import_too_many_files`."""
    found: dict[str, NamedFile] = {}
    for block in (block for turn in turns for block in turn.blocks):
        if block.body is not None:
            body = block.body
            found.setdefault(
                body.sha256,
                NamedFile(sha256=body.sha256, size_bytes=body.size_bytes, mime=body.mime, path=block.path),
            )
    for file in (file for row in outside for file in row.attachments):
        found.setdefault(
            file.sha256,
            NamedFile(sha256=file.sha256, size_bytes=file.size_bytes, mime=file.mime, path=file.filename),
        )
    if len(found) > FILES_MAX:
        refuse("import_too_many_files", "documents", f"an import has at most {FILES_MAX} files")
    return found.values()


def digest_of(documents: Sequence[Document], bundle: str) -> str:
    """Return the name of an import: the SHA-256 of its documents, the bundle and the mapping. Raises InputError `import_not_json`."""
    said = hashlib.sha256(f"{MAPPING}\n{bundle or DEFAULT_BUNDLE}\n".encode())
    try:
        for each in sorted(
            msgspec.json.encode([one.kind, one.payload], order="deterministic") for one in documents
        ):
            said.update(hashlib.sha256(each).digest())
    except (TypeError, ValueError, UnicodeError, RecursionError, OverflowError) as error:
        raise InputError(f"a document is no JSON: {str(error)[:100]}", code="import_not_json") from error
    return said.hexdigest()


def _numbered(brought: Brought, findings: Findings) -> tuple[list[ToldTurn], int]:
    """Return the turns with the rows of their batches, told or inferred, and the last batch."""
    if brought.own:
        return list(brought.turns), max(
            (row.n for told in brought.turns for row in told.rows or ()), default=0
        )
    turns, n = list[ToldTurn](), 1
    left = dict.fromkeys(brought.pool)
    for told in brought.turns:
        found = infer_rows(told.turn, told.blocks, n, left=left, sids=brought.pool.keys(), findings=findings)
        turns.append(replace(told, blocks=found.blocks, rows=found.rows))
        n = found.last + 1
    if left:
        turns = _carry_sources(turns, tuple(left), findings)
    return turns, n - 1


def _carry_sources(turns: Sequence[ToldTurn], sids: tuple[int, ...], findings: Findings) -> list[ToldTurn]:
    """Let the first result bring the sources that no result names; without one nobody can."""
    carried = list(turns)
    for index, told in enumerate(turns):
        for at, batch in enumerate(told.rows or ()):
            row = batch.entries[0]
            if isinstance(row, ResultedRow):
                more = replace(row, sources=(*row.sources, *sids))
                rows = [*(told.rows or ())]
                rows[at] = replace(batch, entries=(more,))
                carried[index] = replace(told, rows=tuple(rows))
                return carried
    findings.leave_out("source", len(sids))
    return carried


def _end_open(reader: TurnReader, told: ToldTurn, newest: ToldTurn, last: int, findings: Findings) -> int:
    """End a turn that was open when it was exported; return the batch. Raises InputError `import_bad_rows`."""
    if told.turn != newest.turn:
        refuse("import_bad_rows", told.where, "the turn has no end, and another one follows")
    findings.change(OPEN)
    at = told.blocks[-1].ts
    reader.finish(BatchRow(n=last + 1, at=at, entries=(ClosedRow(blocks=1),)), closed_open(told.turn, at))
    return last + 1


def _put_outside(telling: Telling, slots: Slots, row: OutsideRow) -> None:
    """Put an event that no turn tells of, with its fate."""
    where, findings = f"outside {row.n}", telling.findings
    for file in row.attachments:
        try:
            check_attachment(file)
        except InputError as error:
            raise InputError(f"{where}: {error}", code="import_bad_value") from error
    there = tuple(
        replace(file, size_bytes=telling.files[file.sha256])
        for file in row.attachments
        if file.sha256 in telling.files
    )
    if len(there) < len(row.attachments):
        findings.leave_out("attachment", len(row.attachments) - len(there))
    event = Inbound(
        message_id=message_of(row.message_id, f"{row.n}", findings),
        event=kind_of_event(row.event),
        text=text_of(row.text, where),
        user=telling.user,
        at=time_of(row.at, findings, default=BEGIN),
        reactive=row.reactive and bool(row.handed_back),
        payload=json_of(row.payload, where, findings, largest=STORED_MAX),
        attachments=there,
        source=source_of(row.source),
    )
    slots.entries[row.n].append(event)
    slots.times.setdefault(row.n, event.at)
    telling.admitted[row.n] = event
    if row.handed_back:
        back = Dropped(n=row.n, reason=row.handed_back, message_id=event.message_id, event=event.event)
        slots.entries[row.n].append(back)


def _batches(
    slots: Slots, brought: Brought, begun: Importing, *, user: str, bundle: str, last: int, lane: Lane
) -> tuple[Batch, ...]:
    """Return the batches up to the last, dense from the first, and fold them once, as every reader does."""
    tail = replace(EMPTY, state=State(owner=user, bundle="" if bundle == DEFAULT_BUNDLE else bundle))
    batches: list[Batch] = []
    at = begun.at
    for n in range(1, last + 1):
        entries: list[Entry] = list(slots.entries.get(n, ()))
        at = slots.times.get(n, at)
        if n == 1:
            entries[:0] = [Owner(user=user, bundle=tail.state.bundle), begun]
        if n == last:
            at = brought.ended_at or at
            title = _title(
                brought.title, [*batches, _draft(tail, n, entries, at=at, slots=slots, begun=begun)], lane
            )
            entries += [Titled(title=title, at=at)] if title else []
            entries.append(Imported(digest=begun.digest, at=at))
        tail = _draft(tail, n, entries, at=at, slots=slots, begun=begun)
        _check_room(tail, lane)
        batches.append(tail)
    return tuple(batches)


def _check_room(batch: Batch, lane: Lane) -> None:
    """Refuse a batch that no log can hold. Raises InputError `import_too_large`."""
    try:
        plan_spill(lane, batch)
    except LimitError as error:
        raise InputError(f"batch {batch.n} has too much", code="import_too_large") from error


def _draft(
    tail: Batch, n: int, entries: Sequence[Entry], *, at: str, slots: Slots, begun: Importing
) -> Batch:
    whole = any(isinstance(entry, Imported) for entry in entries)
    state = follow_state(tail, n, entries, at=at, rendered=slots.rendered.get(n, n - 1), whole=whole)
    return Batch(n=n, by=begun.digest[:16], at=at, entries=tuple(entries), state=state, step=STEP)


def _title(wanted: str, batches: Sequence[Batch], lane: Lane) -> str:
    """Return the title to give, "" if the log has the wanted one. Raises InputError `import_inconsistent`."""
    try:
        timeline = Timeline.empty(lane).extended(batches)
        for _ in timeline.blocks():
            pass
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"the documents contradict themselves: {str(error)[:100]}", code="import_inconsistent"
        ) from error
    title = shorten(inline(text_of(wanted, "conversation_title")), TITLE_CHARS)
    return "" if title == timeline.title else title


def _first_at(slots: Slots) -> str:
    return min(slots.times.values(), default=BEGIN)


def _files(files: Mapping[str, int]) -> str:
    return ",".join(f"{sha}:{size}" for sha, size in sorted(files.items()))


def _report(
    brought: Brought,
    batches: Sequence[Batch],
    named: Mapping[str, int],
    files: Mapping[str, int],
    findings: Findings,
    *,
    digest: str,
) -> ImportReport:
    """Return the report; kinds that were left out are not among those that were kept."""
    for block in (block for told in brought.turns for block in told.blocks):
        findings.kept[block.type] += 1
    for kind, count in findings.left_out.items():
        findings.kept[kind] -= min(count, findings.kept[kind])
    carried = {
        row.sid
        for batch in batches
        for one in batch.entries
        if isinstance(one, Resulted)
        for row in one.sources
    }
    there = sum(sha in files for sha in named)
    return ImportReport(
        digest=digest,
        origin="stepline" if brought.own else "foreign",
        turns=len(brought.turns),
        batches=len(batches),
        blocks=brought.told,
        sources=len(carried),
        files=there,
        files_missing=len(named) - there,
        kept=_counts(findings.kept),
        changed=_counts(findings.changed),
        left_out=_counts(findings.left_out),
    )


def _counts(found: Counter[str]) -> dict[str, int]:
    """Return the counts of the most frequent kinds, and all others together."""
    named = dict(found.most_common(KINDS_MAX))
    rest = found.total() - sum(named.values())
    counts = {**named, OTHER: named.get(OTHER, 0) + rest} if rest else named
    return {kind: count for kind, count in sorted(counts.items()) if count}
