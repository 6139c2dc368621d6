"""Admission: a message enters a conversation exactly once, and opens a turn if none is open.

    idle, reactive   → [in, turn opened]        open → [in]
    idle, otherwise  → [in]                     idle, steer → [in, dropped]

The batch, the message's row and the listing's open mark are one transaction.
Source: docs/concepts/log.md#admission.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from stepline.errors import NotFoundError, UnknownOutcome
from stepline.loop.effect import publish, redo
from stepline.loop.journal import Draft, Journal
from stepline.loop.listing import project
from stepline.loop.port import Ports
from stepline.loop.sweep import revive
from stepline.loop.transition import opened
from stepline.metrics import TURNS_STARTED
from stepline.model.batch import Batch
from stepline.model.entry import Dropped, Entry, Inbound, Opened, Owner
from stepline.model.ids import Lane, turn_id, utc


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One event from outside, before it has a place in the log."""

    message_id: str
    user: str
    text: str
    steer: bool = False
    reactive: bool = True


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """Where a message stands: its batch, what it became, and whether it had been there before."""

    batch: Batch
    event: str
    duplicate: bool = False


def admit(ports: Ports, lane: Lane, arrival: Arrival, *, connection: str = "", until_s: int = 0) -> Admitted:
    """Put the message into the conversation's log, once, and see to its execution; let its sender listen till `until_s`.

    Raises:
        NotFoundError: the conversation belongs to somebody else.
        BusyError: the lane is contended; the client sends again.
    """
    journal = Journal(ports, lane, "admit")

    def plan(tail: Batch) -> Draft:
        check_owner(tail, arrival.user)
        return draft_admission(ports, lane, arrival, tail)

    def again(n: int) -> Batch:
        found = journal.get(n)
        if found is None:
            raise UnknownOutcome("a message row names a batch that is not there", n=n)
        check_owner(found, arrival.user)
        return found

    batch = journal.commit(plan, on_duplicate=again)
    if connection:
        ports.subscriptions.subscribe(lane, connection, until_s)
    see_to(ports, lane, batch)
    publish(ports, lane, batch)
    if batch.n == 1:
        project(ports, lane, batch)
    event = next(entry.event for entry in batch.entries if isinstance(entry, Inbound))
    return Admitted(batch=batch, event=event, duplicate=batch.by != journal.by)


def see_to(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Start the execution of a turn this batch opened; if the lane was open already, see that it is alive."""
    if redo(ports, lane, batch):
        ports.meter.count(TURNS_STARTED)
    else:
        revive(ports, lane, batch)


def check_owner(tail: Batch, user: str) -> None:
    """Raise NotFoundError if the conversation exists and is somebody else's."""
    if tail.n and tail.state.owner != user:
        raise NotFoundError("no such conversation")


def draft_admission(ports: Ports, lane: Lane, arrival: Arrival, tail: Batch) -> Draft:
    """Plan the batch that admits this message after `tail`."""
    n, now = tail.n + 1, ports.clock.now()
    state = replace(tail.state, owner=arrival.user)
    idle = state.status == "idle"
    event = "steer" if arrival.steer else "prompt" if idle else "followup" if arrival.reactive else "event"
    entries: list[Entry] = [] if tail.n else [Owner(user=arrival.user)]
    entries.append(
        Inbound(
            message_id=arrival.message_id,
            event=event,
            text=arrival.text,
            user=arrival.user,
            at=utc(now),
            reactive=arrival.reactive and not arrival.steer,
        )
    )
    opens = idle and arrival.reactive and not arrival.steer
    if opens:
        turn = turn_id(now, f"{lane.key()}/{arrival.message_id}")
        entries.append(Opened(turn=turn, at=utc(now), prompts=(n,)))
        state = opened(state, n, turn)
    elif idle and arrival.steer:
        entries.append(Dropped(n=n, reason="nothing_to_steer"))
    elif not idle and arrival.reactive and not arrival.steer:
        state = replace(state, credits=min(state.credits + 1, ports.policy.max_iterations))
    return Draft(entries=tuple(entries), state=state, message_id=arrival.message_id, marks_open=opens)
