"""One attempt at a step: the dependencies of one invocation of Decide or Act, and its writes under its claim."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.errors import DependencyError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import check_claim, elsewhere
from stepline.log.journal import Draft, Journal
from stepline.log.owned_conversations import OwnedConversations
from stepline.log.transition import epoch_ms, steered, titled
from stepline.metering.metered_model import MeteredModel, Metering
from stepline.metrics import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS
from stepline.model.batch import Batch, State
from stepline.model.decision import Action
from stepline.model.entry import Entry, SteeredEntry, Titled
from stepline.model.ids import utc
from stepline.model.program.execution import ToolEvent
from stepline.model.step import Step
from stepline.model.usage import ModelCall, Usage, sum_usages
from stepline.ports.clock import Meter
from stepline.ports.model import NO_MODEL, Completion, ModelClient, ModelRequest
from stepline.ports.relay import RelayStream
from stepline.ports.signal import NeverCancelled, NeverSteered, SteerWatch
from stepline.tools.context import Store, ToolContext, drop_report
from stepline.tools.sources import SourcePool

if TYPE_CHECKING:
    from stepline.log.timeline_cache import History
    from stepline.loop.agent import Agent
    from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

NOTHING = Usage()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One invocation of Decide or Act: its step, ports and agent.

    `claim` is the batch by which it holds the round; `watch` signals when its current wait should end early.
    `bare`: its requests have no pictures and documents, because the provider refused one with them. `narrowed` counts
    how often the budget of its requests was lowered, in the layout `journal`. Copies of an attempt share `lost`.
    """

    ports: Ports
    agent: Agent
    history: History
    journal: Journal
    step: Step
    model: ModelClient = NO_MODEL
    claim: int = 0
    watch: SteerWatch = field(default_factory=NeverSteered)
    bare: bool = False
    narrowed: int = 0
    lost: list[Usage] = field(default_factory=list)
    """The tokens of its failed calls that no entry has counted yet."""

    def load(self, *, consistent: bool = False) -> Timeline:
        """Return the timeline of the lane; `consistent`: with every batch put before this call."""
        return self.history.load(self.journal, segment=self.step.segment, consistent=consistent)

    def follow(self, batch: Batch) -> Timeline:
        """Return the timeline up to a batch that this attempt has just put."""
        return self.history.follow(self.journal, batch)

    def now(self) -> str:
        """Return the current time in the log's format."""
        return utc(self.ports.clock.now())

    def now_ms(self) -> int:
        """Return the current time as `State.until_ms` counts it."""
        return epoch_ms(self.now())

    def caught_up(self, timeline: Timeline) -> Timeline:
        """Return the timeline, reloaded if a steer has arrived since."""
        if self.watch.steer() <= timeline.n:
            return timeline
        return self.load(consistent=True)

    def amend(self, timeline: Timeline, *entries: Entry, usage: Usage = NOTHING) -> Timeline | Step:
        """Put entries that change only the rendering of the conversation, while this attempt owns round and claim.

        `usage` is their cost. Return the timeline with them, or the step to go to.

        Raises:
            Fenced: another attempt owns the round.
        """

        def plan(at: Batch) -> Draft | Batch | Step:
            if (gone := elsewhere(at.state, self.step, "decide")) is not None:
                return gone
            check_claim(at.state, self.claim)
            if any(isinstance(entry, SteeredEntry) and entry.n <= at.state.steered for entry in entries):
                return at  # already recorded: our own put, whose response was lost
            state = at.state
            put = tuple(self._keep_user_title(entry, at.state) for entry in entries)
            if any(isinstance(entry, Titled) for entry in put):
                state = titled(state, at.n + 1)
            for entry in put:
                if isinstance(entry, SteeredEntry):
                    state = steered(state, entry.n, finalize=entry.finalize)
            return Draft(entries=put, state=state)

        batch: Batch | Step = self.journal.commit(plan, tail=timeline.tail)
        if isinstance(batch, Step):
            return batch
        publish(self.ports, self.journal.lane, batch)
        count_usage(self.ports.meter, usage)
        return self.follow(batch)

    def _keep_user_title(self, entry: Entry, state: State) -> Entry:
        """Return the entry; a title gets the user's text if the user has set one in the meantime."""
        if not (isinstance(entry, Titled) and state.titled):
            return entry
        newest = self.journal.get(state.titled)
        given = newest.entries if newest else ()
        return replace(
            entry, title=next((one.title for one in given if isinstance(one, Titled)), entry.title)
        )

    @property
    def asked(self) -> MeteredModel:
        """The model; its calls are recorded."""
        return MeteredModel(model=self.model, metering=self.metering(self.claim))

    def asked_beside(self, stream: RelayStream) -> MeteredModel:
        """Return the model; the stream of the claim notes its calls, which never blocks."""
        metering = replaced(self.metering(self.claim), note=stream.note)
        return MeteredModel(model=self.model, metering=metering)

    def metering(self, claim: int) -> Metering:
        """Return the recorder of the model calls made under a claim."""

        def note(call: ModelCall) -> None:
            try:
                self.ports.deltas.note(self.journal.lane, claim, call)
            except DependencyError as error:
                logger.warning("call not noted", extra={"code": error.reason})

        return Metering(
            ledger=self.ports.ledger,
            prices=self.ports.policy.prices,
            at=self.now(),
            note=note,
            span=self.ports.span,
        )

    def context(
        self,
        timeline: Timeline,
        action: Action,
        at: str,
        *,
        claim: int = 0,
        report: Callable[[ToolEvent], None] = drop_report,
    ) -> ToolContext:
        """Return the context for the action's tool; only a cancellable tool can be cancelled.

        `claim` is the one under which it runs, if it has its own; `report` sends its reports.
        """
        tools = self.agent.registry
        ends_early = action.tool_id in tools and tools.find(action.tool_id).spec.cancellable
        return ToolContext(
            lane=self.journal.lane,
            turn=self.step.turn,
            call_id=action.call_id,
            iteration=self.step.iteration,
            ts=at,
            artifacts=self.ports.artifacts,
            timeline=timeline,
            report=report,
            layout=self.agent.layout,
            caps=self.agent.caps,
            metering=self.metering(claim or self.claim or timeline.state.claim),
            services=self.agent.services,
            search=self.ports.search,
            pages=self.ports.pages,
            servers=self.ports.servers,
            memory=self.ports.memory,
            conversations=OwnedConversations(
                self.ports, self.history, self.journal.lane, timeline.state.owner
            ),
            sources=SourcePool(timeline.sources),
            shelves=self.agent.shelves,
            user=timeline.state.owner,
            resolvers=self.agent.resolvers,
            rules=self.ports.policy.context,
            cancel=self.watch if ends_early else NeverCancelled(),
            versions=self._versions(timeline),
            grants=self.ports.grants,
            store=Store(
                artifacts=self.ports.artifacts,
                lane=self.journal.lane,
                user=timeline.state.owner,
                bundle=timeline.state.bundle,
            ),
        )

    def _versions(self, timeline: Timeline) -> tuple[str, ...]:
        if self.ports.policy.workspace != "git":
            return ()
        from stepline.log.versions import saved_turns  # noqa: PLC0415 - most deployments keep no histories

        return tuple(saved_turns(timeline))


def ask_whole(model: ModelClient, request: ModelRequest, watch: SteerWatch, lost: list[Usage]) -> Completion:
    """Ask a model for a text that is not streamed to clients; end the call early if the user steers.

    If the model declines, the role's fallback is asked once. Raises the errors of `ModelStream`; the tokens of the
    failed call are then added to `lost`.
    """
    first = _ask(model, request, watch, lost)
    if first.declined is None or not first.declined.fallback:
        return first
    second = _ask(model, replace(request, declined=True), watch, lost)
    return replace(second, usage=sum_usages([first.usage, second.usage]))


def _ask(model: ModelClient, request: ModelRequest, watch: SteerWatch, lost: list[Usage]) -> Completion:
    with model.stream(request) as running, watch.calling(running.abort):
        try:
            for _ in running:
                if watch.requested:
                    running.abort()
        except SteplineError:
            lost.append(running.completion().cost)
            raise
        return running.completion()


def count_usage(meter: Meter, usage: Usage) -> None:
    """Count the usage of a recorded model call."""
    meter.count(INPUT_TOKENS, usage.prompt_tokens)
    meter.count(CACHED_TOKENS, usage.cache_read_tokens)
    meter.count(OUTPUT_TOKENS, usage.output_tokens)
