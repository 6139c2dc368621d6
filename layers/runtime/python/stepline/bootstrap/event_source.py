"""Another service's way into a conversation: it says what happened, in its own name and for the user it happened to.

What is submitted here takes the way of every message: it stands in the log before anything reacts to it, starts the
turn that it opens, and is told to whoever listens. The service needs neither a websocket nor a token of the user; it needs the
deployment's names and the rights of one role, and it is trusted to say whose event it is.
Source: docs/how-to/send-events.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepline.adapters.memory.meter import MemoryMeter
from stepline.bootstrap.wiring import on_aws
from stepline.errors import InputError, LimitError
from stepline.loop.admit import Arrival, Fate
from stepline.loop.event_intake import take_event
from stepline.loop.port import Ports
from stepline.model.attachment import ATTACHMENT_MAX_BYTES, Attachment, attachment_key, check_attachment
from stepline.model.base import Value
from stepline.model.ids import check_segment, is_user, make_lane

if TYPE_CHECKING:
    from stepline.ports.meter import Meter
    from stepline.settings import Settings

__all__ = ["Attachment", "EventSource", "Standing", "event_source"]


class Standing(Value):
    """Where an event stands: batch `n` of the conversation, under the kind it became, and what that batch did with it.

    It `opened` turn `turn_id`, `joined` that open turn, is `kept` for the next one, or was `dropped`, since there was
    nothing to steer. A `duplicate` stood there before.
    """

    n: int
    kind: str
    fate: Fate
    turn_id: str = ""
    duplicate: bool = False


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
    ) -> Standing:
        """Put an event into a conversation of `user`, once, and return where it stands.

        After an error that is retryable, or none at all, submit it again under the same `message_id`: it is admitted
        once. A conversation that is not there is an error, since an event for a misspelt name would be seen by nobody,
        unless the service means to begin one for the user and says so with `founds`.

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
        )
        admitted = take_event(self._ports, make_lane(tenant, project, conversation), arrival, founds=founds)
        return Standing(
            n=admitted.batch.n,
            kind=admitted.event,
            fate=admitted.fate,
            turn_id=admitted.batch.state.turn,
            duplicate=admitted.duplicate,
        )

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


def event_source(settings: Settings, *, source: str, meter: Meter | None = None) -> EventSource:
    """Return a source of events for the deployment that the settings name; nothing is connected before its first use.

    Its rights are those of the credentials that AWS's clients find in this process. Raises InputError `bad_source`.
    """
    return EventSource(on_aws(settings, meter or MemoryMeter()).ports, source=source)
