"""Tending: what a round does to the context before it asks the model, so that the request is cheap and fits.

    the cache is dead       → older turns are pruned; nothing that is cached is lost by it
    the request is too large → room is made, step by step

Every reduction is a batch of its own, put under the round's claim before the request that shows it: whoever folds
the log reads the same text.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

import logging
from typing import Final

from stepline.context.estimate import surely_fits
from stepline.context.pruning import plan_pruning
from stepline.errors import ContextLimit, SteplineError
from stepline.loop.round import Round
from stepline.loop.sample import Sample
from stepline.loop.steer import steer_of
from stepline.model.step import Step
from stepline.rendering.piece import byte_length
from stepline.timeline.fold import Timeline

FORCED_MAX: Final = 3
"""So often a round is made smaller because the provider refused it."""

logger = logging.getLogger(__name__)


def tend(own: Round, timeline: Timeline) -> Timeline | Step:
    """Make the context ready for a request; return the timeline to render, or the step to go to if the round is not ours.

    Raises:
        Fenced: another attempt owns the round.
        ModelOverloaded, ModelRateLimited, DependencyError: no summary for now; the state machine tries again.
    """
    pruned = plan_pruning(timeline, own.ports.clock.now(), own.ports.policy.context)
    if pruned is not None:
        logger.info(
            "timeline pruned",
            extra={"cause": pruned.cause, "before": pruned.before_tokens, "after": pruned.after_tokens},
        )
        moved = own.amend(timeline, pruned)
        if isinstance(moved, Step):
            return moved
        timeline = moved
    system_bytes, budget = byte_length(own.mind.agent.system), own.ports.policy.context.budget
    if timeline.compaction.pending is None and surely_fits(timeline, system_bytes, budget):
        return timeline
    return _make_room(own, timeline)


def _make_room(own: Round, timeline: Timeline, *, forced: bool = False) -> Timeline | Step:
    from stepline.loop.room import make_room  # noqa: PLC0415 - most rounds are far below their budget

    return make_room(own, timeline, forced=forced)


def sample_fitting(own: Round, timeline: Timeline) -> tuple[Timeline, Sample] | Timeline | Step:
    """Tend the context and sample, again with less as long as the provider finds that too large.

    Return the timeline that was rendered and what came of it, or the step to go to; a timeline alone if a steer stands
    in it that came before the model said anything. Raises what the sampler and `tend` raise; ContextLimit if the request
    does not get smaller any more, or not enough.
    """
    tended = tend(own, timeline)
    for left in reversed(range(FORCED_MAX + 1)):
        if isinstance(tended, Step) or steer_of(tended := own.caught_up(tended)) is not None:
            return tended
        try:
            return tended, _sample(own, tended)
        except SteplineError as error:
            if error.context.get("told_chars"):
                raise  # that is shown under this claim: whoever asks again does it under one of its own
            newer = own.caught_up(tended)
            if steer_of(newer) is not None:
                logger.warning("call failed while the user steered", extra={"code": error.reason})
                return newer
            if not left or not isinstance(error, ContextLimit):
                raise
            logger.warning("the provider found a request too large", extra={"code": error.reason})
            smaller = _make_room(own, tended, forced=True)
            if isinstance(smaller, Timeline) and smaller.size >= tended.size:
                raise
            tended = smaller
    return tended


def _sample(own: Round, timeline: Timeline) -> Sample:
    mind = own.mind
    return mind.sampler(
        own.ports, mind.agent, mind.model, timeline, step=own.step, claim=own.claim, watch=own.watch
    )
