"""One message of one connection: check its sender, carry it out, and post one answer or one error event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal

from stepline.delivery.effect import deliver
from stepline.delivery.resume import newest, pong, resume
from stepline.errors import (
    AuthError,
    BusyError,
    DependencyError,
    InputError,
    LimitError,
    NotFoundError,
    SteplineError,
    UnknownOutcome,
)
from stepline.ingress.access import renew
from stepline.ingress.admit import Admitted, Arrival
from stepline.ingress.allow import check_rate, check_request
from stepline.ingress.approval_answer import ApprovalAnswer, Settled, answer_request
from stepline.ingress.event_validation import take_event
from stepline.log.bindings import Ports
from stepline.log.owned_tail import conceal_deletion
from stepline.model.entry import Feedback
from stepline.model.ids import Lane
from stepline.model.wire.client_message import (
    Approve,
    Auth,
    Deny,
    Edit,
    Event,
    Ping,
    Rate,
    Resume,
    Send,
    StreamCursor,
    Watch,
    parse_message,
    read_names,
)
from stepline.model.wire.event import (
    AckFrame,
    AuthFrame,
    ErrorFrame,
    Frame,
    WatchingFrame,
    encode_frame,
)
from stepline.model.wire.live_event import STEER, STOP
from stepline.ports.channel import Principal

logger = logging.getLogger(__name__)

PASSING = (BusyError, DependencyError, UnknownOutcome)
REFUSED = (AuthError, InputError, LimitError, NotFoundError)
SEND_AGAIN = "This could not be done right now. Please send it again in a moment."


def receive(ports: Ports, connection: str, body: str) -> None:
    """Handle one message; a refusal becomes one error frame with a stable code and the message's id.

    Internal failures (a bug, a permission that a role lacks) propagate: the edge counts, logs and reports them.
    """
    principal = None
    try:
        principal = recognise(ports, connection)
        message = parse_message(body)
        if isinstance(message, Auth | Resume | Ping | Watch):
            check_request(ports, principal, "reads")
        if isinstance(message, Auth):
            fresh = renew(ports, connection, principal, message.ticket)
            _post(ports, connection, AuthFrame(expires_at=fresh.expires_at))
        else:
            check_expiry(ports, principal)
            _dispatch(ports, connection, principal, message)
    except REFUSED as error:
        shown = _conceal(ports, principal, body, error) if principal else error
        logger.info("message refused", extra={"code": shown.reason})
        _refuse(ports, connection, body, shown.reason, str(shown), retry_after_s=_retry_after_s(shown))
    except PASSING as error:
        logger.warning("message not taken", extra={"code": error.reason, **error.context})
        _refuse(ports, connection, body, error.reason, SEND_AGAIN, retryable=True)


def recognise(ports: Ports, connection: str) -> Principal:
    """Return the connection's principal, even if the token has expired. Raises AuthError `unauthorized`."""
    principal = ports.subscriptions.principal(connection)
    if principal is None:
        raise AuthError("this connection is not known")
    return principal


def check_expiry(ports: Ports, principal: Principal) -> None:
    """Refuse a principal whose token has expired. Raises AuthError `auth_expired`."""
    if principal.expires_at <= ports.clock.now().timestamp():
        raise AuthError("the token has expired; renew it, or connect again", code="auth_expired")


def _dispatch(
    ports: Ports,
    connection: str,
    principal: Principal,
    message: Send | Event | Approve | Deny | Edit | Rate | Resume | Ping | Watch,
) -> None:
    """Carry out the message."""
    if isinstance(message, Watch):
        ports.subscriptions.watch(connection, principal)
        _post(ports, connection, WatchingFrame(expires_at=principal.expires_at))
        return
    lane = Lane(tenant=principal.tenant, project=principal.project, conversation=message.conversation)
    match message:
        case Send() | Event():
            _admit(ports, connection, lane, principal, message)
        case Approve() | Deny() | Edit():
            _settle(ports, connection, lane, principal, message)
        case Rate():
            _rate(ports, connection, lane, principal, message)
        case Resume():
            stream = message.stream or StreamCursor(claim=0)
            resume(
                ports,
                lane,
                user=principal.user,
                connection=connection,
                until_s=principal.expires_at,
                after=message.after,
                have=stream.off,
                claim=stream.claim,
            )
            ports.ledger.works_for(lane)
        case Ping():
            pong(ports, lane, user=principal.user, connection=connection)


def read_arrival(user: str, message: Send | Event) -> Arrival:
    """Return the event that a message submits."""
    if isinstance(message, Send):
        return Arrival(
            message_id=message.message_id,
            user=user,
            text=message.text,
            uploads=tuple(message.uploads),
            timezone=message.timezone,
            bundle=message.bundle,
        )
    return Arrival(
        message_id=message.message_id,
        user=user,
        kind=message.kind,
        reactive=message.reactive,
        payload=message.payload,
        uploads=tuple(message.uploads),
        timezone=message.timezone,
        bundle=message.bundle,
    )


def read_answer(principal: Principal, message: Approve | Deny | Edit) -> ApprovalAnswer:
    """Return the answer to a request for an approval."""
    return ApprovalAnswer(
        message_id=message.message_id,
        user=principal.user,
        client=principal.client,
        call_id=message.call_id,
        verdict=_VERDICTS[type(message)],
        text=message.text if isinstance(message, Deny) else "",
        params=message.params if isinstance(message, Edit) else None,
    )


_VERDICTS: Final[Mapping[type[Approve | Deny | Edit], Literal["approved", "denied", "edited"]]] = {
    Approve: "approved",
    Deny: "denied",
    Edit: "edited",
}


def _refuse(
    ports: Ports,
    connection: str,
    body: str,
    code: str,
    text: str,
    *,
    retry_after_s: int = 0,
    retryable: bool = False,
) -> None:
    """Post one error frame about a message, with the message and conversation ids found in it.

    A message that may be accepted after a known time is retryable, too.
    """
    names = read_names(body)
    frame = ErrorFrame(
        code=code,
        message=text,
        message_id=names.message_id,
        conversation=names.conversation,
        retry_after_s=retry_after_s,
        retryable=retryable or retry_after_s > 0,
    )
    _post(ports, connection, frame)


def report_internal(ports: Ports, connection: str, body: str) -> None:
    """Report to the client that a message failed for an internal reason, without naming it."""
    sorry = "Something went wrong here. Please send it again."
    _refuse(ports, connection, body, "internal", sorry, retryable=True)


def _conceal(ports: Ports, principal: Principal, body: str, error: SteplineError) -> SteplineError:
    """Return the refusal that the sender may see."""
    named = read_names(body).conversation
    lane = Lane(tenant=principal.tenant, project=principal.project, conversation=named)
    return conceal_deletion(ports, lane, principal.user, error)


def _retry_after_s(error: SteplineError) -> int:
    found = error.context.get("retry_after_s")
    return int(found) if isinstance(found, int | float) else 0


def _admit(ports: Ports, connection: str, lane: Lane, principal: Principal, message: Send | Event) -> None:
    arrival = read_arrival(principal.user, message)
    allowance = check_rate(ports, principal, steers=arrival.kind in (STEER, STOP))
    admitted = take_event(
        ports, lane, arrival, connection=connection, until_s=principal.expires_at, allowance=allowance
    )
    _acknowledge(ports, connection, lane, admitted, message_id=message.message_id, kind=admitted.event)


def _settle(
    ports: Ports, connection: str, lane: Lane, principal: Principal, message: Approve | Deny | Edit
) -> None:
    allowance = check_rate(ports, principal)
    answer = read_answer(principal, message)
    settled = answer_request(
        ports, lane, answer, connection=connection, until_s=principal.expires_at, allowance=allowance
    )
    _acknowledge(ports, connection, lane, settled, message_id=message.message_id, kind=settled.verdict)


def _rate(ports: Ports, connection: str, lane: Lane, principal: Principal, message: Rate) -> None:
    from stepline.ingress.feedback import submit_feedback  # noqa: PLC0415 - no other message folds the log
    from stepline.log.timeline_cache import History  # noqa: PLC0415 - as above

    check_rate(ports, principal)
    said = Feedback(
        turn=message.turn, at="", reaction=message.reaction, text=message.text, given_at=message.ts
    )
    stated = submit_feedback(
        ports,
        History(),
        lane,
        said,
        user=principal.user,
        message_id=message.message_id,
        connection=connection,
        until_s=principal.expires_at,
    )
    ack = AckFrame(
        message_id=message.message_id,
        conversation=lane.conversation,
        n=stated.n,
        kind="feedback",
        duplicate=stated.duplicate,
        newest=newest(ports, lane) if stated.duplicate else 0,
    )
    deliver(ports, lane, connection, [encode_frame(ack)])


def _acknowledge(
    ports: Ports, connection: str, lane: Lane, put: Admitted | Settled, *, message_id: str, kind: str
) -> None:
    """Send a message's position in the log; after a duplicate, the client may lack newer batches."""
    ack = AckFrame(
        message_id=message_id,
        conversation=lane.conversation,
        n=put.batch.n,
        kind=kind,
        duplicate=put.duplicate,
        newest=newest(ports, lane) if put.duplicate else 0,
        turn_id=put.batch.state.turn,
    )
    deliver(ports, lane, connection, [encode_frame(ack)])


def _post(ports: Ports, connection: str, frame: Frame) -> None:
    try:
        ports.publisher.post(connection, encode_frame(frame))
    except SteplineError as error:
        logger.warning("answer not delivered", extra={"code": error.reason})
