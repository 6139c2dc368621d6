"""The rules of the bound on open turns (R25), taken back one at a time."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any, Final

import pytest
from msgspec.structs import replace

from stepline.delivery import effect, stage_queue
from stepline.delivery.effect import redo
from stepline.ingress import admit, delete, enqueue
from stepline.ingress import admit as admission
from stepline.log import fence as guard
from stepline.log.bindings import Ports
from stepline.loop import close, sweep
from stepline.model.batch import Batch, State, queue_changes
from stepline.model.ids import Lane
from stepline.model.step import Step

from .ablation import ROUGH, Ablation
from .bounded import BEGUN, IDLE, LEFT, SLOTLESS, STRANDED
from .process import Proxy
from .schedule import Scenario, deleted, drawn, waiting
from .simulation import Simulation


def scenario_of(seed: int) -> Scenario:
    """Return a drawn scenario of any kind, with others beside it."""
    make = (drawn, waiting, deleted)[seed % 3]
    return with_fields(make(seed), crowd=seed + 1)


def calm_of(seed: int) -> Scenario:
    """Return one in which no execution is aborted or taken over by suspicion, with others beside it."""
    return with_fields((drawn, waiting)[seed % 2](seed), crowd=seed + 1, aborts=False, sweeps=())


class QueuesLater(Proxy):
    """Puts the row of a queued turn in a second call, after its batch."""

    def __getattr__(self, method: str) -> Any:
        if method != "put":
            return super().__getattr__(method)

        def put(lane: Lane, batch: Batch, **fields: Any) -> Any:
            done = self._process.call("log", "put", self._adapter.put, lane, batch, **fields)
            for turn, comes in queue_changes(lane, batch):
                if comes and self._adapter._queue.pop(turn.place, None):
                    self._process.call("log", "queue", self._adapter._queue.__setitem__, turn.place, turn)
            return done

        return put


def starts_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "free_stage_slot", lambda _: stage_queue.extra_stage_slot())


def begins_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_queue, "free_stage_slot", lambda _: stage_queue.extra_stage_slot())


def frees_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (close, stage_queue, sweep):
        monkeypatch.setattr(module, "free_mark", lambda ports, lane, upto: ports.log.clear_open(lane, upto))
    monkeypatch.setattr(delete, "begin_queued", lambda _: None)


def queues_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admit, "begin_queued", lambda _: None)


def never_starts_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "begin_queued", lambda _: None)
    monkeypatch.setattr(sweep, "free_mark", lambda ports, lane, upto: ports.log.clear_open(lane, upto))
    monkeypatch.setattr(
        sweep, "follow_parking", lambda ports, lane, tail: ports.log.clear_open(lane, tail.state.parked)
    )


def runs_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start what a batch has queued, and let its steps put."""

    def unqueued(ports: Any, lane: Lane, batch: Batch) -> bool:
        state = replace(batch.state, queued=0)
        return redo(ports, lane, replace(batch, state=state))

    def owns(state: State, step: Step) -> bool:
        mine = state.turn == step.turn and state.epoch == step.epoch
        return state.status == "open" and not state.parked and mine

    for module in (effect, close, sweep, stage_queue):
        monkeypatch.setattr(module, "redo", unqueued)
    monkeypatch.setattr(admission, "redo", unqueued)
    monkeypatch.setattr(State, "waits_outside", property(lambda state: bool(state.parked)))
    for module in (guard, close):
        monkeypatch.setattr(module, "owns", owns)


def keeps_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_queue, "begun", lambda state, _n: replace(state, queued=0))


def sweeps_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "awaits_place", lambda _: False)


def begins_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin the turn of a row whatever has become of it."""
    original = stage_queue._commit

    def commit(ports: Ports, turn: Any) -> Any:
        tail = ports.log.tail(turn.lane, consistent=True)
        queued = turn.n if tail is None else tail.state.queued
        return original(ports, replace(turn, n=queued))

    monkeypatch.setattr(stage_queue, "_commit", commit)


def stage(**fields: Any) -> Simulation:
    """Return a stage with room for one turn."""
    return Simulation(open_turns=1, **fields)


def calm_stage() -> Simulation:
    return stage(faultless=True)


CALM: Final[dict[str, Any]] = {"fault": 0.0, "budget": 0}


def _rule(rule: str, breaks: frozenset[str], **fields: Any) -> Ablation:
    defaults: dict[str, Any] = {"simulation": stage, "scenario": scenario_of, "faults": ROUGH, "seeds": 600}
    return Ablation(rule=f"R25 {rule}", breaks=breaks, **{**defaults, **fields})


def _calm_rule(rule: str, breaks: frozenset[str], **fields: Any) -> Ablation:
    return _rule(rule, breaks, simulation=calm_stage, scenario=calm_of, faults=CALM, **fields)


BOUNDED: Final = (
    _rule("a turn begins with a slot of the stage or waits", SLOTLESS, patch=starts_unbounded),
    _rule("a waiting turn begins with a slot of the stage", SLOTLESS, patch=begins_unbounded),
    _rule(
        "the row of a waiting turn is in the transaction that queues it",
        STRANDED,
        simulation=lambda: stage(proxy=QueuesLater),
    ),
    _calm_rule("whoever frees a slot lets the next begin", IDLE, patch=frees_in_silence),
    _calm_rule("whoever queues a turn looks again", IDLE, patch=queues_and_goes),
    _rule("a queued turn is no step's", SLOTLESS | frozenset({"a queued turn went on"}), patch=runs_queued),
    _rule("a turn that begins has a new epoch", STRANDED, patch=keeps_epoch),
    _rule("a queued turn is not taken over", BEGUN, patch=sweeps_queued),
    _rule("a turn begins once", BEGUN | SLOTLESS | LEFT, patch=begins_anything),
)

BOUNDED_MASKED: Final = (
    _rule(
        "the sweeper lets turns begin",
        frozenset(),
        patch=never_starts_queued,
        why_masked="a Close that is tried again does it, and so does a message that is sent again",
    ),
)
