"""The model calls that the function `serve` makes for programs, and what must hold of them (R27)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent
from stepline.loop.programs.serve_call import serve_call
from stepline.model.batch import Batch, State
from stepline.model.entry import Resulted
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, ToolCallRecord
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.model.usage import ModelCall
from stepline.ports.clock import Clock
from stepline.ports.model import ModelRequest
from stepline.programs.host import ASK_TRIES
from stepline.tools.context import NoServices
from stepline.tools.registry import Registry
from stepline.tools.served.ask_model import ASK_MODEL
from stepline.tools.served.program_calls import ProgramCalls

from .process import Process

if TYPE_CHECKING:
    from tests.contract.explorer.simulation import Simulation

DECLARED: Final = ProgramCalls(roles=("test.classify",))
CALLS: Final = 2
"""The calls of a run, one after another."""

TWICE: Final = "a program's model call made twice"
RECORDED_TWICE: Final = "a model call recorded twice"
UNRECORDED: Final = "a noted call that no batch has"
LATE: Final = "a call that the result of its run does not record"


class Noted(MemoryDeltas):
    """Keeps which calls were first noted during their run: `state` is that of the log, and `since` the run's claims."""

    def __init__(self, clock: Clock, state: Callable[[], State]) -> None:
        super().__init__(clock)
        self._state = state
        self._ids: set[str] = set()
        self.during: dict[str, str] = {}

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        state = self._state()
        if call.id not in self._ids and state.running and state.claim == claim:
            self.during[call.id] = state.running
        self._ids.add(call.id)
        super().note(lane, claim, call)


def with_calls(agent: Agent) -> Agent:
    """Return the agent whose programs may ask the model."""
    assert agent.execution is not None
    tools = [agent.registry.find(spec.tool_id) for spec in agent.registry.specs]
    return replace(
        agent,
        registry=Registry([*DECLARED.grant(tools)]),
        execution=replace(agent.execution, served=DECLARED.limits),
    )


def ask(simulation: Simulation, me: Process, request: ExecRequest) -> tuple[ToolCallRecord, ...]:
    """Make the calls of a run as its supervisor does: one that is not answered is asked for again, by its number."""
    if not request.served.tools:
        return ()
    answers = [_ask_until_answered(simulation, me, request, number) for number in range(CALLS)]
    if all(answer is not None and not answer.code for answer in answers):
        simulation.answered.add(request.exec_id)
    return tuple(
        ToolCallRecord(tool_id=ASK_MODEL, params={}, status="ok", at=request.at, models=answer.models)
        for answer in answers
        if answer is not None
    )


def _ask_until_answered(
    simulation: Simulation, me: Process, request: ExecRequest, number: int
) -> ServedAnswer | None:
    call = ServedCall(
        lane=request.lane,
        turn=request.turn,
        exec_id=request.exec_id,
        ticket=request.served.ticket,
        number=number,
        tool_id=ASK_MODEL,
        params={"prompt": "Is it late?"},
    )
    for attempt in range(ASK_TRIES):
        name = f"serve:{call.exec_id}.{number}.{attempt}"
        serving = simulation.spawn(name, lambda process: _serve(simulation, process, call))
        me.wait(lambda serving=serving: serving.done or serving.given_up)
        if not serving.given_up and serving.error is None:
            return serving.result
    return None


def _serve(simulation: Simulation, me: Process, call: ServedCall) -> ServedAnswer:
    agent = replace(simulation.agent, services=_Services(_Model(simulation, me, call)))
    return serve_call(simulation.ports(me), agent, History(), call)


class _Services(NoServices):
    """The services of the function, which has a model."""

    def __init__(self, model: _Model) -> None:
        self.model = model  # type: ignore[misc] # the base has none


class _Model:
    """The model of one function: a call of it is a point where the function may die, and is counted."""

    def __init__(self, simulation: Simulation, process: Process, call: ServedCall) -> None:
        self._process = process
        self._count = lambda: simulation.sampled.update([(call.exec_id, call.number)])

    def stream(self, request: ModelRequest) -> _Stream:
        return _Stream(request, lambda: self._process.call("model", "stream", self._count))


class _Stream(MemoryModelStream):
    def __init__(self, request: ModelRequest, begin: Callable[[], Any]) -> None:
        super().__init__(request, lambda: Say(text="It is late."))
        self._begin_call = begin

    def __iter__(self) -> Iterator[str]:
        self._begin_call()
        yield from super().__iter__()


def unmetered(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield what is wrong with the calls of programs: each is made once, and recorded once, at its run's result."""
    if not isinstance(simulation.deltas, Noted):
        return
    if max(simulation.sampled.values(), default=1) > 1:
        yield TWICE
    logged = Counter(call.id for batch in batches for call in batch.calls)
    if max(logged.values(), default=1) > 1:
        yield RECORDED_TWICE
    during = simulation.deltas.during
    if during.keys() - logged.keys():
        yield UNRECORDED
    at = {call.id: batch.n for batch in batches for call in batch.calls}
    ended = {
        entry.call_id: batch.n
        for batch in batches
        for entry in batch.entries
        if isinstance(entry, Resulted) and entry.status == "ok" and entry.call_id in simulation.answered
    }
    if any(at.get(call, 0) > ended[run] for call, run in during.items() if run in ended):
        yield LATE
