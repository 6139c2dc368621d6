"""The plan of an import: all batches of the new log, complete with their states, and a report on the documents.

    documents → blocks, rows, sources → entries by batch → batches and states → folded once, as every reader will

Pure: nothing is read, nothing is written. Texts, times, ids, paths and numbers are the documents'; owner, keys, states,
costs, limits and approvals are not; a state follows from the previous one by the transitions that wrote the original.
Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from stepline.errors import InputError, LimitError
from stepline.events.derive import newest_event
from stepline.log.importing.foreign_value import (
    BEGIN,
    STORED_MAX,
    Findings,
    json_of,
    message_of,
    refuse_import,
    source_of,
    text_of,
    time_of,
)
from stepline.log.importing.import_document import (
    IMPORT_FILES_MAX,
    Document,
    ImportPlan,
    ImportReport,
    ReferencedFile,
)
from stepline.log.importing.import_state import ImportState
from stepline.log.importing.imported_conversation import (
    BATCHES_MAX,
    ImportedConversation,
    ImportedTurn,
    read_imported_conversation,
)
from stepline.log.importing.infer_rows import IMPORTED_OPEN, closed_open, infer_rows
from stepline.log.importing.read_inbound import kind_of_event
from stepline.log.importing.turn_entries import LogDraft, TurnReader
from stepline.log.spill import plan_spill
from stepline.log.transition import (
    closed,
    count_entries,
    decided,
    declined,
    interrupted,
    next_round,
    opened,
    rejected,
    resulted,
    steered,
    taken_over,
    titled,
)
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.entry import (
    TITLE_CHARS,
    Closed,
    Compacted,
    Contributed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Feedback,
    Imported,
    Importing,
    Inbound,
    Opened,
    Owner,
    Pruned,
    Resulted,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.file.attachment import check_attachment
from stepline.model.ids import DEFAULT_BUNDLE, Lane
from stepline.model.visible_text import shorten
from stepline.rendering.quote import inline
from stepline.timeline.entry_rows import BatchRow, ClosedRow, OutsideRow, ResultedRow
from stepline.timeline.fold import Timeline


def follow_state(
    tail: Batch, n: int, entries: Sequence[Entry], *, at: str, rendered: int, whole: bool
) -> State:
    """Return the state after batch `n`; `rendered` is the newest batch that its decision had seen.

    `whole` ends the import; until then the state says that it is unfinished.
    """
    before = tail.state
    state = replace(before, importing=0 if whole else 1)
    skips_tools = any(isinstance(entry, SteeredEntry) and entry.phase == "tools" for entry in entries)
    skipped = False
    for entry in entries:
        match entry:
            case Resulted() if skips_tools:  # the actions that a steer skipped end at once
                state = state if skipped else next_round(state, n)
                skipped = True
            case _:
                state = _after(state, n, entry, rendered)
    tally = count_entries(state.tally, entries, at)
    return replace(state, prev=newest_event(tail), tally=tally)


def _after(state: State, n: int, entry: Entry, rendered: int) -> State:  # noqa: PLR0911 - one branch a kind of entry
    match entry:
        case Opened():
            return opened(state, n, entry.turn)
        case Decided():
            return _decided(state, n, entry, rendered)
        case Resulted():
            return resulted(state, n)
        case Deferred():
            return next_round(state, n)
        case SteeredEntry():
            return steered(state, entry.n, finalize=entry.finalize)
        case TakenOver():
            return taken_over(state, n)
        case Titled():
            return titled(state, n)
        case Closed():
            return closed(state)
        case _:
            return state


def _decided(state: State, n: int, entry: Decided, rendered: int) -> State:
    if entry.interrupted:
        return interrupted(state, n, rendered=rendered)
    if entry.declined is not None:
        return declined(state, n, rendered=rendered, fallback=entry.declined.fallback)
    if not entry.accepted:
        return rejected(state, n, rendered=rendered)
    ends = entry.action != "call_tool"
    return decided(state, n, rendered=rendered, actions=len(entry.actions), ends=ends)


REDUCTIONS_MAX: Final = 1_000
"""The most prunings, compactions and hidings of a log."""
_WITHIN: Final = (Decided, Resulted, Deferred, SteeredEntry, TakenOver, Compacted, Pruned, Contributed)
"""Entries that only an open turn has."""
FEEDBACK_MAX: Final = 40
"""The most feedback of one batch, whose rows are put with it in one transaction."""


def check_log(slots: Mapping[int, Sequence[Entry]]) -> None:
    """Refuse entries in an order that no log has. Raises InputError `import_bad_rows`."""
    course = _Course()
    for n in sorted(slots):
        if n < 1:
            _refuse(n, "batches count from 1")
        if sum(isinstance(entry, Inbound) for entry in slots[n]) > 1:
            _refuse(n, "it has two events")
        if sum(isinstance(entry, Feedback) for entry in slots[n]) > FEEDBACK_MAX:
            _refuse(n, f"it has feedback on more than {FEEDBACK_MAX // 2} turns")
        for entry in slots[n]:
            course.take(n, entry)


class _Course:
    """The course of a log: the open turn, the batches that began turns, and the queued events.

    Each event has a flag that says whether a turn shows it.
    """

    def __init__(self) -> None:
        self._open = ""
        self._began: set[int] = set()
        self._turns: set[str] = set()
        self._arrived: dict[int, bool] = {}
        self._reduced = 0

    def take(self, n: int, entry: Entry) -> None:
        """Apply the next entry."""
        self._count(n, entry)
        match entry:
            case Inbound():
                self._arrived[n] = bool(self._open)
            case Opened():
                self._open_turn(n, entry)
            case Closed():
                if self._open != entry.turn:
                    _refuse(n, "it ends a turn that is not open")
                self._open = ""
            case Dropped():
                self._arrived.pop(entry.n, None)
            case _ if isinstance(entry, _WITHIN) and not self._open:
                _refuse(n, "it has an entry of a turn, and none is open")
            case Compacted() if entry.cut and entry.cut not in self._began:
                _refuse(n, "it cuts where no turn began")
            case _:
                pass

    def _count(self, n: int, entry: Entry) -> None:
        """Refuse more reductions than a conversation has: each one reads the whole context of the model."""
        if isinstance(entry, Resulted):
            self._reduced += len(entry.hides)
        self._reduced += isinstance(entry, Pruned | Compacted)
        if self._reduced > REDUCTIONS_MAX:
            refuse_import("import_too_large", f"batch {n}", f"a log has at most {REDUCTIONS_MAX} reductions")

    def _open_turn(self, n: int, entry: Opened) -> None:
        prompts = set(entry.prompts)
        if self._open or entry.turn in self._turns:
            _refuse(n, "it opens a turn while another one is open, or a second time")
        if len(prompts) < len(entry.prompts) or not self._arrived.keys() >= prompts:
            _refuse(n, "it names an event that did not wait for a turn")
        waited = (one for one, shown in self._arrived.items() if not shown and one not in prompts)
        self._arrived = dict.fromkeys(waited, True)
        self._open = entry.turn
        self._turns.add(entry.turn)
        self._began.add(n)


def _refuse(n: int, why: str) -> NoReturn:
    refuse_import("import_bad_rows", f"batch {n}", why)


MAPPING: Final = 1
"""The version of the mapping from documents to entries: a new version makes other batches, which are another import."""
STEP: Final = "import"
KINDS_MAX: Final = 200
"""The most kinds of blocks, and reasons, that a report counts one by one."""
OTHER: Final = "other"


def plan_import(
    documents: Sequence[Document], *, lane: Lane, user: str, bundle: str = "", files: Mapping[str, int]
) -> ImportPlan:
    """Return the batches and the report of an import; `files` are the sizes of the uploaded files, by hash.

    Raises:
        InputError: `import_*`, with the document, the position and the reason; nothing is imported.
    """
    digest = _digest_of(documents, bundle)
    findings = Findings()
    conversation = read_imported_conversation(documents, findings)
    import_state = ImportState(lane=lane, user=user, pool=conversation.pool, findings=findings, files=files)
    slots = LogDraft()
    turns, last = _numbered(conversation, findings)
    for turn in turns:
        reader = TurnReader(
            import_state, slots, turn.turn, turn.blocks, title=conversation.title, where=turn.where
        )
        reader.read(turn.rows or ())
        if not reader.closed:
            last = _end_open(reader, turn, turns[-1], max(last, conversation.last), findings)
    last = max(last, conversation.last, *slots.entries, 1)
    if last > BATCHES_MAX:
        refuse_import("import_too_large", "documents", f"an import has at most {BATCHES_MAX} batches")
    for row in conversation.outside:
        _put_outside(import_state, slots, row)
    for feedback in slots.feedback.values():
        slots.entries[slots.closed[feedback.turn]].append(feedback)
    check_log(slots.entries)
    begun = Importing(digest=digest, at=slots.times.get(1) or _first_at(slots), files=_files(files))
    batches = _batches(slots, conversation, begun, user=user, bundle=bundle, last=last, lane=lane)
    named = {file.sha256: file.size_bytes for file in named_blocks(turns, conversation.outside)}
    report = _report(conversation, batches, named, files, findings, digest=digest)
    stored = {sha: files[sha] for sha in named if sha in files}
    return ImportPlan(digest=digest, batches=batches, report=report, stored=stored)


def named_files(documents: Sequence[Document]) -> tuple[ReferencedFile, ...]:
    """Return the files that documents name, each hash once. Raises InputError `import_*`."""
    conversation = read_imported_conversation(documents, Findings())
    return tuple(
        {file.sha256: file for file in named_blocks(conversation.turns, conversation.outside)}.values()
    )


def named_blocks(turns: Iterable[ImportedTurn], outside: Iterable[OutsideRow]) -> Iterable[ReferencedFile]:
    """Yield the files of blocks and of events outside of turns. Raises InputError `import_too_many_files`."""
    found: dict[str, ReferencedFile] = {}
    for block in (block for turn in turns for block in turn.blocks):
        if block.body is not None:
            body = block.body
            found.setdefault(
                body.sha256,
                ReferencedFile(
                    sha256=body.sha256, size_bytes=body.size_bytes, mime=body.mime, path=block.path
                ),
            )
    for file in (file for row in outside for file in row.attachments):
        found.setdefault(
            file.sha256,
            ReferencedFile(
                sha256=file.sha256, size_bytes=file.size_bytes, mime=file.mime, path=file.filename
            ),
        )
    if len(found) > IMPORT_FILES_MAX:
        refuse_import("import_too_many_files", "documents", f"an import has at most {IMPORT_FILES_MAX} files")
    return found.values()


def _digest_of(documents: Sequence[Document], bundle: str) -> str:
    """Return the name of an import: the SHA-256 of its documents, the bundle and the mapping.

    Raises InputError `import_not_json`.
    """
    said = hashlib.sha256(f"{MAPPING}\n{bundle or DEFAULT_BUNDLE}\n".encode())
    try:
        for each in sorted(
            msgspec.json.encode([one.kind, one.payload], order="deterministic") for one in documents
        ):
            said.update(hashlib.sha256(each).digest())
    except (TypeError, ValueError, UnicodeError, RecursionError, OverflowError) as error:
        raise InputError(f"a document is no JSON: {str(error)[:100]}", code="import_not_json") from error
    return said.hexdigest()


def _numbered(conversation: ImportedConversation, findings: Findings) -> tuple[list[ImportedTurn], int]:
    """Return the turns with the rows of their batches, read or inferred, and the last batch."""
    if conversation.own:
        return list(conversation.turns), max(
            (row.n for turn in conversation.turns for row in turn.rows or ()), default=0
        )
    turns, n = list[ImportedTurn](), 1
    left = dict.fromkeys(conversation.pool)
    for turn in conversation.turns:
        found = infer_rows(
            turn.turn, turn.blocks, n, left=left, sids=conversation.pool.keys(), findings=findings
        )
        turns.append(replace(turn, blocks=found.blocks, rows=found.rows))
        n = found.last + 1
    if left:
        turns = _carry_sources(turns, tuple(left), findings)
    return turns, n - 1


def _carry_sources(
    turns: Sequence[ImportedTurn], sids: tuple[int, ...], findings: Findings
) -> list[ImportedTurn]:
    """Let the first result carry the sources that no result names; without a result they are left out."""
    carried = list(turns)
    for index, turn in enumerate(turns):
        for at, batch in enumerate(turn.rows or ()):
            row = batch.entries[0]
            if isinstance(row, ResultedRow):
                more = replace(row, sources=(*row.sources, *sids))
                rows = [*(turn.rows or ())]
                rows[at] = replace(batch, entries=(more,))
                carried[index] = replace(turn, rows=tuple(rows))
                return carried
    findings.leave_out("source", len(sids))
    return carried


def _end_open(
    reader: TurnReader, turn: ImportedTurn, newest: ImportedTurn, last: int, findings: Findings
) -> int:
    """End a turn that was open when it was exported; return the batch. Raises InputError `import_bad_rows`."""
    if turn.turn != newest.turn:
        refuse_import("import_bad_rows", turn.where, "the turn has no end, and another one follows")
    findings.change(IMPORTED_OPEN)
    at = turn.blocks[-1].ts
    reader.finish(BatchRow(n=last + 1, at=at, entries=(ClosedRow(blocks=1),)), closed_open(turn.turn, at))
    return last + 1


def _put_outside(import_state: ImportState, slots: LogDraft, row: OutsideRow) -> None:
    """Put an event outside of every turn, and its return if it was handed back."""
    where, findings = f"outside {row.n}", import_state.findings
    for file in row.attachments:
        try:
            check_attachment(file)
        except InputError as error:
            raise InputError(f"{where}: {error}", code="import_bad_value") from error
    available = tuple(
        replace(file, size_bytes=import_state.files[file.sha256])
        for file in row.attachments
        if file.sha256 in import_state.files
    )
    if len(available) < len(row.attachments):
        findings.leave_out("attachment", len(row.attachments) - len(available))
    event = Inbound(
        message_id=message_of(row.message_id, f"{row.n}", findings),
        event=kind_of_event(row.event),
        text=text_of(row.text, where),
        user=import_state.user,
        at=time_of(row.at, findings, default=BEGIN),
        reactive=row.reactive and bool(row.handed_back),
        payload=json_of(row.payload, where, findings, largest=STORED_MAX),
        attachments=available,
        source=source_of(row.source),
    )
    slots.entries[row.n].append(event)
    slots.times.setdefault(row.n, event.at)
    import_state.admitted[row.n] = event
    if row.handed_back:
        back = Dropped(n=row.n, reason=row.handed_back, message_id=event.message_id, event=event.event)
        slots.entries[row.n].append(back)


def _batches(
    slots: LogDraft,
    conversation: ImportedConversation,
    begun: Importing,
    *,
    user: str,
    bundle: str,
    last: int,
    lane: Lane,
) -> tuple[Batch, ...]:
    """Return the batches up to the last, without gaps, and fold them once, as every reader does."""
    tail = replace(EMPTY, state=State(owner=user, bundle="" if bundle == DEFAULT_BUNDLE else bundle))
    batches: list[Batch] = []
    at = begun.at
    for n in range(1, last + 1):
        entries: list[Entry] = list(slots.entries.get(n, ()))
        at = slots.times.get(n, at)
        if n == 1:
            entries[:0] = [Owner(user=user, bundle=tail.state.bundle), begun]
        if n == last:
            at = conversation.ended_at or at
            title = _title(
                conversation.title,
                [*batches, _draft(tail, n, entries, at=at, slots=slots, begun=begun)],
                lane,
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
    tail: Batch, n: int, entries: Sequence[Entry], *, at: str, slots: LogDraft, begun: Importing
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


def _first_at(slots: LogDraft) -> str:
    return min(slots.times.values(), default=BEGIN)


def _files(files: Mapping[str, int]) -> str:
    return ",".join(f"{sha}:{size}" for sha, size in sorted(files.items()))


def _report(
    conversation: ImportedConversation,
    batches: Sequence[Batch],
    named: Mapping[str, int],
    files: Mapping[str, int],
    findings: Findings,
    *,
    digest: str,
) -> ImportReport:
    """Return the report; kinds that were left out are not among those that were kept."""
    for block in (block for turn in conversation.turns for block in turn.blocks):
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
    available = sum(sha in files for sha in named)
    return ImportReport(
        digest=digest,
        origin="stepline" if conversation.own else "foreign",
        turns=len(conversation.turns),
        batches=len(batches),
        blocks=conversation.block_count,
        sources=len(carried),
        files=available,
        files_missing=len(named) - available,
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
