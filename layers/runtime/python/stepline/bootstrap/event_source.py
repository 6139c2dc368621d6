"""Events that another service submits to a conversation, in its own name and for a user.

An event takes the same path as every message: it is in the log before anything reacts to it, it starts the turn that
it opens, and every listener gets it. The service needs neither a websocket nor a token of the user. It needs the
deployment's names and the permissions of one role, and it is trusted to name the user of the event.
Source: docs/how-to/send-events.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepline.adapters.aws.client import take_role
from stepline.adapters.memory.clock import MemoryMeter
from stepline.bootstrap.app import App
from stepline.bootstrap.aws_wiring import on_aws
from stepline.errors import InputError, LimitError
from stepline.ingress.admit import Arrival, EventReceipt, make_receipt
from stepline.ingress.event_validation import take_event
from stepline.log.bindings import Ports
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, Attachment, attachment_key, check_attachment
from stepline.model.ids import check_segment, is_user, make_lane

if TYPE_CHECKING:
    from stepline.ports.clock import Meter
    from stepline.settings import Settings

__all__ = ["Attachment", "EventReceipt", "EventSource", "event_source"]


class EventSource:
    """Submits events of one service to its users' conversations. Any thread may use it."""

    def __init__(self, ports: Ports, *, source: str) -> None:
        """Submit events as `source`, which the agent reads and the log keeps. Raises InputError `bad_source`."""
        self._ports = ports
        self._source = check_segment(source, "source")

    def submit_event(
        self,
        *,
        tenant: str,
        project: str,
        conversation: str,
        user: str,
        kind: str,
        message_id: str,
        payload: Mapping[str, Any] | None = None,
        reactive: bool | None = None,
        attachments: Sequence[Attachment] = (),
        founds: bool = False,
        bundle: str = "",
    ) -> EventReceipt:
        """Put an event into a conversation of `user`, once; return its position in the log.

        After a retryable error, or without a result, submit it again under the same `message_id`: it is admitted once.
        A conversation that does not exist is an error, since no user would see an event for a misspelt name. To begin a
        new conversation for the user, set `founds`; `bundle` is then the name of its bundle.

        Raises:
            InputError: a name or the event is invalid.
            LimitError: the event is too large.
            NotFoundError: the conversation belongs to another user, or does not exist.
            BusyError, DependencyError, UnknownOutcome: temporary; submit it again.

        """
        if not is_user(user):
            raise InputError("a user is named by printable ASCII", code="bad_user")
        arrival = Arrival(
            message_id=message_id,
            user=user,
            kind=kind,
            reactive=reactive,
            payload=payload or {},
            attachments=tuple(attachments),
            source=self._source,
            bundle=bundle,
        )
        admitted = take_event(self._ports, make_lane(tenant, project, conversation), arrival, founds=founds)
        return make_receipt(admitted)

    def store_attachment(
        self, *, tenant: str, project: str, conversation: str, body: bytes, filename: str, mime: str
    ) -> Attachment:
        """Store a file for events of one conversation, and return its reference. The same bytes are stored once.

        Raises:
            InputError: `bad_attachment`, or an invalid name.
            LimitError: `attachment_too_large`.
            DependencyError: the store does not answer; try again.

        """
        if len(body) > ATTACHMENT_MAX_BYTES:
            raise LimitError(
                f"an attachment has at most {ATTACHMENT_MAX_BYTES} bytes", code="attachment_too_large"
            )
        lane = make_lane(tenant, project, conversation)
        sha256 = hashlib.sha256(body).hexdigest()
        attachment = Attachment(filename=filename, mime=mime, size_bytes=len(body), sha256=sha256)
        check_attachment(attachment)
        self._ports.artifacts.put(attachment_key(lane, sha256), body, mime=mime)
        return attachment


def event_source(
    settings: Settings, *, source: str, role_arn: str = "", meter: Meter | None = None
) -> EventSource:
    """Return an event source for the deployment that the settings name; nothing is connected before its first use.

    With `role_arn` the whole library acts under that role in this process from now on, and otherwise under the
    credentials that AWS clients find. Raises InputError `bad_source`, or `another_role` if a role is already in use.
    """
    made = EventSource(on_aws(settings, meter or MemoryMeter(), App).ports, source=source)
    if role_arn:
        take_role(role_arn, source)
    return made
