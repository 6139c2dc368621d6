"""Messages from clients on the websocket: one strict pydantic model per message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stepline.errors import InputError, LimitError
from stepline.model.base import Value
from stepline.model.file.attachment import (
    ATTACHMENT_MAX_BYTES,
    ATTACHMENTS_MAX,
    FILENAME_MAX_BYTES,
    MIME,
    SHA256,
)
from stepline.model.ids import SEGMENT
from stepline.model.wire.live_event import KIND

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MESSAGE_MAX_BYTES = 128 * 1024
"""API Gateway's own limit for one websocket message, in bytes of UTF-8."""

_Segment = Annotated[str, Field(pattern=f"^{SEGMENT.pattern}$")]
_Number = Annotated[int, Field(ge=0)]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Message(_Closed):
    conversation: _Segment


class Send(_Message):
    """Send a message. The same `message_id` again is the same message, answered but not admitted twice."""

    action: Literal["send"]
    message_id: _Segment
    text: Annotated[str, Field(min_length=1)]


class AttachmentReference(_Closed):
    """A file that was stored before; `sha256` names its bytes."""

    filename: Annotated[str, Field(min_length=1, max_length=FILENAME_MAX_BYTES)]
    mime: Annotated[str, Field(pattern=f"^{MIME.pattern}$")]
    size_bytes: Annotated[int, Field(ge=0, le=ATTACHMENT_MAX_BYTES)]
    sha256: Annotated[str, Field(pattern=f"^{SHA256.pattern}$")]


class Event(_Message):
    """Send an event: a message, a form, a wizard's step, an alert, a steer or a stop.

    `payload` has its content; its `text` is the event's text. The same `message_id` again is the same event.
    """

    action: Literal["event"]
    message_id: _Segment
    kind: Annotated[str, Field(pattern=f"^{KIND.pattern}$")]
    reactive: bool | None = None
    payload: dict[str, Any] = {}
    attachments: Annotated[list[AttachmentReference], Field(max_length=ATTACHMENTS_MAX)] = []


class StreamCursor(_Closed):
    """How much of the running stream the client has: characters per lane of `claim`."""

    claim: _Number
    off: dict[Annotated[str, Field(max_length=64)], _Number] = {}


class Resume(_Message):
    """Subscribe, and get every event after number `after`, then the running text beyond `stream`."""

    action: Literal["resume"]
    after: _Number = 0
    stream: StreamCursor | None = None


class Ping(_Message):
    """Ask for the newest event number; heals a lost last frame."""

    action: Literal["ping"]


class Auth(_Closed):
    """Renew with a ticket for a later token of the same user, tenant and project; also after expiry."""

    action: Literal["auth"]
    ticket: Annotated[str, Field(min_length=1, max_length=128)]


Message = Send | Event | Resume | Ping | Auth

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="action")])


def parse_message(body: str) -> Message:
    """Parse one message.

    Raises:
        LimitError: `message_too_large`.
        InputError: `bad_json`, `unknown_action` or `bad_message`, naming the first invalid field.
    """
    # A lone surrogate, which a JSON escape can carry but a socket cannot, is kept, and is no UTF-8 below.
    encoded = body.encode(errors="surrogatepass")
    if len(encoded) > MESSAGE_MAX_BYTES:
        raise LimitError(f"a message has at most {MESSAGE_MAX_BYTES} bytes", code="message_too_large")
    try:
        return _ADAPTER.validate_json(encoded)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        code = {"json_invalid": "bad_json", "union_tag_invalid": "unknown_action"}.get(
            first["type"], "bad_message"
        )
        raise InputError(_render_problem(first), code=code) from error


class Names(Value):
    """The readable ids in a message, for an error frame; empty if unreadable."""

    message_id: str = ""
    conversation: str = ""


def read_names(body: str) -> Names:
    """Return the ids of a message and its conversation, even of an invalid message. Raises nothing."""
    try:
        found = _NAMES.decode(body)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Names()
    return Names(message_id=_readable(found.message_id), conversation=_readable(found.conversation))


class _Anything(Value):
    message_id: Any = ""
    conversation: Any = ""


_NAMES: Final = msgspec.json.Decoder(_Anything)
_NAME_MAX_CHARS: Final = 64


def _readable(name: object) -> str:
    return name if isinstance(name, str) and len(name) <= _NAME_MAX_CHARS else ""


_ACTIONS: Final = "`send`, `event`, `resume`, `ping` or `auth`"
_WORDS: Final = {
    f"^{SEGMENT.pattern}$": "is at most 64 letters, digits, `_` and `-`, and begins with a letter or a digit",
    f"^{KIND.pattern}$": "is at most 32 small letters, digits, `_` and `-`, and begins with a letter",
    f"^{MIME.pattern}$": "is a media type, for example `text/plain`",
    f"^{SHA256.pattern}$": "is a SHA-256 in 64 hexadecimal digits",
}
_SENTENCES: Final = {
    "missing": "is missing",
    "extra_forbidden": "is no field of this message",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "string_too_long": "has at most {max_length} characters",
    "int_type": "must be a whole number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "too_long": "has at most {max_length} entries",
}


def _render_problem(problem: ErrorDetails) -> str:
    """Return a validation error as a sentence that names the field, without its value."""
    kind, facts = problem["type"], problem.get("ctx", {})
    if kind == "json_invalid":
        deep = "recursion" in problem["msg"]
        return "the message is nested too deep" if deep else "the message is not JSON"
    if kind == "union_tag_invalid":
        return f"`action` must be {_ACTIONS}"
    if kind == "union_tag_not_found":
        return f"`action` is missing: it must be {_ACTIONS}"
    # Lane names in a stream cursor are chosen by the sender, so they are left out.
    where = ".".join(str(part)[:_NAME_MAX_CHARS] for part in problem["loc"][1:4] if part != "[key]")
    where = "stream.off" if where.startswith("stream.off.") else where
    if not where:
        return "the message must be an object"
    if kind == "string_pattern_mismatch":
        return f"`{where}` {_WORDS.get(facts['pattern'], 'is malformed')}"
    return f"`{where}` {_SENTENCES.get(kind, 'is malformed').format(**facts)}"
