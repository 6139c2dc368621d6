"""An answer to a request for an approval: it unparks the turn, once, and its call runs, runs edited, or does not run.

The batch, the row of the message and the open mark are one transaction, as for a message that opens a turn. A late
answer is recorded as `expired`, and the turn continues without the call.
Source: docs/concepts/log.md#parked-turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from stepline.delivery.allowance import Allowance, read_allowance
from stepline.delivery.effect import project
from stepline.errors import InputError, LimitError, UnknownOutcome
from stepline.ingress.admit import carry_out, pending, settle_request
from stepline.ingress.allow import check_stopped
from stepline.ingress.enqueue import enqueue
from stepline.ingress.event_validation import check_params
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.owned_tail import refuse_absent
from stepline.log.transition import answered
from stepline.model.batch import Batch
from stepline.model.decision import Action, ApprovalVerdict
from stepline.model.entry import ApprovalAnswered, ApprovalRequested
from stepline.model.ids import Lane, edited_call_id, utc
from stepline.model.wire.client_message import WORDS_MAX_CHARS


@dataclass(frozen=True, kw_only=True)
class ApprovalAnswer:
    """An answer of the conversation's owner about the call `call_id`; `params` are those of an edited call.

    `client` is the application that the sender's verified token names.
    """

    message_id: str
    user: str
    call_id: str
    verdict: Literal["approved", "denied", "edited"]
    text: str = ""
    params: Mapping[str, Any] | None = None
    client: str = ""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The position of an answer in the log, its recorded verdict, and whether it is a duplicate."""

    batch: Batch
    verdict: ApprovalVerdict
    duplicate: bool = False


def answer_request(
    ports: Ports,
    lane: Lane,
    answer: ApprovalAnswer,
    *,
    connection: str = "",
    until_s: int = 0,
    allowance: Allowance | None = None,
) -> Settled:
    """Put the answer into the log, once, and start the execution that continues with it.

    Its sender's `connection` is subscribed until `until_s`. `allowance` is the sender's, if it was read before: no
    budget refuses an answer, and the turn takes its slot of concurrent turns again.

    Raises:
        NotFoundError: the conversation belongs to another user, or does not exist.
        InputError: `approval_not_pending`, no approval of this call is pending, or it was answered already;
            `approval_not_editable`, a program can only be allowed or denied; `message_id_taken`; `bad_message`, its
            parameters are not JSON, or nested deeper than those of an event.
        LimitError: the words are longer than WORDS_MAX_CHARS; `stopped`, no call may run now; `queue_full`.
        BusyError: the lane is contended; the client sends again.
    """
    if len(answer.text) > WORDS_MAX_CHARS:
        raise LimitError(f"a denial has at most {WORDS_MAX_CHARS} characters", limit=WORDS_MAX_CHARS)
    check_params(answer.params or {})
    journal = Journal(ports, lane, "answer")
    allowed = allowance or read_allowance(ports, lane.tenant, lane.project, answer.user)

    def plan(tail: Batch) -> Draft | Batch:
        if not tail.n:
            raise refuse_absent(ports, lane, answer.user)
        check_owner(tail, answer.user)
        asked = pending(journal, tail.state)
        if asked is not None and asked.action.call_id == answer.call_id:
            return _allowed(ports, lane, answer, allowed, _draft(ports, answer, tail, asked))
        said = ports.log.admitted(lane, answer.message_id)  # this answer, sent again
        if said is None:
            raise InputError("no approval of this call is pending", code="approval_not_pending")
        return again(said)

    def again(n: int) -> Batch:
        found = journal.get(n)
        if found is None:
            raise UnknownOutcome("a message row names a batch that does not exist", n=n)
        check_owner(found, answer.user)
        if not any(_is_said(entry, answer) for entry in found.entries):
            raise InputError("this id belongs to another message", code="message_id_taken")
        return found

    batch = journal.commit(plan, on_duplicate=again)
    ports.ledger.works_for(lane, batch.state.turn)
    if connection:
        ports.subscriptions.subscribe(lane, connection, until_s, answer.user)
    carry_out(ports, lane, batch)
    project(ports, lane, batch)
    (recorded,) = (entry for entry in batch.entries if isinstance(entry, ApprovalAnswered))
    return Settled(batch=batch, verdict=recorded.verdict, duplicate=batch.by != journal.by)


def _allowed(ports: Ports, lane: Lane, answer: ApprovalAnswer, allowance: Allowance, draft: Draft) -> Draft:
    """Return the draft with the slots of its turn, or queued. While work is stopped, only a denial is accepted."""
    if answer.verdict != "denied":
        check_stopped(allowance)
    return enqueue(ports, lane, allowance, draft)


def _draft(ports: Ports, answer: ApprovalAnswer, tail: Batch, asked: ApprovalRequested) -> Draft:
    """Plan the batch that settles the request `asked` after `tail`."""
    n, now = tail.n + 1, ports.clock.now()
    verdict: ApprovalVerdict = "expired" if asked.is_expired(now) else answer.verdict
    if answer.verdict == "edited" and asked.action.code is not None:
        raise InputError("a program can only be allowed or denied", code="approval_not_editable")
    action: Action | None = None
    if verdict == "edited":
        call = edited_call_id(answer.call_id, n)
        action = replace(asked.action, call_id=call, params=dict(answer.params or {}))
    entry = settle_request(
        asked,
        tail.state,
        verdict,
        message_id=answer.message_id,
        at=utc(now),
        text=answer.text,
        action=action,
        client=answer.client,
    )
    return Draft(
        entries=(entry,), state=answered(tail.state, n), message_id=answer.message_id, marks_open=True
    )


def _is_said(entry: object, answer: ApprovalAnswer) -> bool:
    """Return True if an entry is this answer, put by an earlier try of its message."""
    mine = isinstance(entry, ApprovalAnswered) and entry.message_id == answer.message_id
    return mine and isinstance(entry, ApprovalAnswered) and entry.call_id == answer.call_id
