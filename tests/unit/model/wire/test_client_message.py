import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import InputError, LimitError
from stepline.model.wire.client_message import (
    MESSAGE_MAX_BYTES,
    MessageIds,
    Ping,
    Resume,
    Send,
    StreamCursor,
    parse_message,
    read_names,
)


def send(**fields: Any) -> str:
    return json.dumps({"action": "send", "conversation": "c-1", "message_id": "m1", "text": "hi", **fields})


def message(**fields: Any) -> str:
    """Return a message with the required fields of its action, overridden by these."""
    needed = {
        "send": {"message_id": "m1", "text": "hi"},
        "event": {"message_id": "m1"},
        "feedback": {"message_id": "m1"},
    }
    action = fields.get("action", "send")
    return json.dumps({"action": action, "conversation": "c-1", **needed.get(action, {}), **fields})


def refusal(body: str) -> InputError | LimitError:
    with pytest.raises((InputError, LimitError)) as caught:
        parse_message(body)
    assert isinstance(caught.value, InputError | LimitError)
    return caught.value


CODES = ("", "bad_json", "bad_message", "unknown_action")


def code(body: str) -> str:
    """Return the code with which a message is refused; an empty one if it is accepted."""
    try:
        parse_message(body)
    except InputError as error:
        return error.reason
    return ""


def test_a_message_is_read_by_its_action() -> None:
    assert parse_message(send()) == Send(conversation="c-1", message_id="m1", text="hi")
    assert parse_message('{"action": "ping", "conversation": "c-1"}') == Ping(conversation="c-1")
    assert parse_message('{"action": "resume", "conversation": "c-1"}') == Resume(
        conversation="c-1", after=0, stream=None
    )


def test_a_resume_says_how_much_of_the_running_stream_is_known() -> None:
    body = {
        "action": "resume",
        "conversation": "c-1",
        "after": 7,
        "stream": {"claim": 5, "off": {"answer.0": 3}},
    }
    found = parse_message(json.dumps(body))
    assert isinstance(found, Resume)
    assert (found.after, found.stream) == (7, StreamCursor(claim=5, off={"answer.0": 3}))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_message_accepts_any_text_that_a_socket_can_carry(text: str) -> None:
    found = parse_message(send(text=text))
    assert isinstance(found, Send)
    assert found.text == text


@given(st.text())
def test_any_bytes_are_parsed_or_refused(body: str) -> None:
    assert code(body) in CODES


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_is_parsed_or_refused(content: Any) -> None:
    for body in (content, {"action": content}, {"action": "resume", "conversation": "c", "stream": content}):
        assert code(json.dumps(body)) in CODES


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", ""),
        ("text", None),
        ("text", ["hi"]),
        ("message_id", ""),
        ("message_id", "a b"),
        ("message_id", 7),
        ("conversation", "../c"),
        ("conversation", "c\n"),
        ("extra", 1),
    ],
)
def test_a_refusal_names_the_field_that_is_wrong(field: str, value: Any) -> None:
    error = refusal(send(**{field: value}))
    assert error.reason == "bad_message"
    assert field in str(error)


UPLOAD = f"up_{'0' * 32}"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"text": ""}, "`text` must not be empty"),
        ({"text": 7}, "`text` must be a text"),
        ({"extra": 1}, "`extra` is no field of this message"),
        (
            {"action": "shout"},
            "`action` must be `send`, `event`, `approve`, `deny`, `edit`, `feedback`, `resume`, `ping`, `auth` or `watch`",
        ),
        ({"action": "ping", "message_id": "m1"}, "`message_id` is no field of this message"),
        (
            {"message_id": "a b"},
            "`message_id` is at most 64 letters, digits, `_` and `-`, and begins with a letter or a digit",
        ),
        ({"action": "event"}, "`kind` is missing"),
        (
            {"action": "event", "kind": "Form"},
            "`kind` is at most 32 small letters, digits, `_` and `-`, and begins with a letter",
        ),
        ({"action": "event", "kind": "form", "reactive": "yes"}, "`reactive` must be true or false"),
        ({"action": "event", "kind": "form", "payload": []}, "`payload` must be an object"),
        (
            {"action": "event", "kind": "form", "uploads": [UPLOAD] * 21},
            "`uploads` has at most 20 entries",
        ),
        (
            {"action": "event", "kind": "form", "uploads": [UPLOAD, "a.txt"]},
            "`uploads.1` is the id of an upload, `up_` and 32 hexadecimal digits, or the path of an attachment",
        ),
        ({"action": "feedback", "reaction": "great"}, "`reaction` is none of its words"),
        ({"action": "feedback"}, "`reaction` is missing"),
        ({"action": "feedback", "reaction": None, "turn": "one"}, "`turn` is the id of a turn"),
        ({"action": "feedback", "reaction": "ok", "text": "x" * 1_001}, "`text` has at most 1000 characters"),
        ({"action": "resume", "after": -1}, "`after` must be at least 0"),
        (
            {"action": "resume", "stream": {"claim": 1, "off": {"a": "x"}}},
            "`stream.off` must be a whole number",
        ),
    ],
)
def test_a_refusal_is_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    assert str(refusal(message(**fields))) == sentence


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "the message is not JSON"),
        ("[]", "the message must be an object"),
        (
            "{}",
            "`action` is missing: it must be `send`, `event`, `approve`, `deny`, `edit`, `feedback`, `resume`, `ping`, `auth` or `watch`",
        ),
        ("[" * 20_000, "the message must be an object"),
    ],
)
def test_an_unreadable_message_is_refused_with_a_sentence(body: str, sentence: str) -> None:
    assert str(refusal(body)) == sentence


def test_a_message_nested_too_deeply_is_refused() -> None:
    body = '{"action": "event", "payload": {"x": ' + "[" * 20_000
    assert refusal(body).reason == "bad_json"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (send(text=""), MessageIds(message_id="m1", conversation="c-1")),
        (send(action="shout"), MessageIds(message_id="m1", conversation="c-1")),
        (send(message_id=7), MessageIds(conversation="c-1")),
        (send(conversation=["c-1"]), MessageIds(message_id="m1")),
        (send(message_id="m" * 65), MessageIds(conversation="c-1")),
        (
            '{"message_id":"m1","conversation":"c-1","text":"x\\ud83dy"}',
            MessageIds(message_id="m1", conversation="c-1"),
        ),
        (
            '{"message_id":"m1","text":"x\ud83dy","conversation":"c-1"}',
            MessageIds(message_id="m1", conversation="c-1"),
        ),
        ('{"text":"\\","message_id":"m1"}', MessageIds()),
        ('{"text":"\\\\","message_id":"m1"}', MessageIds(message_id="m1")),
        ('{"payload":{"message_id":"m2"},"message_id":"m1"}', MessageIds(message_id="m1")),
        ('{"payload":{"message_id":"m2"}}', MessageIds()),
        (
            '{"payload":[{"message_id":"m2","conversation":"c-2"}],"conversation":"c-1"}',
            MessageIds(conversation="c-1"),
        ),
        ('{"message_id" : "m1", "text": NaN}', MessageIds(message_id="m1")),
        ('{"message_id":"m1","text":"a', MessageIds(message_id="m1")),
        ('{"message_id":"m\\u0031","conversation":"c\ud83d"}', MessageIds()),
        ('[{"message_id":"m1"}]', MessageIds()),
        (f'{{"message_id":"m1","payload":{"[" * 20_000}', MessageIds(message_id="m1")),
        (f'{{"payload":{"[" * 20_000}{"]" * 20_000},"message_id":"m1"}}', MessageIds(message_id="m1")),
        ("[]", MessageIds()),
        ("{", MessageIds()),
        ("[" * 20_000, MessageIds()),
    ],
)
def test_the_ids_of_an_invalid_message_are_read(body: str, names: MessageIds) -> None:
    assert read_names(body) == names


@given(st.text())
def test_ids_are_read_from_any_input(body: str) -> None:
    assert isinstance(read_names(body), MessageIds)


@pytest.mark.parametrize("value", ["5", 5.5, True, -1, None, [5]])
def test_a_number_is_a_number(value: Any) -> None:
    for fields in (
        {"after": value},
        {"stream": {"claim": value}},
        {"stream": {"claim": 1, "off": {"a": value}}},
    ):
        assert (
            refusal(json.dumps({"action": "resume", "conversation": "c-1", **fields})).reason == "bad_message"
        )


def test_a_refusal_does_not_repeat_the_message() -> None:
    assert "secret" not in str(refusal(send(text={"secret": 1})))
    assert "secret" not in str(refusal(send(message_id="the secret")))


@pytest.mark.parametrize("char", ["x", "ü", "🦜"])
def test_the_limit_counts_bytes_of_the_whole_message(char: str) -> None:
    room = MESSAGE_MAX_BYTES - len(send(text=""))
    size = len(char.encode())
    fits = json.dumps(json.loads(send(text=char * (room // size))), ensure_ascii=False)
    assert len(fits.encode()) <= MESSAGE_MAX_BYTES
    parse_message(fits)
    assert refusal(fits + " " * (MESSAGE_MAX_BYTES + 1 - len(fits.encode()))).reason == "message_too_large"
