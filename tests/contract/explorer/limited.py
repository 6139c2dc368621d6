"""What a simulation with limits spends, what must hold of it (R24), and its rules taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.tenancy.accounts import MemoryAccounts
from stepline.delivery import settle_account
from stepline.log.bindings import Ports
from stepline.loop import close
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Posting, plan_charge
from stepline.model.tenancy.limits import Limits, Scope, scopes_of
from stepline.model.usage import ModelCall, Usage
from stepline.ports.log import Slots
from stepline.ports.tenancy.accounts import Posted

from .process import Proxy

if TYPE_CHECKING:
    from tests.contract.explorer.simulation import Simulation

SCOPE: Final = Scope(tenant="t", project="p", user="u")
SCOPES: Final = scopes_of("t", "p", "u")
LIMITS: Final = Limits(turns_at_once=1, tokens_day=10**9)
"""One turn at once, and a budget that is never used up: every round holds, and every turn takes its slot."""

OVER = frozenset({"spent tokens charged twice"})
LEFT = frozenset({"a hold left over", "spent tokens not charged"})
SLOTS = frozenset({"a slot left over", "a turn ran without its slot"})


def spend(simulation: Simulation, ports: Ports) -> None:
    """Let a sample cost something where there are limits, and look whether its turn has its slot."""
    if simulation.limits is None:
        return
    call = ModelCall(role="r", model="m", usage=Usage(output_tokens=10), nanos=7, id=f"s{simulation.samples}")
    ports.ledger.called(call)
    state = simulation.tail().state
    if state.status == "open" and not state.parked and not simulation.log.taken_slots(SCOPE):
        simulation.visited.append("a turn ran without its slot")


def unsettled(simulation: Simulation) -> list[str]:
    """Return what is charged wrong, and what is left of a turn that has ended."""
    if simulation.limits is None:
        return []
    state, found = simulation.tail().state, []
    spent = state.input_tokens + state.output_tokens
    for used in simulation.accounts.used(SCOPES, simulation.clock.now()):
        found += ["spent tokens charged twice"] if used.tokens_month > spent else []
        found += ["spent tokens not charged"] if used.tokens_month < spent else []
        found += ["a hold left over"] if used.held_tokens else []
    if simulation.log.taken_slots(SCOPE) or simulation.log.held_slots(_lane()):
        found.append("a slot left over")
    return found


def _lane() -> Lane:
    return Lane(tenant="t", project="p", conversation="c")


class Unversioned(MemoryAccounts):
    """Takes any charge, whatever was charged meanwhile."""

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        return super().post(lane, replace(account, version=self.account(lane).version + 1), postings)


class InTwoWrites(Proxy):
    """Changes the counters first, and the row of the conversation in a second write."""

    def __getattr__(self, method: str) -> Any:
        if method != "post":
            return super().__getattr__(method)

        def post(lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
            before = self._adapter.account(lane)
            if before.version != account.version - 1:
                return "moved"
            for posting in postings:
                self._process.call("accounts", "add", self._adapter._add, posting)
            return self._process.call("accounts", "post", self._adapter.post, lane, account, ())

        return post


class SlotsLater(Proxy):
    """Takes the slots of a turn in a second call, after its batch."""

    def __getattr__(self, method: str) -> Any:
        if method != "put":
            return super().__getattr__(method)

        def put(lane: Lane, batch: Any, *, slots: Slots | None = None, **fields: Any) -> Any:
            done = self._process.call("log", "put", self._adapter.put, lane, batch, **fields)
            if slots is not None:
                self._process.call("log", "take", self._adapter._take_slots, lane, slots)
            return done

        return put


class FreesLater(Proxy):
    """Removes a mark, and frees its slots in a second call."""

    def __getattr__(self, method: str) -> Any:
        if method != "clear_open":
            return super().__getattr__(method)

        def clear_open(lane: Lane, upto: int) -> None:
            held = self._process.call("log", "held_slots", self._adapter._held.pop, lane.key(), ())
            self._process.call("log", "clear_open", self._adapter.clear_open, lane, upto)
            for slot in held:
                self._process.call("log", "free", self._adapter._slots[slot.scope.key()].discard, slot.index)

        return clear_open


class FreesAnything(MemoryLog):
    """Frees the slots of a lane with any mark, also a newer one."""

    def clear_open(self, lane: Lane, upto: int) -> None:
        super().clear_open(lane, upto)
        for slot in self._held.pop(lane.key(), ()):
            self._slots[slot.scope.key()].discard(slot.index)


def charges_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charge any batch, also one that is older than what was charged."""

    def plan(account: Account, batch: Any, scopes: Any, **fields: Any) -> Any:
        made = plan_charge(replace(account, n=0), batch, scopes, **fields)
        return made and replace(made, account=replace(made.account, n=0))

    monkeypatch.setattr(settle_account, "plan_charge", plan)


def settles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the writer of the closing batch settles."""
    original = close.settle_account

    def settle(ports: Ports, lane: Lane, batch: Any) -> None:
        if batch.step.startswith("close") and ports.log.tail(lane).by == batch.by:
            original(ports, lane, batch)

    monkeypatch.setattr(close, "settle_account", settle)
    monkeypatch.setattr(close, "_settled", lambda _ports, _lane, step, _journal: step)


def settles_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settle after the removal of the mark, where no process repeats it."""
    after, original = close._after, close.settle_account

    def then_settle(ports: Ports, lane: Lane, batch: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(close, "settle_account", lambda *_: None)
            after(ports, lane, batch)
        original(ports, lane, batch)

    monkeypatch.setattr(close, "_after", then_settle)


class LateSettlement:
    """One schedule by hand: the first Close sleeps after its put, and settles when all others have ended."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._slept = False

    def below(self, bound: int) -> int:
        return 0

    def pick(self, options: list[tuple[str, Any]]) -> int:
        base, ended = options[0][1], self._simulation.tail().state.status == "idle"
        for at, (kind, _) in enumerate(options):
            if kind == "zombie" and base.name.startswith("close:") and ended and not self._slept:
                self._slept = True
                return at
        return 0


class LostSettlement:
    """One schedule by hand: when the mark is removed and a hold is left, the execution is lost, and then its Close."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._kinds = ["crash", "abort"]

    def below(self, bound: int) -> int:
        return 0

    def pick(self, options: list[tuple[str, Any]]) -> int:
        simulation, base = self._simulation, options[0][1]
        held = simulation.accounts.used(SCOPES, simulation.clock.now())[0].held_tokens
        lost = held and not simulation.log.open_lanes(before="9999") and base.name.startswith("close:")
        for at, (kind, _) in enumerate(options):
            if lost and self._kinds and kind == self._kinds[-1]:
                self._kinds.pop()
                return at
        return 0
