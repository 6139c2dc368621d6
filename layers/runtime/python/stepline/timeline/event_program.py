"""What clients hear of a program: what it is, that it started, how it ended, and what its tools said.

These are what a live view of a run is drawn from. The program's text is shown: its author is the model, and its
reader is who asked for it.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stepline.model.decision import Action
from stepline.model.entry import Resulted, Started
from stepline.model.program.execution import ToolEvent
from stepline.model.program.promise import read_promises
from stepline.model.wire.event import ClientEvent
from stepline.timeline.event_data import EventData, make_event
from stepline.timeline.event_round import (
    ErrorCode,
    ProgramCode,
    ProgramContract,
    ProgramName,
    ProgramObjective,
    ProgramStatus,
    ProgramTimings,
    PromisedFile,
    SearchFiltered,
    ToolTold,
)

TOLD: Final[Mapping[str, type[EventData]]] = {model.EVENT: model for model in (SearchFiltered,)}
"""What tools say that clients know as a type of its own; everything else stays `react.tool.event`."""


def program_asked(action: Action, objective: str, at: str, turn: str) -> list[ClientEvent]:
    """Return the events of a call that runs a program; none for another call."""
    if action.code is None:
        return []
    run, name = action.call_id, action.params.get("prog_name")
    promised = [PromisedFile(**file) for file in read_promises(action.params.get("contract"))]
    told: list[EventData] = []
    if objective:
        told.append(ProgramObjective(execution_id=run, text=objective))
    if isinstance(name, str) and name:
        told.append(ProgramName(execution_id=run, text=name))
    told.append(ProgramCode(execution_id=run, language="python", text=action.code))
    told.append(ProgramContract(execution_id=run, contract=promised))
    return [make_event(data, at, turn, "started") for data in told]


def program_started(entry: Started, at: str, turn: str) -> list[ClientEvent]:
    """Return the event of a program that starts; none for another action."""
    if not entry.deadline:
        return []
    status = ProgramStatus(execution_id=entry.call_id, status="exec", deadline=entry.deadline)
    return [make_event(status, at, turn, "running")]


def program_ended(entry: Resulted, turn: str) -> list[ClientEvent]:
    """Return the end of a call's program, if it had one."""
    if not entry.program:
        return []
    ok = entry.status == "ok"
    status = ProgramStatus(
        execution_id=entry.call_id,
        status="done" if ok else "error",
        timings=ProgramTimings(exec=entry.duration_ms),
        error=None if ok else ErrorCode(code=str((entry.error or {}).get("code", entry.status))),
    )
    return [make_event(status, entry.at, turn, "completed" if ok else "error")]


def tool_told(told: ToolEvent, entry: Resulted, turn: str) -> ClientEvent:
    """Return what a tool told the user; what looks like a known type and is not shaped so stays the tool's own word."""
    whose = {"tool_id": told.tool_id or entry.tool_id, "call_id": entry.call_id}
    model = TOLD.get(told.type)
    if model is not None:
        try:
            return make_event(msgspec.convert({**told.data, **whose}, model), told.at, turn, "update")
        except msgspec.ValidationError:
            pass  # the client is told all the same, under the type of what is not known
    return make_event(ToolTold(type=told.type, data=told.data, **whose), told.at, turn, "update")
