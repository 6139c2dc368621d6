"""Events that another service submits to a conversation, in its own name and for a user.

What is submitted here takes the way of every message: it stands in the log before anything reacts to it, starts the
turn that it opens, and is told to whoever listens. The service needs neither a websocket nor a token of the user; it needs the
deployment's names and the rights of one role, and it is trusted to say whose event it is.
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
    """Speaks as one service in its users' conversations. Any thread may use it."""

    def __init__(self, ports: Ports, *, source: str) -> None:
        """Speak as `source`, which the agent reads and the log keeps. Raises InputError `bad_source`."""
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
        """Put an event into a conversation of `user`, once; return its place in the log.

        After an error that is retryable, or none at all, submit it again under the same `message_id`: it is admitted
        once. A conversation that is not there is an error, since an event for a misspelt name would be seen by nobody,
        unless the service means to begin one for the user and says so with `founds`; `bundle` is the name of its bundle then.

        Raises:
            InputError: a name or the event is not as it must be.
            LimitError: the event is too large.
            NotFoundError: the conversation is somebody else's, or is not there.
            BusyError, DependencyError, UnknownOutcome: not now; submit it again.

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
        """Store a file for events of one conversation, and return what they name it by. The same bytes are stored once.

        Raises:
            InputError: `bad_attachment`, or a name that is none.
            LimitError: `attachment_too_large`.
            DependencyError: the store does not answer; store it again.

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
    """Return a source of events for the deployment that the settings name; nothing is connected before its first use.

    With `role_arn` all of the library in this process acts under that role from now on, and otherwise under the
    credentials that AWS's clients find. Raises InputError `bad_source`, or `another_role`, one was taken already.
    """
    made = EventSource(on_aws(settings, meter or MemoryMeter(), App).ports, source=source)
    if role_arn:
        take_role(role_arn, source)
    return made
