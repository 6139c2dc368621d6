"""Entry rows: the facts about a turn's entries that its blocks lack. An import needs them to restore the entries.

An export has a row for each entry, batch by batch; its blocks are the turn's next ones. A row has numbers and
names, never a text of a block, and no costs, limits, keys or executions.
Source: docs/reference/exports.md#the-batches-of-a-turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.block import Hide
from stepline.model.entry import (
    ApprovalAnswered,
    Closed,
    Compacted,
    CompactionKind,
    CompactionTrigger,
    Contributed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Inbound,
    Opened,
    Pruned,
    Resulted,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.file.attachment import Attachment
from stepline.model.wire.live_event import DropReason
from stepline.rendering.turn_facts import Turn
from stepline.timeline.turn_blocks import BlockGroup, own_entries


class EntryRow(Value, tag_field="kind"):
    """One entry. `blocks` counts the blocks of the turn that it has."""

    blocks: int = 0


class OpenedRow(EntryRow, tag="opened"):
    """The turn's start: the batches of the events that opened it, and of those queued for it."""

    prompts: tuple[int, ...] = ()
    waited: tuple[int, ...] = ()


class InboundRow(EntryRow, tag="in"):
    """An event that arrived while the turn was open."""


class DecidedRow(EntryRow, tag="decision"):
    """A decision: `rendered` is the newest batch that the model had seen, `citations` are sids."""

    iteration: int = 0
    rendered: int = 0
    started_at: str = ""
    action: Literal["call_tool", "complete", "exit"] = "call_tool"
    accepted: bool = True
    interrupted: bool = False
    declined: Literal["", "final", "fallback"] = ""
    ended: Literal["", "max_iterations", "violations", "steer"] = ""
    model: str = ""
    citations: tuple[int, ...] = ()


class ResultedRow(EntryRow, tag="result"):
    """A result: `stored` of its blocks are the tool's own, `plans` snapshots follow; `sources` are sids of the pool."""

    call_id: str = ""
    tool_id: str = ""
    iteration: int = 0
    status: Literal["ok", "error", "unverified"] = "ok"
    stored: int = 0
    plans: int = 0
    duration_ms: int = 0
    program: bool = False
    error: dict[str, Any] | None = None
    sources: tuple[int, ...] = ()
    hides: tuple[Hide, ...] = ()


class DeferredRow(EntryRow, tag="deferred"):
    """A completion that was not the final answer of the turn."""


class ClosedRow(EntryRow, tag="closed"):
    """The turn's end. `answered`: its answer is the last one among its blocks; `message` is for people."""

    answered: bool = False
    message: str = ""


class DroppedRow(EntryRow, tag="dropped"):
    """The event of batch `n` was handed back."""

    n: int = 0
    reason: DropReason = "turn_closed"


class SteeredRow(EntryRow, tag="steered"):
    """The steer of batch `n` was applied; `finalize` rounds were left."""

    n: int = 0
    iteration: int = 0
    phase: Literal["", "decision", "tools"] = ""
    finalize: int = 0


class TakenOverRow(EntryRow, tag="takeover"):
    """The turn continued in another execution."""

    takeovers: int = 1


class PrunedRow(EntryRow, tag="pruned"):
    """Older turns were shortened."""

    cause: Literal["ttl", "price", "budget"] = "ttl"
    keep: int = 1
    intact: int = 1
    settled: int = 0
    steady: bool = False


class CompactedRow(EntryRow, tag="compacted"):
    """A compaction, `cut` and `split` as the entry has them."""

    scope: CompactionKind = "history"
    trigger: CompactionTrigger = "render_token_limit"
    cut: int = 0
    split: int = 0
    room: int = 0
    turns: int = 0
    before_tokens: int = 0
    after_tokens: int = 0
    max_tokens: int = 0


class TitledRow(EntryRow, tag="titled"):
    """The gate stage gave the conversation a title."""


class ContributedRow(EntryRow, tag="contributed"):
    """Blocks of a bundle's code."""


class EditedRow(EntryRow, tag="edited"):
    """A person changed a call before it ran."""

    iteration: int = 0


AnyRow: TypeAlias = (
    OpenedRow
    | InboundRow
    | DecidedRow
    | ResultedRow
    | DeferredRow
    | ClosedRow
    | DroppedRow
    | SteeredRow
    | TakenOverRow
    | PrunedRow
    | CompactedRow
    | TitledRow
    | ContributedRow
    | EditedRow
)


class BatchRow(Value):
    """One batch of a turn: its number, its time, its entries, and whether a round begins after it, which adds a block."""

    n: int
    at: str
    entries: tuple[AnyRow, ...] = ()
    begins: bool = False


class OutsideRow(Value):
    """An event outside of every turn: it is queued for the next one, or was handed back for a reason."""

    n: int
    at: str
    message_id: str
    event: str
    text: str = ""
    reactive: bool = False
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    source: str = ""
    attachments: tuple[Attachment, ...] = ()
    handed_back: DropReason | Literal[""] = ""


def batch_rows(
    turn: Turn, batches: Sequence[Batch], groups: Sequence[BlockGroup], waited: Sequence[int]
) -> Iterator[BatchRow]:
    """Yield the rows of a turn's batches, without those that no block and no reader needs.

    `groups` are its blocks entry by entry, as the view has them, `waited` the batches of the events queued for it.
    """
    left = iter(groups)
    for batch in batches:
        rows = []
        for entry in own_entries(turn, batch):
            row = _row(entry, batch, blocks=len(next(left)), waited=waited)
            rows += [row] if row is not None else []
        begins = bool(next(left))
        if rows or begins:
            yield BatchRow(n=batch.n, at=batch.at, entries=tuple(rows), begins=begins)


def outside_rows(batches: Sequence[Batch], shown: frozenset[int]) -> Iterator[OutsideRow]:
    """Yield the events that no turn shows; `shown` are the batches of the events that a turn shows."""
    fates = {
        entry.n: entry.reason for batch in batches for entry in batch.entries if isinstance(entry, Dropped)
    }
    for batch in batches:
        for entry in batch.entries:
            if isinstance(entry, Inbound) and batch.n not in shown:
                own: dict[str, Any] = {"n": batch.n, "handed_back": fates.get(batch.n, "")}
                yield OutsideRow(**own, **_shared(OutsideRow, entry, but=own))


_ROWS: Final[Mapping[type[Entry], type[AnyRow]]] = {
    Opened: OpenedRow,
    Inbound: InboundRow,
    Decided: DecidedRow,
    Resulted: ResultedRow,
    Deferred: DeferredRow,
    Closed: ClosedRow,
    Dropped: DroppedRow,
    SteeredEntry: SteeredRow,
    TakenOver: TakenOverRow,
    Pruned: PrunedRow,
    Compacted: CompactedRow,
    Titled: TitledRow,
    Contributed: ContributedRow,
    ApprovalAnswered: EditedRow,
}


def _row(entry: Entry, batch: Batch, *, blocks: int, waited: Sequence[int]) -> AnyRow | None:
    """Return the row of an entry: the fields that both have, and the row's counts of the others."""
    own: dict[str, Any] = {"blocks": blocks}
    match entry:
        case Opened():
            own |= {"waited": tuple(waited)}
        case Decided():
            declined = entry.declined
            own |= {
                "rendered": batch.state.rendered,
                "declined": "" if declined is None else "fallback" if declined.fallback else "final",
                "citations": tuple(cited.sid for cited in entry.citations),
            }
        case Resulted():
            sids = tuple(source.sid for source in entry.sources)
            own |= {"stored": len(entry.blocks), "plans": len(entry.plans), "sources": sids}
        case Closed():
            own |= {"answered": bool(entry.answer)}
        case (
            Compacted(status="skipped" | "error")
            | Titled(text="")
            | Contributed(blocks=())
            | ApprovalAnswered(action=None)
        ):
            return None
    kind = _ROWS.get(type(entry))
    return None if kind is None else kind(**own, **_shared(kind, entry, but=own))


def _shared(row: type[Value], entry: Entry, *, but: Collection[str]) -> dict[str, Any]:
    """Return the entry's values for all fields of a row except these."""
    return {name: getattr(entry, name) for name in row.__struct_fields__ if name not in but}
