"""One sample of the model: ask, parse the stream, show it to the listeners as it arrives, and validate it.

The call is ended early when no further output can count: when the user steers, when the generation begins with
anything but its thinking, and when it contains a decision that no round has room for. A call that fails after an
answer was shown completely is a success: a second call would give the user another answer. If the model declines,
its text is void; the role's fallback, if there is one, answers the rest of the turn.

Text goes to its lanes in the stream of the claim, lane metadata to the control lane. The control lane holds one JSON
object per line, so it is stored, sent and resumed by character offset like every other lane. A lane's line is sent
before its text.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.context.announce import (
    CONSTRAINT_CHARS,
    CONSTRAINTS_SHOWN,
    Saved,
    announce,
    render_pool,
    show_workspace,
)
from stepline.context.bust import find_bust
from stepline.context.media import render_media, tokens_to_bytes
from stepline.context.request import (
    digest_request,
    digest_system,
    has_files,
    locate_files,
    render,
    spell_files,
)
from stepline.errors import DependencyError, SteplineError
from stepline.log.bindings import Ports
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.referred_content import References
from stepline.loop.steer import finalize_left, finalize_tokens, finalize_tools
from stepline.metrics import FIRST_DELTA_MS
from stepline.model.decision import Action, Notice, ParsedDecision, RoundFacts, Sent, shorten_digest
from stepline.model.entry import Decided
from stepline.model.ids import Lane, call_id, utc
from stepline.model.plan_steps import Plan
from stepline.model.source import Citation
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.model.wire.event import CONTROL_LANE
from stepline.ports.artifacts import Artifacts
from stepline.ports.clock import Clock
from stepline.ports.model import Completion, Content, Media, ModelRequest, ModelStream, Part
from stepline.ports.relay import RelayStream
from stepline.protocol.citation.citation_stream import Cited, citable, cite
from stepline.protocol.citation.token import UNREADABLE_SID
from stepline.protocol.decision.notice import make_notice, unsaved_notices
from stepline.protocol.decision.read import RoundVerdict, read_decision, thoughts
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.decision.shape import PrefixGuard
from stepline.protocol.decision.staging import name_artifact
from stepline.protocol.parser.channel_parser import (
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    Text,
    Transcript,
)
from stepline.protocol.parser.grammar import CODE, THINKING
from stepline.protocol.stream.lane import AbortReason, LaneEvent, LanePiece
from stepline.protocol.stream.show import Show
from stepline.rendering.piece import byte_length, text_bytes
from stepline.rendering.quote import clip
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext
from stepline.tools.plan import apply_acks, parse_acks

logger = logging.getLogger(__name__)

_NO_CALL = Action(call_id="", tool_id="", params={})
UNHEARD = RoundVerdict(accepted=False)
"""The verdict on a generation that was cut off, or in which the model declined."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The result of one model call, before it is in the log. A steer may have cut the decision off.

    `shown` is the part of the answer that the user saw, `raw` the model's whole text; `sources` are those that it
    could cite.
    """

    decision: Decided
    shown: str = ""
    raw: str = ""
    sources: Mapping[int, Citation] = field(default_factory=dict)


Sampler: TypeAlias = Callable[[Attempt, Timeline], Sample]


@dataclass(frozen=True, kw_only=True)
class Posed:
    """The request of a round that shows the timeline, without the bytes of its files; other layouts override it."""

    request: ModelRequest
    facts: RoundFacts

    def keep(self, artifacts: Artifacts, lane: Lane, turn: str) -> str:
        """Store staged contents, before the log names them; return their SHA-256, or "". Raises DependencyError."""
        return ""

    def overhead_bytes(self, timeline: Timeline, sent: ModelRequest) -> int:
        """Return the bytes of the request `sent` without its timeline."""
        return weigh_overhead(timeline, sent)

    def record(self, sent: Sent, usage: Usage | None, *, staged: str) -> Sent:
        """Return the facts about the request with those of its layout; `staged` is the result of `keep`."""
        return sent


class RoundLayout(Protocol):
    """A layout of the requests in the rounds of a turn."""

    def tend(self, attempt: Attempt, timeline: Timeline) -> Timeline | Step:
        """Prepare the context for a request; return the timeline to render, or the step to go to.

        Raises Fenced; and if no summary is available now, ModelOverloaded, ModelRateLimited, DependencyError.
        """
        ...

    def pose(self, attempt: Attempt, timeline: Timeline, context: ToolContext) -> Posed:
        """Return the request of a round, made at the time of `context`. Raises DependencyError."""
        ...

    def shrink(self, attempt: Attempt, timeline: Timeline) -> tuple[Attempt, Timeline | Step] | None:
        """Return the attempt and the timeline, or step, of a smaller request; None if it cannot shrink."""
        ...

    def has_files(self, timeline: Timeline) -> bool:
        """Return True if a request of this timeline may have pictures or documents."""
        ...


def sample(attempt: Attempt, timeline: Timeline, *, layout: RoundLayout) -> Sample:
    """Ask the model for this round's decision, until it is complete or the attempt's watch sees a steer.

    Raises the errors of `ModelStream`.
    """
    ports, agent, step = attempt.ports, attempt.agent, attempt.step
    began = ports.clock.now()
    context = attempt.context(timeline, _NO_CALL, utc(began))
    posed = layout.pose(attempt, timeline, context)
    request = load_files(posed.request, ports.artifacts, bare=attempt.bare)
    files = tuple(file.why for _, file in locate_files(request))
    request = spell_files(request)
    staged = posed.keep(ports.artifacts, attempt.journal.lane, step.turn)
    references = References(timeline, context)
    rules = dataclasses.replace(
        round_rules(agent, timeline, step, last_round=posed.facts.last_round), refer=references.refer
    )
    heard = listen(attempt, request, rules, began=began)
    void = heard.steered or heard.completion.declined is not None
    verdict = UNHEARD if void else _pinned(_judge(heard, rules), references, agent)
    if heard.steered:
        verdict = replace(verdict, thinking=thoughts(heard.transcript))
    decision = _record(ports, timeline, step, verdict, heard, began=began, sources=rules.sources)
    decision = _measured(ports, agent, timeline, decision, began=began)
    sent = _sent(request, posed.facts, ports.policy.context.cache_minimum_tokens, files)
    decision = replace(
        decision,
        notices=(*decision.notices, *unsaved_notices(posed.facts.unsaved)),
        overhead_bytes=posed.overhead_bytes(timeline, request),
        sent=posed.record(sent, decision.usage, staged=staged),
    )
    result = Sample(decision=decision, shown=heard.answer, raw=heard.completion.text, sources=rules.sources)
    return dataclasses.replace(result, decision=void_decision(result)) if heard.steered else result


def void_decision(result: Sample) -> Decided:
    """Return the record of a generation that a steer made void: the text shown, the cost, and no action."""
    made = result.decision
    if made.interrupted:
        return made
    cited = cite(result.sources, (result.shown,))
    return Decided(
        iteration=made.iteration,
        claim=made.claim,
        action="exit",
        started_at=made.started_at,
        accepted=False,
        thinking=made.thinking,
        thinking_ms=made.thinking_ms,
        answer=result.shown,
        raw=result.raw,
        interrupted=True,
        stop_reason=made.stop_reason,
        model=made.model,
        usage=made.usage,
        citations=cited.citations,
        unresolved=cited.unresolved,
        system=made.system,
        bust=made.bust,
        overhead_bytes=made.overhead_bytes,
        sent=made.sent,
    )


def _sent(request: ModelRequest, facts: RoundFacts, minimum_tokens: int, files: tuple[str, ...]) -> Sent:
    """Return the facts from which the log renders the request again."""
    return Sent(
        digest=shorten_digest(digest_request(request)),
        round_facts=facts.without_decided(),
        max_tokens=request.max_tokens,
        minimum_tokens=minimum_tokens,
        temperature=request.temperature,
        files=files,
    )


def _judge(heard: Heard, rules: RoundRules) -> RoundVerdict:
    return read_decision(
        heard.transcript, rules, stop_reason=heard.completion.stop_reason, streamed_answer=heard.answer
    )


def _pinned(verdict: RoundVerdict, references: References, agent: Agent) -> RoundVerdict:
    """Return the verdict with the contents that its actions refer to pinned."""
    if not references.found:
        return verdict
    actions = tuple(
        references.pin(action, runs_code=agent.tools[action.tool_id].runs_code) for action in verdict.actions
    )
    return replace(verdict, actions=actions)


def is_last_round(ports: Ports, timeline: Timeline, step: Step) -> bool:
    """Return True if this round is reserved for an answer."""
    spent = step.iteration + 1 >= ports.policy.max_iterations + timeline.state.credits
    return spent or finalize_left(timeline) == 1


def round_rules(agent: Agent, timeline: Timeline, step: Step, *, last_round: bool) -> RoundRules:
    """Return the rules of this round, for showing the generation and for validating it."""
    return RoundRules(
        tools=agent.tools,
        allowed=frozenset(finalize_tools(agent)) if finalize_left(timeline) else agent.callable_ids,
        call_id=lambda index: call_id(step.turn, step.iteration, index),
        turn=step.turn,
        iteration=step.iteration,
        fanout=agent.fanout,
        sources=citable(timeline.sources),
        last_round=last_round,
        strict=agent.strict,
        stage=None
        if agent.layout.shows_timeline
        else partial(name_artifact, namespaces=tuple(agent.resolvers)),
        accept=agent.result.accept if agent.result else None,
    )


def round_facts(ports: Ports, agent: Agent, timeline: Timeline, step: Step, *, now: str) -> RoundFacts:
    """Return the facts of this round that the log does not hold."""
    finalize = finalize_left(timeline)
    saved = saved_project(ports, timeline)
    return RoundFacts(
        now=now,
        iteration=step.iteration,
        max_iterations=ports.policy.max_iterations,
        last_round=is_last_round(ports, timeline, step),
        finalize=finalize,
        finalize_tools=finalize_tools(agent) if finalize else (),
        extra=tuple(clip(line, CONSTRAINT_CHARS) for line in agent.announced()[:CONSTRAINTS_SHOWN]),
        workspace=show_workspace(timeline, saved) if saved else "",
        unsaved=saved.missing if saved and not step.iteration else "",
    )


def build_model_request(ports: Ports, agent: Agent, timeline: Timeline, facts: RoundFacts) -> ModelRequest:
    """Return the request of a round with these facts: a pure function of them and of the timeline."""
    rendered = render(
        timeline,
        system=agent.system,
        minimum_tokens=ports.policy.context.cache_minimum_tokens,
        media=render_media(timeline.media, ports.policy.context),
        sources=render_pool(timeline.sources, timeline.cited),
        announce=announce(timeline, facts),
    )
    return ModelRequest(
        role=agent.role,
        system=rendered.system,
        content=rendered.content,
        max_tokens=finalize_tokens(ports.policy, agent.max_tokens) if facts.finalize else agent.max_tokens,
        temperature=agent.temperature,
        declined=timeline.state.declined > 0,
    )


def saved_project(ports: Ports, timeline: Timeline) -> Saved | None:
    """Return the project's newest version; None where conversations have no git history."""
    if ports.policy.workspace != "git":
        return None
    from stepline.log.versions import newest_version  # noqa: PLC0415 - most deployments keep no histories

    try:
        newest = newest_version(ports.artifacts, timeline)
    except DependencyError as error:
        logger.warning("history not read", extra={"code": error.reason})
        return Saved(readable=False)
    turn = newest.version.turn if newest.version else ""
    return Saved(turn=turn, files=newest.commit.files, missing=newest.missing)


def weigh_overhead(timeline: Timeline, request: ModelRequest) -> int:
    """Return the bytes of a request without its timeline: the parts before it and after it.

    Pictures and documents are counted by their tokens.
    """
    end = timeline.parts.ends[-1] if timeline.parts.ends else 0
    others = (*request.system, *request.content[len(timeline.parts.sealed) :])
    size = sum(
        byte_length(part.text) if isinstance(part, Part) else tokens_to_bytes(part.tokens) for part in others
    )
    return size - text_bytes(timeline.pieces[end:])


def load_files(request: ModelRequest, artifacts: Artifacts, *, bare: bool = False) -> ModelRequest:
    """Return the request with the bytes of its pictures and documents, or with none of them if it is `bare`.

    A file that is gone or has changed is replaced by the reason. Raises DependencyError.
    """
    if not has_files(request):
        return request
    return replace(request, content=tuple([_loaded(part, artifacts, bare=bare) for part in request.content]))


def _loaded(part: Content, artifacts: Artifacts, *, bare: bool) -> Content:
    if isinstance(part, Part) or part.why:
        return part
    data, why = (
        _read(part, artifacts) if not bare else (b"", "the model's provider refused the request with it")
    )
    if why:
        logger.warning("file not attached", extra={"why": why})
    return replace(part, data=b"" if why else data, why=why)


def _read(part: Media, artifacts: Artifacts) -> tuple[bytes, str]:
    """Return the bytes of a file, and why they cannot be sent; "" if they can."""
    data = bytearray()
    try:
        for piece in artifacts.stream(part.body.key):
            data += piece
            if len(data) > part.body.size_bytes:
                break
    except SteplineError as error:
        if error.retryable:
            raise
        # A store that hides missing objects answers that access is denied.
        return b"", "its bytes are gone from the store"
    flaw = hashlib.sha256(data).hexdigest() != part.body.sha256
    return bytes(data), "its bytes are not those that were read" if flaw else ""


def _record(
    ports: Ports,
    timeline: Timeline,
    step: Step,
    verdict: RoundVerdict,
    heard: Heard,
    *,
    began: datetime,
    sources: Mapping[int, Citation],
) -> Decided:
    now = utc(ports.clock.now())
    decision, notes, completion = verdict.decision, verdict.notes, heard.completion
    answer = (decision.final_answer if decision else heard.answer) or ""
    cited = cite(sources, (notes, answer))
    return Decided(
        iteration=step.iteration,
        claim=0,
        action=decision.action if decision else "exit",
        started_at=utc(began),
        accepted=verdict.accepted,
        thinking=verdict.thinking,
        thinking_ms=heard.thinking_ms if verdict.thinking else (),
        code_ms=heard.code_ms if any(action.code for action in verdict.actions) else 0,
        notes=notes,
        actions=verdict.actions,
        answer=answer,
        followups=decision.suggested_followups if decision else (),
        summary=verdict.summary,
        raw="" if verdict.accepted or completion.declined else completion.text,
        generation=completion.text if verdict.accepted and verdict.notices else "",
        notices=(*verdict.notices, *_citation_notices(cited)),
        plan=_acknowledged(timeline, step, verdict, now),
        stop_reason=completion.stop_reason if completion.stop_reason != "end_turn" else "",
        model=completion.model,
        usage=completion.usage,
        citations=cited.citations,
        unresolved=cited.unresolved,
        declined=completion.declined,
        show_artifacts=verdict.show_artifacts,
        show_skills=verdict.show_skills,
        value=_value_text(decision),
    )


def _value_text(decision: ParsedDecision | None) -> str:
    """Return the JSON text of a decision's value, "" without one."""
    value = decision.value if decision else msgspec.UNSET
    return "" if value is msgspec.UNSET else msgspec.json.encode(value).decode()


def _citation_notices(cited: Cited) -> tuple[Notice, ...]:
    if UNREADABLE_SID not in cited.unresolved:
        return ()
    message = (
        "The text counts, but a citation in it could not be read and was left out of what the user sees. "
        "Write [[S:3]], or [[S:1,4-6]] for several, with the numbers of the pool."
    )
    return (make_notice("citation_unreadable", message),)


def _measured(
    ports: Ports, agent: Agent, timeline: Timeline, decision: Decided, *, began: datetime
) -> Decided:
    """Return the decision with its findings about the provider's cache."""
    system = digest_system(agent.system)
    bust = find_bust(
        timeline,
        decision.usage,
        system=system,
        model=decision.model,
        now=began,
        rules=ports.policy.context,
        layout=agent.layout,
    )
    if bust is not None:
        logger.info(
            "cache bust",
            extra={"reason": bust.reason, "expected": bust.expected_tokens, "read": bust.read_tokens},
        )
    return replace(decision, system="" if system == timeline.asked.system else system, bust=bust)


def _acknowledged(timeline: Timeline, step: Step, verdict: RoundVerdict, now: str) -> Plan | None:
    """Return the current plan with the acknowledgements of the notes; None in a round that changes plans."""
    if any(action.tool_id == "react.plan" for action in verdict.actions):
        return None
    current = next((plan for plan in timeline.plans.values() if plan.current and plan.is_open()), None)
    return apply_acks(current, parse_acks(verdict.notes), step.turn, now) if current else None


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A generation as it arrived, and the part of the answer that was shown.

    `stopped` is the code for which we ended the call; the transcript ends where that was found. A call that failed
    after its answer has the stop reason `cut`. `steered`: the user steered before the generation ended.
    `thinking_ms` holds the start and the end of each thinking, `code_ms` the time in which the program was written.
    """

    transcript: Transcript
    completion: Completion
    answer: str = ""
    stopped: str = ""
    steered: bool = False
    thinking_ms: tuple[tuple[int, int], ...] = ()
    code_ms: int = 0


class ChannelTimes:
    """Notes when each channel begins and ends, in milliseconds after `began`."""

    def __init__(self, clock: Clock, began: datetime) -> None:
        self._clock = clock
        self._began = began
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def note(self, events: Iterable[ChannelEvent]) -> None:
        """Note the events of the parser as they arrive."""
        for event in events:
            if type(event) is Text:
                continue
            now = (self._clock.now() - self._began) // timedelta(milliseconds=1)
            spans = self._spans.setdefault(event.channel, [])
            if type(event) is ChannelOpened:
                spans.append((now, now))
            else:
                spans[-1] = (spans[-1][0], now)

    def of(self, channel: str, transcript: Transcript) -> tuple[tuple[int, int], ...]:
        """Return the times of a channel's instances that are not blank."""
        spans, bodies = self._spans.get(channel, []), transcript.bodies(channel)
        return tuple(span for span, body in zip(spans, bodies, strict=False) if body.strip())


def listen(attempt: Attempt, request: ModelRequest, rules: RoundRules, *, began: datetime) -> Heard:
    """Stream one answer through the parser to the listeners, until it ends or a steer is seen.

    Raises the errors of `ModelStream`.
    """
    parser, guard = ChannelParser(), PrefixGuard() if rules.strict else None
    aborted: AbortReason = "provider_error"
    stopped, steered = "", False
    ports, watch = attempt.ports, attempt.watch
    times = ChannelTimes(ports.clock, began)
    with closing(ports.relay.open(attempt.step.lane(), attempt.claim)) as stream:
        show = Show(rules, partial(_push, stream), withheld=ports.outward.lanes)
        try:
            with attempt.asked_beside(stream).stream(request) as running, watch.calling(running.abort):
                try:
                    stopped = _hear(attempt, running, parser, show, guard=guard, times=times)
                except SteplineError as error:
                    shown_chars = len(running.completion().text)
                    steered = watch.requested and shown_chars > 0
                    if not (show.answered or steered):
                        error.context["shown_chars"] = shown_chars
                        attempt.lost.append(running.completion().cost)
                        raise
                    logger.warning("call failed when it had done its work", extra={"code": error.reason})
                else:
                    aborted = "policy" if stopped or running.completion().declined else ""
                completion = running.completion()
                attempt.lost.append(completion.lost)
            if not stopped and completion.aborted:
                steered = True
            if steered:
                aborted = "cancelled"
        finally:
            rest = parser.close(aborted or "eof")
            times.note(rest)
            if guard is None or not guard.violation:  # else the text held back is void, like the rest
                show.show(rest)
            show.close(aborted)
        stream.settle()
    transcript = parser.transcript()
    return Heard(
        transcript=transcript,
        completion=completion,
        answer=show.answer,
        stopped=stopped,
        steered=steered,
        thinking_ms=times.of(THINKING.name, transcript),
        code_ms=sum(end - start for start, end in times.of(CODE.name, transcript)),
    )


def _hear(
    attempt: Attempt,
    running: ModelStream,
    parser: ChannelParser,
    show: Show,
    *,
    guard: PrefixGuard | None,
    times: ChannelTimes,
) -> str:
    """Follow the stream to its end; return the code for which we ended it, "" if we did not.

    A steer has no code.
    """
    ports, watch = attempt.ports, attempt.watch
    asked_s, first = ports.clock.monotonic_s(), True
    stopped = ""
    for piece in running:
        if first:
            first = False
            ports.meter.count(FIRST_DELTA_MS, round((ports.clock.monotonic_s() - asked_s) * 1000))
        if stopped or watch.requested:
            running.abort()
            continue  # text in flight when the call was ended
        events = parser.feed(piece)
        times.note(events)
        stopped = guard.feed(piece) if guard else ""
        if not stopped:
            show.show(events)
            stopped = show.cut
        if stopped:
            logger.info("call ended early", extra={"code": stopped})
            running.abort()
    return stopped


def _push(stream: RelayStream, event: LaneEvent) -> None:
    """Send a lane event: a text to its lane, all else to the control lane."""
    if isinstance(event, LanePiece):
        stream.push(event.lane, event.text)
    else:
        stream.push(CONTROL_LANE, msgspec.json.encode(event).decode() + "\n")
