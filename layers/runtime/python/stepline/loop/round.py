"""A claimed round: who may put what the model reads differently from here on, before it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepline.loop.effect import publish
from stepline.loop.guard import check_claim, ended, onward, standing
from stepline.loop.journal import Draft, Journal
from stepline.loop.port import Ports
from stepline.loop.transition import titled
from stepline.metrics import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS
from stepline.model.batch import Batch
from stepline.model.entry import Entry, Titled
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.ports.meter import Meter
from stepline.timeline.fold import Timeline

if TYPE_CHECKING:
    from stepline.loop.decide import Mind

NOTHING = Usage()


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round and the claim by which one attempt holds it."""

    ports: Ports
    mind: Mind
    journal: Journal
    step: Step
    claim: int

    def amend(self, timeline: Timeline, *entries: Entry, usage: Usage = NOTHING) -> Timeline | Step:
        """Put entries that change what is read of the conversation and nothing else, while round and claim are ours.

        `usage` is what they cost. Return the timeline behind them, or the step to go to.

        Raises:
            Fenced: another attempt owns the round.
        """

        def plan(at: Batch) -> Draft | Step:
            where = standing(at.state, self.step, "decide")
            if where != "mine":
                return ended(self.step, "stop") if where == "stop" else onward(self.step, at.state)
            check_claim(at.state, self.claim)
            state = replace(
                at.state,
                input_tokens=at.state.input_tokens + usage.prompt_tokens,
                output_tokens=at.state.output_tokens + usage.output_tokens,
            )
            if any(isinstance(entry, Titled) for entry in entries):
                state = titled(state, at.n + 1)
            return Draft(entries=entries, state=state)

        batch = self.journal.commit(plan, tail=timeline.tail)
        if not isinstance(batch, Batch):
            return batch
        publish(self.ports, self.journal.lane, batch)
        count_usage(self.ports.meter, usage)
        return self.mind.history.follow(self.journal, batch)


def count_usage(meter: Meter, usage: Usage) -> None:
    """Count what a recorded call of a model consumed."""
    meter.count(INPUT_TOKENS, usage.prompt_tokens)
    meter.count(CACHED_TOKENS, usage.cache_read_tokens)
    meter.count(OUTPUT_TOKENS, usage.output_tokens)
