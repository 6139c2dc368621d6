"""Admission: a message enters a conversation exactly once, and opens a turn if none is open.

    idle, asks for an answer → [in, turn opened]        open → [in]
    idle, does not           → [in]                     idle, steers → [in, dropped]

`model.wire.live_event` holds the table of events and their effects. The batch, the message's row and the listing's
open mark are one transaction. A turn that the stage has no room for is opened nevertheless, and is queued
(`ingress/enqueue.py`). Source: docs/concepts/log.md#admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from stepline.delivery.allowance import Allowance, read_allowance
from stepline.delivery.effect import project, publish, redo
from stepline.delivery.stage_queue import begin_queued
from stepline.errors import InputError, LimitError, NotFoundError, UnknownOutcome
from stepline.ingress.allow import check_admission
from stepline.ingress.enqueue import begin_to_stop, enqueue
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.transition import answered, opened
from stepline.loop.close import hand_back, open_turn
from stepline.loop.programs.interrupt import interrupt
from stepline.loop.sweep import revive
from stepline.metrics import TURNS_QUEUED, TURNS_STARTED
from stepline.model.base import Value
from stepline.model.batch import Batch, State
from stepline.model.decision import Action, ApprovalVerdict
from stepline.model.entry import ApprovalAnswered, ApprovalRequested, Dropped, Entry, Inbound, Opened, Owner
from stepline.model.file.attachment import Attachment
from stepline.model.ids import DEFAULT_BUNDLE, Lane, turn_id, utc
from stepline.model.wire.live_event import CREDIT, FOLLOWUP, PROMPT, STEER, STOP, is_reactive

Fate: TypeAlias = Literal["opened", "joined", "kept", "dropped"]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One event from outside, before it is in the log.

    `kind` is the sender's name for it; `reactive` is None if the kind decides. `source` names the service that acts
    for the user. `timezone` is the user's, if known. `bundle` is the bundle requested for the conversation, by its
    name on the stage; "" names none. `uploads` are ids of uploads, which become attachments; `uploaded_bytes` is the
    size of its attachments that were uploads, which has been counted already.
    """

    message_id: str
    user: str
    text: str = ""
    kind: str = FOLLOWUP
    reactive: bool | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    uploads: tuple[str, ...] = ()
    uploaded_bytes: int = 0
    source: str = ""
    timezone: str = ""
    bundle: str = ""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The position of a message in the log: its batch, its resulting kind, and whether it is a duplicate."""

    batch: Batch
    event: str
    duplicate: bool = False

    @property
    def fate(self) -> Fate:
        """The event's outcome: it opened a turn, joined the open one, is kept for the next, or was dropped."""
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
    allowance: Allowance | None = None,
) -> Admitted:
    """Put the message into the conversation's log, once, start or check its execution, and publish it.

    Its sender's `connection` is subscribed until `until_s`. Without `founds` the conversation must already exist.
    `allowance` is the sender's, if it was read before.

    Raises:
        InputError: `message_id_taken`, by an event of another source; the errors of `choose_bundle`. NotFoundError:
            the conversation belongs to another user, or does not exist. LimitError: `stopped`, `limit_tokens`,
            `limit_usd`, `limit_storage`, `limit_turns`, `queue_full`; not for a steer. BusyError: the lane is
            contended; the client sends again.
    """
    journal = Journal(ports, lane, "admit")
    allowed = allowance or read_allowance(ports, lane.tenant, lane.project, arrival.user)

    def plan(tail: Batch) -> Draft | Batch:
        check_owner(tail, arrival.user)
        if not tail.n and not founds:
            raise NotFoundError("no such conversation")
        draft = draft_admission(ports, lane, arrival, tail, asked=pending(journal, tail.state))
        draft = begin_to_stop(ports, lane, draft, tail)
        try:
            used = check_admission(ports, allowed, draft, uploaded_bytes=arrival.uploaded_bytes)
            return enqueue(ports, lane, allowed, draft, used)
        except LimitError:
            said = ports.log.admitted(lane, arrival.message_id)  # sent again: it was allowed before
            if said is None:
                raise
            return again(said)

    def again(n: int) -> Batch:
        found = journal.get(n)
        if found is None:
            raise UnknownOutcome("a message row names a batch that does not exist", n=n)
        check_owner(found, arrival.user)
        if admitted_event(found) is None or event_of(found).source != arrival.source:
            raise InputError("another source has sent an event with this id", code="message_id_taken")
        return found

    batch = journal.commit(plan, on_duplicate=again)
    ports.ledger.works_for(lane, batch.state.turn)
    if event_of(batch).steers:  # first, because a running step waits for it
        ports.signals.notify(lane, batch.n)
    if connection:
        ports.subscriptions.subscribe(lane, connection, until_s, arrival.user)
    _follow(ports, lane, batch)
    return Admitted(batch=batch, event=event_of(batch).event, duplicate=batch.by != journal.by)


def _follow(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Carry out the effects of an admitting batch, perhaps again."""
    carry_out(ports, lane, batch)
    if event_of(batch).steers:
        interrupt(ports, lane, batch)
    if batch.n == 1 or any(isinstance(entry, ApprovalAnswered) for entry in batch.entries):
        project(ports, lane, batch)


def event_of(batch: Batch) -> Inbound:
    """Return the event that a batch admitted."""
    return next(entry for entry in batch.entries if isinstance(entry, Inbound))


def admitted_event(batch: Batch) -> Inbound | None:
    """Return the event that a batch admitted; None for the batch of an answer to a request."""
    return next((entry for entry in batch.entries if isinstance(entry, Inbound)), None)


def pending(journal: Journal, state: State) -> ApprovalRequested | None:
    """Return the request for an approval that a parked turn waits for; None if it waits for none."""
    batch = journal.get(state.parked) if state.parked else None
    return next((e for e in batch.entries if isinstance(e, ApprovalRequested)), None) if batch else None


def settle_request(
    asked: ApprovalRequested,
    state: State,
    verdict: ApprovalVerdict,
    *,
    message_id: str,
    at: str,
    text: str = "",
    action: Action | None = None,
    client: str = "",
) -> ApprovalAnswered:
    """Return the record of an answer to a request."""
    return ApprovalAnswered(
        n=state.parked,
        turn=state.turn,
        at=at,
        iteration=asked.iteration,
        call_id=asked.action.call_id,
        tool_id=asked.action.tool_id,
        verdict=verdict,
        requested_at=asked.at,
        message_id=message_id,
        text=text,
        action=action,
        client=client,
    )


def carry_out(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Start or check the turn of a batch, publish it, and begin queued turns if it queued its own. Idempotent."""
    see_to(ports, lane, batch)
    publish(ports, lane, batch)
    if batch.queues:
        begin_queued(ports)  # a slot may have become free in between


def see_to(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Start the execution of a turn that this batch opened, unparked or began, or check that an open turn is alive."""
    if batch.queues:
        ports.meter.count(TURNS_QUEUED)
    if redo(ports, lane, batch):
        ports.meter.count(TURNS_STARTED, any(isinstance(entry, Opened) for entry in batch.entries))
    else:
        revive(ports, lane, batch)


def draft_admission(
    ports: Ports, lane: Lane, arrival: Arrival, tail: Batch, *, asked: ApprovalRequested | None = None
) -> Draft:
    """Plan the batch that admits this message after `tail`, whose turn may wait for the approval `asked`.

    A steer withdraws the request, and any message after its time settles it; other messages wait.
    """
    n, now = tail.n + 1, ports.clock.now()
    bundle = choose_bundle(ports, arrival, tail)
    ports, state = ports.of(bundle), replace(tail.state, owner=arrival.user, bundle=bundle)
    state = replace(state, stored_bytes=state.stored_bytes - arrival.uploaded_bytes)
    event = _make_inbound(arrival, at=utc(now), idle=state.status == "idle")
    rule = event.rule
    entries: list[Entry] = [] if tail.n else [Owner(user=arrival.user, bundle=bundle)]
    entries.append(event)
    opens = False
    if state.status == "open":
        if rule.credits:
            most = ports.policy.max_iterations
            state = replace(state, credits=min(state.credits + _credit(ports, event), most))
        if asked is not None and (verdict := _verdict(asked, event, now)):
            entries.append(settle_request(asked, state, verdict, message_id=arrival.message_id, at=utc(now)))
            state, opens = answered(state, n), True
    elif rule.idle == "opens":
        turn, opens = turn_id(now, f"{lane.key()}/{arrival.message_id}"), True
        entries.append(open_turn(ports.policy, turn, utc(now), (n,)))
        state = opened(state, n, turn)
    elif rule.idle == "dropped":
        entries.append(hand_back(n, event, "nothing_to_steer"))
    return Draft(entries=tuple(entries), state=state, message_id=arrival.message_id, marks_open=opens)


def choose_bundle(ports: Ports, arrival: Arrival, tail: Batch) -> str:
    """Return the conversation's bundle: its first message names it, and no later message changes it.

    Raises InputError: `another_bundle`, the conversation has another one; `unknown_bundle`, the stage has no bundle of
    this name, or no longer has it.
    """
    named = "" if arrival.bundle == DEFAULT_BUNDLE else arrival.bundle
    bundle = tail.state.bundle if tail.n else named
    if arrival.bundle and named != bundle:
        raise InputError(
            "the conversation has another bundle, which its first message chose; begin a new one",
            code="another_bundle",
        )
    if bundle and bundle not in ports.bundles:
        raise InputError("this stage has no bundle of this name", code="unknown_bundle")
    return bundle


def _verdict(asked: ApprovalRequested, event: Inbound, now: datetime) -> ApprovalVerdict | None:
    """Return the verdict that an event gives on a request; None if the event waits with the parked turn."""
    if event.steers:
        return "withdrawn"
    return "expired" if asked.is_expired(now) else None


def _make_inbound(arrival: Arrival, *, at: str, idle: bool) -> Inbound:
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
    """Return the rounds that an event adds; its payload may request another number if events add any."""
    standard = ports.policy.event_credit
    return int(event.payload.get(CREDIT, standard)) if standard > 0 else 0


class EventReceipt(Value):
    """The result of a submitted event: batch `n` of the conversation, its kind, and its outcome.

    It `opened` turn `turn_id`, `joined` that open turn, is `kept` for the next one, or was `dropped`, because there was
    nothing to steer. A `duplicate` was in the log before.
    """

    n: int
    kind: str
    fate: Fate
    turn_id: str = ""
    duplicate: bool = False


def make_receipt(admitted: Admitted) -> EventReceipt:
    """Return the receipt of an admitted event."""
    return EventReceipt(
        n=admitted.batch.n,
        kind=admitted.event,
        fate=admitted.fate,
        turn_id=admitted.batch.state.turn,
        duplicate=admitted.duplicate,
    )
