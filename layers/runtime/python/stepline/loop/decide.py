"""Decide: ask the model for one round, and put its decision into the log before anything acts on it.

The first attempt streams under the claim of the batch that opened the round; a later one first takes its own
claim. Each attempt samples the model once; a conflict only moves the number at which the decision is put.
Source: docs/concepts/log.md#decide.

Before it asks the model, a round prepares the context, so that the request is cheap and fits.

    the cache is dead        → older turns are pruned, which costs no cached prefix
    the request is too large → room is made, step by step

Every reduction is a separate batch, put under the round's claim before the request that shows it: every
fold of the log reads the same text.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from datetime import timedelta
from functools import partial
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from stepline.context.estimate import surely_fits
from stepline.context.media import media_bytes
from stepline.context.pruning import plan_pruning
from stepline.delivery.effect import publish
from stepline.errors import (
    RETRY_AFTER,
    ContextLimit,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    SteplineError,
    UnknownOutcome,
)
from stepline.log.bindings import Policy, Ports
from stepline.log.fence import check_attempt, check_claim, elsewhere, onward, stops_when_deleted
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History, seal
from stepline.log.transition import (
    decided,
    declined,
    epoch_ms,
    interrupted,
    rejected,
    reopened,
    steered,
    waiting,
)
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt, count_usage
from stepline.loop.hooks.run_hook import run_hooks
from stepline.loop.steer import STOPPED, Steer, finalize_left, heed, heeding, steer_in, steer_of
from stepline.loop.stream_generation import (
    Posed,
    RoundLayout,
    Sample,
    Sampler,
    build_model_request,
    round_facts,
    sample,
    void_decision,
)
from stepline.loop.tenancy.budget import hold_round
from stepline.loop.title import opening_stage
from stepline.loop.tracing.traced_step import traced
from stepline.metrics import (
    CACHE_BUSTS,
    DECISIONS_REJECTED,
    ROUNDS_DECIDED,
    STEERS,
)
from stepline.model.batch import Batch, State
from stepline.model.entry import Decided, Reopened, SteeredEntry
from stepline.model.ids import utc
from stepline.model.path import out_key
from stepline.model.step import Step
from stepline.model.usage import Usage, sum_usages
from stepline.ports.clock import Meter
from stepline.ports.model import ModelClient
from stepline.rendering.piece import byte_length
from stepline.rendering.status_answer import Cause, status_answer
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext

logger = logging.getLogger(__name__)

WAIT_FIRST_S: Final = 5
WAIT_MAX_S: Final = 20
"""The longest wait for a provider that does not ask for one; half of each wait is random."""

LOOK_S: Final = 5
"""The longest wait, for a provider or a call's task, before the log is checked for a steer."""


@traced
@stops_when_deleted
def decide(
    ports: Ports,
    agent: Agent,
    model: ModelClient,
    history: History,
    step: Step,
    *,
    sampler: Sampler | None = None,
) -> Step:
    """Ask the model once and record its decision; return the step that follows.

    Raises:
        Fenced: another attempt owns the round. The state machine tries again and finds its result.
        DependencyError: the state machine tries again.
        ModelOverloaded, ModelRateLimited: the round has waited often enough for a provider that sheds load; the turn
            closes with an error. Until then, the returned step waits, which costs nothing.
        ContextLimit: nothing makes the request small enough. The turn closes with an error.
        ModelRefused: the turn closes with an error.
    """
    journal = Journal(ports, step.lane(), f"decide/{step.epoch}")
    attempt = Attempt(ports=ports, agent=agent, model=model, history=history, journal=journal, step=step)
    timeline = attempt.load(consistent=step.wait_s > 0)
    if elsewhere(timeline.state, step, "decide") is not None or timeline.state.attempt != step.attempt:
        timeline = attempt.load(consistent=True)
    if (gone := elsewhere(timeline.state, step, "decide")) is not None:
        return _await_task(attempt, timeline, gone)
    check_attempt(timeline.state, step.attempt)
    if attempt.now_ms() < timeline.state.until_ms and steer_of(timeline) is None:
        return _pause(attempt, timeline.state)
    taken = _take(attempt, timeline)
    if isinstance(taken, Step):
        return taken
    attempt, timeline = taken
    try:
        sampled = _attend(attempt, timeline, sampler)
    except (ModelOverloaded, ModelRateLimited) as error:
        return _wait(attempt, error)
    if isinstance(sampled, Step):
        return sampled
    timeline, said = sampled
    said = _keep_system(attempt, said)
    recorded = _record(attempt, timeline, said, segment=seal(ports, journal.lane, timeline))
    return onward(step, recorded.state) if isinstance(recorded, Batch) else recorded


def _take(attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline] | Step:
    """Claim the round for a later attempt, heed steers, hold its budget and run the bundle's hooks.

    Return the step if the round is over.

    A turn that needs a list of its servers' tools goes to Act, which can ask the servers and returns here.
    """
    if attempt.agent.servers is not None:
        from stepline.loop.mcp.turn_tools import equip, is_due  # noqa: PLC0415 - most agents have none

        if is_due(attempt.agent, timeline) and steer_of(timeline) is None:
            return replace(onward(attempt.step, timeline.state), route="act")
        agent = equip(attempt.agent, timeline, attempt.ports.artifacts)
        attempt = dataclasses.replace(attempt, agent=agent)
    claim = timeline.state.claim
    if attempt.step.attempt > 0:
        opening = _reopen(attempt, timeline.tail)
        if not isinstance(opening, Batch):
            return opening
        timeline, claim = attempt.follow(opening), opening.n
    attempt = dataclasses.replace(attempt, claim=claim)
    heeded = heed(attempt, timeline)
    if isinstance(heeded, Step):
        return heeded
    held = hold_round(attempt, heeded)
    return held if isinstance(held, Step) else run_hooks(*held)


def _attend(attempt: Attempt, timeline: Timeline, sampler: Sampler | None) -> tuple[Timeline, Sample] | Step:
    """Heed steers and ask the model; return the rendered timeline and the sample, or the step to go to."""
    while True:
        heeded = heed(attempt, timeline)
        if isinstance(heeded, Step):
            return heeded
        with attempt.ports.signals.watch(attempt.journal.lane, heeded.n) as watch:
            watched = dataclasses.replace(attempt, watch=watch)
            try:
                named = opening_stage(watched, heeded)
                sampled = named if isinstance(named, Step) else sample_fitting(watched, named, sampler)
            except SteplineError:
                _count_lost(attempt, heeded)
                raise
        if not isinstance(sampled, Timeline):
            return sampled
        timeline = sampled  # a steer arrived before the model was asked


def _count_lost(attempt: Attempt, timeline: Timeline) -> None:
    """Record the tokens that an attempt's failed calls have used: the next attempt does not know of them."""
    step, lost = attempt.step, _lost(attempt)
    if lost is None:
        return
    failed = Reopened(iteration=step.iteration, attempt=step.attempt, usage=lost)
    try:
        attempt.amend(timeline, failed, usage=lost)
    except SteplineError as error:  # the failure of the call matters more
        logger.warning("tokens of a failed attempt are not recorded", extra={"code": error.reason})


def _lost(attempt: Attempt) -> Usage | None:
    """Return the tokens that an attempt's failed calls have used; None if there are none."""
    lost = sum_usages((Usage(), *attempt.lost))
    return lost if lost.prompt_tokens or lost.output_tokens else None


def _reopen(attempt: Attempt, tail: Batch) -> Batch | Step:
    step, journal = attempt.step, attempt.journal
    journal.take_over(tail.state.claim)

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        check_attempt(at.state, step.attempt)
        entry = Reopened(iteration=step.iteration, attempt=step.attempt)
        return Draft(entries=(entry,), state=reopened(at.state, at.n + 1, step.attempt))

    batch = journal.commit(plan, tail=tail)
    if isinstance(batch, Batch):
        publish(attempt.ports, journal.lane, batch)
    return batch


def _wait(attempt: Attempt, error: SteplineError) -> Step:
    """Record that the round continues after a wait, the provider's own if it names one; return the step that waits.

    Raises `error` if the round has waited often enough, or the turn has no time.
    """
    ports, step, asked_s = attempt.ports, attempt.step, error.context.get("retry_after_s")
    asked_s = asked_s if isinstance(asked_s, int | float) and asked_s > 0 else 0
    if asked_s:
        error.args = (f"{error} {RETRY_AFTER % math.ceil(min(asked_s, 999_999))}",)
    now = ports.clock.now()

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        check_claim(at.state, attempt.claim)
        wait_s = asked_s or _own_wait_s(attempt, at.state.waits)
        until = now + timedelta(seconds=min(wait_s, ports.policy.turn_deadline_s))
        until_ms = epoch_ms(utc(until))
        deadline_ms = at.state.tally.opened_ms + ports.policy.turn_deadline_s * 1000
        if at.state.waits >= ports.policy.waits or until_ms >= deadline_ms:
            raise error
        entry = Reopened(
            iteration=step.iteration,
            attempt=step.attempt,
            until=utc(until),
            code=type(error).code,
            attempts=ports.policy.waits + 1,
        )
        return Draft(entries=(entry,), state=waiting(at.state, at.n + 1, until_ms))

    batch = attempt.journal.commit(plan)
    if isinstance(batch, Step):
        return batch
    publish(ports, attempt.journal.lane, batch)
    wait_s = math.ceil((batch.state.until_ms - attempt.now_ms()) / 1000)
    logger.warning("round waits for the provider", extra={"code": error.reason, "wait_s": wait_s})
    return _pause(attempt, batch.state)


def _own_wait_s(attempt: Attempt, waits: int) -> float:
    """Return a wait that doubles each time, with jitter: rounds that fail together do not retry together."""
    spread = crc32(f"{attempt.journal.lane.key()}/{attempt.claim}".encode()) / 2**32
    return float(min(WAIT_MAX_S, WAIT_FIRST_S * 2**waits)) * (1 + spread) / 2


def _pause(attempt: Attempt, state: State) -> Step:
    """Return the step that waits for as long as the state says, or until the log is checked for a steer."""
    wait_s = min(LOOK_S, math.ceil((state.until_ms - attempt.now_ms()) / 1000))
    return replace(onward(attempt.step, state), route="wait", wait_s=max(0, wait_s))


def _await_task(attempt: Attempt, timeline: Timeline, gone: Step) -> Step:
    """Return the step to go to, or the one that keeps waiting if that polls a task that is not due yet.

    The task of a conversation that was deleted is cancelled.
    """
    if timeline.state.deleted and attempt.agent.servers is not None:
        from stepline.loop.mcp.remote_task import abandon_task  # noqa: PLC0415 - few conversations are deleted here

        abandon_task(attempt, timeline)
    left_ms = attempt.step.due_ms - attempt.now_ms()
    if left_ms <= 0 or gone.route == "stop" or not timeline.state.running or steer_of(timeline) is not None:
        return gone
    wait_s = min(LOOK_S, math.ceil(left_ms / 1000))
    return replace(gone, route="wait", wait_s=wait_s, due_ms=attempt.step.due_ms)


def _record(attempt: Attempt, timeline: Timeline, taken: Sample, *, segment: int) -> Batch | Step:
    """Put the decision at the next n, while round and claim are ours."""
    ports, journal, step, claim = attempt.ports, attempt.journal, attempt.step, attempt.claim
    rendered, lost = timeline.n, _lost(attempt)

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        check_claim(at.state, claim)
        state = replace(at.state, segment=max(segment, at.state.segment))
        steer = _steer_before(journal, timeline, at)
        if steer is not None:
            cut = replace(void_decision(taken), claim=claim, lost=lost)
            heeded = heeding(steer, ports.policy, state, at=utc(ports.clock.now()), phase="decision")
            cut = replace(cut, rounds_left=_rounds_left(ports.policy, state, heeded.finalize + 1))
            over = interrupted(state, at.n + 1, rendered=rendered)
            return Draft(entries=(cut, heeded), state=steered(over, heeded.n, finalize=heeded.finalize))
        if taken.decision.interrupted:
            raise UnknownOutcome("a watch saw a steer that is not in the log", n=timeline.n)
        entry = replace(
            settle_decision(taken.decision, state, ports.policy, timeline), claim=claim, lost=lost
        )
        state = replace(state, finalize=finalize_left(timeline))
        entry = replace(entry, rounds_left=_rounds_left(ports.policy, state, state.finalize))
        return Draft(entries=(entry,), state=_after(attempt, state, at.n + 1, entry, rendered))

    batch = journal.commit(plan, tail=timeline.tail)
    if isinstance(batch, Batch):
        publish(ports, journal.lane, batch)
        cut = any(isinstance(entry, SteeredEntry) for entry in batch.entries)
        _count(ports.meter, replace(taken.decision, lost=lost), cut=cut)
        accepted = taken.decision.accepted and not cut
        logger.info("round decided", extra={"round": step.iteration, "accepted": accepted, "cut": cut})
    return batch


def _keep_system(attempt: Attempt, taken: Sample) -> Sample:
    """Store the system part if this decision is the first to name it; if it cannot be stored, do not name it."""
    made, journal = taken.decision, attempt.journal
    if not made.system:
        return taken
    key = out_key(journal.lane, attempt.step.turn, made.system)
    try:
        body = attempt.agent.system.encode("utf-8", "surrogatepass")
        attempt.ports.artifacts.put(key, body, mime="text/markdown; charset=utf-8")
    except SteplineError:
        logger.exception("system part not kept")
        return dataclasses.replace(taken, decision=replace(made, system=""))
    return taken


def _rounds_left(policy: Policy, state: State, finalize: int) -> int:
    """Return the rounds left after the one in `state`; `finalize` bounds them, counting that one, unless it is 0."""
    left = policy.max_iterations + state.credits - state.cursor.iteration - 1
    return max(0, min(left, finalize - 1) if finalize else left)


def _steer_before(journal: Journal, timeline: Timeline, at: Batch) -> Steer | None:
    """Return the steer that came after the rendered timeline, up to batch `at`."""
    between = journal.since(timeline.n, upto=at.n, consistent=True) if at.n > timeline.n else []
    return steer_in(between, timeline.state.steered)


def _count(meter: Meter, decision: Decided, *, cut: bool) -> None:
    meter.count(ROUNDS_DECIDED)
    meter.count(STEERS, cut)
    meter.count(DECISIONS_REJECTED, not (cut or decision.accepted or decision.declined))
    count_usage(meter, decision.cost)
    if decision.bust is not None:
        meter.count(CACHE_BUSTS, reason=decision.bust.reason)


def settle_decision(decision: Decided, state: State, policy: Policy, timeline: Timeline) -> Decided:
    """Return the decision to record: one that cannot be tried again becomes an exit.

    A declined decision is returned unchanged. The exit's answer is the text shown to the user, or else a status answer.
    A turn without an accepted decision has nothing to report and gets neither: Close ends it with an error.
    """
    if decision.declined:
        return decision
    left = finalize_left(timeline)
    decision = _settle_final(decision, left)
    if decision.accepted or left:
        return decision
    last = state.cursor.iteration + 1 >= policy.max_iterations + state.credits
    spent = state.round_retries >= policy.round_retries or state.turn_retries >= policy.turn_retries
    if not last and not spent:
        return decision
    final = replace(decision, accepted=True, action="exit", actions=())
    if decision.answer:
        return final
    cause: Cause = "max_iterations" if last else "violations"
    entries = [entry for _, entry in timeline.entries]
    if not any(isinstance(entry, Decided) and entry.accepted for entry in entries):
        return replace(final, ended="violations")
    answer = status_answer(entries, timeline.plans.values(), turn=state.turn, cause=cause)
    return replace(final, answer=answer, ended=cause)


def _settle_final(decision: Decided, left: int) -> Decided:
    """Return the decision of a finalizing turn: in its last round anything but an answer becomes one.

    `left` counts the remaining rounds, including this one; 0 if the turn is not bounded.
    """
    if left != 1 or (decision.accepted and decision.action != "call_tool"):
        return decision
    return replace(
        decision,
        accepted=True,
        action="complete",
        actions=(),
        answer=decision.answer or STOPPED,
        ended="steer",
    )


def _after(attempt: Attempt, state: State, n: int, decision: Decided, rendered: int) -> State:
    if decision.accepted:
        runs = attempt.agent.registry.runs_program
        programs = [number for number, action in enumerate(decision.actions, 1) if runs(action)]
        return decided(
            state,
            n,
            rendered=rendered,
            actions=len(decision.actions),
            executes=programs[-1] if programs else 0,
            ends=decision.action != "call_tool",
        )
    if decision.declined is None:
        return rejected(state, n, rendered=rendered)
    return declined(state, n, rendered=rendered, fallback=decision.declined.fallback)


FORCED_MAX: Final = 3
"""Maximum retries with a smaller request after ContextLimit."""


class TimelineRounds:
    """The layout that shows the timeline (`RoundLayout`)."""

    def tend(self, attempt: Attempt, timeline: Timeline) -> Timeline | Step:
        """Prune older turns once the cache is dead, and make room if the request may not fit."""
        rules = attempt.ports.policy.context
        pruned = plan_pruning(timeline, attempt.ports.clock.now(), rules)
        if pruned is not None:
            logger.info(
                "timeline pruned",
                extra={"cause": pruned.cause, "before": pruned.before_tokens, "after": pruned.after_tokens},
            )
            moved = attempt.amend(timeline, pruned)
            if isinstance(moved, Step):
                return moved
            timeline = moved
        fixed_bytes = byte_length(attempt.agent.system) + media_bytes(timeline.media, rules)
        if timeline.compaction.pending is None and surely_fits(timeline, fixed_bytes, rules.budget):
            return timeline
        return _make_room(attempt, timeline)

    def pose(self, attempt: Attempt, timeline: Timeline, context: ToolContext) -> Posed:
        ports, agent = attempt.ports, attempt.agent
        facts = round_facts(ports, agent, timeline, attempt.step, now=context.ts)
        return Posed(request=build_model_request(ports, agent, timeline, facts), facts=facts)

    def shrink(self, attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline | Step] | None:
        made = _make_room(attempt, timeline, forced=True)
        grown = isinstance(made, Timeline) and made.parts.size >= timeline.parts.size
        return None if grown else (attempt, made)

    def has_files(self, timeline: Timeline) -> bool:
        return bool(timeline.media)


def _make_room(attempt: Attempt, timeline: Timeline, *, forced: bool = False) -> Timeline | Step:
    from stepline.loop.make_room import make_room  # noqa: PLC0415 - most rounds are far below their budget

    return make_room(attempt, timeline, forced=forced)


def _round_layout(agent: Agent) -> RoundLayout:
    if agent.layout.shows_timeline:
        return TimelineRounds()
    from stepline.loop.staging.ask_journal import JournalRounds  # noqa: PLC0415 - most agents have the other layout

    return JournalRounds()


def sample_fitting(
    attempt: Attempt, timeline: Timeline, sampler: Sampler | None
) -> tuple[Timeline, Sample] | Timeline | Step:
    """Prepare the context and sample, with a smaller request as long as the provider finds it too large.

    A refused request is sent again without its pictures and documents: one of them may be the reason.
    Return the rendered timeline and its sample, or the step to go to; or only a timeline, if it holds a steer that
    arrived before any output of the model. Raises the errors of the sampler and of `RoundLayout.tend`; ContextLimit if
    the request cannot be made small enough.
    """
    layout = _round_layout(attempt.agent)
    sampler = sampler or partial(sample, layout=layout)
    tended = layout.tend(attempt, timeline)
    for left in reversed(range(FORCED_MAX + 1)):
        if isinstance(tended, Step) or steer_of(tended := attempt.caught_up(tended)) is not None:
            return tended
        try:
            return tended, sampler(attempt, tended)
        except SteplineError as error:
            if error.context.get("shown_chars"):
                raise  # text was shown under this claim: the next attempt streams under its own
            newer = attempt.caught_up(tended)
            if steer_of(newer) is not None:
                logger.warning("call failed while the user steered", extra={"code": error.reason})
                return newer
            if not left or not isinstance(error, ContextLimit | ModelRefused):
                raise
            if not attempt.bare and layout.has_files(newer):
                logger.warning("a request with files was refused", extra={"code": error.reason})
                attempt = dataclasses.replace(attempt, bare=True)
                continue
            if isinstance(error, ModelRefused):
                raise
            logger.warning("the provider found a request too large", extra={"code": error.reason})
            smaller = layout.shrink(attempt, tended)
            if smaller is None:
                raise
            attempt, tended = smaller
    return tended
