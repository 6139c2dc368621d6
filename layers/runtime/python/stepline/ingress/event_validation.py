"""Validation of events from outside, on every way into a conversation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from stepline.delivery.allowance import Allowance
from stepline.errors import InputError, LimitError
from stepline.ingress.admit import Admitted, Arrival, admit
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.model.batch import EMPTY
from stepline.model.file.attachment import (
    ATTACHMENTS_MAX,
    UPLOAD_ID,
    Attachment,
    attachment_key,
    check_attachment,
)
from stepline.model.ids import Lane, check_segment, local_time
from stepline.model.wire.client_message import TIMEZONE_CHARS
from stepline.model.wire.live_event import CREDIT, FOLLOWUP, KIND, PROMPT, STEER, STOP, is_reactive

PENDING_S: Final = 2
"""How long a client waits before it names an upload again that has no verdict yet."""
PAYLOAD_MAX_BYTES: Final = 24 * 1024
"""The most bytes of a payload as JSON, without its text: with everything around it, it fits into a batch."""
PAYLOAD_MAX_DEPTH: Final = 32
_INTEGERS: Final = range(-(2**63), 2**63)
"""Larger numbers do not survive a round trip through the log."""


def take_event(
    ports: Ports,
    lane: Lane,
    arrival: Arrival,
    *,
    connection: str = "",
    until_s: int = 0,
    founds: bool = True,
    allowance: Allowance | None = None,
) -> Admitted:
    """Validate an event and admit it. Raises the errors of `checked_arrival` and `admit`."""
    checked = checked_arrival(ports, lane, arrival)
    return admit(
        ports, lane, checked, connection=connection, until_s=until_s, founds=founds, allowance=allowance
    )


def checked_arrival(ports: Ports, lane: Lane, arrival: Arrival) -> Arrival:
    """Return the validated event, with its payload's text as its own.

    Raises:
        InputError: `bad_message_id`; `bad_event`; `bad_timezone`; `bad_attachment`; `attachment_missing`, nothing is
            stored under a reference; `upload_missing`, `upload_pending`, `upload_expired`, `attachment_rejected`, for
            an upload.
        LimitError: `input_too_long`, for its text; `payload_too_large`, `too_many_attachments`;
            `message_size_limit`, for its attachments and its text together.
        NotFoundError: it has attachments, and the conversation belongs to another user.
        DependencyError: the log or the artifact store does not answer.
    """
    check_segment(arrival.message_id, "message_id")
    if arrival.kind == PROMPT or not KIND.fullmatch(arrival.kind):
        raise InputError(f"there is no event of kind {arrival.kind[:40]!r}", code="bad_event")
    is_reactive(arrival.kind, arrival.reactive)
    payload = dict(arrival.payload)
    if arrival.text and "text" in payload:
        raise InputError("an event has one text: its own, or one in its payload", code="bad_event")
    text = payload.pop("text", arrival.text)
    _check_text(ports, text)
    _check_zone(ports, arrival.timezone)
    _check_payload(payload)
    _check_kind(arrival, text, payload)
    files = _find_attachments(ports, lane, arrival, text)
    uploaded = files[len(arrival.attachments) :]
    return replace(
        arrival,
        text=text,
        payload=payload,
        attachments=files,
        uploads=(),
        uploaded_bytes=sum(file.size_bytes for file in uploaded),
    )


def _check_text(ports: Ports, text: object) -> None:
    if not isinstance(text, str):
        raise InputError("the text of an event must be a string", code="bad_event")
    _size_bytes(text)
    if len(text) > (most := ports.policy.message_max_chars):
        raise LimitError(
            f"a text has at most {most} characters; upload a longer one, and attach it", code="input_too_long"
        )


def _check_zone(ports: Ports, zone: str) -> None:
    if zone and not (len(zone) <= TIMEZONE_CHARS and local_time(ports.clock.now(), zone)):
        raise InputError(f"there is no time zone {zone[:TIMEZONE_CHARS]!r}", code="bad_timezone")


def _check_payload(payload: Mapping[str, Any]) -> None:
    _check_json(payload, PAYLOAD_MAX_DEPTH)
    size_bytes = len(msgspec.json.encode(payload))
    if size_bytes > PAYLOAD_MAX_BYTES:
        raise LimitError(
            f"a payload of {size_bytes} bytes; it may have {PAYLOAD_MAX_BYTES} beside its text",
            code="payload_too_large",
        )
    credit = payload.get(CREDIT, 0)
    if isinstance(credit, bool) or not isinstance(credit, int) or credit < 0:
        raise InputError(f"`{CREDIT}` is a number of rounds", code="bad_event")


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse edited parameters that are deeper than a payload, or not JSON. Raises InputError `bad_message`."""
    try:
        _check_json(params, PAYLOAD_MAX_DEPTH)
    except InputError as error:
        raise InputError(str(error).replace("a payload", "`params`", 1), code="bad_message") from error


def _check_json(value: object, depth: int) -> None:
    """Refuse values that do not survive a round trip through JSON. Raises InputError `bad_event`."""
    if not isinstance(value, dict | list):
        _check_leaf(value)
        return
    if not depth:
        raise InputError(f"a payload is at most {PAYLOAD_MAX_DEPTH} levels deep", code="bad_event")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InputError("a payload's names are texts", code="bad_event")
            _size_bytes(key)
    for item in value.values() if isinstance(value, dict) else value:
        _check_json(item, depth - 1)


def _check_leaf(value: object) -> None:
    match value:
        case str():
            _size_bytes(value)
        case int() if value not in _INTEGERS:
            raise InputError("a payload's integers have at most 64 bits", code="bad_event")
        case float() if not math.isfinite(value):
            raise InputError("a payload's numbers are finite", code="bad_event")
        case None | int() | float():
            pass
        case _:
            raise InputError(f"a payload is JSON, and {type(value).__name__} is not", code="bad_event")


def _size_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InputError("half of a surrogate pair is not valid text", code="bad_event") from error


def _check_kind(arrival: Arrival, text: str, payload: Mapping[str, Any]) -> None:
    if arrival.kind == STOP and text:
        raise InputError("a stop has no text; to say something, steer", code="bad_event")
    files = arrival.attachments or arrival.uploads
    if arrival.kind == FOLLOWUP and not text and not files:
        raise InputError("a followup says something", code="bad_event")
    if arrival.kind in (STEER, STOP) and (payload or files):
        raise InputError("a steer has a text and nothing else", code="bad_event")


def _find_attachments(ports: Ports, lane: Lane, arrival: Arrival, text: str) -> tuple[Attachment, ...]:
    """Return the attachments of an event, all of which are stored: those that it refers to, and those of its uploads.

    Only the owner of a conversation can learn which files it has.
    """
    referred, uploads = arrival.attachments, arrival.uploads
    if any(file.home for file in referred):
        raise InputError("a file of another conversation is named by its path", code="bad_attachment")
    check_attached(ports, text, referred, further=len(uploads))
    if not (referred or uploads):
        return ()
    check_owner(ports.log.tail(lane, consistent=True) or EMPTY, arrival.user)
    files = (*referred, *(_find_file(ports, lane, arrival.user, name) for name in uploads))
    check_attached(ports, text, files)
    for attachment in dict.fromkeys(referred):
        _check_stored(ports, lane, attachment)
    return files


def check_attached(ports: Ports, text: str, files: Sequence[Attachment], *, further: int = 0) -> None:
    """Refuse the files of an event: by their number, with `further` ones, each by itself, and by their size with its text.

    Raises LimitError `too_many_attachments`, `message_size_limit`; InputError `bad_attachment`.
    """
    if len(files) + further > ATTACHMENTS_MAX:
        raise LimitError(f"an event has at most {ATTACHMENTS_MAX} attachments", code="too_many_attachments")
    for attachment in files:
        check_attachment(attachment)
    size_bytes = _size_bytes(text) + sum(file.size_bytes for file in files)
    if size_bytes > (most := ports.policy.message_max_bytes):
        raise LimitError(
            f"a message of {size_bytes} bytes; its text and its attachments may have {most} together",
            code="message_size_limit",
        )


def _find_file(ports: Ports, lane: Lane, user: str, name: str) -> Attachment:
    """Return the file of an upload, or the attachment at a path of the conversation. Raises InputError."""
    if UPLOAD_ID.fullmatch(name):
        return _uploaded(ports, lane, user, name)
    from stepline.log.sent_attachment import find_attachment  # noqa: PLC0415 - few messages are sent again; it folds the log

    return find_attachment(ports, lane, user, name)


def _uploaded(ports: Ports, lane: Lane, user: str, upload_id: str) -> Attachment:
    """Return the file of an upload by its verdict; it is stored before its row says that it is ready."""
    upload = ports.uploads.get(lane, upload_id)
    if upload is None or upload.user != user:
        raise InputError(f"this conversation has no upload {upload_id} of yours", code="upload_missing")
    if upload.state == "ready":
        return upload.file
    if upload.code == "upload_expired" or upload.has_expired(ports.clock.now().timestamp()):
        raise InputError(
            f"no file was posted in time for upload {upload_id}; begin another one", code="upload_expired"
        )
    if upload.state == "refused":
        raise InputError(f"upload {upload_id} was refused: {upload.message}", code="attachment_rejected")
    raise InputError(
        f"upload {upload_id} is not checked yet; send the message again",
        code="upload_pending",
        retry_after_s=PENDING_S,
    )


def _check_stored(ports: Ports, lane: Lane, attachment: Attachment) -> None:
    size_bytes = ports.artifacts.size(attachment_key(lane, attachment.sha256))
    if size_bytes is None:
        raise InputError("no file is stored under the name of an attachment", code="attachment_missing")
    if size_bytes != attachment.size_bytes:
        raise InputError("the stored file does not have the size of the attachment", code="bad_attachment")
