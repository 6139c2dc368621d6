"""A claimed round: who may put what the model reads differently from here on, before it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.log.bindings import Ports
from stepline.log.fence import check_claim, ended, onward, standing
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History
from stepline.log.transition import steered, titled
from stepline.loop.agent import Agent
from stepline.metrics import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS
from stepline.model.batch import Batch
from stepline.model.entry import Entry, Steered, Titled
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.ports.clock import Meter
from stepline.ports.model import Completion, ModelClient, ModelRequest
from stepline.ports.signal import NeverSteered, Watch
from stepline.timeline.fold import Timeline

NOTHING = Usage()


@dataclass(frozen=True, kw_only=True)
class Mind:
    """The agent of a round, the model that speaks for it, and the timelines this process has cached.

    `sampler` takes the place of `stepline.loop.stream_generation.sample`.
    """

    agent: Agent
    model: ModelClient
    history: History
    sampler: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round and the claim by which one attempt holds it. `watch` says whether what it asks of models is to end early."""

    ports: Ports
    mind: Mind
    journal: Journal
    step: Step
    claim: int
    watch: Watch = field(default_factory=NeverSteered)

    def now(self) -> str:
        """Return the time, as the log has it."""
        return utc(self.ports.clock.now())

    def caught_up(self, timeline: Timeline) -> Timeline:
        """Return the timeline with the steer in it, if one came since."""
        if self.watch.steer() <= timeline.n:
            return timeline
        return self.mind.history.load(self.journal, segment=self.step.segment, consistent=True)

    def amend(self, timeline: Timeline, *entries: Entry, usage: Usage = NOTHING) -> Timeline | Step:
        """Put entries that change what is read of the conversation and nothing else, while round and claim are ours.

        `usage` is what they cost. Return the timeline behind them, or the step to go to.

        Raises:
            Fenced: another attempt owns the round.
        """

        def plan(at: Batch) -> Draft | Batch | Step:
            where = standing(at.state, self.step, "decide")
            if where != "mine":
                return ended(self.step, "stop") if where == "stop" else onward(self.step, at.state)
            check_claim(at.state, self.claim)
            if any(isinstance(entry, Steered) and entry.n <= at.state.steered for entry in entries):
                return at  # it stands there already: put by ourselves, and the answer was lost
            state = replace(
                at.state,
                input_tokens=at.state.input_tokens + usage.prompt_tokens,
                output_tokens=at.state.output_tokens + usage.output_tokens,
            )
            if any(isinstance(entry, Titled) for entry in entries):
                state = titled(state, at.n + 1)
            for entry in entries:
                if isinstance(entry, Steered):
                    state = steered(state, entry.n, finalize=entry.finalize)
            return Draft(entries=entries, state=state)

        batch: Batch | Step = self.journal.commit(plan, tail=timeline.tail)
        if isinstance(batch, Step):
            return batch
        publish(self.ports, self.journal.lane, batch)
        count_usage(self.ports.meter, usage)
        return self.mind.history.follow(self.journal, batch)


def ask_whole(model: ModelClient, request: ModelRequest, watch: Watch) -> Completion:
    """Ask a model for a text that nobody follows while it comes, and end that early if the user steers.

    Raises what `ModelStream` raises.
    """
    with model.stream(request) as running, watch.calling(running.abort):
        for _ in running:
            if watch.requested:
                running.abort()
        return running.completion()


def count_usage(meter: Meter, usage: Usage) -> None:
    """Count what a recorded call of a model consumed."""
    meter.count(INPUT_TOKENS, usage.prompt_tokens)
    meter.count(CACHED_TOKENS, usage.cache_read_tokens)
    meter.count(OUTPUT_TOKENS, usage.output_tokens)
