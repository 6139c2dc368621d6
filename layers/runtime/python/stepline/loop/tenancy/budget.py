"""Budget of a round: before the model is asked, the round's maximum usage is held in the accounts of its user.

    stopped                 → the turn closes
    no budget applies       → nothing is held, and nothing is written
    dollars without a price → the turn closes with `limit_usd`: a budget that counts nothing would hold nothing
    there is room           → it is held until the next round, or the turn's end, charges the actual usage
    there is none           → the turn closes with the limit's code; after a steer it has one final round

A hold is one conditional transaction over all accounts, so that concurrent turns cannot use the same room. It usually
exceeds the round's usage; only calls beside the decision (a summary, a tool's own) add to it.
Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Final

from msgspec.structs import replace

from stepline.context.estimate import estimate_request
from stepline.context.media import media_bytes
from stepline.delivery.allowance import HELD_S, Allowance, find_excess, read_allowance, read_used, render_left
from stepline.delivery.settle_account import charge
from stepline.errors import RETRY_AFTER, Fenced
from stepline.log.fence import check_claim, elsewhere, onward
from stepline.log.journal import Draft
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.steer import finalize_left, finalize_tokens
from stepline.model.batch import Batch
from stepline.model.entry import Reopened
from stepline.model.step import Step
from stepline.model.tenancy.charge import Amount
from stepline.model.tenancy.limits import LIMIT_CODES, Excess, Used
from stepline.model.usage import Usage
from stepline.rendering.piece import byte_length
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

TRIES: Final = 3
"""How often a hold is tried that had no room when it was placed, but has room when checked again."""


def hold_round(attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline] | Step:
    """Hold the round's maximum usage; return the attempt that shows the model what is left, or the step to go to.

    Raises:
        Fenced: another attempt owns the round.
        DependencyError: the accounts do not answer, or are contended.
    """
    lane, state = attempt.journal.lane, timeline.state
    allowance = read_allowance(attempt.ports, lane.tenant, lane.project, state.owner)
    stopped = allowance.stopped()
    barred = stopped[0] if stopped is not None else _find_unpriced(attempt, allowance)
    if barred is not None:
        return _over(attempt, timeline, barred)
    if not allowance.has_budget:
        return attempt, timeline
    need = estimate_round(attempt, timeline)
    excess = _place(attempt, timeline, allowance, need)
    if excess is None:
        return _announce_left(attempt, allowance), timeline
    final = _final_round(timeline)
    if not finalize_left(timeline) or final not in (None, attempt.step.iteration):
        return _over(attempt, timeline, excess)
    if final is None:
        bounded = _bound(attempt, timeline, excess)
        if isinstance(bounded, Step):
            return bounded
        timeline = bounded
    charge(attempt.ports, lane, timeline.tail, hold=need)
    return attempt, timeline


def _find_unpriced(attempt: Attempt, allowance: Allowance) -> Excess | None:
    """Return the budget of dollars that the round's model cannot be held to, because its price is not known."""
    policy = attempt.ports.policy
    model = policy.model_of(attempt.agent.role)
    if not model or policy.prices.nanos(model, Usage(), attempt.now()) is not None:
        return None
    limited = (scope.kind for scope, limits in allowance.pairs() if limits.has_dollars)
    kind = next(limited, None)
    return None if kind is None else Excess(code="limit_usd", kind=kind, window="unpriced")


def _final_round(timeline: Timeline) -> int | None:
    """Return the final round to which a budget has bound the open turn; a later steer does not extend it."""
    bounds = (
        entry.iteration
        for _, entry in timeline.entries
        if isinstance(entry, Reopened) and entry.code in LIMIT_CODES
    )
    return next(bounds, None)


def estimate_round(attempt: Attempt, timeline: Timeline) -> Amount:
    """Estimate the maximum usage of a round's decision: its prompt without a cache, and its full output limit."""
    agent, policy = attempt.agent, attempt.ports.policy
    fixed_bytes = byte_length(agent.system) + media_bytes(timeline.media, policy.context)
    estimate = estimate_request(timeline, fixed_bytes)
    if not agent.layout.shows_timeline:
        estimate = min(estimate, policy.context.budget)
    usage = Usage(
        input_tokens=estimate,
        output_tokens=finalize_tokens(policy, agent.max_tokens)
        if finalize_left(timeline)
        else agent.max_tokens,
    )
    nanos = policy.prices.nanos(policy.model_of(agent.role), usage, attempt.now())
    return Amount(tokens=usage.prompt_tokens + usage.output_tokens, nanos=nanos or 0)


def _place(attempt: Attempt, timeline: Timeline, allowance: Allowance, need: Amount) -> Excess | None:
    """Place the hold; return the limit that has no room for it. Raises Fenced."""
    ports, lane = attempt.ports, attempt.journal.lane
    if any(limits.storage_bytes is not None for limits in allowance.limits):
        storage = find_excess(ports, allowance)
        if storage is not None and storage.code == "limit_storage":
            return storage
    excess: Excess | None = None
    for _ in range(TRIES):
        charged = charge(ports, lane, timeline.tail, hold=need, limits=allowance.limits)
        if charged == "done":
            return None
        if charged == "old":
            raise Fenced("a later batch was charged before")
        # Usage until now counts towards the reported limit; an earlier hold of this turn does not.
        charge(ports, lane, timeline.tail)
        excess = find_excess(ports, allowance, need=need)
        if excess is not None:
            return excess
    return Excess(code="limit_tokens", kind="user", window="held", retry_after_s=HELD_S)


def _announce_left(attempt: Attempt, allowance: Allowance) -> Attempt:
    """Return the attempt whose request ends with the remainder of the budgets."""
    used = read_used(attempt.ports, allowance)
    line = render_left(allowance, tuple(used.get(scope, Used()) for scope in allowance.scopes))
    if not line:
        return attempt
    agent: Agent = attempt.agent
    announced = agent.announced
    return dataclasses.replace(
        attempt, agent=dataclasses.replace(agent, announced=lambda: (*announced(), line))
    )


def _bound(attempt: Attempt, timeline: Timeline, excess: Excess) -> Timeline | Step:
    """Record that the turn has one final round; return the timeline with it, or the step to go to. Raises Fenced."""
    step = attempt.step

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        check_claim(at.state, attempt.claim)
        entry = Reopened(iteration=step.iteration, attempt=step.attempt, usage=Usage(), code=excess.code)
        return Draft(entries=(entry,), state=replace(at.state, finalize=1))

    batch = attempt.journal.commit(plan, tail=timeline.tail)
    return batch if isinstance(batch, Step) else attempt.follow(batch)


def _over(attempt: Attempt, timeline: Timeline, excess: Excess) -> Step:
    """Return the step that closes the turn with the limit's code, its names and the time when it ends."""
    logger.info("round not allowed", extra={"code": excess.code, "scope": excess.kind})
    cause = f"{excess.names} {RETRY_AFTER % excess.retry_after_s}"
    return replace(
        onward(attempt.step, timeline.state), route="close", error={"Error": excess.code, "Cause": cause}
    )
