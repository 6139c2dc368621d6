"""The record of a conversation, read from a log and its artifacts, whole or not at all."""

from __future__ import annotations

from stepline.errors import InputError, NotFoundError
from stepline.log.journal import read_since
from stepline.log.spill import INCOMPLETE, hydrate, readable
from stepline.model.batch import Batch
from stepline.model.entry import Decided
from stepline.model.ids import Lane
from stepline.ports.artifacts import Artifacts
from stepline.ports.log import Log


def load_record(log: Log, artifacts: Artifacts, lane: Lane, *, upto: int | None = None) -> list[Batch]:
    """Return the whole log of a conversation, or that up to a batch, with its stored texts; a fork's has the batches of its origin.

    Raises NotFoundError: `not_found`; `conversation_deleted`. InputError `record_incomplete`, with the turn, the round
    and the batch whose text is gone. DependencyError `format_newer`: a later release wrote it.
    """
    found = read_since(log, lane, 0, upto=upto, consistent=True)
    if not found:
        raise NotFoundError(f"there is no conversation {lane.conversation}")
    if found[0].n > 1:
        raise InputError(
            f"the log of {lane.conversation} begins with batch {found[0].n}: the batches before it are erased",
            code=INCOMPLETE,
        )
    whole = []
    for batch in found:
        with readable(place_of(batch)):
            whole.append(hydrate(artifacts, batch))
    return whole


def place_of(batch: Batch) -> str:
    """Return the turn, the round and the number of a batch, as the beginning of a sentence."""
    decided = (entry.iteration for entry in batch.entries if isinstance(entry, Decided))
    round_ = next(decided, batch.state.cursor.iteration)
    return f"{batch.state.turn}, round {round_}, batch {batch.n}" if batch.state.turn else f"batch {batch.n}"
