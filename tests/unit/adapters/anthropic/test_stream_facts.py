"""An answer's text does not depend on its facts: each fact of each event is replaced, on each protocol."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.anthropic.aws_frames import read_frames
from stepline.adapters.anthropic.message_fold import MessageFold, WireEvent, read_wire_events
from stepline.adapters.memory.model import Say, ScriptedCall
from stepline.adapters.provider.client import RetriedStream
from stepline.adapters.provider.wire import Retry
from stepline.errors import ModelStreamBroken, SteplineError
from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.cache import CacheUse
from stepline.ports.model import AnswerFacts, Completion, ModelRequest, Part, RoleChoice

REQUEST = ModelRequest(role="x", system=(Part(text="S" * 400),), content=(Part(text="q"),), max_tokens=100)
USE = CacheUse(read=7, write_5m=3, write_1h=2, plain=9)
TEXT = "Well, hello to you."
EVENTS: list[dict[str, Any]] = [
    {"type": "ping"},
    *wire.opening(ident="msg_1", model="m", use=USE),
    *wire.thinking("Hm."),
    wire.block_start(1, {"type": "text", "text": "Well, ", "citations": None}),
    wire.delta("hel", 1),
    {"type": "future_event", "x": [1]},
    wire.delta("lo", 1),
    wire.block_delta(1, {"type": "citations_delta", "citation": {"cited_text": "not said"}}),
    {"type": "content_block_stop", "index": 1},
    wire.block_start(2, {"type": "future_block", "name": "not said"}),
    wire.block_start(3, {"type": "text", "text": ""}),
    wire.delta(" to you.", 3),
    {"type": "content_block_stop", "index": 3},
    *wire.closing(stop=wire.Stop(), counts=wire.usage(USE, output_tokens=5)),
]
MESSAGE = wire.message(
    [
        wire.thinking_block("Hm."),
        {"type": "text", "text": "Well, hello"},
        {"type": "text", "text": " to you."},
    ],
    ident="msg_1",
    model="m",
    stop=wire.Stop(),
    counts=wire.usage(USE, output_tokens=5),
)
Path = tuple[str | int, ...]
GONE = object()


def named(events: list[Any]) -> bytes:
    """Server-sent events that keep their names after a fact was replaced."""
    pairs = zip(EVENTS, events, strict=True)
    return b"".join(b"event: %b\ndata: %b\n\n" % (old["type"].encode(), encode(new)) for old, new in pairs)


def unnamed(events: list[Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % encode(event) for event in events)


def encode(event: Any) -> bytes:
    return json.dumps(event).encode()


def frames(events: list[Any]) -> bytes:
    return b"".join(wire.encode_frame({"type": "", **event}) for event in events)


class Answered(ScriptedCall):
    """A call whose answer consists of these events."""

    def __init__(self, events: Iterator[WireEvent]) -> None:
        super().__init__(REQUEST, Say)
        self._events, self._fold = events, MessageFold()

    def __iter__(self) -> Iterator[str]:
        for event in self._events:
            text = self._fold.take(event)
            self.facts = self._fold.facts()
            yield text


def fold(events: Iterator[WireEvent]) -> tuple[Completion, AnswerFacts]:
    """Return a call's text for the events, and their facts. A cut stream is not an error here."""
    call = Answered(events)
    stream = RetriedStream(lambda _: call, REQUEST, RoleChoice(model="m"), retry=Retry(tries=1), blocks=False)
    try:
        text = "".join(stream)
    except ModelStreamBroken as error:
        if error.reason != "stream_cut":
            raise
    else:
        assert text == stream.completion().text
    return stream.completion(), call.facts


def said(folded: tuple[Completion, AnswerFacts]) -> tuple[str, bool]:
    return folded[0].text, folded[1].ended


def facts(of: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values that neither are nor contain text of the answer."""
    if path and not holds_text(of, path):
        yield path
    for key, value in of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ():
        yield from facts(value, (*path, key))


def holds_text(of: Any, path: Path) -> bool:
    if isinstance(of, dict):
        return any(holds_text(one, (*path, key)) for key, one in of.items() if one != "")
    if isinstance(of, list):
        return any(holds_text(one, path) for one in of)
    return path[-1] == "text"


def replaced(of: Any, path: Path, value: object) -> Any:
    made = copy.deepcopy(of)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud83d", 10**400, "x" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
STREAM_FACTS = [(at, path) for at, event in enumerate(EVENTS) for path in facts(event)]
MESSAGE_FACTS = [path for path in facts(MESSAGE) if path[:1] != ("content",) or path[-1] != "type"]


@pytest.mark.parametrize(
    ("send", "read"),
    [(named, read_wire_events), (unnamed, read_wire_events), (frames, read_frames)],
    ids=["named events", "unnamed events", "frames"],
)
@given(fact=st.sampled_from(STREAM_FACTS), value=JSON | st.just(GONE))
def test_an_unreadable_fact_of_a_stream_does_not_lose_its_text(
    send: Callable[[list[Any]], bytes],
    read: Callable[[list[bytes]], Iterator[WireEvent]],
    fact: tuple[int, Path],
    value: object,
) -> None:
    at, path = fact
    events = [*EVENTS[:at], replaced(EVENTS[at], path, value), *EVENTS[at + 1 :]]
    assert said(fold(read([send(events)]))) == (TEXT, True)


@given(path=st.sampled_from(MESSAGE_FACTS), value=JSON | st.just(GONE))
def test_an_unreadable_fact_of_a_whole_message_does_not_lose_its_text(path: Path, value: object) -> None:
    body = json.dumps(replaced(MESSAGE, path, value), indent=1).encode()
    assert said(fold(read_wire_events([body]))) == (TEXT, True)


@given(end=st.integers(min_value=0), by_frames=st.booleans())
def test_an_answer_that_was_cut_has_the_beginning_of_its_text_and_no_end(end: int, by_frames: bool) -> None:
    send, read = (frames, read_frames) if by_frames else (named, read_wire_events)
    whole = send(EVENTS)
    reason = whole.index(encode(EVENTS[-2])[:20]) if not by_frames else len(send(EVENTS[:-2]))
    cut = fold(read([whole[: end % reason]]))
    assert TEXT.startswith(said(cut)[0])
    assert not said(cut)[1]


START, BLOCK, STOP = EVENTS[1], wire.block_start(0, {"type": "text", "text": ""}), EVENTS[-1]
HELLO, END = wire.delta("hello"), EVENTS[-2]
GATEWAYS = {
    "text in the message that begins": unnamed(
        [
            {
                **START,
                "message": {**MESSAGE, "content": [{"type": "text", "text": "hel"}], "stop_reason": None},
            },
            wire.delta("lo"),
            END,
        ]
    ),
    "all in the message that begins": unnamed(
        [{**START, "message": {**MESSAGE, "content": [{"type": "text", "text": "hello"}]}}]
    ),
    "text in a block, without a delta": unnamed(
        [START, wire.block_start(0, {"type": "text", "text": "hello"}), END]
    ),
    "a block of a type that its delta explains": unnamed(
        [START, wire.block_start(0, {"type": "prose", "text": "hel"}), wire.delta("lo"), END]
    ),
    "null for no text": unnamed(
        [
            START,
            wire.block_start(0, {"type": "text", "text": None}),
            wire.block_delta(0, {"type": "text_delta", "text": None}),
            HELLO,
            END,
        ]
    ),
    "no message_start": unnamed([BLOCK, HELLO, END]),
    "no message_stop": unnamed([START, BLOCK, HELLO, END]),
    "no stop reason": unnamed([START, BLOCK, HELLO, STOP]),
    "no last empty line": unnamed([START, BLOCK, HELLO, END]).rstrip(b"\n"),
    "a last line without its half": unnamed([START, BLOCK, HELLO, END]) + b'data: {"type":"mess',
    "no empty lines": b"\n".join(b"data: " + encode(one) for one in (START, BLOCK, HELLO, END, STOP)),
    "an end of another API": unnamed([START, BLOCK, HELLO, END]) + b"data: [DONE]\n\n" + unnamed([STOP]),
    "a whole message as the only event": unnamed([{**MESSAGE, "content": "hello"}]),
    "a whole message as a body": b"\xef\xbb\xbf \n" + encode({**MESSAGE, "content": "hello"}),
    "a whole message that repeats the stream": unnamed(
        [START, BLOCK, HELLO, {**MESSAGE, "content": "hello"}]
    ),
    "lines of JSON": b"\n".join(map(encode, (START, BLOCK, HELLO, END, STOP))),
    "a number of many digits": b'data: {"type":"content_block_delta","index":%b,"delta":{"type":"text_delta","text":"hello"}}\n\n'
    % (b"9" * 5000)
    + unnamed([END]),
    "data over several lines": b"".join(
        b"data: " + json.dumps(one, indent=1).encode().replace(b"\n", b"\ndata: ") + b"\n\n"
        for one in (START, BLOCK, HELLO, END)
    ),
    "pings, comments and empty data": b": hi\n\ndata:\n\nevent: ping\ndata: pong\n\n"
    + unnamed([START, BLOCK, HELLO, END]),
}


@pytest.mark.parametrize("body", GATEWAYS.values(), ids=GATEWAYS)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_complete_answer_is_accepted(body: bytes, newline: bytes) -> None:
    assert said(fold(read_wire_events([body.replace(b"\n", newline)]))) == ("hello", True)


NO_ANSWERS = {
    "no end": unnamed([START, BLOCK, HELLO]),
    "another API's end alone": unnamed([START, BLOCK, HELLO]) + b"data: [DONE]\n\n",
    "a body that was cut": encode(MESSAGE)[:-2],
    "a body of another API": b'{"choices": [{"message": {"content": "hello"}}]}',
    "a page": b"<html>hello</html>",
    "an empty stop reason": unnamed(
        [START, BLOCK, HELLO, {"type": "message_delta", "delta": {"stop_reason": ""}}]
    ),
    "a stop reason that is no word": unnamed(
        [START, HELLO, {"type": "message_delta", "delta": {"stop_reason": True}}]
    ),
    "a stop reason before any text": unnamed([{**START, "message": {**MESSAGE, "content": []}}, HELLO]),
}


@pytest.mark.parametrize("body", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_stream_without_an_end_is_not_an_answer(body: bytes) -> None:
    assert not said(fold(read_wire_events([body])))[1]


ERRORS = {
    "typed": (b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n', "model_overloaded"),
    "untyped": (b'data: {"error":{"type":"rate_limit_error","message":"slow"}}\n\n', "model_rate_limited"),
    "named, no JSON": (b"event: error\ndata: upstream closed\n\n", "model_unavailable"),
    "as a body": (b'{"error": {"type": "overloaded_error"}}', "model_overloaded"),
    "a text without its words": (
        unnamed([BLOCK, wire.block_delta(0, {"type": "text_delta"})]),
        "stream_malformed",
    ),
    "another message within": (
        unnamed([START, HELLO, {**START, "message": {**MESSAGE, "id": "msg_2", "content": []}}]),
        "stream_malformed",
    ),
}


@pytest.mark.parametrize(("body", "code"), ERRORS.values(), ids=ERRORS)
def test_an_error_in_a_stream_has_a_code(body: bytes, code: str) -> None:
    with pytest.raises(SteplineError) as caught:
        fold(read_wire_events([body]))
    assert caught.value.reason == code


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (wire.encode_frame(wire.error("throttlingException", "slow", request_id="")), "model_rate_limited"),
        (wire.encode_frame(wire.error("odd", "what", request_id="")), "model_unavailable"),
    ],
)
def test_an_exception_of_bedrock_has_a_code(frame: bytes, code: str) -> None:
    with pytest.raises(SteplineError) as caught:
        fold(read_frames([frame]))
    assert caught.value.reason == code


def test_stop_reasons_of_another_api_are_translated() -> None:
    for word, reason in (("length", "max_tokens"), ("stop", "end_turn"), ("new_reason", "new_reason")):
        end = {"type": "message_delta", "delta": {"stop_reason": word}}
        done, _ = fold(read_wire_events([unnamed([START, HELLO, end])]))
        assert done.stop_reason == reason


@pytest.mark.parametrize(
    "usage", [None, "many", {"input_tokens": "9", "output_tokens": -1}, {"input_tokens": True}], ids=repr
)
def test_tokens_that_were_not_counted_are_estimated(usage: object) -> None:
    events = [{**START, "message": {**START["message"], "usage": usage}}, HELLO, {**END, "usage": usage}]
    done, _ = fold(read_wire_events([unnamed(events)]))
    assert done.usage.estimated
    assert done.usage.input_tokens == sum(part.tokens for part in REQUEST.system) + 1
    assert done.usage.output_tokens > 0


def test_facts_that_cannot_be_read_are_counted_and_those_that_are_missing_are_not() -> None:
    odd = {"input_tokens": "9", "cache_creation": [], "output_tokens": 4.5}
    wrong = [{**START, "message": {"id": 5, "model": "\ud83d", "usage": odd}}, HELLO, {**END, "delta": 1}]
    names = ("cache_creation", "delta", "id", "input_tokens", "model", "output_tokens")
    assert fold(read_wire_events([unnamed(wrong)]))[1].unread == dict.fromkeys(names, 1)
    missing = [{"type": "message_start", "message": {"id": None}}, HELLO, {"type": "message_delta"}, STOP]
    assert not fold(read_wire_events([unnamed(missing)]))[1].unread
