"""A stage with room for one turn, others who want it too, and what must hold of it (R25)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import NotFoundError
from stepline.ingress.admit import Arrival, admit
from stepline.log import fence as guard
from stepline.log.bindings import Ports
from stepline.loop import sweep
from stepline.model.batch import State
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.ports.log import is_stage_slot, stage_scope
from tests.support.log_invariant import homes, lines, turns

from .process import Process

if TYPE_CHECKING:
    from tests.contract.explorer.simulation import Simulation

OTHERS: Final = tuple(Lane(tenant="t", project="p", conversation=name) for name in "bd")
"""Conversations of others: one before and one after the explored one where all come at once."""

SLOTLESS = frozenset({"a turn ran without a slot of the stage", "more turns than the stage may run"})
STRANDED = frozenset({"a turn waits for ever", "turn stuck"})
IDLE = frozenset({"a turn waits beside a free slot"})
BEGUN = frozenset({"a turn that did not wait began", "a queued turn was taken over"})
LEFT = frozenset({"a slot of the stage left over", "a row left in the queue"})


def crowd(simulation: Simulation, seed: int) -> None:
    """Let others send: each a message, perhaps a stop after it."""
    draw = random.Random(seed * 17 + 9)
    for lane in OTHERS:
        at = draw.choice([0, 0, *range(1, 14)])
        _speak(simulation, lane, "m", kind="followup", at=at)
        if draw.random() < 0.3:
            _speak(simulation, lane, "x", kind="stop", at=at + draw.randrange(4))


def _speak(simulation: Simulation, lane: Lane, message_id: str, *, kind: str, at: int) -> None:
    """Send a message until it is in the log."""

    def ready() -> bool:
        heard = message_id == "m" or simulation.log.admitted(lane, "m") is not None
        return heard and (simulation.tail().n >= at or simulation.settling)

    def once(me: Process) -> None:
        text = "" if kind == "stop" else message_id
        arrival = Arrival(message_id=message_id, user="u", text=text, kind=kind)
        admit(simulation.ports(me), lane, arrival)

    def body(me: Process) -> None:
        me.wait(ready)
        for _ in range(8):
            sending = simulation.spawn(f"in:{lane.conversation}.{message_id}", once)
            me.wait(lambda sending=sending: sending.done or sending.given_up)
            if simulation.log.admitted(lane, message_id) is not None:
                return

    simulation.spawn(f"other:{lane.conversation}.{message_id}", body, safe=True)


def look_at_stage(simulation: Simulation, step: Step) -> None:
    """Look, when a turn asks the model, whether it may: it has a slot, and no more run than may."""
    lane = step.lane()
    if simulation.open_turns and guard.owns(_state(simulation, lane), step):
        if not any(map(is_stage_slot, simulation.log.held_slots(lane))):
            simulation.visited.append("a turn ran without a slot of the stage")
        if sum(_runs(simulation, one) for one in _lanes()) > simulation.open_turns:
            simulation.visited.append("more turns than the stage may run")


def _runs(simulation: Simulation, lane: Lane) -> bool:
    """Return True if the lane's turn has an execution, and is not about to stop."""
    state = _state(simulation, lane)
    if state.status != "open" or state.waits_outside:
        return False
    batches = simulation.log.since(lane, state.opened)
    return not any(
        isinstance(entry, Inbound) and entry.rule.then == "close" for one in batches for entry in one.entries
    )


def _lanes() -> tuple[Lane, ...]:
    from tests.contract.explorer.simulation import LANE

    return (LANE, *OTHERS)


def _state(simulation: Simulation, lane: Lane) -> State:
    try:
        tail = simulation.log.tail(lane)
    except NotFoundError:  # it was erased
        return State()
    return tail.state if tail else State()


def look_at_line(simulation: Simulation) -> None:
    """Note queued turns when all processes are done, and nothing has failed."""
    waits = [lane for lane in _lanes() if _state(simulation, lane).queued]
    if waits and len(simulation.log.taken_slots(stage_scope("0"))) < simulation.open_turns:
        simulation.visited.append("a turn waits beside a free slot")


def sweep_all(ports: Ports) -> None:
    """Come as the sweeper does, to all lanes."""
    sweep.begin_queued(ports)
    for mark in ports.log.open_lanes(before="9999"):
        sweep.sweep_lane(ports, mark.lane)


def unfair(simulation: Simulation) -> Iterator[str]:
    """Yield what is broken in the conversations of others, and what is left of the queue."""
    if not simulation.open_turns:
        return
    for lane in _lanes():
        if _state(simulation, lane).queued:
            yield "a turn waits for ever"
    for lane in OTHERS:
        batches = simulation.log.since(lane, 0)
        yield from turns(batches)
        yield from lines(batches)
        if batches and batches[-1].state.status != "idle":
            yield "turn stuck"
        yield from (
            "message in no turn" if not places else "message in two turns"
            for _, places in homes(batches)
            if len(places) != 1
        )
    log: MemoryLog = simulation.log
    if any(slots for key, slots in log._slots.items() if key.startswith("#")):
        yield "a slot of the stage left over"
    if log.count_queued():
        yield "a row left in the queue"
