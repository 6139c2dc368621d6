"""The request of a round in the layout `journal`, and the facts from which the log reproduces it.

The facts of the round go into the log, and staged contents are stored beside it, because a skill or a file may change
later. A cache promises the tokens that the next request shares with this one: those of the blocks A and B, as long as
nothing is staged in B and the request has no wrap-up block.
Source: docs/concepts/journal.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

from msgspec.structs import replace

from stepline.context.journal.render_journal import render_journal
from stepline.context.journal.staged import JournalText, Staged
from stepline.context.media import tokens_to_bytes
from stepline.log.bindings import Ports
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.staging.materialise import encode_staged, last_decision, materialise
from stepline.loop.steer import finalize_tokens
from stepline.loop.stream_generation import Posed, round_facts
from stepline.model.decision import RoundFacts, Sent
from stepline.model.ids import Lane
from stepline.model.path import out_key
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.model.version import JOURNAL
from stepline.ports.artifacts import Artifacts
from stepline.ports.model import Content, ModelRequest, Part
from stepline.rendering.piece import byte_length
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext

MIME = "application/json"


@dataclass(frozen=True, kw_only=True)
class JournalPosed(Posed):
    """The request of a round, with all its ingredients but no bytes of files."""

    staged: Staged

    def keep(self, artifacts: Artifacts, lane: Lane, turn: str) -> str:
        body = encode_staged(self.staged)
        if not body:
            return ""
        digest = hashlib.sha256(body).hexdigest()
        artifacts.put(out_key(lane, turn, digest), body, mime=MIME)
        return digest

    def overhead_bytes(self, timeline: Timeline, sent: ModelRequest) -> int:
        return 0

    def record(self, sent: Sent, usage: Usage | None, *, staged: str) -> Sent:
        return replace(
            sent,
            layout=JOURNAL.name,
            staged=staged,
            promised_tokens=self.promise(usage),
        )

    def promise(self, usage: Usage | None) -> int:
        """Return how many of the tokens that a provider counted are the beginning of the next request."""
        system = self.request.system
        kept = 1 if self.staged.skills or self.facts.last_round else 2
        lasting = next((count for count in range(kept, 0, -1) if system[count - 1].cache), 0)
        whole = sum(map(_size, (*system, *self.request.content)))
        if usage is None or usage.estimated or not whole:
            return 0
        return int(usage.prompt_tokens * sum(map(_size, system[:lasting])) / whole)


def _size(part: Content) -> int:
    return byte_length(part.text) if isinstance(part, Part) else tokens_to_bytes(part.tokens)


class JournalRounds:
    """The layout that shows a digest (`RoundLayout`): it always fits, and needs no batches in the log."""

    def tend(self, attempt: Attempt, timeline: Timeline) -> Timeline | Step:
        """End a compaction that began in the other layout; none begins in this one."""
        if timeline.compaction.pending is None:
            return timeline
        from stepline.loop.make_room import settle_pending  # noqa: PLC0415 - few conversations change their layout

        return settle_pending(attempt, timeline)

    def pose(self, attempt: Attempt, timeline: Timeline, context: ToolContext) -> JournalPosed:
        staged = materialise(timeline, context)
        facts = _journal_facts(attempt, timeline, context.ts)
        request = _render_request(attempt.ports, attempt.agent, timeline, facts, staged)
        return JournalPosed(request=request, facts=facts, staged=staged)

    def shrink(self, attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline | Step] | None:
        """Lower the budget of the digest."""
        return dataclasses.replace(attempt, narrowed=attempt.narrowed + 1), timeline

    def has_files(self, timeline: Timeline) -> bool:
        before, turn = last_decision(timeline), timeline.current
        if before is not None and before.show_artifacts:
            return True
        return turn is not None and any(block.type == ATTACHMENT for block in timeline.turn_blocks(turn.id))


def _journal_facts(attempt: Attempt, timeline: Timeline, now: str) -> RoundFacts:
    """Return the facts of this round, with the limit of its request."""
    rules = attempt.ports.policy.context
    facts = round_facts(attempt.ports, attempt.agent, timeline, attempt.step, now=now)
    return replace(facts, budget_tokens=int(rules.budget * rules.target**attempt.narrowed))


def _render_request(
    ports: Ports, agent: Agent, timeline: Timeline, facts: RoundFacts, staged: Staged
) -> ModelRequest:
    """Return the request with these facts and contents: a pure function of them and of the timeline."""
    rendered = render_journal(
        timeline,
        text=JournalText.unpack(agent.system),
        skills=staged.skills,
        shown=staged.shown,
        media=staged.media,
        facts=facts,
        minimum_tokens=ports.policy.context.cache_minimum_tokens,
    )
    most = finalize_tokens(ports.policy, agent.max_tokens) if facts.finalize else agent.max_tokens
    return ModelRequest(
        role=agent.role,
        system=rendered.system,
        content=rendered.content,
        max_tokens=most,
        temperature=agent.temperature,
        declined=timeline.state.declined > 0,
    )
