"""What clients hear: the durable events of one batch, derived from it and from nothing else.

Batch n has the same events whenever and wherever they are derived, so they are stored nowhere and an event is
named by n and its place. Nothing internal leaves: no working summary, no raw generation, no body of a file, no
storage key, no exception. What a client may see is listed here; the rest is withheld without being named.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

from stepline.model.batch import Batch
from stepline.model.block import Block
from stepline.model.decision import Action
from stepline.model.entry import (
    Closed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Inbound,
    Opened,
    Owner,
    Reopened,
    Resulted,
    Started,
    TakenOver,
)
from stepline.model.event import ClientEvent
from stepline.model.plan import Plan
from stepline.timeline.event_program import make_event, program_asked, program_ended, program_started
from stepline.timeline.quote import BODIES
from stepline.timeline.result import result_path, whole_blocks

PREVIEW_CHARS: Final = 600
PARAM_CHARS: Final = 120


def derive(batch: Batch) -> tuple[ClientEvent, ...]:
    """Return the client events of a batch, in order; a turn's end has exactly one terminal event."""
    events: list[ClientEvent] = []
    for entry in batch.entries:
        events += _derive(batch, entry)
    return tuple(events)


def _derive(batch: Batch, entry: Entry) -> list[ClientEvent]:  # noqa: C901, PLR0911 - one branch a kind of entry
    turn = batch.state.turn
    match entry:
        case Inbound():
            data: dict[str, Any] = {"message_id": entry.message_id, "kind": entry.event, "text": entry.text}
            data["chars"] = len(entry.text)
            return [make_event("chat.conversation.accepted", entry.at, turn, "completed", data)]
        case Opened():
            data = {"turn_id": entry.turn, "prompts": list(entry.prompts)}
            return [make_event("chat.start", entry.at, entry.turn, "started", data)]
        case Decided():
            return _decision(entry, batch.at, turn)
        case Reopened() | TakenOver():
            state = batch.state
            data = {"claim": state.claim, "iteration": state.cursor.iteration, "attempt": state.attempt}
            return [make_event("round.restarted", batch.at, turn, "running", data)]
        case Resulted():
            return _result(entry, turn)
        case Deferred():
            data = {"iteration": entry.iteration, "answer": entry.answer}
            return [make_event("chat.step", batch.at, entry.turn, "update", data, step="deferred")]
        case Dropped():
            data = {"n": entry.n, "reason": entry.reason}
            return [make_event("chat.step", batch.at, "", "skipped", data, step="dropped")]
        case Closed():
            return [_closing(entry)]
        case Started():
            return program_started(entry, batch.at, turn)
        case Owner():
            return []
        case _:
            assert_never(entry)


def _decision(entry: Decided, at: str, turn: str) -> list[ClientEvent]:
    tools = [{"tool_id": action.tool_id, "call_id": action.call_id} for action in entry.actions]
    data: dict[str, Any] = {
        "claim": entry.claim,
        "iteration": entry.iteration,
        "action": entry.action,
        "accepted": entry.accepted,
        "notes": entry.notes,
        "tools": tools,
        "interrupted": entry.interrupted,
    }
    events = [make_event("solver.react.decision", at, turn, "completed" if entry.accepted else "error", data)]
    kind = "react.notice" if entry.accepted else "react.tool.rejected"
    events += [
        make_event(
            kind, at, turn, "update" if entry.accepted else "error", _notice(entry.iteration, notice.code)
        )
        for notice in entry.notices
    ]
    if entry.plan is not None:
        events.append(_plan(entry.plan, at, turn))
    for action in entry.actions if entry.accepted else ():
        events.append(make_event("react.tool.call", at, turn, "started", _call(action, entry.iteration)))
        events += program_asked(action, entry.notes, at, turn)
    return events


def _notice(iteration: int, code: str) -> dict[str, Any]:
    return {"iteration": iteration, "code": code}


def _call(action: Action, iteration: int) -> dict[str, Any]:
    return {
        "tool_id": action.tool_id,
        "call_id": action.call_id,
        "iteration": iteration,
        "params": summarise_params(action.params),
    }


def summarise_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return a call's parameters for a client: bodies and long strings as their length, nested values as a count."""
    return {name: _summarise(name, value) for name, value in params.items()}


def _summarise(name: str, value: Any) -> Any:
    match value:
        case str() if name in BODIES or len(value) > PARAM_CHARS:
            return {"chars": len(value)}
        case dict():
            return {"items": len(value)}
        case list() if any(isinstance(item, dict | list) for item in value) or name in BODIES:
            return {"items": len(value)}
        case list():
            return [_summarise(name, item) for item in value]
        case _:
            return value


def _result(entry: Resulted, turn: str) -> list[ClientEvent]:
    blocks = whole_blocks(entry, turn)
    data: dict[str, Any] = {
        "tool_id": entry.tool_id,
        "call_id": entry.call_id,
        "iteration": entry.iteration,
        "status": entry.status,
        "duration_ms": entry.duration_ms,
        "paths": list(dict.fromkeys(block.path for block in blocks)),
        "preview": _preview(blocks, result_path(turn, entry.call_id), ok=entry.status == "ok"),
    }
    if entry.error and isinstance(entry.error.get("code"), str):
        data["code"] = entry.error["code"]
    status = "completed" if entry.status == "ok" else "error"
    events = [make_event("react.tool.result", entry.at, turn, status, data)]
    events += program_ended(entry, turn)
    events += [_plan(plan, entry.at, turn) for plan in entry.plans]
    files = [_file(block) for block in blocks if _is_external_file(block)]
    if files:
        events.append(
            make_event("chat.files", entry.at, turn, "completed", {"count": len(files), "items": files})
        )
    return events


def _preview(blocks: Sequence[Block], status: str, *, ok: bool) -> str:
    """Return the beginning of what the user may see: a successful call's status, and blocks that say they are external."""
    for block in blocks:
        seen = block.meta.get("visibility")
        if block.text and (seen == "external" or (ok and block.path == status and seen is None)):
            return block.text[:PREVIEW_CHARS]
    return ""


def _is_external_file(block: Block) -> bool:
    return (
        block.body is not None and block.path.startswith("fi:") and block.meta.get("visibility") == "external"
    )


def _file(block: Block) -> dict[str, Any]:
    body = block.body
    assert body is not None
    filename = block.path.rpartition("/")[2]
    return {
        "logical_path": block.path,
        "filename": filename,
        "mime": body.mime,
        "size_bytes": body.size_bytes,
    }


def _plan(plan: Plan, at: str, turn: str) -> ClientEvent:
    data = {
        "plan_id": plan.plan_id,
        "steps": list(plan.steps),
        "status": {str(n): plan.status.get(str(n), "pending") for n in range(1, len(plan.steps) + 1)},
        "current": plan.current,
        "open": plan.is_open(),
    }
    return make_event("react.plan", at, turn, "update", data)


def _closing(entry: Closed) -> ClientEvent:
    if entry.outcome == "error":
        data: dict[str, Any] = {"code": entry.code, "error": entry.message}
        return make_event("chat.error", entry.at, entry.turn, "error", data)
    followups = list(entry.followups)
    data = {
        "final_answer": entry.answer,
        "answer": entry.answer,
        "followups": followups,
        "suggested_followups": followups,
        "reason": entry.reason,
    }
    return make_event("chat.complete", entry.at, entry.turn, "completed", data)
