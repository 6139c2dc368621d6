"""What clients hear of a program: what it is, that it started, how it ended, and what its tools said.

These are what a live view of a run is drawn from. The program's text is shown: its author is the model, and its
reader is who asked for it.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepline.model.decision import Action
from stepline.model.entry import Resulted, Started
from stepline.model.event import ClientEvent
from stepline.timeline.event_type import ROUTES


def make_event(
    kind: str, ts: str, turn: str, status: str, data: dict[str, Any], *, step: str = ""
) -> ClientEvent:
    """Return an event of a type that the reference lists; another one is a KeyError."""
    return ClientEvent(
        type=kind, route=ROUTES[kind], ts=ts, turn_id=turn, step=step, status=status, data=data
    )


def program_asked(action: Action, objective: str, at: str, turn: str) -> list[ClientEvent]:
    """Return the events of a call that runs a program; none for another call."""
    if action.code is None:
        return []
    name = action.params.get("prog_name")
    parts: dict[str, dict[str, Any]] = {
        "objective": {"text": objective} if objective else {},
        "program.name": {"text": name} if isinstance(name, str) and name else {},
        "code": {"language": "python", "text": action.code},
        "contract": {"contract": _contract(action.params.get("contract"))},
    }
    return [
        make_event(f"code_exec.{part}", at, turn, "started", {"execution_id": action.call_id, **data})
        for part, data in parts.items()
        if data
    ]


def program_started(entry: Started, at: str, turn: str) -> list[ClientEvent]:
    """Return the event of a program that starts; none for another action."""
    if not entry.deadline:
        return []
    data = {"execution_id": entry.call_id, "status": "exec", "deadline": entry.deadline}
    return [make_event("code_exec.status", at, turn, "running", data)]


def program_ended(entry: Resulted, turn: str) -> list[ClientEvent]:
    """Return what the tools of a call told the user, and the end of its program if it had one."""
    events = [
        make_event(
            "react.tool.event",
            told.at,
            turn,
            "update",
            {
                "tool_id": told.tool_id or entry.tool_id,
                "call_id": entry.call_id,
                "type": told.type,
                "data": told.data,
            },
        )
        for told in entry.emitted
    ]
    if entry.program:
        ok = entry.status == "ok"
        data: dict[str, Any] = {
            "execution_id": entry.call_id,
            "status": "done" if ok else "error",
            "timings": {"exec": entry.duration_ms},
        }
        if not ok:
            data["error"] = {"code": (entry.error or {}).get("code", entry.status)}
        events.append(make_event("code_exec.status", entry.at, turn, "completed" if ok else "error", data))
    return events


def _contract(raw: Any) -> list[dict[str, str]]:
    """Return what the model promised, as far as it is a list of objects at all."""
    try:
        items = msgspec.json.decode(raw) if isinstance(raw, str) else raw
    except (msgspec.DecodeError, RecursionError):
        return []
    kept = ("filename", "description", "visibility")
    found = items if isinstance(items, list) else []
    return [
        {key: item[key] for key in kept if isinstance(item.get(key), str)}
        for item in found
        if isinstance(item, dict)
    ]
