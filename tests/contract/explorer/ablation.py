"""Each rule of the log protocol, taken back: what the code would be without it, and what then goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.delivery import effect, resume
from stepline.ingress import admit
from stepline.log import fence as guard
from stepline.log import journal, transition
from stepline.log import timeline_cache as segment
from stepline.log.journal import Draft, Journal
from stepline.loop import close, decide, sweep
from stepline.loop.programs import execute, program
from stepline.model.batch import Batch, State
from stepline.model.entry import Closed, Opened
from stepline.model.ids import turn_id, utc
from tests.contract.explorer.client import LossyWay
from tests.contract.explorer.simulation import Simulation

from . import deletion, parked_rules
from .schedule import ASKS, SAY, Chooser, Rand, Scenario, SleepingClose, deleted, drawn, waiting
from .weak_ports import ClearsAnything, ListensBefore, MarksLater, NoMessageRows, Overwriting

Patch = Callable[[pytest.MonkeyPatch], None]


def _nothing(_monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the code as it is: the simulation is what differs."""


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One rule taken back. `breaks`: at least one of these must be seen; empty if another rule masks it."""

    rule: str
    breaks: frozenset[str] = frozenset()
    patch: Patch = _nothing
    simulation: Callable[[], Simulation] = Simulation
    syncs: bool = True
    why_masked: str = ""
    seeds: int = 3000
    """How many are searched for a schedule that breaks a promise."""
    faults: dict[str, Any] = field(default_factory=dict)
    scenario: Callable[[int], Scenario] = drawn
    schedule: Callable[[Simulation], Chooser] | None = None

    def chooser(self, simulation: Simulation, seed: int) -> Chooser:
        """Return who decides in this run: the hand-made schedule if there is one, else chance."""
        return self.schedule(simulation) if self.schedule else Rand(seed, **self.faults)


def _owns_any_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def owns(state: State, step: Any) -> bool:
        return state.status == "open"

    for module in (guard, close):
        monkeypatch.setattr(module, "owns", owns)


def _runs_unclaimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def claim_run(*_: Any) -> bool:
        return True

    monkeypatch.setattr(execute, "claim_run", claim_run)


def _denies_unclaimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny_run(*_: Any) -> bool:
        return True

    monkeypatch.setattr(program, "deny_run", deny_run)


def _no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "check_claim", lambda _state, _claim: None)
    monkeypatch.setattr(decide, "check_attempt", lambda _state, _attempt: None)
    monkeypatch.setattr(decide, "reopened", lambda state, _n, _attempt: state)
    original = decide._reopen

    def keep(attempt: Any, tail: Batch) -> Any:
        opening = original(attempt, tail)
        return replace(opening, n=tail.state.claim) if isinstance(opening, Batch) else opening

    monkeypatch.setattr(decide, "_reopen", keep)


def _gate_by_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    original = close.settle_events

    def settle(suffix: Any, state: State, **stop: int) -> Any:
        return original(suffix, replace(state, rendered=max(state.rendered, state.decided)), **stop)

    monkeypatch.setattr(close, "settle_events", settle)


def _close_by_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def status_by_epoch(state: State, step: Any, phase: str) -> str:
        return "mine" if guard.owns(state, step) else "stop"

    monkeypatch.setattr(close, "compare_step", status_by_epoch)


def _promote_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close in one batch, open the next turn in a second one, unless another process has."""
    end, after = close._end, close._after
    waiting_of: dict[str, tuple[int, ...]] = {}

    def close_only(
        ports: Any, lane: Any, tail: Batch, closing: Closed, *, before: Any, settled: Any
    ) -> Draft:
        waiting_of[closing.turn] = settled.promoted
        return end(ports, lane, tail, closing, before=before, settled=settled._replace(promoted=()))

    def then_open(ports: Any, lane: Any, batch: Batch) -> None:
        closing = next(entry for entry in batch.entries if isinstance(entry, Closed))
        waiting = waiting_of.pop(closing.turn, ())
        if waiting:
            book = Journal(ports, lane, "close")

            def plan(tail: Batch) -> Draft | None:
                if tail.state.status != "idle":
                    return None
                turn, n = turn_id(ports.clock.now(), f"{lane.key()}/{tail.n + 1}"), tail.n + 1
                entry = Opened(turn=turn, at=utc(ports.clock.now()), prompts=waiting)
                return Draft(entries=(entry,), state=transition.opened(tail.state, n, turn), marks_open=True)

            opened = book.commit(plan)
            if opened is not None:
                effect.redo(ports, lane, opened)
        after(ports, lane, batch)

    monkeypatch.setattr(close, "_end", close_only)
    monkeypatch.setattr(close, "_after", then_open)


def _replay_then_subscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    original = resume.resume

    class Late:
        """Holds back the subscription until the replay is through."""

        def __init__(self, inner: Any) -> None:
            self._inner, self.wanted = inner, []

        def subscribe(self, *asked: Any) -> None:
            self.wanted.append(asked)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    def replay_first(ports: Any, lane: Any, **asked: Any) -> None:
        late = Late(ports.subscriptions)
        original(_with(ports, subscriptions=late), lane, **asked)
        for wanted in late.wanted:
            late._inner.subscribe(*wanted)

    monkeypatch.setattr(resume, "resume", replay_first)


def _with(ports: Any, **fields: Any) -> Any:
    from dataclasses import replace as replace_fields

    return replace_fields(ports, **fields)


def _no_redo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the writer does a batch's effects; a duplicate or a retried close does nothing."""
    original = admit.see_to

    def see_to(ports: Any, lane: Any, batch: Batch) -> None:
        if ports.log.tail(lane).by == batch.by:
            original(ports, lane, batch)

    monkeypatch.setattr(admit, "see_to", see_to)
    monkeypatch.setattr(close, "_settled", lambda _ports, _lane, step, _journal: step)


def _name_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[int, str] = {}

    def recorded_step(lane: Any, batch: Batch, original: Any = effect.current_step) -> Any:
        names[batch.n] = batch.state.turn
        return original(lane, batch)

    def by_turn(lane: Any, epoch: int) -> str:
        return names.get(epoch, f"epoch-{epoch}")

    def redo(ports: Any, lane: Any, batch: Batch, original: Any = effect.redo) -> bool:
        names[batch.n] = batch.state.turn
        return original(ports, lane, batch)

    for module in (admit, close, sweep):
        monkeypatch.setattr(module, "redo", redo)
    monkeypatch.setattr(effect, "current_step", recorded_step)
    monkeypatch.setattr(effect, "execution_name", by_turn)
    monkeypatch.setattr(sweep, "execution_name", by_turn)


def _name_before_put(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the segment in the decision, and put it when that is in the log."""
    record, owed = decide._record, []

    def promise(ports: Any, lane: Any, timeline: Any) -> int:
        owed.append((ports, lane, timeline))
        return int(timeline.n)

    def then_put(*args: Any, **fields: Any) -> Any:
        recorded = record(*args, **fields)
        while owed:
            segment.seal(*owed.pop())
        return recorded

    monkeypatch.setattr(decide, "seal", promise)
    monkeypatch.setattr(decide, "_record", then_put)


STALE = frozenset(
    {
        "a stale owner committed",
        "two decisions for one round",
        "message in two turns",
        "an end of no turn, or a second one",
    }
)
TWICE = frozenset({"message admitted twice", "message in two turns"})
NOWHERE = frozenset({"message in no turn", "turn stuck"})
SCREEN = frozenset({"client missed or repeated events"})
WRITTEN_AFTER = frozenset({"a batch after the deletion"})
ROUGH = {"fault": 0.12, "budget": 10}

LATE_SECOND = Scenario((("a", SAY, 0), ("b", SAY, 9)))
"""The second message comes when the first answer is decided and not yet closed."""

BACK_TO_BACK = Scenario((("a", SAY, 0), ("b", SAY, 11), ("c", SAY, 12)), aborts=True)
"""The second turn opens while the first one's Close still has its last effects to do."""

TAKEN_IN_A_RUN = Scenario((("a", SAY, 0),), sweeps=(7,))
"""The sweeper takes the turn over while its program runs."""

STOP_ALONE = Scenario((("a", SAY, 0), ("x", "stop", 2)), asks=ASKS)
"""The only answer is a stop, which may come right before the turn is parked."""

TAKEN_PARKED = Scenario((("a", SAY, 0),), sweeps=(3,), asks=ASKS, people=(("p", ("approved",), 1),))
"""The sweeper suspects the execution of a turn that waits for a person."""

ABLATIONS = (
    Ablation(rule="R3 a step compares turn and epoch", breaks=STALE, patch=_owns_any_open),
    Ablation(
        rule="R3 close compares its whole name",
        breaks=frozenset({"shown answer was never decided"}),
        patch=_close_by_epoch,
        scenario=lambda _: LATE_SECOND,
        schedule=SleepingClose,
    ),
    Ablation(
        rule="R5 bodies are immutable",
        breaks=frozenset({"file is not what the log says"}),
        simulation=lambda: Simulation(mutable=True, artifacts=Overwriting()),
    ),
    Ablation(
        rule="R6 a message has a row of its own",
        breaks=TWICE,
        simulation=lambda: Simulation(log=NoMessageRows()),
    ),
    Ablation(
        rule="R6 the open mark is in the transaction",
        breaks=NOWHERE,
        simulation=lambda: Simulation(proxy=MarksLater),
    ),
    Ablation(
        rule="R8 a later attempt takes a claim",
        breaks=frozenset({"two samples in one delta stream"}),
        patch=_no_claim,
    ),
    Ablation(
        rule="R10 a `once` action is started on record",
        breaks=frozenset({"an effect twice, unmarked"}),
        simulation=lambda: Simulation(once="pure"),
    ),
    Ablation(
        rule="R11 whoever runs a program takes its marker first",
        breaks=frozenset({"an effect twice, unmarked", "an effect twice, marked"}),
        patch=_runs_unclaimed,
        faults=ROUGH,
        scenario=lambda _: TAKEN_IN_A_RUN,
    ),
    Ablation(
        rule="R11 who denies a run takes the right to it",
        breaks=frozenset({"an effect denied that took place"}),
        patch=_denies_unclaimed,
        faults=ROUGH,
    ),
    Ablation(
        rule="R11 a task takes the marker of its run first",
        breaks=frozenset(
            {"an effect twice, unmarked", "an effect twice, marked", "an effect denied that took place"}
        ),
        simulation=lambda: Simulation(placement="remote", marker=False),
        faults=ROUGH,
    ),
    Ablation(
        rule="R11 the row of a handover is there before its secret",
        breaks=frozenset({"a secret left over"}),
        simulation=lambda: Simulation(placement="remote", row_first=False),
        faults=ROUGH,
        scenario=lambda _: TAKEN_IN_A_RUN,
    ),
    Ablation(
        rule="R12 the gate compares with what was rendered",
        breaks=frozenset({"message in no turn"}),
        patch=_gate_by_conflict,
    ),
    Ablation(
        rule="R13 promotion is in the closing batch",
        breaks=NOWHERE,
        patch=_promote_later,
        faults=ROUGH,
    ),
    Ablation(
        rule="R13 the mark is cleared on a condition",
        breaks=NOWHERE,
        simulation=lambda: Simulation(log=ClearsAnything()),
        scenario=lambda _: BACK_TO_BACK,
    ),
    Ablation(
        rule="R16 listeners are read after the put",
        breaks=SCREEN,
        simulation=lambda: Simulation(subscriptions_of=ListensBefore),
        syncs=False,
    ),
    Ablation(rule="R18 subscribe, then replay", breaks=SCREEN, patch=_replay_then_subscribe, syncs=False),
    Ablation(
        rule="R18 the client syncs",
        breaks=SCREEN,
        syncs=False,
        simulation=lambda: Simulation(publisher_of=LossyWay()),
    ),
    Ablation(
        rule="R19 a segment is put before it is named",
        breaks=frozenset({"segment named and not there"}),
        patch=_name_before_put,
    ),
    Ablation(
        rule="R22 a call waits for a person before it runs",
        breaks=frozenset({"a call ran that was not allowed"}),
        patch=parked_rules.asks_no_user,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 a parked turn is no step's",
        breaks=frozenset({"asked twice about one call", "a parked turn went on"}),
        patch=parked_rules.owns_parked,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 a parked turn keeps its position",
        breaks=frozenset({"call without a result"}),
        patch=parked_rules.moves_on,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 a turn is parked at what was read",
        breaks=NOWHERE,
        patch=parked_rules.parks_unread,
        scenario=lambda _: STOP_ALONE,
    ),
    Ablation(
        rule="R22 a parked turn is not taken over",
        breaks=frozenset({"a parked turn was taken over"}),
        patch=parked_rules.sweeps_parked,
        scenario=lambda _: TAKEN_PARKED,
    ),
    Ablation(
        rule="R22 the mark is cleared on a condition",
        breaks=NOWHERE,
        simulation=lambda: Simulation(log=ClearsAnything()),
        scenario=waiting,
        faults=ROUGH,
    ),
    Ablation(
        rule="R22 the open mark is in the answer's transaction",
        breaks=NOWHERE,
        simulation=lambda: Simulation(proxy=MarksLater),
        scenario=waiting,
        faults=ROUGH,
    ),
    Ablation(
        rule="R22 an answer begins an epoch",
        breaks=STALE,
        patch=parked_rules.same_epoch,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 an answer ends the wait",
        breaks=NOWHERE,
        patch=parked_rules.stays_parked,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 a message waits with a parked turn",
        breaks=frozenset({"expired before its time"}),
        patch=parked_rules.any_message_answers,
        scenario=waiting,
    ),
    Ablation(
        rule="R22 a steer does not wait with it",
        breaks=NOWHERE,
        patch=parked_rules.steers_wait,
        scenario=lambda _: STOP_ALONE,
    ),
    Ablation(
        rule="R23 a put looks at the tombstone",
        breaks=WRITTEN_AFTER,
        simulation=lambda: Simulation(log=deletion.NoTombstones()),
        scenario=deleted,
    ),
    Ablation(
        rule="R23 the tombstone is in the deletion's transaction",
        breaks=frozenset({"an erasure without an end"}),
        simulation=lambda: Simulation(proxy=deletion.BuriesLater),
        scenario=deleted,
        faults=ROUGH,
    ),
    Ablation(
        rule="R23 an erased batch leaves a husk",
        breaks=WRITTEN_AFTER,
        simulation=lambda: Simulation(log=deletion.NoHusks()),
        scenario=deleted,
        faults=ROUGH,
    ),
    Ablation(
        rule="R23 an erasure ends when a late pass finds nothing",
        breaks=frozenset({"content left of a deleted conversation"}),
        patch=deletion.passes_once,
        scenario=deleted,
        faults=ROUGH,
    ),
    Ablation(
        rule="R22 an edited call has an id of its own",
        breaks=frozenset({"an edit without an id of its own"}),
        patch=parked_rules.same_call,
        scenario=waiting,
    ),
)

MASKED = (
    Ablation(
        rule="R1 a writer recognises its own batch",
        patch=lambda monkeypatch: monkeypatch.setattr(journal, "is_own", lambda _batch, _by: False),
        why_masked="the message's row answers for a lost put",
    ),
    Ablation(
        rule="R4 effects are done again on sight",
        patch=_no_redo,
        why_masked="the sweeper starts executions that were not started",
    ),
    Ablation(
        rule="R7 an execution is named by its epoch",
        patch=_name_by_turn,
        why_masked="the sweeper closes with an error what it cannot revive",
    ),
    Ablation(
        rule="R22 the mark of a parked turn is removed",
        patch=parked_rules.keeps_mark,
        scenario=waiting,
        why_masked="the sweeper removes it",
    ),
)
