"""An owner who forks the conversation in the middle of things, what must hold of both (R28), and its rules taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepline.adapters.memory.log import RESERVED, MemoryLog
from stepline.errors import InputError, NotFoundError
from stepline.ingress.admit import Arrival, admit
from stepline.ingress.delete import apply_deletion
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import read_since
from stepline.model.batch import Batch, ForkRow, forked_from
from stepline.model.entry import Closed, Inbound
from stepline.model.ids import Lane
from tests.support.log_invariant import chain, homes, turns

from .process import Process

if TYPE_CHECKING:
    from tests.contract.explorer.simulation import Simulation

FORKS: Final = tuple(Lane(tenant="t", project="p", conversation=name) for name in ("f1", "f2"))
"""A fork of the conversation, and a fork of that one."""
TRIES: Final = 8
DELETED: Final = "conversation_deleted"


def fork(simulation: Simulation, *, at: int) -> None:
    """Have the owner fork the conversation, and the fork, each at its newest batch, and send to both forks.

    At an odd batch they are branches, which are deleted with the conversation.
    """
    from tests.contract.explorer.simulation import LANE

    def body(me: Process) -> None:
        me.wait(lambda: simulation.tail().n >= max(at, 1) or simulation.settling)
        origin = LANE
        for lane in FORKS:
            n = tail_of(simulation, origin)
            if not n or not _fork(simulation, me, origin, lane, n, branch=at % 2 == 1):
                return
            _speak(simulation, me, lane)
            me.wait(lambda lane=lane, n=n: tail_of(simulation, lane) > n + 2 or simulation.settling)
            origin = lane

    simulation.spawn("forker", body, safe=True)


def tail_of(simulation: Simulation, lane: Lane) -> int:
    """Return the number of a conversation's newest batch; 0 if it does not exist."""
    try:
        tail = simulation.log.tail(lane)
    except NotFoundError:
        return 0
    return tail.n if tail else 0


def _fork(simulation: Simulation, me: Process, origin: Lane, lane: Lane, n: int, *, branch: bool) -> bool:
    """Ask for a fork until it is answered; return False if its origin was deleted."""
    from tests.contract.explorer.simulation import USER

    done: list[int] = []

    def once(process: Process) -> None:
        point, name = ForkPoint(kind="batch", at=str(n)), lane.conversation
        try:
            made = fork_conversation(
                simulation.ports(process), origin, point, user=USER, conversation=name, branch=branch
            )
        except NotFoundError as error:
            if error.reason != DELETED:
                raise
            done.append(0)
        else:
            simulation.forked.setdefault(lane, n)
            done.append(made.n)

    for attempt in range(TRIES):
        asked = simulation.spawn(f"fork:{lane.conversation}.{attempt}", once)
        me.wait(lambda asked=asked: asked.done or asked.given_up or bool(done))
        if done:
            return bool(done[0])
    return False


def _speak(simulation: Simulation, me: Process, lane: Lane) -> None:
    """Send a message to a fork until it is in its log."""
    from tests.contract.explorer.simulation import USER

    def once(process: Process) -> None:
        try:
            admit(simulation.ports(process), lane, Arrival(message_id="m", user=USER, text="m"))
        except NotFoundError as error:
            if error.reason != DELETED:
                raise

    for attempt in range(TRIES):
        sending = simulation.spawn(f"in:{lane.conversation}.{attempt}", once)
        me.wait(lambda sending=sending: sending.done or sending.given_up)
        if simulation.log.admitted(lane, "m") is not None or lane.key() in simulation.log.tombstones:
            return


def delete_origin(simulation: Simulation, *, at: int, cascade: bool) -> None:
    """Have the owner delete the conversation, with its forks or only if it has none."""
    from tests.contract.explorer.simulation import LANE, USER

    answers: list[str] = []

    def once(process: Process) -> None:
        try:
            apply_deletion(simulation.ports(process), LANE, USER, cascade=cascade)
        except (InputError, NotFoundError) as error:
            if error.reason not in (DELETED, "has_forks"):
                raise
            answers.append(error.reason)
        else:
            answers.append("")

    def body(me: Process) -> None:
        me.wait(lambda: simulation.tail().n >= at or simulation.settling)
        for attempt in range(TRIES):
            asked = simulation.spawn(f"delete:{attempt}", once)
            me.wait(lambda asked=asked: asked.done or asked.given_up or bool(answers))
            if answers:
                return

    simulation.spawn("deleter", body, safe=True)


def misforked(simulation: Simulation) -> Iterator[str]:
    """Yield the broken promises of the forks."""
    from tests.contract.explorer.simulation import LANE

    log: MemoryLog = simulation.log
    for lane, origin in zip(FORKS, (LANE, *FORKS), strict=False):
        own = log.batches.get(lane.key()) or []
        is_there = any(own) and lane.key() not in log.tombstones
        if (lane.conversation in [row.conversation for row in log.forks(origin)]) != is_there:
            yield "a fork that its origin does not count, or counts too long"
        if is_there and origin.key() in log.tombstones:
            yield "a fork without its origin"
        if lane in simulation.forked and not own:
            yield "a fork lost"
        if any(own) and own[0] != RESERVED:
            yield "a conversation where a fork is"
        if is_there and origin.key() not in log.tombstones:
            yield from _both(simulation, lane, simulation.forked.get(lane, 0))


def _both(simulation: Simulation, lane: Lane, n: int) -> Iterator[str]:
    batches: list[Batch] = read_since(simulation.log, lane, 0, consistent=True)
    yield from chain(batches)
    yield from turns(batches)
    begins = [batch.n for batch in batches if forked_from(batch)]
    if n and n + 1 not in begins:
        yield "a fork at another batch"
    if batches[-1].state.status != "idle":
        yield "turn stuck"
    own = [event for batch in simulation.log.since(lane, 0) for event in batch.entries]
    if sum(isinstance(event, Inbound) and event.message_id == "m" for event in own) > 1:
        yield "message admitted twice"
    for event, places in homes(batches):
        if event.rule.unseen != "kept" and len(places) != 1:
            yield "message in no turn" if not places else "message in two turns"
    answered = [entry for batch in batches for entry in batch.entries if isinstance(entry, Closed)]
    if simulation.log.admitted(lane, "m") and not answered:
        yield "turn stuck"


class Uncounted(MemoryLog):
    """Puts a fork without its row at the origin."""

    def _count_fork(self, lane: Lane, batch: Batch) -> None:
        if forked_from(batch) is None:
            super()._count_fork(lane, batch)

    def forks(self, lane: Lane) -> list[ForkRow]:
        return []
