"""Messages from clients on the websocket: one closed value per message."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from stepline.errors import InputError, LimitError
from stepline.model.base import Value
from stepline.model.decision import FEEDBACK_CHARS, Reaction
from stepline.model.file.attachment import ATTACHMENTS_MAX, UPLOAD_ID
from stepline.model.ids import BUNDLE, CALL, SEGMENT, TURN
from stepline.model.wire.live_event import KIND

MESSAGE_MAX_BYTES = 128 * 1024
"""API Gateway's own limit for one websocket message, in bytes of UTF-8."""


def _whole(pattern: re.Pattern[str]) -> str:
    """Return a pattern for a whole text: it is searched for, and `$` would allow a line break at the end."""
    return f"^(?:{pattern.pattern})\\Z"


_Segment = Annotated[str, Meta(pattern=_whole(SEGMENT))]
_Call = Annotated[str, Meta(pattern=_whole(CALL))]
_Number = Annotated[int, Meta(ge=0)]
WORDS_MAX_CHARS = 1_000
"""The longest reason of a denial, which the model reads in full."""
TIMEZONE_CHARS = 64
_Zone = Annotated[str, Meta(max_length=TIMEZONE_CHARS)]
TIME_CHARS = 40
_TURN: Final = re.compile(f"(?:{TURN.pattern})?")
_Turn = Annotated[str, Meta(pattern=_whole(_TURN))]
_Bundle = Annotated[str, Meta(pattern=_whole(BUNDLE))]


_FILE: Final = re.compile(rf"{UPLOAD_ID.pattern}|fi:[^\n]{{1,1000}}")
_Uploads = Annotated[list[Annotated[str, Meta(pattern=_whole(_FILE))]], Meta(max_length=ATTACHMENTS_MAX)]


class _Closed(Value, forbid_unknown_fields=True):
    """A value that refuses unknown fields."""


class Send(_Closed, tag_field="action", tag="send"):
    """Send a message. The same `message_id` again is the same message, answered but not admitted twice.

    `timezone` is the user's, a name of the IANA database; it applies until another one is sent. `bundle` is the
    agent of the conversation, by its name on the stage: the first message chooses it, and it never changes.
    `uploads` are the files of the message, by the ids of uploads which are ready, or by the paths of attachments that
    the conversation has already, as a [fork](../concepts/forks.md) has those of its origin.
    """

    conversation: _Segment
    message_id: _Segment
    text: Annotated[str, Meta(min_length=1)]
    uploads: _Uploads = msgspec.field(default_factory=list)
    timezone: _Zone = ""
    bundle: _Bundle = ""


class Event(_Closed, tag_field="action", tag="event"):
    """Send an event: a message, a form, a wizard's step, an alert, a steer or a stop.

    `payload` has its content; its `text` is the event's text. The same `message_id` again is the same event. `uploads`,
    `timezone` and `bundle` are those of [`send`](#send).
    """

    conversation: _Segment
    message_id: _Segment
    kind: Annotated[str, Meta(pattern=_whole(KIND))]
    reactive: bool | None = None
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    uploads: _Uploads = msgspec.field(default_factory=list)
    timezone: _Zone = ""
    bundle: _Bundle = ""


class Approve(_Closed, tag_field="action", tag="approve"):
    """Approve the call of an [`approval.requested`](events.md). The same `message_id` again is the same answer."""

    conversation: _Segment
    message_id: _Segment
    call_id: _Call


class Deny(_Closed, tag_field="action", tag="deny"):
    """Deny the call; the agent reads `text` and continues without it."""

    conversation: _Segment
    message_id: _Segment
    call_id: _Call
    text: Annotated[str, Meta(max_length=WORDS_MAX_CHARS)] = ""


class Edit(_Closed, tag_field="action", tag="edit"):
    """Approve the call with other parameters, all of which are given; it runs under its own id.

    They are at most as deep as an event's payload.
    """

    conversation: _Segment
    message_id: _Segment
    call_id: _Call
    params: dict[str, Any]


class Rate(_Closed, tag_field="action", tag="feedback"):
    """Rate a turn that has ended, or withdraw the rating with `reaction` null; "" is the newest turn.

    The same `message_id` again is the same feedback, and so is feedback equal to the current one. `ts` is the client's
    time: it is stored, but does not affect the order.
    """

    conversation: _Segment
    message_id: _Segment
    reaction: Reaction | None
    turn: _Turn = ""
    text: Annotated[str, Meta(max_length=FEEDBACK_CHARS)] = ""
    ts: Annotated[str, Meta(max_length=TIME_CHARS)] = ""


class StreamCursor(_Closed):
    """The characters of the running stream that the client has: a count per lane of `claim`."""

    claim: _Number
    off: dict[Annotated[str, Meta(max_length=64)], _Number] = msgspec.field(default_factory=dict)


class Resume(_Closed, tag_field="action", tag="resume"):
    """Subscribe, and get every event after number `after`, then the running text beyond `stream`."""

    conversation: _Segment
    after: _Number = 0
    stream: StreamCursor | None = None


class Ping(_Closed, tag_field="action", tag="ping"):
    """Ask for the newest event number; heals a lost last frame."""

    conversation: _Segment


class Auth(_Closed, tag_field="action", tag="auth"):
    """Renew with a ticket for a later token of the same user, tenant and project; also after expiry."""

    ticket: Annotated[str, Meta(min_length=1, max_length=128)]


class Watch(_Closed, tag_field="action", tag="watch"):
    """Subscribe to the feed of all conversations of this user: the status of each, its title, and its read position."""


ClientMessage = Send | Event | Approve | Deny | Edit | Rate | Resume | Ping | Auth | Watch

_DECODER: Final[msgspec.json.Decoder[ClientMessage]] = msgspec.json.Decoder(ClientMessage)
_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def parse_message(body: str) -> ClientMessage:
    """Parse one message.

    Raises:
        LimitError: `message_too_large`.
        InputError: `bad_json`, `unknown_action` or `bad_message`, naming the first invalid field.
    """
    # A lone surrogate, which a JSON escape can hold but a socket cannot, is kept, and fails as UTF-8 below.
    encoded = body.encode(errors="surrogatepass")
    if len(encoded) > MESSAGE_MAX_BYTES:
        raise LimitError(f"a message has at most {MESSAGE_MAX_BYTES} bytes", code="message_too_large")
    try:
        return _DECODER.decode(encoded)
    except msgspec.ValidationError as error:
        code = "unknown_action" if str(error).endswith(" - at `$.action`") else "bad_message"
        raise InputError(_render_problem(str(error)), code=code) from error
    except RecursionError as error:
        raise InputError("the message is nested too deep", code="bad_json") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        halved = isinstance(error, UnicodeDecodeError) or "surrogate" in str(error) or _HALF.search(body)
        why = (
            "a text of the message holds half a character (an unpaired surrogate)"
            if halved
            else "the message is not JSON"
        )
        raise InputError(why, code="bad_json") from error


class MessageIds(Value):
    """The readable ids in a message, for an error frame; empty if unreadable."""

    message_id: str = ""
    conversation: str = ""


def read_names(body: str) -> MessageIds:
    """Return the ids of a message and its conversation, even if the message is not JSON or too deep. Never raises."""
    found: dict[str, str] = {}
    depth, key, value = 0, "", ""
    for token in _TOKEN.finditer(body):
        mark = token[0][0]
        if mark in "{[":
            depth, value = depth + 1, ""
        elif mark in "}]":
            depth -= 1
        elif depth == 1 and mark == '"':
            value = token[0][1:-1]
        elif depth == 1 and mark == ":":
            key, value = value, ""
        if depth < 2 and mark in ",}":
            found[key] = value
    return MessageIds(
        message_id=_readable(found, "message_id"), conversation=_readable(found, "conversation")
    )


# An unterminated text extends to the end, so every quote is read only once.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]:,]', re.DOTALL)
_NAME_MAX_CHARS: Final = 64


def _readable(found: Mapping[str, str], field: str) -> str:
    name = found.get(field, "")
    return name if len(name) <= _NAME_MAX_CHARS and name.isprintable() and "\\" not in name else ""


_ACTIONS: Final = (
    "`send`, `event`, `approve`, `deny`, `edit`, `feedback`, `resume`, `ping`, `auth` or `watch`"
)
_WORDS: Final = {
    repr(_whole(SEGMENT)): "is at most 64 letters, digits, `_` and `-`, and begins with a letter or a digit",
    repr(_whole(CALL)): "is the id of a call, `tc_` and 12 hexadecimal digits",
    repr(_whole(_TURN)): "is the id of a turn",
    repr(_whole(KIND)): "is at most 32 small letters, digits, `_` and `-`, and begins with a letter",
    repr(
        _whole(_FILE)
    ): "is the id of an upload, `up_` and 32 hexadecimal digits, or the path of an attachment",
}
_KINDS: Final = {
    "str": "must be a text",
    "int": "must be a whole number",
    "bool": "must be true or false",
    "object": "must be an object",
    "array": "must be a list",
}
_SENTENCES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"Expected `str` matching regex (.*)"), lambda found: _WORDS.get(found[1], "is malformed")),
    (re.compile(r"Expected `str` of length >= 1"), lambda _: "must not be empty"),
    (re.compile(r"Expected `str` of length <= (\d+)"), lambda found: f"has at most {found[1]} characters"),
    (re.compile(r"Expected `array` of length <= (\d+)"), lambda found: f"has at most {found[1]} entries"),
    (re.compile(r"Expected `int` >= (\d+)"), lambda found: f"must be at least {found[1]}"),
    (re.compile(r"Expected `int` <= (\d+)"), lambda found: f"must be at most {found[1]}"),
    (re.compile(r"Invalid enum value"), lambda _: "is none of its words"),
    (re.compile(r"Expected `(\w+)"), lambda found: _KINDS.get(found[1], "is malformed")),
)
_PROBLEM: Final = re.compile(r"(?P<reason>.*?)(?: - at (?P<key>`key` in )?`\$(?P<where>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(
    r"Object (?P<wrong>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL
)


def _render_problem(problem: str) -> str:
    """Return a validation error of msgspec as a sentence that names the field, without its value."""
    parts = _PROBLEM.fullmatch(problem)
    reason, path = (parts["reason"], parts["where"] or "") if parts else (problem, "")
    # Lane names in a stream cursor are chosen by the sender, so they are left out.
    where = path.replace("[...]", "").replace("[", ".").replace("]", "").lstrip(".")
    if wrong := _FIELD.fullmatch(reason):
        if wrong["name"] == "action":
            return f"`action` is missing: it must be {_ACTIONS}"
        name = f"{where}.{wrong['name'][:_NAME_MAX_CHARS]}".lstrip(".")
        return (
            f"`{name}` is {'missing' if wrong['wrong'] == 'missing required' else 'no field of this message'}"
        )
    if where == "action":
        return f"`action` must be {_ACTIONS}"
    if not where:
        return "the message must be an object"
    sentences = (render(found) for pattern, render in _SENTENCES if (found := pattern.match(reason)))
    return f"`{where}` {next(sentences, 'is malformed')}"
