"""Make room: reduce a request that outgrew the budget, or that the provider refused as too large.

    estimate → needed reduction → Pruned                               results as stubs, turns as cards
                                → Compacting → a model is asked → Compacted    turns and rounds as summaries
                                → Compacted                            the same in the runtime's own words

Each is a separate batch under the round's claim. An attempt that takes the round over finds these batches and
continues from there: a compaction never begins twice. Each time room is made, a model is asked at most once, and
not at all if the previous summary did not shorten the request.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from stepline.context.compaction import Need, Outline, measure_need, plan_room, trial
from stepline.context.estimate import estimate_request
from stepline.log.bindings import Ports
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.stream_generation import build_model_request, round_facts, weigh_overhead
from stepline.loop.summarise import Words, own_summaries, summarise
from stepline.metrics import COMPACTIONS, COMPACTIONS_SKIPPED
from stepline.model.entry import Compacted, Compacting, Pruned
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.timeline.compacted import give_up
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

PASSES_MAX: Final = 4
"""Maximum steps in one round; more than one only if something arrived in between."""
WORDS_BYTES: Final = 800
"""A summary with less room than this is written without a model."""


def make_room(attempt: Attempt, timeline: Timeline, *, forced: bool = False) -> Timeline | Step:
    """Make the request fit, or smaller if `forced`; return the timeline to render, or the step to go to.

    Raises:
        Fenced: another attempt owns the round.
        ModelOverloaded, ModelRateLimited: no summary is available now; the round waits.
        DependencyError: the same, but the state machine tries again.
    """
    asks = True
    for _ in range(PASSES_MAX):
        need = _need(attempt, timeline, forced=forced)
        rung = plan_room(timeline, need, attempt.ports.policy.context) if need else None
        if need is None or rung is None:
            break
        forced = False
        logger.info(
            "room is made",
            extra={"before": need.before_tokens, "after": after(rung), "step": type(rung).__name__},
        )
        if isinstance(rung, Pruned):
            moved = attempt.amend(timeline, rung)
        else:
            moved = _compact(attempt, timeline, rung, need, asks=asks)
            asks = False
        if isinstance(moved, Step):
            return moved
        if isinstance(rung, Outline) and moved.compaction.status != "completed":
            return moved
        timeline = moved
    return settle_pending(attempt, timeline)


def after(rung: Pruned | Outline) -> int:
    """Return the estimated tokens of the request after this step."""
    return rung.after_tokens if isinstance(rung, Pruned) else rung.entry.after_tokens


def _need(attempt: Attempt, timeline: Timeline, *, forced: bool) -> Need | None:
    """Return the reduction that the request needs; None if it fits."""
    rules, agent = attempt.ports.policy.context, attempt.agent
    overhead = _overhead(attempt.ports, agent, timeline, attempt.step)
    before = estimate_request(timeline, overhead)
    if before <= rules.budget and not forced:
        return None
    at = utc(attempt.ports.clock.now())
    return measure_need(timeline, rules, overhead_bytes=overhead, before_tokens=before, at=at, forced=forced)


def _overhead(ports: Ports, agent: Agent, timeline: Timeline, step: Step) -> int:
    """Return the bytes of the next request beside its timeline."""
    facts = round_facts(ports, agent, timeline, step, now=utc(ports.clock.now()))
    return weigh_overhead(timeline, build_model_request(ports, agent, timeline, facts))


def _compact(
    attempt: Attempt, timeline: Timeline, outline: Outline, need: Need, *, asks: bool
) -> Timeline | Step:
    agent, pending = attempt.agent, timeline.compaction.pending
    entry = replace(outline.entry, id=pending.id) if pending else outline.entry
    if asks and not timeline.compaction.wasted and _has_words_for(agent, outline):
        begun = timeline if pending else attempt.amend(timeline, _beginning(entry))
        if isinstance(begun, Step):
            return begun
        timeline = begun
        budget = int(need.max_tokens / need.gauge.tokens_per_byte)
        words = summarise(attempt, timeline, outline, budget_bytes=budget)
    else:
        words = replace(own_summaries(timeline, outline), reason="not_asked")
    ended = _ending(timeline, entry, words, need, at=utc(attempt.ports.clock.now()))
    if ended.status != "completed" and words.usage is not None:
        own_words = replace(own_summaries(timeline, outline), usage=words.usage, reason=ended.reason)
        ended = _ending(timeline, entry, own_words, need, at=ended.at)
    return _put(attempt, timeline, ended)


def _has_words_for(agent: Agent, outline: Outline) -> bool:
    """Return True if this compaction has room for a summary that the agent has instructions for."""
    texts = agent.summariser
    sizes = (bool(texts.summary) * outline.memory_bytes, bool(texts.prefix) * outline.checkpoint_bytes)
    return max(sizes) >= WORDS_BYTES


def _beginning(entry: Compacted) -> Compacting:
    return Compacting(
        id=entry.id,
        turn=entry.turn,
        at=entry.at,
        scope=entry.scope,
        trigger=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
    )


def _ending(timeline: Timeline, entry: Compacted, words: Words, need: Need, *, at: str) -> Compacted:
    """Return the end of a compaction: completed if its texts shorten the request, else skipped or failed."""
    ended = replace(
        entry,
        at=at,
        summary=words.summary,
        checkpoint=words.checkpoint,
        reason=words.reason,
        usage=words.usage,
    )
    size = trial(timeline, ended).parts.size
    if size < timeline.parts.size:
        return replace(ended, after_tokens=need.gauge.tokens(size))
    return replace(
        ended,
        status="error" if words.reason else "skipped",
        reason=words.reason or "no_visible_token_reduction",
        summary="",
        checkpoint="",
        after_tokens=entry.before_tokens,
    )


def _put(attempt: Attempt, timeline: Timeline, ended: Compacted) -> Timeline | Step:
    usage, meter = ended.usage or Usage(), attempt.ports.meter
    moved = attempt.amend(timeline, ended, usage=usage)
    if isinstance(moved, Timeline):
        meter.count(COMPACTIONS)
        meter.count(COMPACTIONS_SKIPPED, ended.status != "completed")
        logger.info("compaction ended", extra={"status": ended.status, "reason": ended.reason})
    return moved


def settle_pending(attempt: Attempt, timeline: Timeline) -> Timeline | Step:
    """End a pending compaction that is no longer needed."""
    pending = timeline.compaction.pending
    if pending is None:
        return timeline
    at = utc(attempt.ports.clock.now())
    return _put(attempt, timeline, give_up(pending, at, status="skipped", reason="not_needed"))
