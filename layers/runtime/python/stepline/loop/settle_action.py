"""Settle an action: put `started` before one that may run only once, and its result afterwards.

Source: docs/concepts/log.md#act.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.log.fence import compare_step
from stepline.log.journal import Draft
from stepline.log.transition import next_round, resulted, started, steered
from stepline.loop.attempt import Attempt, count_usage
from stepline.loop.steer import Steer, heeding, not_run
from stepline.metrics import STEERS, TOOL_CALLS, TOOL_FAILURES
from stepline.model.batch import Batch
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Entry, Resulted, Started
from stepline.model.ids import utc
from stepline.model.usage import ModelCall, sum_usages
from stepline.rendering.result import lean_blocks
from stepline.tools.context import ToolContext, ToolOutput

MAYBE = (
    "The call was interrupted: it may have happened, or not. Check its effect before you ask for it again."
)


def start(attempt: Attempt, tail: Batch, index: int, action: Action, *, deadline: str = "") -> Batch | None:
    """Put `started`, again if the put took long; None if this attempt may no longer start the action."""

    def is_ours(at: Batch, claim: int) -> bool:
        free = at.state.running != action.call_id or at.state.claim == claim
        return free and _is_next(attempt, at, index)

    return put_started(attempt, tail, Started(call_id=action.call_id, deadline=deadline), is_ours)


def put_started(
    attempt: Attempt, tail: Batch, entry: Started, is_ours: Callable[[Batch, int], bool]
) -> Batch | None:
    """Put `started`, again if the put took long; None if this attempt may not start it.

    `is_ours` decides by a tail. It gets the claim of the first put when there is a second one, and 0 before that.
    """
    clock, claim = attempt.ports.clock, 0
    while True:

        def plan(at: Batch, claim: int = claim) -> Draft | None:
            if not is_ours(at, claim):
                return None
            return Draft(entries=(entry,), state=started(at.state, at.n + 1, entry.call_id))

        asked_s = clock.monotonic_s()
        batch = attempt.journal.commit(plan, tail=tail)
        if batch is None or clock.monotonic_s() - asked_s <= attempt.ports.policy.started_fresh_s:
            if batch is not None:
                publish(attempt.ports, attempt.journal.lane, batch)
            return batch
        tail, claim = batch, batch.n


def record(
    attempt: Attempt,
    tail: Batch,
    index: int,
    result: Resulted,
    *,
    claim: int | None = None,
    calls: tuple[ModelCall, ...] = (),
    made: bool = True,
) -> Batch | None:
    """Put the result and return its batch; None if the round continued without this attempt.

    For a started action, also None if another attempt settled it. `calls` are the model calls of its program. A result
    of a call that was `made`, or refused by its tool, has the effect of its tool.
    """
    effect = attempt.agent.registry.effect(result.tool_id)
    if made and effect in ("keyed", "once"):  # a bundle's code may say anything
        result = replace(result, effect=effect)

    def plan(at: Batch) -> Draft | None:
        if not _is_next(attempt, at, index) or (claim is not None and at.state.claim != claim):
            return None
        return Draft(entries=(result,), state=resulted(at.state, at.n + 1), calls=calls)

    batch = attempt.journal.commit(plan, tail=tail)
    if batch is not None:
        publish(attempt.ports, attempt.journal.lane, batch)
        attempt.ports.meter.count(TOOL_CALLS)
        attempt.ports.meter.count(TOOL_FAILURES, result.status != "ok")
        if result.usage is not None:
            count_usage(attempt.ports.meter, result.usage)
    return batch


def skip(attempt: Attempt, tail: Batch, steer: Steer, actions: Sequence[Action]) -> Batch | None:
    """Record that the remaining actions of the round are not run because of a steer.

    Return the batch; None if the round continued without this attempt.
    """
    step, ports = attempt.step, attempt.ports
    at = utc(ports.clock.now())
    index = tail.state.cursor.action
    heeded = heeding(steer, ports.policy, tail.state, at=at, phase="tools")

    def plan(found: Batch) -> Draft | None:
        if not _is_next(attempt, found, index) or found.state.running:
            return None
        entries: tuple[Entry, ...] = (*(not_run(action, step.iteration, at) for action in actions), heeded)
        after = next_round(found.state, found.n + 1)
        return Draft(entries=entries, state=steered(after, heeded.n, finalize=heeded.finalize))

    batch = attempt.journal.commit(plan, tail=tail)
    if batch is not None:
        publish(ports, attempt.journal.lane, batch)
        ports.meter.count(STEERS)
    return batch


def result_of(
    action: Action, context: ToolContext, output: ToolOutput, *, duration_ms: int = 0, program: bool = False
) -> Resulted:
    """Return the result entry for an action's output."""
    if output.recorded is not None:
        return replace(output.recorded, call_id=action.call_id, iteration=context.iteration)
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=context.iteration,
        status=output.status,
        at=context.ts,
        duration_ms=duration_ms,
        blocks=lean_blocks(output.blocks, context.path("result")),
        plans=output.plans,
        error=output.error,
        program=program,
        emitted=tuple(context.events),
        sources=context.sources.changed(output.sources),
        hides=output.hides,
        usage=sum_usages(context.usages) if context.usages else None,
    )


def unverified(attempt: Attempt, action: Action) -> Resulted:
    """Return the result of an action that another attempt started and whose end is unknown."""
    at = utc(attempt.ports.clock.now())
    block = Produced(
        type="react.notice",
        author="system",
        path=f"tc:{attempt.step.turn}.{action.call_id}.notice",
        mime="application/json",
        text=msgspec.json.encode({"code": "unverified", "message": MAYBE}).decode(),
    )
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=attempt.step.iteration,
        status="unverified",
        at=at,
        blocks=(block,),
        error={"code": "unverified", "message": MAYBE},
    )


def _is_next(attempt: Attempt, at: Batch, index: int) -> bool:
    return compare_step(at.state, attempt.step, "act") == "mine" and at.state.cursor.action == index
