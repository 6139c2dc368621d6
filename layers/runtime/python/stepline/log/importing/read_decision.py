"""Decisions, read back: thinking, notes, calls, notices, an answer and a summary in one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from stepline.log.importing.foreign_value import call_of, count_of, json_of, name_of, object_of, time_of
from stepline.log.importing.read_result import read_snapshot
from stepline.log.importing.telling import Telling
from stepline.model.block import Block
from stepline.model.decision import Action, Declined, Notice
from stepline.model.entry import ApprovalAnswered, Decided
from stepline.timeline.entry_rows import DecidedRow, EditedRow

NOTICE_CHARS: Final = 8_000


def read_decision(
    telling: Telling, row: DecidedRow, blocks: Sequence[Block], turn: str, at: str, *, claim: int
) -> tuple[Decided, list[Block]]:
    """Return the decision that a row and its blocks tell of, and the blocks that are not a decision's."""
    declined = Declined(fallback=row.declined == "fallback") if row.declined else None
    started = time_of(row.started_at, telling.findings, default=at) if row.started_at else at
    entry = Decided(
        iteration=row.iteration,
        claim=claim,
        action=row.action,
        started_at=started,
        accepted=row.accepted,
        interrupted=row.interrupted,
        declined=declined,
        ended=row.ended,
        model=name_of(row.model, telling.findings) if row.model else "",
        citations=telling.citations(row.citations),
    )
    told, left = _Pieces(telling, turn), list[Block]()
    for block in blocks:
        left += [] if told.take(block) else [block]
    if told.code is not None:
        telling.findings.leave_out("react.tool.code")
    return replace(entry, actions=tuple(told.actions), notices=tuple(told.notices), **told.fields), left


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

    def __init__(self, telling: Telling, turn: str) -> None:
        self._telling, self._turn = telling, turn
        self.code: str | None = None
        self.actions: list[Action] = []
        self.notices: list[Notice] = []
        self.fields: dict[str, Any] = {}

    def take(self, block: Block) -> bool:
        """Take a block; return False if it is none of a decision, or a second one of its kind."""
        name = _TEXTS.get(block.type, "")
        match block.type:
            case "react.tool.code" if self.code is None:
                self.code = block.text
            case "react.tool.call":
                self.actions.append(read_action(self._telling, block, self._turn, self.code))
                self.code = None
            case "react.notice":
                self.notices.append(read_notice(self._telling, block))
            case "react.thinking":
                return self._keep("thinking", (block.text,))
            case "react.plan":
                plan = read_snapshot(block)
                return plan is not None and self._keep("plan", plan)
            case kind:
                return kind in _DERIVED or (bool(name) and self._keep(name, block.text))
        return True

    def _keep(self, name: str, value: Any) -> bool:
        return self.fields.setdefault(name, value) is value


def read_action(telling: Telling, block: Block, turn: str, code: str | None) -> Action:
    """Return the call that a block shows, with its whole parameters."""
    where = f"{turn} {block.call_id[:40]}"
    told = object_of(block.text) or {}
    params = block.meta.get("payload")
    if not isinstance(params, dict):
        params = told.get("params")
    if isinstance(params, dict) and isinstance(params.get("params"), dict) and "tool_id" in params:
        params = params["params"]  # the existing system keeps the whole call
    if not isinstance(params, dict):
        telling.findings.change("params")
        params = {"text": block.text} if block.text else {}
    tool = block.tool_id or name_of(told.get("tool_id"), telling.findings, most=128)
    call = block.call_id or told.get("tool_call_id")
    return Action(
        call_id=call_of(call, turn, telling.findings),
        tool_id=tool or "unknown",
        params=json_of(params, f"{where} params", telling.findings),
        code=code,
    )


def read_notice(telling: Telling, block: Block) -> Notice:
    """Return the notice that a block shows."""
    told = object_of(block.text)
    if told is None or not isinstance(told.get("code"), str) or not isinstance(told.get("message"), str):
        telling.findings.change("notice")
        return Notice(code="imported", message=block.text[:NOTICE_CHARS])
    extra = json_of(
        {n: v for n, v in told.items() if n not in ("code", "message")}, "a notice", telling.findings
    )
    return Notice(
        code=name_of(told["code"], telling.findings, most=128), message=told["message"], extra=extra
    )


def read_edited(
    telling: Telling, row: EditedRow, blocks: Sequence[Block], turn: str, at: str
) -> ApprovalAnswered | None:
    """Return that another call ran than was decided on. It approves of nothing: an import carries no consent."""
    code = next((block.text for block in blocks if block.type == "react.tool.code"), None)
    called = next((block for block in blocks if block.type == "react.tool.call"), None)
    if called is None:
        return None
    telling.findings.change("approval")
    action = read_action(telling, called, turn, code)
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
