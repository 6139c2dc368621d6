"""Results of calls, read back: the blocks that a tool produced, the plans that it changed, and its status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepline.log.importing.foreign_value import (
    call_of,
    count_of,
    is_time,
    json_of,
    name_of,
    object_of,
    path_of,
)
from stepline.log.importing.import_state import ImportState
from stepline.model.block import Block, Hide, Produced
from stepline.model.entry import Resulted
from stepline.model.ids import TURN
from stepline.model.plan_steps import Plan
from stepline.rendering.plan_text import read_plan
from stepline.rendering.result import result_path
from stepline.timeline.entry_rows import ResultedRow
from stepline.timeline.workspace import CHECKOUT_RECORD

JSON: Final = "application/json"
PLAN: Final = "react.plan"
TOOL_CHARS: Final = 128
_HIDES_MAX: Final = 100
_REPLACEMENT_CHARS: Final = 4_000
_PLAN_ID: Final = re.compile(r"[A-Za-z0-9_:-]{1,200}")
_PLAIN: Final = "text/plain"


def read_result(
    import_state: ImportState, row: ResultedRow, blocks: Sequence[Block], turn: str, at: str
) -> Resulted:
    """Return the result that a row and its blocks describe."""
    findings = import_state.findings
    call = call_of(row.call_id, turn, findings)
    plans = [
        plan for block in blocks[len(blocks) - row.plans :] if (plan := read_snapshot(block)) is not None
    ]
    made = blocks[: len(blocks) - len(plans)]
    stored = made[max(0, len(made) - row.stored) :] if row.stored else ()
    error = json_of(row.error, f"{turn} {call} error", findings) if row.error else None
    return Resulted(
        call_id=call,
        tool_id=name_of(row.tool_id, findings, most=TOOL_CHARS) if row.tool_id else "",
        iteration=row.iteration,
        status=row.status,
        at=blocks[0].ts if blocks else at,
        duration_ms=count_of(row.duration_ms),
        blocks=tuple(
            produced(import_state, block, turn, own=result_path(turn, call), tool=row.tool_id)
            for block in stored
        ),
        plans=tuple(plans),
        error=error,
        program=row.program,
        sources=import_state.sources(row.sources),
        hides=tuple(_hide(hide) for hide in row.hides[:_HIDES_MAX]),
    )


def produced(
    import_state: ImportState, block: Block, turn: str, *, own: str = "", tool: str = ""
) -> Produced:
    """Return a block in the form in which the log keeps it, without a path if its path is `own`, that of its call."""
    path = path_of(block.path, turn, import_state.findings)
    if block.body is not None and not import_state.has(block.body):
        block = import_state.without_bytes(block, block.body)
    body = import_state.body(block.body)
    if body is not None and path and not path.startswith(("fi:", "tc:")):
        import_state.findings.change("body")
        body = None
    kind, mime = block.type, block.mime
    if kind == PLAN and not own and not _is_readable(block):
        import_state.findings.change("block")
        kind = f"{PLAN}.unread"
    if not _reads(block, tool):
        import_state.findings.change("block")
        kind, mime = ("react.tool.result", _PLAIN) if kind == CHECKOUT_RECORD else (kind, _PLAIN)
    fields: dict[str, Any] = {
        "type": kind,
        "author": block.author,
        "path": "" if path == own else path,
        "mime": mime,
        "text": block.text,
        "body": body,
        "meta": block.meta,
    }
    return Produced(**fields)


def read_snapshot(block: Block) -> Plan | None:
    """Return the plan of a snapshot block; None for any other block."""
    if block.type != PLAN:
        return None
    found = object_of(block.text)
    if found is None:
        return None
    try:
        plan = read_plan(found)
    except (msgspec.ValidationError, TypeError):
        return None
    named = _PLAN_ID.fullmatch(plan.plan_id) and block.path.endswith(f".react.plan.{plan.plan_id}")
    return plan if named and _is_plain(plan) else None


def _is_readable(block: Block) -> bool:
    """Return True if a block that was contributed as a snapshot of a plan is a valid one."""
    found = object_of(block.text)
    if found is None:
        return False
    try:
        plan = read_plan(found)
    except (msgspec.ValidationError, TypeError):
        return False
    return _PLAN_ID.fullmatch(plan.plan_id) is not None and _is_plain(plan)


def _is_plain(plan: Plan) -> bool:
    """Return True if all fields of a plan besides its steps are empty or valid times, turns and plan ids."""
    ids = (plan.superseded_by_plan_id,)
    times = (plan.created_ts, plan.last_ts, plan.last_ack_ts, plan.closed_ts, plan.superseded_ts)
    turns = (plan.origin_turn_id, plan.last_turn_id, plan.last_ack_turn_id, plan.closed_turn_id)
    return (
        all(not one or _PLAN_ID.fullmatch(one) for one in ids)
        and all(not one or is_time(one) for one in times)
        and all(not one or TURN.fullmatch(one) for one in (*turns, plan.superseded_turn_id))
        and all(name.isdecimal() for name in plan.status)
    )


def _hide(hide: Hide) -> Hide:
    return Hide(path=hide.path, n=hide.n, replacement=hide.replacement[:_REPLACEMENT_CHARS])


def _reads(block: Block, tool: str) -> bool:
    """Return True if code that reads the block's text as JSON can do so."""
    if block.type == CHECKOUT_RECORD:
        facts = object_of(block.text)
        refs = facts.get("checked_out_from") if facts else None
        return (
            bool(facts)
            and "mode" in (facts or {})
            and isinstance(refs, list)
            and all(isinstance(r, str) for r in refs)
        )
    if block.mime != JSON or not tool.startswith("react."):
        return True
    facts = object_of(block.text)
    if facts is None:
        return False
    rows = facts.get("paths", ())
    return isinstance(rows, list | tuple) and all(isinstance(one, dict) for one in rows)
