"""Act: the recorded actions of a round, in order, each result in the log before the next one runs.

    pure    run, put the result; the first put wins
    keyed   the same, with effects named by the call or the content, so that twice is once
    once    put `started`, run, put the result; whoever finds it started by somebody else runs nothing and
            records `unverified`

Source: docs/concepts/log.md#act.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from stepline.loop.agent import Agent
from stepline.loop.effect import publish
from stepline.loop.guard import ended, onward, standing
from stepline.loop.history import History
from stepline.loop.journal import Draft, Journal
from stepline.loop.port import Ports
from stepline.loop.transition import resulted, started
from stepline.metrics import TOOL_CALLS, TOOL_FAILURES
from stepline.model.batch import Batch
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Decided, Resulted, Started
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.timeline.fold import Timeline
from stepline.timeline.result import lean_blocks
from stepline.tools.context import ToolContext
from stepline.tools.registry import Registry, run_tool
from stepline.tools.spec import Effect

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Round:
    """What one invocation of Act works with."""

    ports: Ports
    agent: Agent
    history: History
    journal: Journal
    step: Step


def act(ports: Ports, agent: Agent, history: History, step: Step) -> Step:
    """Run what is left of the round's actions; return the step that follows."""
    journal = Journal(ports, step.lane(), f"act/{step.epoch}")
    work = _Round(ports=ports, agent=agent, history=history, journal=journal, step=step)
    timeline = history.load(journal)
    if standing(timeline.state, step, "act") != "mine":
        timeline = history.load(journal, consistent=True)
    while standing(timeline.state, step, "act") == "mine":
        done = _run_next(work, timeline)
        timeline = history.follow(journal, done) if done else history.load(journal, consistent=True)
    if standing(timeline.state, step, "act") == "stop":
        return ended(step, "stop")
    return onward(step, timeline.state)


def _run_next(work: _Round, timeline: Timeline) -> Batch | None:
    """Run the next action and return the batch of its result; None if the round went on without us."""
    state, tail = timeline.state, timeline.batches[-1]
    index = state.cursor.action
    action = _action(timeline, state.decided, index)
    if effect_of(work.agent.registry, action.tool_id) != "once":
        return _record(work, tail, index, _run(work, timeline, action))
    if state.running == action.call_id:
        return _record(work, tail, index, _unverified(work, action))
    began = _start(work, tail, index, action)
    if began is None:
        return None
    return _record(work, began, index, _run(work, timeline, action), claim=began.n)


def effect_of(registry: Registry, tool_id: str) -> Effect:
    """Return a tool's effect class. A tool that is gone since the decision is refused, and that changes nothing."""
    return registry.find(tool_id).spec.effect if tool_id in registry else "pure"


def _action(timeline: Timeline, decided: int, index: int) -> Action:
    decision = next(e for e in timeline.batches[decided - 1].entries if isinstance(e, Decided))
    return decision.actions[index]


def _start(work: _Round, tail: Batch, index: int, action: Action) -> Batch | None:
    """Put `started`, again if that answer took long; None if the action is no longer ours to start."""
    clock, claim = work.ports.clock, 0
    while True:

        def plan(at: Batch, claim: int = claim) -> Draft | None:
            free = at.state.running != action.call_id or at.state.claim == claim
            if not _is_next(work, at, index) or not free:
                return None
            entry = Started(call_id=action.call_id)
            return Draft(entries=(entry,), state=started(at.state, at.n + 1, action.call_id))

        asked_s = clock.monotonic_s()
        batch = work.journal.commit(plan, tail=tail)
        if batch is None or clock.monotonic_s() - asked_s <= work.ports.policy.started_fresh_s:
            return batch
        tail, claim = batch, batch.n


def _record(
    work: _Round, tail: Batch, index: int, result: Resulted, *, claim: int | None = None
) -> Batch | None:
    """Put the result and return its batch, unless the round went on without us or, for a started action, somebody else settled it."""

    def plan(at: Batch) -> Draft | None:
        if not _is_next(work, at, index) or (claim is not None and at.state.claim != claim):
            return None
        return Draft(entries=(result,), state=resulted(at.state, at.n + 1))

    batch = work.journal.commit(plan, tail=tail)
    if batch is not None:
        publish(work.ports, work.journal.lane, batch)
        work.ports.meter.count(TOOL_CALLS)
        work.ports.meter.count(TOOL_FAILURES, result.status != "ok")
    return batch


def _is_next(work: _Round, at: Batch, index: int) -> bool:
    return standing(at.state, work.step, "act") == "mine" and at.state.cursor.action == index


def _run(work: _Round, timeline: Timeline, action: Action) -> Resulted:
    clock = work.ports.clock
    began_s, at = clock.monotonic_s(), clock.now()
    context = ToolContext(
        lane=work.journal.lane,
        turn=work.step.turn,
        call_id=action.call_id,
        iteration=work.step.iteration,
        ts=utc(at),
        artifacts=work.ports.artifacts,
        timeline=timeline,
        caps=work.agent.caps,
    )
    output = run_tool(work.agent.registry, action, context)
    duration_ms = round((clock.monotonic_s() - began_s) * 1000)
    logger.info(
        "action run", extra={"tool_id": action.tool_id, "call_id": action.call_id, "status": output.status}
    )
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=work.step.iteration,
        status=output.status,
        at=utc(at),
        duration_ms=duration_ms,
        blocks=lean_blocks(output.blocks, context.path("result")),
        plans=output.plans,
        error=output.error,
    )


def _unverified(work: _Round, action: Action) -> Resulted:
    at = utc(work.ports.clock.now())
    message = "The call was interrupted: it may have happened, or not. Check its effect before you ask for it again."
    block = Produced(
        type="react.notice",
        author="system",
        path=f"tc:{work.step.turn}.{action.call_id}.notice",
        mime="application/json",
        text=msgspec.json.encode({"code": "unverified", "message": message}).decode(),
    )
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=work.step.iteration,
        status="unverified",
        at=at,
        blocks=(block,),
        error={"code": "unverified", "message": message},
    )
