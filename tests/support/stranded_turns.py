"""A stage with many open turns, on a machine with the quotas of AWS."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from stepline.adapters.memory.machine import MemoryMachine
from stepline.delivery.paced_machine import RequestQuota
from stepline.errors import DependencyError
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.model.ids import Lane
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

ORIGIN = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-origin")
SMALL_REGION = {"status": RequestQuota(250, 10), "start": RequestQuota(300, 150)}


class QuotaMachine(MemoryMachine):
    """A machine that refuses requests beyond its quotas, as AWS does, and counts them."""

    def __init__(self, clock: Any, quotas: dict[str, RequestQuota] | None = None) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self._clock = clock
        self._left = {name: [float(quota.burst), 0.0, quota] for name, quota in (quotas or {}).items()}

    def _take(self, name: str) -> None:
        self.asked[name] += 1
        if name not in self._left:
            return
        left, at_s, quota = self._left[name]
        now_s = self._clock.monotonic_s()
        left = min(quota.burst, left + (now_s - at_s) * quota.per_s)
        self._left[name] = [left - 1, now_s, quota] if left >= 1 else [left, now_s, quota]
        if left < 1:
            raise DependencyError("Rate exceeded")

    def start(self, name: str, step: Any) -> bool:
        self._take("start")
        return super().start(name, step)

    def status(self, name: str) -> Any:
        self._take("status")
        return super().status(name)

    def running(self) -> frozenset[str]:
        self.asked["running"] += 1
        return super().running()


def lane_of(number: int) -> Lane:
    return Lane(tenant=LANE.tenant, project=LANE.project, conversation=f"c-{number:04}")


def opened(
    lanes: int,
    quotas: dict[str, RequestQuota] | None = None,
    *,
    forks: int = 0,
    queued: int = 0,
    **policy: Any,
) -> tuple[Conversation, QuotaMachine]:
    """Return a stage with a turn open in each of `lanes` conversations, a minute ago.

    The first `forks` of them are forks of one conversation. `queued` turns more wait for a slot.
    """
    conversation = Conversation(open_turns=lanes if queued else 0, **policy)
    machine = QuotaMachine(conversation.clock)
    conversation.ports = replace(conversation.ports, machine=machine)
    if forks:
        _fork(conversation, machine, forks)
    for number in range(lanes + queued):
        conversation.send(id=f"m{number}", lane=lane_of(number))
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    measured = QuotaMachine(conversation.clock, quotas)
    measured._status, measured.queue = machine._status, machine.queue
    conversation.ports = replace(conversation.ports, machine=measured)
    return conversation, measured


def _fork(conversation: Conversation, machine: MemoryMachine, forks: int) -> None:
    """Take a turn in one conversation, and fork it at its end into the first lanes."""
    conversation.model.add(answered("Hello."))
    conversation.machine = machine
    conversation.send("first", id="o1", lane=ORIGIN)
    conversation.run()
    tail = conversation.ports.log.tail(ORIGIN, consistent=True)
    assert tail is not None
    point = ForkPoint(kind="batch", at=str(tail.n))
    for number in range(forks):
        fork_conversation(
            conversation.ports, ORIGIN, point, user=USER, conversation=lane_of(number).conversation
        )


def strand(machine: MemoryMachine, lanes: range) -> None:
    """End the first executions of these lanes without a notification."""
    names = {step.conversation: name for name, step in machine.queue}
    machine._status |= dict.fromkeys((names[lane_of(number).conversation] for number in lanes), "ended")
