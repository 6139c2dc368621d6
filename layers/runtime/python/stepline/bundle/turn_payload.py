"""Input and output of a workflow: a message or another event, and the result of its turn."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from stepline.errors import InputError
from stepline.events.derive_close import read_value
from stepline.model.base import Value
from stepline.model.entry import ApprovalRequested, Closed, Outcome
from stepline.model.file.attachment import Attachment
from stepline.model.ids import check_segment
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.model.wire.live_event import FOLLOWUP, is_reactive

if TYPE_CHECKING:
    from stepline.ingress.file_checks import GivenFile


class Payload(Value):
    """The input of a turn: a user's message, or an event of another `kind` with a `payload`.

    With the same `message_id` it is the same input: its turn continues or is over. `timezone` is the user's, a
    name of the IANA database. `attachments` are checked and stored before the message is admitted.
    """

    text: str
    message_id: str
    kind: str = FOLLOWUP
    payload: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reactive: bool | None = None
    timezone: str = ""
    attachments: Sequence[FileLike] = ()


FileLike: TypeAlias = Attachment | Path | Mapping[str, Any]
"""A file: the reference of one that is stored, a path of this machine, or a mapping with its `filename`, optional `mime`,
and one of `data` (bytes), `base64` and `path`. A path is a `Path`: a text from outside never names a file here."""
PayloadLike: TypeAlias = Payload | Mapping[str, Any]
"""A payload, or a mapping with its `text` and optional other fields; unknown keys are the bundle's."""


class PendingCall(Value):
    """A call that waits for a person's answer; after `until` an answer is too late, "" for never."""

    call_id: str
    tool_id: str
    params: Mapping[str, Any]
    code: str = ""
    until: str = ""


class TurnResult(Value):
    """The result of a turn. One that is `parked` has none yet: it continues when a person has answered about `approval`.

    `sources` are those that the answer cites; `code` and `message` explain a missing answer.

    `value` is the result of an agent with a result type, as that type; None without one.

    `handed_back` is the reason if the message is in no turn: the user has stopped the turn that it waited for.
    """

    turn_id: str
    outcome: Outcome | Literal["parked"]
    reason: str
    answer: str = ""
    followups: tuple[str, ...] = ()
    sources: tuple[Citation, ...] = ()
    usage: Usage | None = None
    rounds: int = 0
    code: str = ""
    message: str = ""
    handed_back: str = ""
    approval: PendingCall | None = None
    value: Any = None


def read_payload(payload: PayloadLike) -> Payload:
    """Return the message or event of a payload, with a new id if it has none.

    Raises:
        InputError: `bad_payload`, a message without a text, or an event that requests no answer;
            `bad_message_id`; `bad_event`; `bad_timezone`. `read_files` reads its attachments.
    """
    if isinstance(payload, Payload):
        return _asking(payload)
    kind, said = payload.get("kind", FOLLOWUP), payload.get("payload", {})
    text, message_id = payload.get("text", ""), payload.get("message_id") or new_message_id()
    files = payload.get("attachments") or ()
    if not isinstance(text, str) or (kind == FOLLOWUP and not (text.strip() or files)):
        raise InputError("a payload has the user's message under `text`", code="bad_payload")
    if not isinstance(kind, str) or not isinstance(said, Mapping):
        raise InputError("an event has a `kind`, and a `payload` that is a mapping", code="bad_payload")
    zone = payload.get("timezone", "")
    if not isinstance(zone, str):
        raise InputError("a `timezone` is a name of the IANA database", code="bad_timezone")
    read = Payload(
        text=text,
        message_id=check_segment(str(message_id), "message_id"),
        kind=kind,
        payload=dict(said),
        reactive=payload.get("reactive"),
        timezone=zone,
        attachments=files,
    )
    return _asking(read)


def _asking(payload: Payload) -> Payload:
    if not is_reactive(payload.kind, payload.reactive):
        raise InputError("this event asks for no answer; submit it", code="bad_payload")
    return payload


def read_files(files: object) -> tuple[GivenFile | Attachment, ...]:
    """Return the files of an event, their bytes decoded. Raises InputError `bad_attachment`."""
    if not isinstance(files, Sequence) or isinstance(files, str | bytes):
        raise InputError("`attachments` is a list of files", code="bad_attachment")
    return tuple(_read_file(one) for one in files)


def _read_file(file: object) -> GivenFile | Attachment:
    from stepline.ingress.file_checks import GivenFile  # noqa: PLC0415 - few payloads have files

    match file:
        case Attachment():
            return file
        case Path():
            return GivenFile(filename=file.name, content=file)
        case Mapping():
            name, mime, content = _read_mapping(file)
            return GivenFile(filename=name, content=content, mime=mime)
        case _:
            raise InputError("a file is a mapping, a `Path` or an `Attachment`", code="bad_attachment")


def _read_mapping(file: Mapping[Any, Any]) -> tuple[str, str, bytes | Path]:
    """Return the name of a file, its type, and its bytes or its path."""
    match [(key, file[key]) for key in ("data", "base64", "path") if file.get(key) is not None]:
        case [("data", bytes() | bytearray() as found)]:
            content: bytes | Path = bytes(found)
        case [("base64", str() as found)]:
            try:
                content = b64decode(found, validate=True)
            except ValueError as error:
                raise InputError("the `base64` of a file cannot be decoded", code="bad_attachment") from error
        case [("path", Path() as content)]:
            pass
        case _:
            raise InputError(
                "a file has one of `data` (bytes), `base64` (a text) and `path` (a `Path`)",
                code="bad_attachment",
            )
    name = file.get("filename") or (content.name if isinstance(content, Path) else "")
    mime = file.get("mime") or ""
    if not (isinstance(name, str) and isinstance(mime, str)):
        raise InputError("`filename` and `mime` of a file are texts", code="bad_attachment")
    return name, mime, content


def new_message_id() -> str:
    """Return a random id, for an event that will not be sent again."""
    return f"m-{secrets.token_hex(8)}"


def closed_result(closed: Closed, *, handed_back: str = "") -> TurnResult:
    """Return the result of a closed turn, for a message that may have been handed back."""
    return TurnResult(
        turn_id=closed.turn,
        outcome=closed.outcome,
        reason=closed.reason,
        answer=closed.answer,
        followups=closed.followups,
        sources=closed.citations,
        usage=closed.usage,
        rounds=closed.rounds,
        code=closed.code,
        message=closed.message,
        handed_back=handed_back,
        value=read_value(closed.value),
    )


def parked_result(asked: ApprovalRequested) -> TurnResult:
    """Return the result of a turn that waits for a person."""
    action = asked.action
    pending = PendingCall(
        call_id=action.call_id,
        tool_id=action.tool_id,
        params=action.params,
        code=action.code or "",
        until=asked.until,
    )
    return TurnResult(turn_id=asked.turn, outcome="parked", reason="approval", approval=pending)
