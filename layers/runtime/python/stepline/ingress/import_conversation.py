"""Import: documents of a conversation become its log, batch by batch, and it is listed when it is whole.

    absent            → its row, which is shown to no user, and the first batch, with which it begins
    incomplete        → the same import continues after the newest batch; another one is refused
    complete          → the same import finds that, and repeats the effects; another one is refused

Everything is planned, and thereby validated, before anything is written; a batch is a function of the documents and of
the files that existed when the import began. Until the end only a deletion may be put besides (`stepline.log.fence`).
Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from stepline.delivery.effect import ROWS_MAX, make_listing, publish
from stepline.errors import InputError, LimitError, NotFoundError, UnknownOutcome
from stepline.ingress.allow import check_rate, check_stopped
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_alive
from stepline.log.importing.import_document import IMPORT_FILES_MAX, Document, ImportPlan, ImportReport
from stepline.log.spill import hydrate, spill
from stepline.log.transition import epoch_ms
from stepline.model.base import Value
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.entry import Closed, Importing
from stepline.model.file.upload_slot import check_upload_id
from stepline.model.ids import Lane, make_lane, utc
from stepline.model.memory_row import MemoryScope
from stepline.ports.channel import Principal
from stepline.ports.log import Listing, Occupied

if TYPE_CHECKING:
    from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

PASS_S: Final = 18.0
"""How long one request reads, plans and writes: its function has 25 seconds; planning the largest import takes 11."""


@dataclass(frozen=True, kw_only=True)
class ImportInput:
    """A requested import: documents, the uploads with the bytes of their files, and the bundle, "" for the default.

    `remembered` turns are in the memory index already, as the last answer said.
    """

    documents: tuple[Document, ...]
    uploads: tuple[str, ...] = ()
    bundle: str = ""
    remembered: int = 0


class ImportStatus(Value, omit_defaults=False):
    """The state of an import: `written` of its `batches`, `remembered` of its `turns`; if `unfinished`, send it again.

    The report lists the values that were kept, changed and left out; it is the same each time.
    """

    state: Literal["unfinished", "whole"]
    batches: int
    written: int
    turns: int
    remembered: int
    report: ImportReport


def import_conversation(
    ports: Ports, principal: Principal, conversation: str, request: ImportInput, *, until_s: float
) -> ImportStatus:
    """Write documents as a new conversation of the user, as far as the time allows; called again, it continues.

    Raises:
        InputError: `conversation_exists`, `another_import`, the name is taken; `bad_upload`, `unknown_bundle`,
            `bad_conversation`, and the codes of `plan_import`, for what cannot be imported: nothing was written.
        LimitError: `rate_limited`, `stopped`; `import_too_many_files`.
        NotFoundError: the conversation belongs to another user, or was deleted (`conversation_deleted`).
        DependencyError, UnknownOutcome: it continues when it is called again.
    """
    lane = make_lane(principal.tenant, principal.project, conversation)
    check_stopped(check_rate(ports, principal))
    if ports.ledger.lane is None:
        ports.ledger.works_for(lane)
    tail = _read_tail(ports, lane, principal.user)
    begun = _read_beginning(ports, lane, tail)
    files = _read_files(begun.files) if begun else _find_files(ports, lane, principal.user, request.uploads)
    founded = tail.state if tail.n else _new_state(ports, principal.user, request.bundle)
    plan = _plan(lane, request, files, founded)
    if begun and begun.digest != plan.digest:
        raise InputError("another import has begun this conversation", code="another_import")
    written = tail.n if tail.state.importing or not begun else len(plan.batches)
    if not tail.n:
        _announce(ports, lane, founded, 0)
    for batch in plan.batches[written:]:
        _put(ports, lane, batch)
        written += 1
        if batch.n == 1 and batch.state.importing:
            _announce(ports, lane, founded, 1)
        if ports.clock.monotonic_s() >= until_s:
            break
    remembered = 0
    if written == len(plan.batches):
        if tail.n <= written:
            _follow(ports, lane, plan.batches)
        remembered = _remember(ports, lane, plan, after=request.remembered, until_s=until_s)
    return _status(plan, written=written, remembered=remembered)


def _read_tail(ports: Ports, lane: Lane, user: str) -> Batch:
    """Return the newest batch; the empty one if there is none. Raises NotFoundError."""
    tail = ports.log.tail(lane, consistent=True) or EMPTY
    if tail.n and tail.state.owner != user:
        raise NotFoundError("no such conversation")
    check_alive(tail.state)
    if not tail.n and ports.erasure and ports.erasure.tombstone(lane):
        raise NotFoundError("the conversation was deleted", code=DELETED)
    return tail


def _read_beginning(ports: Ports, lane: Lane, tail: Batch) -> Importing | None:
    """Return the beginning of a conversation's import; None if there is no conversation yet.

    Raises InputError `conversation_exists`: it did not begin as an import.
    """
    if not tail.n:
        return None
    first = ports.log.get(lane, 1, consistent=True) or EMPTY
    begun = _find_importing(hydrate(ports.artifacts, first))
    if begun is None:
        raise _conversation_exists()
    return begun


def _find_importing(batch: Batch) -> Importing | None:
    return next((entry for entry in batch.entries if isinstance(entry, Importing)), None)


def _conversation_exists() -> InputError:
    return InputError("there is a conversation of this name: choose another one", code="conversation_exists")


def _find_files(ports: Ports, lane: Lane, user: str, uploads: Sequence[str]) -> dict[str, int]:
    """Return the files that a user has uploaded for this conversation, by hash, with their sizes.

    Raises InputError `bad_upload`; LimitError `import_too_many_files`.
    """
    if len(uploads) > IMPORT_FILES_MAX:
        raise LimitError(
            f"an import has at most {IMPORT_FILES_MAX} files",
            code="import_too_many_files",
            limit=IMPORT_FILES_MAX,
        )
    found = {}
    for upload_id in uploads:
        upload = ports.uploads.get(lane, check_upload_id(upload_id))
        if upload is None or upload.user != user or upload.state != "ready":
            raise InputError(f"{upload_id} is not an accepted upload of this conversation", code="bad_upload")
        found[upload.file.sha256] = upload.file.size_bytes
    return found


def _read_files(text: str) -> dict[str, int]:
    pairs = (pair.split(":") for pair in text.split(",") if pair)
    return {sha256: int(size) for sha256, size in pairs}


def _new_state(ports: Ports, user: str, bundle: str) -> State:
    """Return the facts of a conversation that an import begins. Raises InputError `unknown_bundle`.

    It begins now, independent of its documents: an erasure up to a time covers the data that was here then.
    """
    from stepline.ingress.admit import Arrival, choose_bundle  # noqa: PLC0415 - only an import needs it in this API

    chosen = choose_bundle(ports, Arrival(message_id="", user=user, bundle=bundle), EMPTY)
    return State(owner=user, bundle=chosen, begun_ms=epoch_ms(utc(ports.clock.now())))


def _plan(lane: Lane, request: ImportInput, files: Mapping[str, int], founded: State) -> ImportPlan:
    """Return the plan with the time at which the conversation began here, which no document contains."""
    from stepline.log.importing.plan_import import plan_import  # noqa: PLC0415 - only an import plans

    plan = plan_import(request.documents, lane=lane, user=founded.owner, bundle=founded.bundle, files=files)
    batches = (
        replace(batch, state=replace(batch.state, begun_ms=founded.begun_ms)) for batch in plan.batches
    )
    return replace(plan, batches=tuple(batches))


def _announce(ports: Ports, lane: Lane, founded: State, n: int) -> None:
    """Write a row that is shown to no user before any batch, so that an erasure of the user finds an unfinished import.

    If two users begin at once, each has written a row, so it is written again when the owner of the name is known.
    """
    at = utc(datetime.fromtimestamp(founded.begun_ms / 1000, UTC))
    row = Listing(
        lane=lane, owner=founded.owner, title="", last_at=at, applied_n=n, started_at=at, importing=True
    )
    ports.log.project(row)


def _put(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Put one batch, bodies first; an existing batch is accepted if the same import of this user wrote it.

    Two passes that begin at once may know different files: the second one must start again with the stored batch.

    Raises:
        InputError: `conversation_exists`.
        NotFoundError: `conversation_deleted`; `not_found`, it is another user's.
        UnknownOutcome, DependencyError: the same import continues when it is requested again.
    """
    small = spill(ports.artifacts, lane, batch)
    put = ports.log.put(lane, small)
    if not isinstance(put, Occupied) or put.batch == small:
        return
    if put.batch.state.owner != batch.state.owner:
        raise NotFoundError("no such conversation")
    check_alive(put.batch.state)
    if put.batch.by != batch.by:
        raise _conversation_exists()
    raise UnknownOutcome("another pass has begun this import with other files", n=batch.n)


def _follow(ports: Ports, lane: Lane, batches: Sequence[Batch]) -> None:
    """List the conversation as read, and notify the user's clients. Idempotent."""
    last = batches[-1]
    ended = [(batch, entry) for batch in batches for entry in batch.entries if isinstance(entry, Closed)]
    row = replace(make_listing(ports, lane, last), last_at=last.at, active_n=last.n)
    if ended:
        row = replace(row, turn=ended[-1][1].turn, outcome=ended[-1][1].outcome)
    ports.log.project(row)
    ports.log.mark_read(lane, last.n)
    if ended:
        publish(ports, lane, ended[-1][0])


def _remember(ports: Ports, lane: Lane, plan: ImportPlan, *, after: int, until_s: float) -> int:
    """Add the rows of each turn to an index that does not read logs, as a closing turn does; return how many it has."""
    turns, index = _ended_turns(plan.batches), ports.memory
    if index is None or index.reads_logs:
        return len(turns)
    from stepline.timeline.fold import Timeline  # noqa: PLC0415 - only with such an index an import folds

    timeline = Timeline.empty(lane).extended(plan.batches)
    remembered = min(after, len(turns))
    for turn in turns[remembered:]:
        _index_turn(ports, lane, timeline, turn, user=plan.batches[0].state.owner)
        remembered += 1
        if ports.clock.monotonic_s() >= until_s:
            break
    return remembered


def _index_turn(ports: Ports, lane: Lane, timeline: Timeline, turn: str, *, user: str) -> None:
    from stepline.timeline.memory_rows import turn_rows  # noqa: PLC0415 - as above

    if ports.memory is None:
        return
    rows = turn_rows(timeline, turn)
    ports.memory.add(MemoryScope(tenant=lane.tenant, project=lane.project, user=user), rows[:ROWS_MAX])
    if left_out := rows[ROWS_MAX:]:
        logger.warning("rows of memory left out", extra={"turn_id": turn, "rows": len(left_out)})


def _ended_turns(batches: Iterable[Batch]) -> list[str]:
    return [entry.turn for batch in batches for entry in batch.entries if isinstance(entry, Closed)]


def _status(plan: ImportPlan, *, written: int, remembered: int) -> ImportStatus:
    turns = len(_ended_turns(plan.batches))
    done = written == len(plan.batches) and remembered == turns
    return ImportStatus(
        state="whole" if done else "unfinished",
        batches=len(plan.batches),
        written=written,
        turns=turns,
        remembered=remembered,
        report=plan.report,
    )
