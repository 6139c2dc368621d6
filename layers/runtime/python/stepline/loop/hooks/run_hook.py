"""Run a bundle's hooks: `pre_run_hook` and `before_round` before the model is asked, `post_run_hook` after the close.

The log guarantees that each runs at most once, per turn or per round: `started` is put before a hook runs, and its end
afterwards, with its additions to the turn. An attempt that finds a hook started and without an end does not run it
again, but records that its end is unknown (`unverified`), and continues.

    pre_run_hook    fails → the turn closes with `hook_failed`
    before_round    fails → the round continues without it
    post_run_hook   fails → the turn has ended already; the failure is recorded

Source: docs/concepts/turn.md#hooks.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Final

from msgspec.structs import replace

from stepline.delivery.allowance import find_excess, read_allowance
from stepline.delivery.effect import publish
from stepline.delivery.settle_account import settle_account
from stepline.errors import HOOK_FAILED, Fenced, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import check_claim, compare_step, elsewhere, onward
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History
from stepline.log.transition import hooked
from stepline.loop.agent import Agent, Hook, HookCall
from stepline.loop.attempt import Attempt, count_usage
from stepline.loop.settle_action import put_started
from stepline.metrics import HOOKS_FAILED
from stepline.model.batch import Batch, State
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Closed, Contributed, HookName, Inbound, Started
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.model.usage import sum_usages
from stepline.rendering.turn_facts import Turn
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

INTERRUPTED: Final = (
    "The code of the bundle that prepares a turn was interrupted: what it adds to the context may be missing."
)


def run_hooks(attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline] | Step:
    """Run the hooks that are due before the model is asked; return the attempt that continues, or the step to go to.

    Each hook takes its own claim when it starts, as an action does.

    Raises:
        Fenced: another attempt owns the round.
    """
    hooks = attempt.agent.hooks
    due: tuple[tuple[HookName, Hook | None], ...] = (
        ("pre_run_hook", hooks.pre_run_hook),
        ("before_round", hooks.before_round),
    )
    for name, hook in due:
        if hook is None or not _is_due(name, timeline.state):
            continue
        began = _start(attempt, timeline, name)
        if isinstance(began, Step):
            return began
        if began is None:
            entry = _unverified(name, attempt.step, attempt.now())
        else:
            attempt, timeline = dataclasses.replace(attempt, claim=began.n), attempt.follow(began)
            entry = _run(attempt, timeline, name, hook)
        ended = _end(attempt, timeline, entry)
        if isinstance(ended, Step):
            return ended
        timeline = ended
        if compare_step(timeline.state, attempt.step, "decide") != "mine":
            return onward(attempt.step, timeline.state)
    return attempt, timeline


def follow_turn(ports: Ports, agent: Agent, history: History, step: Step) -> None:
    """Run the `post_run_hook` of the turn that a step has closed, unless the log says that it began."""
    hook = agent.hooks.post_run_hook
    journal = Journal(ports, step.lane(), "close")
    closing = _closing(journal, step) if hook else None
    if hook is None or closing is None or not _may_work(ports, journal.lane, closing.state.owner):
        return
    call = hook_call("post_run_hook", step)
    attempt = Attempt(ports=ports, agent=agent, history=history, journal=journal, step=step)

    def begin(at: Batch) -> Draft | None:
        since = [
            (batch.n, entry)
            for batch in journal.since(closing.n, upto=at.n, consistent=True)
            for entry in batch.entries
        ]
        started = (n for n, entry in since if isinstance(entry, Started) and entry.call_id == call)
        if (claim := next(started, 0)) == 0:
            return Draft(entries=(Started(call_id=call),), state=at.state)
        if any(_ends(entry, step) for _, entry in since):
            return None
        journal.take_over(claim)
        unknown = _unverified("post_run_hook", step, attempt.now())
        return Draft(entries=(unknown,), state=at.state)

    began = journal.commit(begin)
    if began is None or any(_ends(entry, step) for entry in began.entries):
        settle_account(ports, journal.lane, began or journal.tail(consistent=True))  # it may have died before
        return
    timeline = history.load(journal, segment=closing.state.segment, consistent=True)
    entry = _run(dataclasses.replace(attempt, claim=began.n), timeline, "post_run_hook", hook)

    def end(at: Batch) -> Draft | None:
        between = journal.since(began.n, upto=at.n, consistent=True)
        if any(_ends(one, step) for batch in between for one in batch.entries):
            return None
        return Draft(entries=(entry,), state=at.state)

    if (ended := journal.commit(end)) is not None:
        publish(ports, journal.lane, ended)
        settle_account(ports, journal.lane, ended)


def _may_work(ports: Ports, lane: Lane, user: str) -> bool:
    """Return True unless work is stopped or a budget is used up: a hook may call models, too."""
    allowance = read_allowance(ports, lane.tenant, lane.project, user)
    return allowance.stopped() is None and find_excess(ports, allowance) is None


def hook_call(name: HookName, step: Step) -> str:
    """Return the id under which the log announces one run of a hook."""
    return f"{name}_{step.turn}_{step.iteration if name == 'before_round' else 0}"


def _is_due(name: HookName, state: State) -> bool:
    iteration = state.cursor.iteration
    if name == "pre_run_hook":
        return iteration == 0 and not state.prepared
    return state.primed <= iteration


def _start(attempt: Attempt, timeline: Timeline, name: HookName) -> Batch | Step | None:
    """Record that a hook is about to run; None if another attempt did so, and its end is unknown."""
    step, call = attempt.step, hook_call(name, attempt.step)
    if timeline.state.running == call:
        return None

    def is_ours(at: Batch, claim: int) -> bool:
        mine = compare_step(at.state, step, "decide") == "mine"
        return mine and at.state.claim == (claim or attempt.claim)

    began = put_started(attempt, timeline.tail, Started(call_id=call), is_ours)
    if began is not None:
        return began
    newer = attempt.load(consistent=True)
    gone = elsewhere(newer.state, step, "decide")
    if gone is None:
        raise Fenced("another attempt has claimed this round", claim=attempt.claim, found=newer.state.claim)
    return gone


def _end(attempt: Attempt, timeline: Timeline, entry: Contributed) -> Timeline | Step:
    """Put the end of a hook, unless another attempt has settled it."""
    step, call = attempt.step, hook_call(entry.hook or "pre_run_hook", attempt.step)

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        check_claim(at.state, attempt.claim)
        if at.state.running != call:
            raise Fenced("another attempt has settled this hook")
        return Draft(entries=(entry,), state=hooked(at.state, at.n + 1, entry))

    batch = attempt.journal.commit(plan, tail=timeline.tail)
    if isinstance(batch, Step):
        return batch
    publish(attempt.ports, attempt.journal.lane, batch)
    return attempt.follow(batch)


def _run(attempt: Attempt, timeline: Timeline, name: HookName, hook: Hook) -> Contributed:
    """Run a hook; return its end, which is an error if it raises anything."""
    step, at = attempt.step, attempt.now()
    action = Action(call_id=hook_call(name, step), tool_id=name, params={})
    context = attempt.context(timeline, action, at)
    turn = next(turn for turn in reversed(timeline.history) if turn.id == step.turn)
    messages, closed = messages_of(timeline, turn)
    call = HookCall(
        hook=name,
        context=context,
        user=timeline.state.owner,
        messages=messages,
        ports=attempt.ports,
        history=attempt.history,
        closed=closed,
    )
    ended = Contributed(turn=step.turn, at=at, blocks=(), hook=name, iteration=step.iteration)
    try:
        ended = replace(ended, blocks=hook(call))
    except Exception as error:
        code = error.reason if isinstance(error, SteplineError) else HOOK_FAILED
        logger.exception("hook failed", extra={"hook": name, "turn_id": step.turn, "code": code})
        attempt.ports.meter.count(HOOKS_FAILED)
        ended = replace(ended, status="error", code=code)
    usage = sum_usages(context.usages) if context.usages else None
    if usage is not None:
        count_usage(attempt.ports.meter, usage)
    return replace(ended, emitted=tuple(context.events), usage=usage)


def messages_of(timeline: Timeline, turn: Turn) -> tuple[tuple[Inbound, ...], Closed | None]:
    """Return the events of a turn, beginning with the one that opened it, and its end, None while it runs."""
    since = timeline.since(min((turn.opened, *turn.prompts)) - 1, upto=turn.closed or None)
    messages = tuple(
        entry
        for batch in since
        for entry in batch.entries
        if isinstance(entry, Inbound) and (batch.n in turn.prompts or batch.n > turn.opened)
    )
    closed = next((e for b in since for e in b.entries if isinstance(e, Closed) and e.turn == turn.id), None)
    return messages, closed


def _unverified(name: HookName, step: Step, at: str) -> Contributed:
    """Return the end of a hook whose process died. The model reads that a turn's preparation may be missing."""
    note = Produced(
        type="system.message",
        author="system",
        path=f"ar:{step.turn}.system.message.hook_interrupted",
        text=INTERRUPTED,
    )
    logger.warning("hook interrupted", extra={"hook": name, "turn_id": step.turn})
    return Contributed(
        turn=step.turn,
        at=at,
        blocks=(note,) if name == "pre_run_hook" else (),
        hook=name,
        iteration=step.iteration,
        status="unverified",
        code="unverified",
    )


def _closing(journal: Journal, step: Step) -> Batch | None:
    """Return the batch that closed a step's turn."""
    found = journal.since(step.epoch, consistent=True)
    return next(
        (b for b in found if any(isinstance(e, Closed) and e.turn == step.turn for e in b.entries)), None
    )


def _ends(entry: object, step: Step) -> bool:
    """Return True for the end of the `post_run_hook` of a step's turn."""
    return isinstance(entry, Contributed) and (entry.hook, entry.turn) == ("post_run_hook", step.turn)
