"""Act: run a round's recorded actions in order, each result in the log before the next one runs.

    pure     run, put the result; the first put wins
    keyed    the same, with effects named by the call or the content, so that twice is once
    once     put `started`, run, put the result; an attempt that finds it started by another one runs nothing
             and records `unverified`
    approval  ask a person first, and leave the turn: another execution continues after their answer
    steered  end the action early if possible; record that the actions after it are not run
    program  put `started`, leave the run to another state, put its outcome
    task     put `started` with the task that a server works on, leave, and poll it until it ends

Before the first round of a turn that needs it, it lists the tools of MCP servers instead (`loop.mcp`).

Source: docs/concepts/log.md#act.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from stepline.delivery.stage_queue import follow_parking
from stepline.log.bindings import Ports
from stepline.log.fence import elsewhere, stops_when_deleted
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent
from stepline.loop.approvals.park import answer_about, needs_person, park, refused, repeats_effect
from stepline.loop.attempt import Attempt
from stepline.loop.programs.program import advance_program
from stepline.loop.settle_action import record, result_of, skip, start, unverified
from stepline.loop.steer import steer_of
from stepline.loop.tracing.traced_call import run_traced
from stepline.loop.tracing.traced_step import traced
from stepline.model.batch import Batch
from stepline.model.decision import Action, ApprovalRule
from stepline.model.entry import Decided
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)


@traced
@stops_when_deleted
def act(ports: Ports, agent: Agent, history: History, step: Step) -> Step:
    """Run the rest of the round's actions; return the step that follows."""
    journal = Journal(ports, step.lane(), f"act/{step.epoch}")
    attempt = Attempt(ports=ports, agent=agent, history=history, journal=journal, step=step)
    timeline = attempt.load()
    if elsewhere(timeline.state, step, "act") is not None:
        timeline = attempt.load(consistent=True)
    if agent.servers is not None:
        from stepline.loop.mcp.turn_tools import equip, is_due, list_turn_tools  # noqa: PLC0415 - most agents have none

        if is_due(agent, timeline) and elsewhere(timeline.state, step, "decide") is None:
            return list_turn_tools(attempt, timeline)
        attempt = replace(attempt, agent=equip(agent, timeline, ports.artifacts))
    if step.attempt > 0:
        journal.take_over(timeline.state.claim)
    with ports.signals.watch(journal.lane, timeline.n) as watch:
        attempt = replace(attempt, watch=watch)
        while (gone := elsewhere(timeline.state, step, "act")) is None:
            if watch.steer() > timeline.n:
                timeline = attempt.load(consistent=True)
                continue
            done = _run_next(attempt, timeline)
            if isinstance(done, Step):
                return done
            timeline = attempt.follow(done) if done else attempt.load(consistent=True)
    follow_parking(ports, journal.lane, timeline.tail)
    if timeline.state.deleted and agent.servers is not None:
        from stepline.loop.mcp.remote_task import abandon_task  # noqa: PLC0415 - few conversations are deleted here

        abandon_task(attempt, timeline)
    return gone


def _run_next(attempt: Attempt, timeline: Timeline) -> Batch | Step | None:
    """Run the next action, or ask a person about it.

    Return the batch of its result, the step that runs its program or leaves the turn, or None if the round continued
    without this attempt.
    """
    state, tail = timeline.state, timeline.tail
    index = state.cursor.action
    actions = _decision(timeline, state.decided).actions
    answer = answer_about(timeline, actions[index].call_id)
    action = actions[index] if answer is None or answer.action is None else answer.action
    steer = None if state.running or state.ends else steer_of(timeline)
    if steer is not None:
        return skip(attempt, tail, steer, (action, *actions[index + 1 :]))
    if answer is not None:
        denial = refused(action, attempt.step.iteration, attempt.now(), answer)
        if denial is not None:
            return record(attempt, tail, index, denial, made=False)
    elif (rule := _asks(attempt, timeline, action)) is not None:
        return park(attempt, timeline, index, action, rule)
    return _run_allowed(attempt, timeline, index, action)


def _asks(attempt: Attempt, timeline: Timeline, action: Action) -> ApprovalRule | None:
    """Return the rule that makes a person approve this call before it runs; None if no approval is needed."""
    running = timeline.state.running == action.call_id
    if running:
        return None
    if timeline.kept_effects and repeats_effect(timeline, action):
        return "always"
    return needs_person(attempt.agent, timeline, action.tool_id)


def _run_allowed(attempt: Attempt, timeline: Timeline, index: int, action: Action) -> Batch | Step | None:
    state, tail = timeline.state, timeline.tail
    if attempt.agent.registry.runs_program(action):
        return advance_program(attempt, timeline, index, action)
    if state.running == action.call_id:
        from stepline.loop.mcp.remote_task import advance_task, task_of  # noqa: PLC0415 - few calls are found started

        if (task := task_of(timeline, action.call_id)) is not None:
            return advance_task(attempt, timeline, index, action, task)
    if attempt.agent.registry.effect(action.tool_id) != "once":
        return _run(attempt, timeline, index, action)
    if state.running == action.call_id:
        return record(attempt, tail, index, unverified(attempt, action))
    began = start(attempt, tail, index, action)
    return None if began is None else _run(attempt, timeline, index, action, began)


def _decision(timeline: Timeline, decided: int) -> Decided:
    return next(e for e in timeline.since(decided - 1, decided)[0].entries if isinstance(e, Decided))


def _run(
    attempt: Attempt, timeline: Timeline, index: int, action: Action, began: Batch | None = None
) -> Batch | Step | None:
    """Run an action and put its result, or the task that runs it; `began` is its start, if that was put."""
    clock = attempt.ports.clock
    began_s, at = clock.monotonic_s(), utc(clock.now())
    tail, claim = began or timeline.tail, began.n if began else None
    context, output = run_traced(attempt, timeline, action, at, claim=claim or 0)
    duration_ms = round((clock.monotonic_s() - began_s) * 1000)
    status = "task" if output.task else output.status
    logger.info("action run", extra={"tool_id": action.tool_id, "call_id": action.call_id, "status": status})
    if output.task is not None:
        from stepline.loop.mcp.remote_task import keep_task  # noqa: PLC0415 - few calls become one

        return keep_task(attempt, tail, index, action, output.task, claim=claim or 0)
    result = result_of(action, context, output, duration_ms=duration_ms)
    return record(attempt, tail, index, result, claim=claim)
