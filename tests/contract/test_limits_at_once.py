"""Many turns at once against limits that have room for a fifth of them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import MemoryModelClient, Say
from stepline.adapters.memory.tenancy.accounts import MemoryAccounts
from stepline.bootstrap.memory_wiring import in_memory
from stepline.errors import BusyError, LimitError
from stepline.ingress.admit import Arrival, admit
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.loop.tenancy.budget import estimate_round
from stepline.metering.ledger import Ledger
from stepline.model.batch import Batch
from stepline.model.entry import Closed
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.model.tenancy.charge import ROUND_OUTPUT_TOKENS, Posting
from stepline.model.tenancy.limits import Limits, scopes_of
from stepline.model.usage import Usage
from stepline.ports.log import Slots
from stepline.settings import Settings
from tests.support.draw import ALL
from tests.support.generation import BROKEN, answered

TURNS: Final = 50
STORED_TURNS: Final = 50 if ALL else 10
"""Over AWS's adapters each of them tries again as often as others write first, so that costs grow by the square."""


class Crowd:
    """Conversations of one tenant, by five users, over one backend, and how many of them a limit has room for."""

    def __init__(self, backend: Any) -> None:
        self.turns = STORED_TURNS if hasattr(backend, "table") else TURNS
        self.room = self.turns // 5
        app = in_memory(Settings.from_env({}))
        self.agent: Agent = app.agent
        self.ports: Ports = replace(
            app.ports,
            log=backend.log,
            accounts=backend.accounts,
            artifacts=backend.artifacts,
            subscriptions=backend.subscriptions,
        )
        self.tenant = f"t-{uuid.uuid4().hex}"
        self.lanes = [
            Lane(tenant=self.tenant, project="docs", conversation=f"c-{number}")
            for number in range(self.turns)
        ]

    def user(self, lane: Lane) -> str:
        return f"u{int(lane.conversation[2:]) % 5}"

    def limit(self, **limits: int) -> None:
        scope = scopes_of(self.tenant, "docs", "u0")[2]
        version = self.ports.accounts.limits([scope])[0].version
        self.ports.accounts.set_limits(scope, Limits(**limits), version=version, by="boss", at="")

    def used(self) -> int:
        (used,) = self.ports.accounts.used([scopes_of(self.tenant, "docs", "u0")[2]], self.ports.clock.now())
        assert used.held_tokens == 0
        return used.tokens_day

    def open(self, lane: Lane) -> Batch:
        """Send the first message; a contended lane is tried again, as a client does."""
        arrival = Arrival(message_id="m1", user=self.user(lane), text="hello")
        while True:
            try:
                return admit(replace(self.ports, ledger=Ledger()), lane, arrival).batch
            except BusyError:
                continue

    def step(self, lane: Lane, opened: Batch) -> Step:
        return Step(
            tenant=lane.tenant,
            project=lane.project,
            conversation=lane.conversation,
            turn=opened.state.turn,
            epoch=opened.n,
        )

    def round_tokens(self, lane: Lane) -> int:
        """Return what a first round holds."""
        step = self.step(lane, self.open(lane))
        journal = Journal(self.ports, lane, "test")
        attempt = Attempt(ports=self.ports, agent=self.agent, history=History(), journal=journal, step=step)
        return estimate_round(attempt, attempt.load(consistent=True)).tokens

    def drive(self, lane: Lane, opened: Batch, model: MemoryModelClient, ended: Callable[[], None]) -> Closed:
        """Be the execution of a turn that calls no tools."""
        ports, history, step = replace(self.ports, ledger=Ledger()), History(), self.step(lane, opened)
        while step.route == "decide":
            step = decide(ports, self.agent, model, history, step)
        ended()
        close(ports, step)
        entries = [entry for batch in ports.log.since(lane, 0, consistent=True) for entry in batch.entries]
        return next(entry for entry in entries if isinstance(entry, Closed))


class Together:
    """Lets the models answer when each turn has either asked its own or ended; `then` is called once before."""

    def __init__(self, turns: int, then: Callable[[], None] = lambda: None) -> None:
        self._turns = turns
        self._there = threading.Condition()
        self._then = then
        self.asking = 0
        self.ended = 0

    def end(self) -> None:
        with self._there:
            self.ended += 1
            self._look()

    def ask(self) -> None:
        with self._there:
            self.asking += 1
            self._look()
            self._there.wait_for(lambda: self.asking + self.ended >= self._turns)

    def _look(self) -> None:
        if self.asking + self.ended == self._turns:
            self._then()
        self._there.notify_all()


class MeetingModel(MemoryModelClient):
    """Waits with its first call until all turns have got as far as they can."""

    def __init__(self, together: Together, *script: Say) -> None:
        super().__init__(*script)
        self._together = together

    def stream(self, request: Any) -> Any:
        if not self.requests:
            self._together.ask()
        return super().stream(request)


def play(
    crowd: Crowd,
    opened: dict[Lane, Batch],
    usage: Usage,
    *,
    rounds: int,
    then: Callable[[], None] = lambda: None,
) -> tuple[list[Closed], list[int]]:
    """Drive all turns at once; return their ends, and how often each asked its model."""
    together = Together(crowd.turns, then)

    def drive(lane: Lane) -> tuple[Closed, int]:
        wrong = [Say(text=BROKEN, usage=usage)] * (rounds - 1)
        model = MeetingModel(together, *wrong, Say(text=answered("Hello."), usage=usage))
        ending = crowd.drive(lane, opened[lane], model, together.end)
        return ending, len(model.requests)

    with ThreadPoolExecutor(max_workers=crowd.turns) as pool:
        played = list(pool.map(drive, crowd.lanes))
    return [ending for ending, _ in played], [asked for _, asked in played]


def test_turns_at_once_that_use_no_more_than_they_hold_never_exceed_the_budget(backend):
    crowd = Crowd(backend)
    need = crowd.round_tokens(crowd.lanes[0])
    opened = {lane: crowd.open(lane) for lane in crowd.lanes}
    crowd.limit(tokens_day=crowd.room * need)
    ends, asked = play(crowd, opened, Usage(output_tokens=need), rounds=1)
    assert asked.count(1) == crowd.room
    assert asked.count(0) == crowd.turns - crowd.room
    assert [end.code for end in ends].count("limit_tokens") == crowd.turns - crowd.room
    assert crowd.used() == crowd.room * need


def test_turns_at_once_that_use_more_than_they_hold_overrun_by_less_than_a_round_each(backend):
    crowd = Crowd(backend)
    need = crowd.round_tokens(crowd.lanes[0])
    opened = {lane: crowd.open(lane) for lane in crowd.lanes}
    crowd.limit(tokens_day=crowd.room * need)
    a_round = need + need // 2
    ends, asked = play(crowd, opened, Usage(output_tokens=a_round), rounds=2)
    assert asked.count(1) == crowd.room
    assert asked.count(0) == crowd.turns - crowd.room
    assert {end.code for end in ends} == {"limit_tokens"}
    overrun = crowd.used() - crowd.room * need
    assert 0 < overrun <= crowd.room * (a_round - need)


def sent_at_once(crowd: Crowd) -> tuple[list[bool], list[str]]:
    """Send a first message to every lane; return which turns opened, and the codes of the refusals."""
    refused: list[str] = []

    def send(lane: Lane) -> bool:
        try:
            crowd.open(lane)
        except LimitError as error:
            refused.append(error.reason)
            return False
        return True

    with ThreadPoolExecutor(max_workers=crowd.turns) as pool:
        opened = list(pool.map(send, crowd.lanes))
    return opened, refused


def test_of_messages_at_once_no_more_open_a_turn_than_the_limit_says(backend):
    crowd = Crowd(backend)
    crowd.limit(turns_at_once=crowd.room)
    opened, refused = sent_at_once(crowd)
    assert sum(opened) == crowd.room
    assert refused == ["limit_turns"] * (crowd.turns - crowd.room)
    assert len(backend.log.taken_slots(scopes_of(crowd.tenant, "docs", "u0")[2])) == crowd.room


def test_a_budget_refuses_concurrent_messages_beyond_their_reserved_output(backend):
    crowd = Crowd(backend)
    crowd.limit(tokens_day=crowd.room * ROUND_OUTPUT_TOKENS)
    opened, refused = sent_at_once(crowd)
    assert sum(opened) == crowd.room
    assert refused == ["limit_tokens"] * (crowd.turns - crowd.room)
    untouched = [lane for lane, is_open in zip(crowd.lanes, opened, strict=True) if not is_open]
    assert all(backend.log.tail(lane, consistent=True) is None for lane in untouched)


def test_the_kill_switch_lets_no_turn_begin_another_round(backend):
    crowd = Crowd(backend)
    opened = {lane: crowd.open(lane) for lane in crowd.lanes}
    ends, asked = play(
        crowd,
        opened,
        Usage(output_tokens=10),
        rounds=3,
        then=lambda: crowd.limit(stopped="maintenance"),
    )
    assert {end.code for end in ends} == {"stopped"}
    assert set(asked) == {1}


# --- rules taken back


class Twins:
    """Memory twins of which one keeps no rule."""

    def __init__(self, *, log: Any = None, accounts: Any = None) -> None:
        self.log = log or MemoryLog()
        self.accounts = accounts or MemoryAccounts()
        self.artifacts = MemoryArtifacts()
        self.subscriptions = MemorySubscriptions(MemoryClock())


class Unconditional(MemoryAccounts):
    """Places every hold, whatever the counters say."""

    def _has_room(self, posting: Posting) -> bool:
        return True


class SlotsBeside(MemoryLog):
    """Opens a turn although another one has taken its slot."""

    def _take_slots(self, lane: Lane, slots: Slots) -> bool:
        super()._take_slots(lane, slots)
        return True


def test_holds_without_a_condition_overrun_the_budget():
    crowd = Crowd(Twins(accounts=Unconditional()))
    need = crowd.round_tokens(crowd.lanes[0])
    opened = {lane: crowd.open(lane) for lane in crowd.lanes}
    crowd.limit(tokens_day=crowd.room * need)
    _, asked = play(crowd, opened, Usage(output_tokens=need), rounds=1)
    assert asked.count(1) == crowd.turns
    assert crowd.used() == crowd.turns * need


def test_unconditional_slots_let_more_turns_run():
    log = SlotsBeside()
    log.taken_slots = lambda _: frozenset()  # type: ignore[method-assign]  # every turn looks before one claims
    crowd = Crowd(Twins(log=log))
    crowd.limit(turns_at_once=crowd.room)
    assert len([crowd.open(lane) for lane in crowd.lanes]) == crowd.turns
