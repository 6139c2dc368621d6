"""The replay of one round: its recorded request once more, with another model, effort or system part.

The request is rendered again from the log, the model is asked, and its text is parsed and validated like that of any
round. No batch is put, no tool runs, nothing is sent to subscribers. The row of the replay is claimed once, so an event
that Lambda delivers twice asks the model once.
Source: docs/concepts/time-travel.md#one-round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from stepline.delivery.allowance import HELD_S, Allowance, find_excess, read_allowance
from stepline.delivery.effect import current_step
from stepline.delivery.settle_account import charge_replay
from stepline.errors import ContextLimit, InputError, LimitError, ModelRefused, SteplineError
from stepline.inspection.sent_request import SentRequest, read_staged, read_system, read_upto, render_sent
from stepline.log.journal import Journal, lane_of
from stepline.log.spill import INCOMPLETE, readable
from stepline.loop.attempt import Attempt
from stepline.loop.graph import TASKS
from stepline.loop.mcp.turn_tools import equip
from stepline.loop.stream_generation import Posed, load_files, sample
from stepline.model.ids import Lane, utc
from stepline.model.tenancy.charge import Amount
from stepline.model.tenancy.limits import Excess, limit_sentence
from stepline.model.tenancy.price import dollars
from stepline.model.usage import ModelCall, Usage
from stepline.ports.model import Completion, ModelClient, ModelRequest, ModelStream, Part
from stepline.ports.round_replay import REPLAY_TTL_S, ReplayCall, RoundReplay, RoundReplays
from stepline.timeline.fold import Timeline

if TYPE_CHECKING:
    from stepline.log.bindings import Ports
    from stepline.log.timeline_cache import History
    from stepline.loop.agent import Agent
    from stepline.model.decision import RoundFacts
    from stepline.model.entry import Decided
    from stepline.model.step import Step
    from stepline.tools.context import ToolContext

logger = logging.getLogger(__name__)

RUN_S: Final = next(task.function_timeout_s for task in TASKS if task.function == "decide")
"""How long a replay may run: as long as the function that makes it."""
ROW_MAX_BYTES: Final = 380_000
"""The largest row; DynamoDB takes 400 KB."""
TEXT_MAX_CHARS: Final = 60_000
"""The end of a running text that is shown."""
SHOW_EVERY_S: Final = 2.0
"""The time between two updates of a running text."""
MESSAGE_CHARS: Final = 500
FAILED: Final = "The replay failed. Please try again."


class ChosenModel(NamedTuple):
    """A model, and the name by which its price is found."""

    client: ModelClient
    named: str


ChooseModel = Callable[["Agent", str, str], ChosenModel]
"""Returns the client of a model with an effort; "" is what the agent's role has. Raises ModelRefused, InputError."""


@dataclass(frozen=True, kw_only=True)
class ReplayDesk:
    """The dependencies of replays; `agent` and `choose` are those of the conversation's bundle."""

    ports: Ports
    replays: RoundReplays
    history: History
    agent: Callable[[], Agent]
    choose: ChooseModel


def replay_round(desk: ReplayDesk, call: ReplayCall) -> str:
    """Make a replay and store its result; return its state, "" if it is not waiting to be made. Raises DependencyError."""
    lane, rows, now = call.lane, desk.replays, desk.ports.clock.now()
    asked = rows.get(lane, call.user, call.replay)
    if asked is None or asked.state != "queued" or now >= datetime.fromisoformat(asked.until):
        return ""
    running = replace(asked, state="running", until=utc(now + timedelta(seconds=RUN_S)))
    if not rows.change(lane, call.user, running, was="queued"):
        return ""
    try:
        ended = _Replay(desk, call, running).run()
    except SteplineError as error:
        logger.warning("replay failed", extra={"code": error.reason})
        ended = _failed(running, error.reason, _sentence(error))
    except Exception:
        logger.exception("replay failed")
        ended = _failed(running, SteplineError.code, FAILED)
    if len(msgspec.json.encode(ended)) > ROW_MAX_BYTES:
        ended = _failed(running, "answer_too_large", "The model's answer is too long to be kept.")
    ended = replace(ended, ended_at=utc(desk.ports.clock.now()))
    return ended.state if rows.change(lane, call.user, ended, was="running") else ""


def _failed(replay: RoundReplay, code: str, message: str) -> RoundReplay:
    return replace(replay, state="failed", text="", code=code, message=message)


def _sentence(error: SteplineError) -> str:
    """Return the sentence of a failure: its own, if it is meant for the client."""
    meant = isinstance(error, InputError | LimitError | ModelRefused | ContextLimit)
    return str(error)[:MESSAGE_CHARS] if meant else FAILED


class _Replay:
    """One replay while it runs."""

    def __init__(self, desk: ReplayDesk, call: ReplayCall, row: RoundReplay) -> None:
        self._desk, self._call, self._row = desk, call, row
        self._ports, self._lane = desk.ports, call.lane
        self._asked_s = self._shown_s = 0.0
        self._text = ""
        self._first_ms: int | None = None

    def run(self) -> RoundReplay:
        """Ask the model, and return the row of the result. Raises SteplineError."""
        found = self._render()
        agent = self._desk.agent()
        if agent.servers is not None:
            agent = equip(agent, found.timeline, self._ports.artifacts)
        wish = self._row.wish
        chosen = self._desk.choose(agent, wish.model, wish.effort)
        request = self._change(found, agent)
        allowance = self._hold(request, chosen)
        try:
            decided = self._sample(found, agent, chosen, request)
        finally:
            calls = self._ports.ledger.take_calls()
            self._ports.ledger.beside = calls
            self._settle(calls, allowance)
        priced = all(one.priced for one in calls)
        return replace(
            self._row,
            state="ended",
            text="",
            decided=decided,
            equal=found.equal,
            usd=dollars(sum(one.nanos for one in calls)) if priced else None,
            first_ms=self._first_ms,
        )

    def _render(self) -> SentRequest:
        """Return the request as it was sent. Raises InputError `record_incomplete`, NotFoundError `round_not_found`."""
        journal, n = Journal(self._ports, self._lane, "replay"), self._row.wish.decided_n
        artifacts = self._ports.artifacts
        with readable(f"batch {n} of {self._lane.conversation}"):
            batches = read_upto(journal, n)
            decided, home = batches[-1], lane_of(self._ports.log, self._lane, n)
            return render_sent(
                Timeline.empty(self._lane).extended(batches[: decided.state.rendered]),
                decided,
                system=read_system(artifacts, home, batches),
                staged=read_staged(artifacts, home, decided),
            )

    def _change(self, found: SentRequest, agent: Agent) -> ModelRequest:
        """Return the request with its files and the wished changes. Raises InputError `record_incomplete`."""
        wish, before = self._row.wish, found.request
        request = load_files(before, self._ports.artifacts)
        for old, new in zip(before.content, request.content, strict=True):
            if not isinstance(new, Part) and not isinstance(old, Part) and new.why and not old.why:
                raise InputError(f"a file of the request is gone: {new.why}", code=INCOMPLETE)
        if wish.system:
            marked = bool(before.system) and before.system[-1].cache
            request = replace(request, system=(Part(text=wish.system, cache=marked),))
        return replace(request, role=agent.role, declined=before.declined and not wish.model)

    def _hold(self, request: ModelRequest, chosen: ChosenModel) -> Allowance:
        """Charge the most that the call may use, if a budget applies; its end charges what it used.

        If the process dies, the most stays charged. Raises LimitError, DependencyError.
        """
        ports, lane, user = self._ports, self._lane, self._call.user
        allowance = read_allowance(ports, lane.tenant, lane.project, user)
        if (stopped := allowance.stopped()) is not None:
            raise _limit_error(stopped[0])
        if not allowance.has_budget:
            return allowance
        prompt = sum(part.tokens for part in (*request.system, *request.content))
        usage = Usage(input_tokens=prompt, output_tokens=request.max_tokens)
        nanos = ports.policy.prices.nanos(chosen.named, usage, utc(ports.clock.now())) or 0
        need = Amount(tokens=prompt + request.max_tokens, nanos=nanos)
        if self._charge(need, allowance) == "full":
            excess = find_excess(ports, allowance, need=need)
            if excess is None or excess.code == "limit_storage":  # room has become free since
                excess = Excess(code="limit_tokens", kind="user", window="held", retry_after_s=HELD_S)
            raise _limit_error(excess)
        return allowance

    def _settle(self, calls: tuple[ModelCall, ...], allowance: Allowance) -> None:
        used = Amount(
            tokens=sum(one.usage.prompt_tokens + one.usage.output_tokens for one in calls),
            nanos=sum(one.nanos for one in calls),
        )
        if used or allowance.has_budget:
            self._charge(used, None)

    def _charge(self, amount: Amount, within: Allowance | None) -> str:
        return charge_replay(
            self._ports,
            self._lane,
            self._call.user,
            self._row.id,
            amount,
            until_s=self._row.expires_at + REPLAY_TTL_S,
            limits=within.limits if within else (),
        )

    def _sample(
        self, found: SentRequest, agent: Agent, chosen: ChosenModel, request: ModelRequest
    ) -> Decided:
        """Ask the model like a round; its claim is 0, which no batch is."""
        state, entry = found.decided.state, found.decision
        step = replace(
            current_step(self._lane, found.timeline.tail), turn=state.turn, iteration=entry.iteration
        )
        facts = found.sent.restore_facts(started_at=entry.started_at, iteration=entry.iteration)
        attempt = Attempt(
            ports=replaced(self._ports, relay=_NoRelay()),
            agent=agent,
            history=self._desk.history,
            journal=Journal(self._ports, self._lane, "replay"),
            step=step,
            model=_FollowedModel(chosen.client, self._show),
        )
        self._asked_s = self._shown_s = self._ports.clock.monotonic_s()
        return sample(attempt, found.timeline, layout=_Recorded(request, facts)).decision

    def _show(self, text: str) -> bool:
        """Store the text so far now and then; return False if the row is gone."""
        now_s = self._ports.clock.monotonic_s()
        if text and self._first_ms is None:
            self._first_ms = round((now_s - self._asked_s) * 1000)
        self._text += text
        if now_s - self._shown_s < SHOW_EVERY_S:
            return True
        self._shown_s = now_s
        row = replace(self._row, text=self._text[-TEXT_MAX_CHARS:], first_ms=self._first_ms)
        return self._desk.replays.change(self._lane, self._call.user, row, was="running")


def _limit_error(excess: Excess) -> LimitError:
    return LimitError(
        limit_sentence(excess.code, excess.names), code=excess.code, retry_after_s=excess.retry_after_s
    )


@dataclass(frozen=True)
class _Recorded:
    """The layout whose request is given (`RoundLayout`)."""

    request: ModelRequest
    facts: RoundFacts

    def tend(self, attempt: Attempt, timeline: Timeline) -> Timeline | Step:
        return timeline

    def pose(self, attempt: Attempt, timeline: Timeline, context: ToolContext) -> Posed:
        return Posed(request=self.request, facts=self.facts)

    def shrink(self, attempt: Attempt, timeline: Timeline) -> None:
        return None

    def has_files(self, timeline: Timeline) -> bool:
        return False


class _NoRelay:
    """A relay without subscribers (`Relay`, `RelayStream`)."""

    def open(self, lane: Lane, claim: int) -> Self:
        return self

    def push(self, name: str, text: str) -> None: ...

    def note(self, call: ModelCall) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _FollowedModel:
    """A model whose text is also given to `follow`; the call ends early if that returns False."""

    model: ModelClient
    follow: Callable[[str], bool]

    def stream(self, request: ModelRequest) -> ModelStream:
        return _FollowedStream(self.model.stream(request), self.follow)


class _FollowedStream:
    def __init__(self, running: ModelStream, follow: Callable[[str], bool]) -> None:
        self._running, self._follow = running, follow

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._running.__exit__(*exc)

    def __iter__(self) -> Iterator[str]:
        for piece in self._running:
            if not self._follow(piece):
                self._running.abort()
            yield piece

    def abort(self) -> None:
        self._running.abort()

    def completion(self) -> Completion:
        return self._running.completion()
