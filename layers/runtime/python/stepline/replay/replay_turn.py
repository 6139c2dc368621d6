"""Replay of a turn: the loop's own steps over the memory twins, with the recorded model, tools, events and times.

Source: docs/concepts/time-travel.md#replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.memory.signal import MemorySignals
from stepline.adapters.provider.client import ProviderClient
from stepline.bootstrap.in_process import InProcess, InProcessLoop
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.workflow import load_workflow
from stepline.delivery.effect import current_step
from stepline.errors import SteplineError
from stepline.inspection.sent_request import read_staged, read_system, render_sent
from stepline.log.spill import readable
from stepline.log.timeline_cache import History
from stepline.loop.graph import START
from stepline.loop.turn import caught
from stepline.loop.turn import turn as course_of
from stepline.model.batch import State
from stepline.model.step import Step
from stepline.ports.model import DECISION_ROLE, DEFAULT_ROLE, ModelProvider, ModelRequest, RoleChoice
from stepline.replay.layered_artifacts import LayeredArtifacts
from stepline.replay.recorded_model import RECORDED, RecordedProvider
from stepline.replay.recorded_tools import ToolRecord, recorded_agent
from stepline.replay.recorded_turn import RecordedTurn, instant_of
from stepline.replay.request_difference import first_difference, limits_of, texts_of
from stepline.replay.tape import RecordedClock, Tape, TapedLog
from stepline.replay.turn_report import TurnReport, report_turn
from stepline.timeline.fold import Timeline

if TYPE_CHECKING:
    from stepline.bootstrap.loop_app import LoopApp
    from stepline.bundle.parts import Parts
    from stepline.loop.agent import Agent
    from stepline.ports.artifacts import Artifacts
    from stepline.settings import Settings

EXECUTIONS_MAX: Final = 100
"""The executions of one turn: each answer to a request for an approval begins another."""


@dataclass(frozen=True, kw_only=True)
class ReplayAgent:
    """An agent for replays, made once: with its settings and the parts of its bundle.

    Requests that the record lacks are asked of `model`; without one the replay ends there. With `asks_always` the model
    is asked about every decision, and `roles` are its models. `runs_tools`: calls that the record lacks run, except
    those whose effect is `once`. `own_lines`: the bundle's code adds its lines to requests, not the record.
    """

    app: LoopApp
    agent: Agent
    parts: Parts
    model: ModelProvider | None = None
    roles: Mapping[str, RoleChoice] | None = None
    asks_always: bool = False
    runs_tools: bool = False
    own_lines: bool = False


def make_replay_agent(settings: Settings, **choices: Any) -> ReplayAgent:
    """Make the agent that the settings name; `choices` are the other fields of `ReplayAgent`.

    `on_bundle_load` does not run: it may need the services of the deployment. Raises InputError: `bundle_not_found`,
    `bundle_invalid` and the other errors of a bundle that cannot be loaded.
    """
    app = in_memory(settings)
    parts = replace(load_workflow(settings.bundle).parts(), on_load=None)
    return ReplayAgent(app=app, agent=app.build_agent(parts), parts=parts, **choices)


def replay_turn(turn: RecordedTurn, through: ReplayAgent, artifacts: Artifacts) -> TurnReport:
    """Run a recorded turn again, and compare it with the record; `artifacts` are read, and never written.

    Raises InputError `record_incomplete`: a text of the record is gone; the errors of a step that fails.
    """
    clock = RecordedClock(instant_of(turn.before[-1]))
    tape = Tape(turn, clock)
    log = TapedLog(turn, tape)
    stored = LayeredArtifacts(artifacts)
    record = ToolRecord(turn=turn, tape=tape, runs_tools=through.runs_tools)
    agent = recorded_agent(through.agent, record, stored, own_lines=through.own_lines)
    provider = RecordedProvider(
        tuple(turn.answers()),
        explain=lambda request: _explain(turn, tape, stored, request, log.newest().state.cursor.iteration),
        model=through.model,
        asks_always=frozenset({agent.role} if through.asks_always else ()),
        ended=tape.finish,
        failure=tape.failure,
        position=lambda: tape.position,
        steer=tape.resume,
    )
    ports = replace(through.app.ports, log=log, clock=clock, artifacts=stored, signals=MemorySignals(log))
    app = replace(
        through.app,
        ports=ports,
        history=History(),
        given=ProviderClient(provider, roles=through.roles or _roles(turn)),
    )
    runtime = InProcess(app)
    tape.begin(log)
    try:
        loop = runtime.loop(agent, through.parts)
        _Course(loop=loop, turn=turn, tape=tape, log=log, clock=clock).run()
    except SteplineError:
        if provider.diverged is None:
            raise
    finally:
        runtime.close()
        runtime.threads.shutdown()
    replayed = log.since(turn.lane, turn.opened)
    diverged = str(provider.diverged) if provider.diverged else _unended(turn, log.newest().state)
    return report_turn(turn, replayed, diverged=diverged, asked=provider.asked)


def replay_turns(
    turns: Iterable[RecordedTurn], through: ReplayAgent, artifacts: Artifacts
) -> Iterator[TurnReport]:
    """Replay turns one after the other, each from its own record."""
    for turn in turns:
        yield replay_turn(turn, through, artifacts)


@dataclass(frozen=True, kw_only=True)
class _Course:
    """Drives the executions of a turn to its end; `loop` has its steps."""

    loop: InProcessLoop
    turn: RecordedTurn
    tape: Tape
    log: TapedLog
    clock: RecordedClock

    def run(self) -> None:
        """Run executions until the turn has ended, or waits for an event that the record lacks."""
        for _ in range(EXECUTIONS_MAX):
            state = self.log.newest().state
            if state.status != "open" or state.turn != self.turn.turn:
                return
            if (state.parked or state.queued) and not self.tape.resume():
                return
            self._execute(current_step(self.turn.lane, self.log.newest()))

    def _execute(self, step: Step) -> None:
        states: Mapping[str, Callable[[Step], Step]] = {
            "Decide": self.loop.decide,
            "Act": self.loop.act,
            "Prepare": self.loop.act,
            "Execute": self.loop.execute,
            "Close": self.loop.close,
        }
        course = course_of(step, jitter=lambda _: 0.0, at=START)
        visit = next(course)
        while True:
            try:
                self.clock.pause(visit.pause_s)
                answer = states[visit.state](visit.step)
            except SteplineError as error:
                if self.tape.is_cut:
                    return
                if not self.tape.ends_in_failure():
                    raise  # the record has the outcome of all that the state machine tried again
                self.loop.close(caught(visit.step, error))
                return
            try:
                visit = course.send(answer)
            except StopIteration:
                return


def _roles(turn: RecordedTurn) -> dict[str, RoleChoice]:
    declined = any(decision.declined and decision.declined.fallback for decision in turn.decisions)
    return {DEFAULT_ROLE: RoleChoice(model=RECORDED, fallback=RECORDED if declined else "")}


def _unended(turn: RecordedTurn, state: State) -> str:
    """Return why a replayed turn has not ended; "" if it has."""
    if state.status != "open" or state.turn != turn.turn:
        return ""
    round_ = f"{turn.turn}, round {state.cursor.iteration}"
    waits = "waits for a person, which it did not in the record" if state.parked else "has not ended"
    return f"{round_}: the turn {waits}"


def _explain(
    turn: RecordedTurn, tape: Tape, artifacts: LayeredArtifacts, request: ModelRequest, iteration: int
) -> str:
    """Return where a request of a round, which the record lacks, differs from the recorded one."""
    decision, name = tape.next_decision(), f"{turn.turn}, round {iteration}"
    if decision is None or request.role != DECISION_ROLE:
        return f"{name}: the record has no request of the role {request.role} here"
    decided = next(batch for batch in turn.own if decision in batch.entries)
    with readable(f"{name}, batch {decided.n}"):
        sent = render_sent(
            Timeline.empty(turn.lane).extended(turn.batches[: decided.state.rendered]),
            decided,
            system=read_system(artifacts, turn.lane, turn.batches[: decided.n]),
            staged=read_staged(artifacts, turn.lane, decided),
        )
    recorded = tuple(texts_of(sent.request, sent.roles))
    found = first_difference(
        recorded, tuple(texts_of(request)), (limits_of(sent.request), limits_of(request))
    )
    if found is None:
        return (
            f"{name}: this release renders the recorded request differently, and its own text is not recorded"
        )
    return f"{name}: another request, first in {found.sentence}"
