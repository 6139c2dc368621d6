"""Decodes the events of a Messages answer, and folds them into the text that each adds and the facts so far.

An event has its kind in `type`, and a server-sent event also in its name. If neither is a known kind, the fields that
only one kind has decide, so that a wrong kind does not lose the text. Events of other kinds are skipped: the protocol
may grow.

Text may be in four positions: in a block's deltas, in the start of a block, in the start of a message, and in a whole
message. All other fields are facts: an id, a counter, a detail. Each may be missing, null or of another type; a fact
that cannot be read is dropped and counted, and affects nothing else. An answer is complete when its stop reason or its
`message_stop` has arrived.

Source: platform.claude.com, "Streaming messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stepline.adapters.provider.client import FactReader
from stepline.adapters.provider.error import map_body
from stepline.adapters.provider.server_sent import DONE, read_objects, split_events
from stepline.errors import ModelStreamBroken
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import AnswerFacts

UNREAD_EVENT: Final = "unread"
"""The kind of an event that is not an object: it carries no text of this protocol, and is counted."""
OTHER: Final = ""
"""The kind of an event that is not read."""
MESSAGE: Final = "message"
"""A whole message: the answer of a server that does not stream."""

_WORDS: Final[Mapping[str, str]] = {"stop": "end_turn", "length": "max_tokens"}
"""Stop reasons of another API, which gateways pass on."""


class WireEvent(NamedTuple):
    """An event. `kind` is one of the protocol's, MESSAGE, UNREAD or OTHER."""

    kind: str
    fields: Mapping[str, Any]


_TEXTLESS: Final = frozenset({"ping", "content_block_stop", "message_stop"})
_KINDS: Final = _TEXTLESS | {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "error",
}


def decode_events(data: bytes, name: str = "", *, whole: bool = True) -> Iterator[WireEvent]:
    """Yield the events in the data of one: usually one, or several that only a line break separates.

    `name` is the event's name, if the transport has one. Data that is not `whole` may be cut: if it is not JSON, it is
    ignored.

    Raises:
        ModelStreamBroken: `stream_malformed`, for other data that is not JSON: it may have been text.
        SteplineError: as `map_body`, for an error that the provider sent in the stream.
    """
    if not data.strip() or DONE.fullmatch(data):
        return
    try:
        found = read_objects(data)
    except (ValueError, RecursionError) as error:
        if name == "error":
            raise map_body(200, None, message=data.decode("utf-8", "replace")) from error
        if name in _TEXTLESS:
            found = [{}]
        elif whole:
            raise ModelStreamBroken(f"not an event we know: {error}", code="stream_malformed") from error
        else:
            return
    for one in found:
        event = name_event(one, name)
        if event.kind == "error":
            raise map_body(200, one)
        yield event


def name_event(read: object, name: str = "") -> WireEvent:
    """Return an event's kind with its fields; `name` is the transport's name for it."""
    if not isinstance(read, dict):
        return WireEvent(UNREAD_EVENT, {})
    kind = read.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        return WireEvent(kind, read)
    return WireEvent(name if name in _KINDS else _guess_kind(read, typed=isinstance(kind, str)), read)


def _guess_kind(fields: Mapping[str, Any], *, typed: bool) -> str:
    """Return the only kind with such fields; a `typed` event of an unknown kind needs more of them."""
    says_so = fields.get("type") == "message" or fields.get("role") == "assistant"
    if says_so and isinstance(fields.get("content"), list | str):
        return MESSAGE
    if isinstance(delta := fields.get("delta"), dict):
        if isinstance(delta.get("text"), str) and (delta.get("type") == "text_delta" or not typed):
            return "content_block_delta"
        return "message_delta" if isinstance(delta.get("stop_reason"), str) else OTHER
    if isinstance(fields.get("content_block"), dict):
        return "content_block_start"
    if isinstance(fields.get("message"), dict):
        return "message_start"
    return "error" if fields.get("error") and not typed else OTHER


def is_known(event: WireEvent) -> bool:
    """Return True for an event of a kind that is read."""
    return event.kind not in (OTHER, UNREAD_EVENT)


def read_wire_events(chunks: Iterable[bytes]) -> Iterator[WireEvent]:
    """Yield the events of an answer.

    Raises:
        ModelStreamBroken: `stream_malformed`, as `decode_events`, and for an event that is too large.
        SteplineError: as `decode_events`.
    """
    for sent in split_events(chunks):
        yield from decode_events(sent.data, sent.name, whole=sent.whole)


class Counts(NamedTuple):
    """The newest tokens of each kind, all cumulative; None: not counted."""

    plain: int | None = None
    read: int | None = None
    write_5m: int | None = None
    write_1h: int | None = None
    output: int | None = None

    @property
    def usage(self) -> Usage:
        """The counted tokens."""
        return Usage(
            input_tokens=self.plain or 0,
            cache_read_tokens=self.read or 0,
            cache_write_5m_tokens=self.write_5m or 0,
            cache_write_1h_tokens=self.write_1h or 0,
            output_tokens=self.output or 0,
        )


class MessageFold:
    """The state of one answer. Blocks other than text (native thinking, tool use) add no text."""

    def __init__(self) -> None:
        """Start with no events."""
        self._model = ""
        self._message_id = ""
        self._said = False
        self._broken = False
        self._counts: Counts | None = None
        self._counted = False  # the tokens of the whole output
        self._stop_reason = ""
        self._stopped = False
        self._block: object = None  # the type of the last block
        self._begun = ""  # its first text, if only a text delta can show that it is a text block
        self._declined: Declined | None = None
        self._facts = FactReader()

    def take(self, event: WireEvent) -> str:
        """Apply one event and return the text that it adds. Unknown events change nothing.

        Raises ModelStreamBroken `stream_malformed` for an invalid text: the answer would have a hole, and could no
        longer be complete.
        """
        try:
            text = self._apply(event)
        except ModelStreamBroken:
            self._broken = True
            raise
        self._said = self._said or bool(text)
        return text

    def facts(self) -> AnswerFacts:
        """Return the facts so far. The answer is complete once it has its stop reason or its end."""
        return AnswerFacts(
            model=self._model,
            message_id=self._message_id,
            stop_reason=self._stop_reason,
            ended=not self._broken and (self._stopped or bool(self._stop_reason)),
            declined=self._declined,
            usage=self._counts.usage if self._counts else None,
            counted=self._counted and self._counts is not None and self._counts.plain is not None,
            unread=self._facts.unread,
        )

    def _apply(self, event: WireEvent) -> str:
        text = ""
        match event.kind:
            case "content_block_delta":
                text = self._delta(self._facts.fields(event.fields, "delta"))
            case "content_block_start":
                text = self._start_block(self._facts.fields(event.fields, "content_block"))
            case "message_start":
                text = self._begin(self._facts.fields(event.fields, "message"))
            case "message_delta":
                self._end(self._facts.fields(event.fields, "delta"))
                self._count(event.fields, whole=True)
            case "message_stop":
                self._stopped = True
            case kind if kind == MESSAGE:
                text = self._begin(event.fields, whole=True)
                self._stopped = True
            case kind if kind == UNREAD_EVENT:
                self._facts.unread["event"] += 1
            case _:
                pass
        return text

    def _begin(self, message: Mapping[str, Any], *, whole: bool = False) -> str:
        ident = self._facts.word(message, "id")
        if self._said and self._message_id and ident not in ("", self._message_id):
            raise _malformed("another message began within the answer")
        self._message_id = ident or self._message_id
        self._model = self._facts.word(message, "model") or self._model
        self._count(message, whole=whole)
        text = "" if self._said else self._content(message, whole=whole)
        if text or whole:
            self._end(message)
        return text

    def _content(self, message: Mapping[str, Any], *, whole: bool) -> str:
        """Return the text of a message's blocks; in a `whole` message the content itself may be the text."""
        content = message.get("content")
        if whole and isinstance(content, str):
            return content
        found = []
        blocks = content if isinstance(content, list) else [content] * (content is not None)
        for block in blocks:
            if isinstance(block, dict) and (whole or block.get("type") == "text"):
                found.append(_block_text(block))
            else:
                self._facts.unread["content"] += 1
        return "".join(found)

    def _start_block(self, block: Mapping[str, Any]) -> str:
        self._block, self._begun = block.get("type"), ""
        text = _block_text(block)
        if not text and isinstance(begun := block.get("text"), str):
            self._begun = begun
        return text

    def _delta(self, delta: Mapping[str, Any]) -> str:
        kind, text = delta.get("type"), delta.get("text")
        if kind == "text_delta":
            begun, self._begun = self._begun, ""
            if "text" in delta and text is None:
                return begun
            if not isinstance(text, str):
                raise _malformed("a text delta without a text")
            return begun + text
        self._facts.word(delta, "type")
        is_text = self._block == "text" or not (isinstance(kind, str) or isinstance(self._block, str))
        return text if is_text and isinstance(text, str) else ""

    def _end(self, of: Mapping[str, Any]) -> None:
        said = self._facts.word(of, "stop_reason")
        self._stop_reason = _WORDS.get(said, said) or self._stop_reason
        details = self._facts.fields(of, "stop_details")
        if self._stop_reason == "refusal":
            self._declined = Declined(
                category=self._facts.word(details, "category"),
                explanation=self._facts.text(details, "explanation"),
            )

    def _count(self, of: Mapping[str, Any], *, whole: bool) -> None:
        """Store the newer counts; keep the old value of a missing one."""
        facts, old = self._facts, self._counts or Counts()
        new = facts.fields(of, "usage")
        detail = facts.fields(new, "cache_creation")
        write_5m = facts.count(detail, "ephemeral_5m_input_tokens")
        write_1h = facts.count(detail, "ephemeral_1h_input_tokens")
        written = facts.count(new, "cache_creation_input_tokens")
        if write_5m is None and write_1h is None:
            write_5m, write_1h = old.write_5m, old.write_1h
            if written is not None and written != (write_5m or 0) + (write_1h or 0):
                write_5m, write_1h = written, 0
        output = facts.count(new, "output_tokens")
        self._counted = self._counted or (whole and output is not None)
        self._counts = Counts(
            plain=_newer(facts.count(new, "input_tokens"), old.plain),
            read=_newer(facts.count(new, "cache_read_input_tokens"), old.read),
            write_5m=write_5m,
            write_1h=write_1h,
            output=_newer(output, old.output),
        )


def _block_text(block: Mapping[str, Any]) -> str:
    """Return the text of a text block, or of a block without a type."""
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and not isinstance(text, str | None):
        raise _malformed("a block of text without a text")
    is_text = kind == "text" or not isinstance(kind, str)
    return text if is_text and isinstance(text, str) else ""


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _malformed(words: str) -> ModelStreamBroken:
    return ModelStreamBroken(words, code="stream_malformed")
