"""Results of calls, read back: the blocks that a tool produced, the plans that it changed, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepline.log.importing.foreign_value import call_of, count_of, json_of, object_of, path_of
from stepline.log.importing.telling import Telling
from stepline.model.block import Block, Produced
from stepline.model.entry import Resulted
from stepline.model.plan_steps import Plan
from stepline.rendering.plan_text import read_plan
from stepline.rendering.result import result_path
from stepline.timeline.entry_rows import ResultedRow
from stepline.timeline.workspace import CHECKOUT_RECORD

JSON: Final = "application/json"
_HIDES_MAX: Final = 1_000
_PLAIN: Final = "text/plain"


def read_result(telling: Telling, row: ResultedRow, blocks: Sequence[Block], turn: str, at: str) -> Resulted:
    """Return the result that a row and its blocks tell of."""
    findings = telling.findings
    call = call_of(row.call_id, turn, findings)
    plans = [
        plan for block in blocks[len(blocks) - row.plans :] if (plan := read_snapshot(block)) is not None
    ]
    made = blocks[: len(blocks) - len(plans)]
    stored = made[max(0, len(made) - row.stored) :] if row.stored else ()
    error = json_of(row.error, f"{turn} {call} error", findings) if row.error else None
    return Resulted(
        call_id=call,
        tool_id=row.tool_id,
        iteration=row.iteration,
        status=row.status,
        at=blocks[0].ts if blocks else at,
        duration_ms=count_of(row.duration_ms),
        blocks=tuple(produced(telling, block, turn, own=result_path(turn, call)) for block in stored),
        plans=tuple(plans),
        error=error,
        program=row.program,
        sources=telling.sources(row.sources),
        hides=row.hides[:_HIDES_MAX],
    )


def produced(telling: Telling, block: Block, turn: str, *, own: str = "") -> Produced:
    """Return a block in the form in which the log keeps it; without a path if that is its call's `own`."""
    path = path_of(block.path, turn, telling.findings)
    if block.body is not None and not telling.has(block.body):
        block = telling.without_bytes(block, block.body)
    body = telling.body(block.body)
    if body is not None and path and not path.startswith(("fi:", "tc:")):
        telling.findings.change("body")
        body = None
    kind, mime = block.type, block.mime
    if not _reads(block):
        telling.findings.change("block")
        kind, mime = ("react.tool.result", _PLAIN) if kind == CHECKOUT_RECORD else (kind, _PLAIN)
    told: dict[str, Any] = {
        "type": kind,
        "author": block.author,
        "path": "" if path == own else path,
        "mime": mime,
        "text": block.text,
        "body": body,
        "meta": block.meta,
    }
    return Produced(**told)


def read_snapshot(block: Block) -> Plan | None:
    """Return the plan that a block has a snapshot of; None for any other block."""
    if block.type != "react.plan":
        return None
    found = object_of(block.text)
    if found is None:
        return None
    try:
        plan = read_plan(found)
    except (msgspec.ValidationError, TypeError):
        return None
    return plan if _is_whole(plan, block) else None


def _is_whole(plan: Plan, block: Block) -> bool:
    """Return True if the plan's id can be in a path, which is that of the block."""
    return (
        block.path.endswith(f".react.plan.{plan.plan_id}") and len(plan.plan_id) <= 200 and bool(plan.plan_id)
    )


def _reads(block: Block) -> bool:
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
    if block.mime != JSON or not block.tool_id.startswith("react."):
        return True
    facts = object_of(block.text)
    if facts is None:
        return False
    rows = facts.get("paths", ())
    return isinstance(rows, list | tuple) and all(isinstance(one, dict) for one in rows)
