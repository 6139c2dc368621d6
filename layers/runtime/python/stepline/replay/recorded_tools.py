"""An agent whose calls are answered from a record: its tools and programs, its hooks, its servers' lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from msgspec.structs import replace

from stepline.errors import HOOK_FAILED, SteplineError, ToolError
from stepline.loop.agent import Agent, HookCall, Hooks
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import ApprovalAnswered, Contributed, Decided, HookName, Listed, Resulted
from stepline.ports.artifacts import Artifacts
from stepline.replay.recorded_turn import RecordedTurn, same_call
from stepline.replay.tape import Tape
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.mcp.servers import Servers, ServerTools, decode_list
from stepline.tools.registry import Registry, Tool

NOT_RECORDED: Final = "not_in_record"
_HOOKS: Final[tuple[HookName, ...]] = ("pre_run_hook", "before_round", "post_run_hook")


@dataclass(frozen=True, kw_only=True)
class ToolRecord:
    """The results of a recorded turn. With `runs_tools` a call without one runs, unless its effect is `once`."""

    turn: RecordedTurn
    tape: Tape
    runs_tools: bool = False

    def result(self, action: Action) -> Resulted | None:
        """Return the result of an equal call: the one with the same id, if that is equal, else the first."""
        known = self.turn.actions
        equal = [
            one for one in self.turn.results if one.call_id in known and same_call(known[one.call_id], action)
        ]
        return next((one for one in equal if one.call_id == action.call_id), equal[0] if equal else None)


class RecordedRegistry(Registry):
    """Tools that answer from a record. Their contracts are the agent's own."""

    def __init__(self, tools: Registry, record: ToolRecord) -> None:
        super().__init__(
            dataclasses.replace(tool, run=partial(_answer, record, tool)) for tool in tools.tools
        )
        self._record = record

    def runs_program(self, action: Action) -> bool:
        """Return True if an action runs as a program; a recorded one does not run."""
        return super().runs_program(action) and self._record.result(action) is None


def _answer(record: ToolRecord, tool: Tool, params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    action = _action_of(context)
    found = record.result(action) if action else None
    if action is not None and found is not None:
        record.tape.finish()
        return ToolOutput(recorded=_moved(found, action.call_id))
    if record.runs_tools and tool.spec.effect != "once":
        return tool.run(params, context)
    raise ToolError("the record has no result of this call, and a replay does not run it", code=NOT_RECORDED)


def _action_of(context: ToolContext) -> Action | None:
    """Return the call that runs, as it was decided, or as a person edited it."""
    timeline = cast("Timeline", context.timeline)
    for batch in reversed(timeline.since(timeline.state.decided - 1)):
        for entry in batch.entries:
            if isinstance(entry, Decided):
                calls: Sequence[Action] = entry.actions
            elif isinstance(entry, ApprovalAnswered) and entry.action:
                calls = (entry.action,)
            else:
                continue
            if found := next((one for one in calls if one.call_id == context.call_id), None):
                return found
    return None


def _moved(result: Resulted, call: str) -> Resulted:
    """Return a result with the paths of another call's id."""
    if result.call_id == call:
        return result
    blocks = tuple(replace(one, path=one.path.replace(result.call_id, call)) for one in result.blocks)
    return replace(result, call_id=call, blocks=blocks)


class RecordedServers(Servers):
    """The MCP servers of an agent, whose lists are those of the record."""

    def __init__(self, servers: Servers, record: ToolRecord, artifacts: Artifacts) -> None:
        self.rows, self.digest = servers.rows, servers.digest
        self._servers, self._record, self._artifacts = servers, record, artifacts

    def ask(self, *_: object, **__: object) -> ServerTools:
        """Return the recorded list. Raises ToolError `not_in_record`; NotFoundError if its bytes are gone."""
        entries = (entry for batch in self._record.turn.own for entry in batch.entries)
        listed = next((entry for entry in entries if isinstance(entry, Listed)), None)
        if listed is None:
            raise ToolError("the record has no list of the servers' tools", code=NOT_RECORDED)
        return ServerTools(
            decode_list(self._artifacts.get(listed.body.key)), datetime.fromisoformat(listed.until)
        )

    def catalogue(self, key: str, load: Callable[[], bytes]) -> tuple[str, Registry]:
        """Return the agent's catalogue with a stored list; its tools answer from the record."""
        system, registry = self._servers.catalogue(key, load)
        return system, RecordedRegistry(registry, self._record)


def recorded_agent(agent: Agent, record: ToolRecord, artifacts: Artifacts, *, own_lines: bool) -> Agent:
    """Return an agent that answers from the record.

    With `own_lines` its bundle's code adds the lines of each request; without, they are the recorded ones.
    """
    hooks = {name: getattr(agent.hooks, name) and partial(_contribute, record, name) for name in _HOOKS}
    servers = RecordedServers(agent.servers, record, artifacts) if agent.servers is not None else None
    return dataclasses.replace(
        agent,
        registry=RecordedRegistry(agent.registry, record),
        hooks=Hooks(**hooks),
        servers=servers,
        announced=agent.announced if own_lines else partial(_announced, agent, record),
    )


def _contribute(record: ToolRecord, name: HookName, call: HookCall) -> tuple[Produced, ...]:
    """Return the blocks that a hook added in the record; none if it did not run there. Raises its recorded failure."""
    found: Contributed | None = record.turn.hook(name, call.context.iteration)
    if found is None:
        return ()
    record.tape.finish()
    if found.status == "error":
        raise SteplineError("the hook failed in the record", code=found.code or HOOK_FAILED)
    call.context.events.extend(found.emitted)
    return found.blocks


def _announced(agent: Agent, record: ToolRecord) -> Sequence[str]:
    """Return the recorded lines of the request that is made now."""
    decision = record.tape.next_decision()
    if decision is None or decision.sent is None or decision.sent.announce:
        return agent.announced()
    return decision.sent.restore_facts(started_at=decision.started_at, iteration=decision.iteration).extra
