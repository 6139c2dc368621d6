"""docs/reference/messages.md: the messages of clients, and the frames that they receive."""

from __future__ import annotations

import json
import re
from typing import Any, Final, get_args

import msgspec

from docs.build import DOCS
from stepline.model.wire import event
from stepline.model.wire.client_message import MESSAGE_MAX_BYTES, ClientMessage
from stepline.ports.identity import TICKET_TTL_S

PATH: Final = DOCS / "reference/messages.md"

MESSAGES: tuple[type[msgspec.Struct], ...] = get_args(ClientMessage)
FRAMES: tuple[type[msgspec.Struct], ...] = get_args(event.Frame)

_CONVERSATION = "conv_7f3a"
_CALL = "tc_0123456789ab"
_TICKET = "q0Zz3vY8mJt1xN5cW7uK2bR9fH4dL6sAeGpTiOyQnM8"
EXAMPLES: dict[str, dict[str, Any]] = {
    "send": {
        "action": "send",
        "conversation": _CONVERSATION,
        "message_id": "m_1",
        "text": "Make a plan with three steps.",
        "uploads": ["up_0f8fad5bd9cb469fa16570867728950e"],
        "timezone": "Europe/Zurich",
        "bundle": "docs",
    },
    "event": {
        "action": "event",
        "conversation": _CONVERSATION,
        "message_id": "e_1",
        "kind": "form",
        "payload": {"text": "My order", "plan": "pro", "seats": 4},
    },
    "approve": {
        "action": "approve",
        "conversation": _CONVERSATION,
        "message_id": "a_1",
        "call_id": _CALL,
    },
    "deny": {
        "action": "deny",
        "conversation": _CONVERSATION,
        "message_id": "a_1",
        "call_id": _CALL,
        "text": "Not before Monday.",
    },
    "edit": {
        "action": "edit",
        "conversation": _CONVERSATION,
        "message_id": "a_1",
        "call_id": _CALL,
        "params": {"to": "anna@example.com", "sum": 5},
    },
    "feedback": {
        "action": "feedback",
        "conversation": _CONVERSATION,
        "message_id": "f_1",
        "turn": "turn_20261121T101500_ab12cd",
        "reaction": "not_ok",
        "text": "Too long.",
    },
    "resume": {
        "action": "resume",
        "conversation": _CONVERSATION,
        "after": 12,
        "stream": {"claim": 12, "off": {"thinking.0": 340, "answer.0": 18}},
    },
    "ping": {"action": "ping", "conversation": _CONVERSATION},
    "auth": {"action": "auth", "ticket": _TICKET},
    "watch": {"action": "watch"},
}
ANSWERS = {
    "send": "one [`ack`](#ack), which may arrive after the events of its batch; or one [`error`](#error). The sender "
    "listens from then on. `timezone` is the user's, a name of the IANA database: the model reads the time there until another "
    "one is sent. `uploads` are its attached [files](../how-to/uploads.md). `bundle` is one of [several](../how-to/write-a-bundle.md#several-on-one-stage) on the stage.",
    "event": "as to [`send`](#send); its `kind` is the recorded kind of the event. Its effect is described in "
    "[live events](live-events.md).",
    "approve": "one [`ack`](#ack) whose `kind` is the verdict as recorded: `approved`, or `expired` if it was too late; or one "
    "[`error`](#error), `approval_not_pending` if the call does not wait for an answer. Only the owner of the conversation may "
    "answer; the first answer counts. See [ask a person first](../how-to/ask-a-person-first.md).",
    "deny": "as to [`approve`](#approve), with `denied`.",
    "edit": "as to [`approve`](#approve), with `edited`; the new call's id is in `approval.answered`.",
    "feedback": "one [`ack`](#ack) of kind `feedback`, without a turn; or one [`error`](#error): `turn_open` before the turn has "
    "ended, `turn_not_found`. A repeat is acknowledged as a duplicate, with the newest event as its `n`. The sender "
    "listens from then on; all listeners get [`turn.feedback`](events.md). See [feedback](../concepts/log.md#feedback).",
    "resume": "the missed [`events`](#events), the missing [`delta`](#delta)s and one [`sync`](#sync); or one "
    "[`error`](#error). The connection listens from then on, until its token expires.",
    "ping": "one [`pong`](#pong), or one [`error`](#error).",
    "auth": "one frame `auth`, or one [`error`](#error) `unauthorized`; the ticket is used up either way, and the old "
    "token counts on after an error. The connection's subscriptions last as long as the new token; one that "
    "is renewed after the expiry has missed frames, and [resumes](#resume).",
    "watch": "one [`watching`](#watching), or one [`error`](#error). From then on the connection gets one [`feed`](#feed) for each "
    "change of one of the user's conversations, until its token expires. See [the feed](../concepts/streaming.md#the-feed).",
}
SAMPLES: dict[str, event.Frame] = {
    "events": event.EventFrame(
        conversation=_CONVERSATION,
        n=13,
        prev=12,
        claim=13,
        events=(
            event.ClientEvent(
                type="chat.start",
                route="chat_start",
                ts="2026-11-21T10:15:00.000Z",
                turn_id="turn_20261121T101500_ab12cd",
                status="started",
                data={"turn_id": "turn_20261121T101500_ab12cd", "prompts": [13]},
            ),
        ),
    ),
    "delta": event.DeltaFrame(
        conversation=_CONVERSATION, claim=13, lane="answer.0", off=18, text="three steps"
    ),
    "sync": event.SyncFrame(
        conversation=_CONVERSATION, n=13, claim=13, open=True, turn_id="turn_20261121T101500_ab12cd"
    ),
    "ack": event.AckFrame(
        message_id="m_1",
        conversation=_CONVERSATION,
        n=13,
        kind="prompt",
        turn_id="turn_20261121T101500_ab12cd",
    ),
    "error": event.ErrorFrame(
        code="not_found", message="no such conversation", conversation=_CONVERSATION, message_id="m_1"
    ),
    "pong": event.PongFrame(conversation=_CONVERSATION, n=13),
    "notice": event.NoticeFrame(
        conversation=_CONVERSATION,
        event=event.ClientEvent(
            type="rate_limit.attachment_failure",
            route="chat_service",
            ts="2026-11-21T10:15:00.000Z",
            step="rate_limit",
            status="error",
            data={
                "upload": "up_0f8fad5bd9cb469fa16570867728950e",
                "reason": "preflight_rejected",
                "message": "it has macros",
                "filename": "a.docx",
                "mime": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                "size_bytes": 18_220,
                "show_in_timeline": True,
                "reasons": ["ooxml_macros"],
            },
        ),
    ),
    "auth": event.AuthFrame(expires_at=1_795_256_100),
    "watching": event.WatchingFrame(expires_at=1_795_256_100),
    "feed": event.FeedFrame(
        conversation=_CONVERSATION,
        n=18,
        events=(
            event.ClientEvent(
                type="conv.status",
                route="conv_status",
                ts="2026-11-21T10:15:09.000Z",
                turn_id="turn_20261121T101500_ab12cd",
                status="completed",
                data={
                    "state": "idle",
                    "updated_at": "2026-11-21T10:15:09.000Z",
                    "current_turn_id": "turn_20261121T101500_ab12cd",
                    "completion": "success",
                },
            ),
        ),
    ),
}


def action(message: type[msgspec.Struct]) -> str:
    """Return a message's action."""
    return str(message.__struct_config__.tag)


def render() -> str:
    """Return the page."""
    lines = [
        "# Messages and frames",
        "",
        "Generated by `make docs`; a test compares it with the source.",
        "",
        "The protocol is JSON over one websocket. A client sends messages and receives frames. [Events](events.md) lists the content",
        "of a frame of kind `events`, [streaming](../concepts/streaming.md) how to apply a frame, and [errors](errors.md)",
        "every code.",
        "",
        *_opening(),
        "## Messages",
        "",
        f"A message has at most {MESSAGE_MAX_BYTES:,} bytes of UTF-8. API Gateway refuses a websocket frame above 32 KB, so a",
        "larger message is sent in several frames. Unknown fields are refused.",
        "",
    ]
    for message in MESSAGES:
        lines += _message(message)
    lines += [
        "## Frames",
        "",
        "A field at its default is left out, so read an absent one as its default. Ignore unknown fields and",
        "frames of another kind. Only `events` have a version, and those of a later one must not be applied.",
        "",
    ]
    for frame in FRAMES:
        lines += _frame(frame)
    return "\n".join(lines)


def _opening() -> list[str]:
    answer = {
        "ticket": _TICKET,
        "expires_in_s": TICKET_TTL_S,
        "url": "wss://abcdef123.execute-api.us-east-1.amazonaws.com/live",
    }
    return [
        "## Opening",
        "",
        "A client that can send headers opens the websocket with `Authorization: Bearer <token>`. A browser cannot, and",
        "exchanges its token for a ticket first: `POST /v1/socket-tickets` of the HTTP API, with that header and no body.",
        "",
        *_json(answer),
        "It then opens `<url>?ticket=<ticket>`. A ticket opens one websocket, or renews one by [`auth`](#auth), within",
        "`expires_in_s` seconds. The HTTP API answers 201; 403 if the token or the site is refused, and 401 without a",
        "header, in the gateway's own format; else an [`error`](#error) object, of which 503 means to try again. The gateway",
        "itself answers 429 when the stage is too busy, and 500 when the token cannot be checked now.",
        "",
    ]


def _message(message: type[msgspec.Struct]) -> list[str]:
    _, shared = msgspec.json.schema_components([message])
    word = action(message)
    rows = _rows(shared[message.__name__], shared, "")
    return [
        f"### {word}",
        "",
        _first_paragraph(message),
        "",
        f"Answer: {ANSWERS[word]}",
        "",
        "| field | type | default | constraint |",
        "|---|---|---|---|",
        *rows,
        "",
        *_json(EXAMPLES[word]),
    ]


def _rows(schema: dict[str, Any], shared: dict[str, Any], prefix: str) -> list[str]:
    required = schema.get("required", [])
    lines = []
    for field, rule in schema["properties"].items():
        options = [one for one in rule.get("anyOf", [rule]) if one.get("type") != "null"]
        inner = [shared[one["$ref"].rpartition("/")[2]] for one in options if "$ref" in one]
        items = [
            shared[one["items"]["$ref"].rpartition("/")[2]]
            for one in options
            if "$ref" in one.get("items", {})
        ]
        kind = "object" if inner else _type(options[0])
        default = "required" if field in required else _default(rule.get("default"))
        lines.append(f"| `{prefix}{field}` | {kind} | {default} | {_constraint(options[0])} |")
        for one in inner:
            lines += _rows(one, shared, f"{prefix}{field}.")
        for one in items:
            lines += _rows(one, shared, f"{prefix}{field}[].")
    return lines


def _type(rule: dict[str, Any]) -> str:
    if "enum" in rule:
        return f"`{json.dumps(rule['enum'][0])}`"
    if rule["type"] == "object":
        inner = rule.get("additionalProperties")
        return f"map of {inner['type']}" if isinstance(inner, dict) else "object"
    if rule["type"] == "array":
        return "list of objects" if "$ref" in rule["items"] else f"list of {rule['items']['type']}"
    return str(rule["type"])


def _default(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def _constraint(rule: dict[str, Any]) -> str:
    facts = {
        "pattern": "matches `{}`",
        "minLength": "at least {} character",
        "maxLength": "at most {} characters",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "maxItems": "at most {}",
    }
    found = [text.format(_shown(rule[key])) for key, text in facts.items() if key in rule]
    if "pattern" in rule.get("items", {}):
        found.append(f"each matches `{_shown(rule['items']['pattern'])}`")
    if "propertyNames" in rule:
        found.append(f"names of at most {rule['propertyNames']['maxLength']} characters")
    if isinstance(rule.get("additionalProperties"), dict) and "minimum" in rule["additionalProperties"]:
        found.append(f"at least {rule['additionalProperties']['minimum']} each")
    return ", ".join(found)


def _shown(limit: Any) -> Any:
    """Return a limit as people write it, for a cell of a table: a pattern for a whole text between `^` and `$`."""
    if not isinstance(limit, str):
        return limit
    whole = re.sub(r"^\^\(\?:([^|]*)\)\\Z$", r"^\1$", limit)
    return whole.replace("\\Z", "$").replace("|", "\\|")


def _frame(frame: type[msgspec.Struct]) -> list[str]:
    word = str(frame.__struct_config__.tag)
    rows = []
    for field in msgspec.structs.fields(frame):
        absent = "always there" if field.required else f"`{msgspec.json.encode(field.default).decode()}`"
        rows.append(f"| `{field.encode_name}` | {_annotation(field.type)} | {absent} |")
    return [
        f"### {word}",
        "",
        _first_paragraph(frame),
        "",
        "| field | type | default |",
        "|---|---|---|",
        f'| `frame` | `"{word}"` | always there |',
        *rows,
        "",
        *_rest(frame),
        *_json(msgspec.to_builtins(SAMPLES[word])),
    ]


def _annotation(kind: Any) -> str:
    words = {str: "string", int: "integer", bool: "boolean"}
    return words.get(kind, "list of [events](events.md)")


def _first_paragraph(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _rest(kind: type) -> list[str]:
    paragraphs = [" ".join(text.split()) for text in (kind.__doc__ or "").split("\n\n")[1:]]
    return [line for text in paragraphs for line in (text, "")]


def _json(value: dict[str, Any]) -> list[str]:
    return ["```json", json.dumps(value, ensure_ascii=False), "```", ""]
