"""Tending: what a round does to the context before it asks the model, so that the request is cheap and fits.

    the cache is dead      → older turns are pruned; nothing that is cached is lost by it

Every reduction is a batch of its own, put under the round's claim before the request that shows it: whoever folds
the log reads the same text.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stepline.loop.effect import publish
from stepline.loop.guard import check_claim, ended, onward, standing
from stepline.loop.journal import Draft, Journal
from stepline.loop.port import Ports
from stepline.model.batch import Batch
from stepline.model.entry import Entry
from stepline.model.step import Step
from stepline.timeline.fold import Timeline
from stepline.timeline.pruning import plan_pruning

if TYPE_CHECKING:
    from stepline.loop.decide import Mind

logger = logging.getLogger(__name__)


def tend(
    ports: Ports, mind: Mind, journal: Journal, step: Step, timeline: Timeline, *, claim: int
) -> Timeline | Step:
    """Make the context ready for a request; return the timeline to render, or the step to go to if the round is not ours.

    Raises:
        Fenced: another attempt owns the round.
    """
    pruned = plan_pruning(timeline, ports.clock.now(), ports.policy.context)
    if pruned is None:
        return timeline
    logger.info(
        "timeline pruned",
        extra={"cause": pruned.cause, "before": pruned.before_tokens, "after": pruned.after_tokens},
    )
    return put_reduction(ports, mind, journal, step, timeline, pruned, claim=claim)


def put_reduction(
    ports: Ports, mind: Mind, journal: Journal, step: Step, timeline: Timeline, *entries: Entry, claim: int
) -> Timeline | Step:
    """Put entries that change nothing but what the model reads, while the round and the claim are ours.

    Return the timeline behind them, or the step to go to.
    """

    def plan(at: Batch) -> Draft | Step:
        where = standing(at.state, step, "decide")
        if where != "mine":
            return ended(step, "stop") if where == "stop" else onward(step, at.state)
        check_claim(at.state, claim)
        return Draft(entries=entries, state=at.state)

    batch = journal.commit(plan, tail=timeline.tail)
    if not isinstance(batch, Batch):
        return batch
    publish(ports, journal.lane, batch)
    return mind.history.follow(journal, batch)
