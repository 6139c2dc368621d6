"""Admission: a message enters a conversation exactly once, and opens a turn if none is open.

    idle, asks for an answer → [in, turn opened]        open → [in]
    idle, does not           → [in]                     idle, steers → [in, dropped]

`model.live_event` holds the table of events and what each does. The batch, the message's row and the
listing's open mark are one transaction. Source: docs/concepts/log.md#admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from stepline.delivery.effect import project, publish, redo
from stepline.errors import InputError, NotFoundError, UnknownOutcome
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.transition import opened
from stepline.loop.close import hand_back, open_turn
from stepline.loop.programs.interrupt import interrupt
from stepline.loop.sweep import revive
from stepline.metrics import TURNS_STARTED
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.entry import Dropped, Entry, Inbound, Opened, Owner
from stepline.model.file.attachment import Attachment
from stepline.model.ids import Lane, turn_id, utc
from stepline.model.wire.live_event import CREDIT, FOLLOWUP, PROMPT, STEER, STOP, is_reactive

Fate: TypeAlias = Literal["opened", "joined", "kept", "dropped"]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One event from outside, before it has a place in the log.

    `kind` is the sender's name for it; `reactive` is None if the sender left that to the kind. `source` names
    the service that acts for the user. `timezone` is the user's, if known.
    """

    message_id: str
    user: str
    text: str = ""
    kind: str = FOLLOWUP
    reactive: bool | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    source: str = ""
    timezone: str = ""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The place of a message in the log: its batch, the kind it became, and whether it was there before."""

    batch: Batch
    event: str
    duplicate: bool = False

    @property
    def fate(self) -> Fate:
        """The event's fate: it opened a turn, joined the open one, is kept for the next, or was dropped."""
        if any(isinstance(entry, Dropped) for entry in self.batch.entries):
            return "dropped"
        if any(isinstance(entry, Opened) for entry in self.batch.entries):
            return "opened"
        return "joined" if self.batch.state.status == "open" else "kept"


def admit(
    ports: Ports,
    lane: Lane,
    arrival: Arrival,
    *,
    connection: str = "",
    until_s: int = 0,
    founds: bool = True,
) -> Admitted:
    """Put the message into the conversation's log, once, start or check its execution, and publish it.

    Its sender's `connection` is subscribed until `until_s`. Without `founds` the conversation must exist
    already.

    Raises:
        InputError: `message_id_taken`, by an event of another source.
        NotFoundError: the conversation belongs to another user, or does not exist.
        BusyError: the lane is contended; the client sends again.
    """
    journal = Journal(ports, lane, "admit")

    def plan(tail: Batch) -> Draft:
        check_owner(tail, arrival.user)
        if not tail.n and not founds:
            raise NotFoundError("no such conversation")
        return draft_admission(ports, lane, arrival, tail)

    def again(n: int) -> Batch:
        found = journal.get(n)
        if found is None:
            raise UnknownOutcome("a message row names a batch that is not there", n=n)
        check_owner(found, arrival.user)
        if event_of(found).source != arrival.source:
            raise InputError("another source has sent an event of this id", code="message_id_taken")
        return found

    batch = journal.commit(plan, on_duplicate=again)
    steers = event_of(batch).steers
    if steers:  # first of all: a running step waits for it
        ports.signals.notify(lane, batch.n)
    if connection:
        ports.subscriptions.subscribe(lane, connection, until_s)
    see_to(ports, lane, batch)
    publish(ports, lane, batch)
    if steers:
        interrupt(ports, lane, batch)
    if batch.n == 1:
        project(ports, lane, batch)
    return Admitted(batch=batch, event=event_of(batch).event, duplicate=batch.by != journal.by)


def event_of(batch: Batch) -> Inbound:
    """Return the event that a batch admitted."""
    return next(entry for entry in batch.entries if isinstance(entry, Inbound))


def see_to(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Start the execution of a turn this batch opened; otherwise check that an open turn is alive."""
    if redo(ports, lane, batch):
        ports.meter.count(TURNS_STARTED)
    else:
        revive(ports, lane, batch)


def draft_admission(ports: Ports, lane: Lane, arrival: Arrival, tail: Batch) -> Draft:
    """Plan the batch that admits this message after `tail`."""
    n, now = tail.n + 1, ports.clock.now()
    state = replace(tail.state, owner=arrival.user)
    event = make_event(arrival, at=utc(now), idle=state.status == "idle")
    rule = event.rule
    entries: list[Entry] = [] if tail.n else [Owner(user=arrival.user)]
    entries.append(event)
    opens = False
    if state.status == "open":
        if rule.credits:
            most = ports.policy.max_iterations
            state = replace(state, credits=min(state.credits + _credit(ports, event), most))
    elif rule.idle == "opens":
        turn, opens = turn_id(now, f"{lane.key()}/{arrival.message_id}"), True
        entries.append(open_turn(ports.policy, turn, utc(now), (n,)))
        state = opened(state, n, turn)
    elif rule.idle == "dropped":
        entries.append(hand_back(n, event, "nothing_to_steer"))
    return Draft(entries=tuple(entries), state=state, message_id=arrival.message_id, marks_open=opens)


def make_event(arrival: Arrival, *, at: str, idle: bool) -> Inbound:
    """Return the entry of an event; a message without an open turn is a prompt.

    Raises InputError `bad_event`.
    """
    reactive = is_reactive(arrival.kind, arrival.reactive)
    kind = {FOLLOWUP: PROMPT if idle else FOLLOWUP, STOP: STEER}.get(arrival.kind, arrival.kind)
    return Inbound(
        message_id=arrival.message_id,
        event=kind,
        text=arrival.text,
        user=arrival.user,
        at=at,
        reactive=reactive,
        payload=dict(arrival.payload),
        attachments=arrival.attachments,
        source=arrival.source,
        timezone=arrival.timezone,
    )


def _credit(ports: Ports, event: Inbound) -> int:
    """Return the rounds that an event adds; its payload may ask for another number where events add any."""
    standard = ports.policy.event_credit
    return int(event.payload.get(CREDIT, standard)) if standard > 0 else 0


class Standing(Value):
    """The place of a submitted event: batch `n` of the conversation, its kind, and its fate.

    It `opened` turn `turn_id`, `joined` that open turn, is `kept` for the next one, or was `dropped`, since
    there was nothing to steer. A `duplicate` was there before.
    """

    n: int
    kind: str
    fate: Fate
    turn_id: str = ""
    duplicate: bool = False


def standing_of(admitted: Admitted) -> Standing:
    """Return the standing of an admitted event."""
    return Standing(
        n=admitted.batch.n,
        kind=admitted.event,
        fate=admitted.fate,
        turn_id=admitted.batch.state.turn,
        duplicate=admitted.duplicate,
    )
