"""Entries of a turn: the blocks that `timeline/turn_blocks.py` derives, read back, row by row.

A row names the kind of an entry and the number of its blocks; the content is in the blocks. A block that does not fit
the kind becomes a contributed block, so that no text is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from msgspec.structs import replace

from stepline.log.importing.foreign_value import (
    call_of,
    count_of,
    json_of,
    name_of,
    object_of,
    refuse_import,
    time_of,
)
from stepline.log.importing.import_state import ImportState
from stepline.log.importing.read_ending import COMPLETION, read_closed, read_feedback
from stepline.log.importing.read_inbound import read_inbound
from stepline.log.importing.read_result import produced, read_result, read_snapshot
from stepline.model.block import Block
from stepline.model.decision import Action, Declined, Notice, Origin
from stepline.model.entry import (
    TITLE_CHARS,
    ApprovalAnswered,
    Compacted,
    Contributed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Feedback,
    Inbound,
    Opened,
    Pruned,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.visible_text import shorten
from stepline.model.wire.live_event import DropReason
from stepline.rendering.quote import inline
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.entry_rows import (
    AnyRow,
    BatchRow,
    ClosedRow,
    CompactedRow,
    ContributedRow,
    DecidedRow,
    DeferredRow,
    DroppedRow,
    EditedRow,
    InboundRow,
    OpenedRow,
    PrunedRow,
    ResultedRow,
    SteeredRow,
    TakenOverRow,
    TitledRow,
)

NOTICE_CHARS: Final = 8_000


def _read_decision(
    import_state: ImportState, row: DecidedRow, blocks: Sequence[Block], turn: str, at: str, *, claim: int
) -> tuple[Decided, list[Block]]:
    """Return the decision that a row and its blocks describe, and the blocks that do not belong to one."""
    declined = Declined(fallback=row.declined == "fallback") if row.declined else None
    started = time_of(row.started_at, import_state.findings, default=at) if row.started_at else at
    entry = Decided(
        iteration=row.iteration,
        claim=claim,
        action=row.action,
        started_at=started,
        accepted=row.accepted,
        interrupted=row.interrupted,
        declined=declined,
        ended=row.ended,
        model=name_of(row.model, import_state.findings) if row.model else "",
        citations=import_state.citations(row.citations),
    )
    pieces, left = _Pieces(import_state, turn), list[Block]()
    for block in blocks:
        left += [] if pieces.take(block) else [block]
    if pieces.code is not None:
        import_state.findings.leave_out("react.tool.code")
    return replace(entry, actions=tuple(pieces.actions), notices=tuple(pieces.notices), **pieces.fields), left


_TEXTS: Final = {
    "react.notes": "notes",
    "react.decision.raw": "raw",
    "assistant.completion.attempt": "answer",
    "assistant.completion": "answer",
    "conv.working.summary": "summary",
}
"""The blocks that are a text of the decision, each with its field."""
_DERIVED: Final = ("stage.react", "react.plan.ack")
"""Blocks that follow from others."""


class _Pieces:
    """The pieces of a decision, block by block; `code` waits for its call."""

    def __init__(self, import_state: ImportState, turn: str) -> None:
        self._import_state, self._turn = import_state, turn
        self.code: str | None = None
        self.actions: list[Action] = []
        self.notices: list[Notice] = []
        self.fields: dict[str, Any] = {}

    def take(self, block: Block) -> bool:
        """Accept a block; return False if it does not belong to a decision, or is a second one of its kind."""
        name = _TEXTS.get(block.type)
        match block.type:
            case "react.tool.code" if self.code is None:
                self.code = block.text
            case "react.tool.call":
                self.actions.append(read_action(self._import_state, block, self._turn, self.code))
                self.code = None
            case "react.notice":
                self.notices.append(read_notice(self._import_state, block))
            case "react.thinking":
                return self._keep("thinking", (block.text,))
            case "react.plan":
                plan = read_snapshot(block)
                return plan is not None and self._keep("plan", plan)
            case kind:
                return kind in _DERIVED or (name is not None and self._keep(name, block.text))
        return True

    def _keep(self, name: str, value: Any) -> bool:
        return self.fields.setdefault(name, value) is value


def read_action(import_state: ImportState, block: Block, turn: str, code: str | None) -> Action:
    """Return the call that a block shows, with its full parameters."""
    where = f"{turn} {block.call_id[:40]}"
    facts = object_of(block.text) or {}
    params = block.meta.get("payload")
    if not isinstance(params, dict):
        params = facts.get("params")
    if isinstance(params, dict) and isinstance(params.get("params"), dict) and "tool_id" in params:
        params = params["params"]  # the existing system keeps the whole call
    if not isinstance(params, dict):
        import_state.findings.change("params")
        params = {"text": block.text} if block.text else {}
    tool = block.tool_id or name_of(facts.get("tool_id"), import_state.findings, most=128)
    call = block.call_id or facts.get("tool_call_id")
    return Action(
        call_id=call_of(call, turn, import_state.findings),
        tool_id=tool or "unknown",
        params=json_of(params, f"{where} params", import_state.findings),
        code=code,
    )


def read_notice(import_state: ImportState, block: Block) -> Notice:
    """Return the notice that a block shows."""
    facts = object_of(block.text)
    if facts is None or not isinstance(facts.get("code"), str) or not isinstance(facts.get("message"), str):
        import_state.findings.change("notice")
        return Notice(code="imported", message=block.text[:NOTICE_CHARS])
    extra = json_of(
        {n: v for n, v in facts.items() if n not in ("code", "message")}, "a notice", import_state.findings
    )
    return Notice(
        code=name_of(facts["code"], import_state.findings, most=128), message=facts["message"], extra=extra
    )


def read_edited(
    import_state: ImportState, row: EditedRow, blocks: Sequence[Block], turn: str, at: str
) -> ApprovalAnswered | None:
    """Return the entry of a call that was edited before it ran. It approves nothing: an import carries no consent."""
    code = next((block.text for block in blocks if block.type == "react.tool.code"), None)
    called = next((block for block in blocks if block.type == "react.tool.call"), None)
    if called is None:
        return None
    import_state.findings.change("approval")
    action = read_action(import_state, called, turn, code)
    return ApprovalAnswered(
        n=0,
        turn=turn,
        at=at,
        iteration=count_of(row.iteration),
        call_id=action.call_id,
        tool_id=action.tool_id,
        verdict="withdrawn",
        requested_at=at,
        message_id="",
        action=action,
    )


MISFIT: Final = "misfit"
HANDED_BACK: Final[dict[str, DropReason]] = {
    "nothing_to_steer": "nothing_to_steer",
    "turn_closed": "turn_closed",
    "stopped": "stopped",
}


@dataclass
class LogDraft:
    """A draft of the log: entries by batch, the time of each, and the newest batch that each decision had seen.

    It also holds the current feedback, and the batches that ended turns.
    """

    entries: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    times: dict[int, str] = field(default_factory=dict)
    rendered: dict[int, int] = field(default_factory=dict)
    feedback: dict[tuple[str, Origin], Feedback] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)


class TurnReader:
    """Reads one turn into the slots of its log."""

    def __init__(
        self,
        import_state: ImportState,
        slots: LogDraft,
        turn: str,
        blocks: Sequence[Block],
        *,
        title: str,
        where: str,
    ) -> None:
        """Begin with a turn's blocks, in order; `title` is the conversation's."""
        self.import_state, self.slots, self.turn = import_state, slots, turn
        self._blocks, self._at = blocks, 0
        self._title, self._where = title, where
        bodies = [block.body for block in blocks if block.type == ATTACHMENT and block.body]
        self._named = all(map(import_state.has, bodies))
        self._attempts: list[str] = []
        self._claim = self._iteration = 0
        self._began = ""
        self._returned: dict[int, DropReason] = {}
        self.closed = 0

    def read(self, rows: Iterable[BatchRow]) -> None:
        """Read all rows of the turn, and then the feedback on it."""
        newest = 0
        for row in rows:
            if row.n <= newest:
                refuse_import("import_bad_rows", self._where, "its batches are not in order")
            newest = row.n
            self.slots.times.setdefault(row.n, row.at)
            for one in row.entries:
                blocks = self._take(one.blocks)
                self.slots.entries[row.n] += self._entries(row, one, blocks)
            if row.begins:
                self._claim = row.n
                self._take(1)
        for block in self._take(len(self._blocks)):
            if block.type == "turn.feedback":
                found = read_feedback(
                    self.import_state.findings, block, self.turn, began=self._began, at=self._began
                )
                self.slots.feedback[self.turn, found.origin] = found  # the newest of each origin counts
            else:
                self.import_state.findings.leave_out(block.type)

    def finish(self, row: BatchRow, ending: Block) -> None:
        """End a turn that no row ends, with an ending block."""
        self.slots.times.setdefault(row.n, row.at)
        self.slots.entries[row.n] += self._closing(row, ClosedRow(), [ending])

    def _take(self, count: int) -> Sequence[Block]:
        begin = self._at
        self._at = min(len(self._blocks), begin + count)
        return self._blocks[begin : self._at]

    def _entries(self, batch: BatchRow, row: AnyRow, blocks: Sequence[Block]) -> list[Entry]:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of row
        import_state, turn, at = self.import_state, self.turn, batch.at
        if not blocks and isinstance(row, InboundRow | TitledRow | ContributedRow | EditedRow):
            return []
        match row:
            case OpenedRow():
                return self._opening(batch, row, blocks)
            case InboundRow():
                return self._arrival(batch, blocks)
            case DecidedRow():
                return self._decision(batch, row, blocks)
            case ResultedRow():
                return [read_result(import_state, row, blocks, turn, at)]
            case DeferredRow():
                last = self._attempts[-1] if self._attempts else ""
                import_state.copy(len(last))
                return [
                    Deferred(turn=turn, iteration=self._iteration, answer=last),
                    *self._misfits(blocks[1:]),
                ]
            case ClosedRow():
                return self._closing(batch, row, blocks)
            case DroppedRow():
                self._returned.pop(row.n, None)
                return self._dropped(row.n, row.reason)
            case SteeredRow():
                return [self._steered(row, blocks, at)]
            case TakenOverRow():
                return [TakenOver(turn=turn, reason="imported", takeovers=row.takeovers)]
            case PrunedRow():
                fields = {
                    name: getattr(row, name) for name in ("cause", "keep", "intact", "settled", "steady")
                }
                return [Pruned(turn=turn, at=blocks[0].ts if blocks else at, **fields)]
            case CompactedRow():
                return self._compacted(batch, row, blocks)
            case TitledRow():
                title = shorten(inline(self._title or blocks[0].text), TITLE_CHARS)
                first = Titled(title=title, at=blocks[0].ts, turn=turn, text=blocks[0].text)
                return [first, *self.contributed(blocks[1:])]
            case ContributedRow():
                return self.contributed(blocks)
            case EditedRow():
                edited = read_edited(import_state, row, blocks, turn, blocks[0].ts)
                return [edited] if edited else self.contributed(blocks)

    def contributed(self, blocks: Sequence[Block]) -> list[Entry]:
        """Return the blocks as contributed ones, those of the same time together."""
        return [
            Contributed(
                turn=self.turn,
                at=at,
                blocks=tuple(produced(self.import_state, block, self.turn) for block in same),
            )
            for at, same in groupby(blocks, key=lambda block: block.ts)
        ]

    def _misfits(self, blocks: Sequence[Block]) -> list[Entry]:
        for _ in blocks:
            self.import_state.findings.change(MISFIT)
        return self.contributed(blocks)

    def _opening(self, batch: BatchRow, row: OpenedRow, blocks: Sequence[Block]) -> list[Entry]:
        self._began = blocks[0].ts if blocks and blocks[0].type == "turn.header" else batch.at
        left = blocks[1:] if blocks and blocks[0].type == "turn.header" else blocks
        missing = list[Block]()
        for n in (*row.prompts, *row.waited):
            if not left:
                refuse_import("import_bad_rows", self._where, "an event that opened the turn has no block")
            event, end, lost = read_inbound(self.import_state, left, self.turn, named=self._named)
            missing += lost
            left = left[end:]
            if n not in self.import_state.admitted:
                self.slots.entries[n].append(event)
                self.slots.times.setdefault(n, event.at)
                self.import_state.admitted[n] = event
        opened = Opened(turn=self.turn, at=self._began, prompts=row.prompts)
        return [opened, *self.contributed(missing), *self._misfits(left)]

    def _arrival(self, batch: BatchRow, blocks: Sequence[Block]) -> list[Entry]:
        event, end, missing = read_inbound(self.import_state, blocks, self.turn, named=self._named)
        self.import_state.admitted[batch.n] = event
        back = blocks[0].meta.get("handed_back")
        if back is not None:
            self._returned[batch.n] = HANDED_BACK.get(str(back), "turn_closed")
        return [event, *self.contributed(missing), *self._misfits(blocks[end:])]

    def _decision(self, batch: BatchRow, row: DecidedRow, blocks: Sequence[Block]) -> list[Entry]:
        claim, self._iteration = self._claim or batch.n, row.iteration
        entry, left = _read_decision(self.import_state, row, blocks, self.turn, batch.at, claim=claim)
        self.slots.rendered[batch.n] = min(row.rendered, batch.n - 1)
        if entry.accepted and entry.answer:
            self._attempts.append(entry.answer)
        return [entry, *self._misfits(left)]

    def _closing(self, batch: BatchRow, row: ClosedRow, blocks: Sequence[Block]) -> list[Entry]:
        at = next((b.ts for b in blocks if b.type not in (COMPLETION, "stage.suggested_followups")), batch.at)
        entry = read_closed(
            self.import_state,
            blocks,
            self.turn,
            at,
            attempts=len(self._attempts),
            answered=row.answered,
            message=row.message,
        )
        self.closed = self.slots.closed[self.turn] = batch.n
        back = [one for n, reason in sorted(self._returned.items()) for one in self._dropped(n, reason)]
        return [entry, *back]

    def _dropped(self, n: int, reason: DropReason) -> list[Entry]:
        event = self.import_state.admitted.get(n)
        return [_handed_back(n, event, reason)] if event else []

    def _steered(self, row: SteeredRow, blocks: Sequence[Block], at: str) -> SteeredEntry:
        event = self.import_state.admitted.get(row.n)
        self.import_state.copy(len(event.text) if event else 0)
        return SteeredEntry(
            n=row.n,
            turn=self.turn,
            at=blocks[0].ts if blocks else at,
            iteration=row.iteration,
            message_id=event.message_id if event else "",
            text=event.text if event else "",
            phase=row.phase,
            finalize=row.finalize,
        )

    def _compacted(self, batch: BatchRow, row: CompactedRow, blocks: Sequence[Block]) -> list[Entry]:
        summary = next((block for block in blocks if block.type == "conv.range.summary"), None)
        checkpoint = next((block for block in blocks if block.type.endswith("compaction_checkpoint")), None)
        left = [block for block in blocks if block is not summary and block is not checkpoint]
        at = blocks[0].ts if blocks else batch.at
        names = ("scope", "trigger", "room", "turns", "before_tokens", "after_tokens", "max_tokens")
        fields = {name: getattr(row, name) for name in names}
        entry = Compacted(
            id=f"{self.turn}/{batch.n}",
            turn=self.turn,
            at=at,
            status="completed",
            cut=row.cut if summary else 0,
            summary=summary.text if summary else "",
            split=min(row.split, batch.n) if checkpoint else 0,
            checkpoint=checkpoint.text if checkpoint else "",
            **fields,
        )
        return [entry, *self._misfits(left)]


def _handed_back(n: int, event: Inbound, reason: DropReason) -> Dropped:
    return Dropped(n=n, reason=reason, message_id=event.message_id, event=event.event)
