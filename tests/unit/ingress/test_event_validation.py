"""Events from outside: each accepted event is in the log unchanged, and each refusal has its code."""

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.errors import InputError, NotFoundError, SteplineError
from stepline.ingress.admit import Admitted, Arrival
from stepline.ingress.event_validation import PAYLOAD_MAX_BYTES, PAYLOAD_MAX_DEPTH, take_event
from stepline.ingress.message import receive
from stepline.log.spill import hydrate
from stepline.model.batch import BATCH_MAX_BYTES, decode_batch, encode_batch
from stepline.model.entry import Inbound
from stepline.model.file.attachment import (
    ATTACHMENT_MAX_BYTES,
    ATTACHMENTS_MAX,
    EVENT_MAX_BYTES,
    FILENAME_MAX_BYTES,
    TEXT_MAX_CHARS,
    Attachment,
    attachment_key,
)
from stepline.model.ids import Lane
from stepline.model.wire.event import AckFrame, ErrorFrame
from tests.support.budget import budget
from tests.support.conversation import FAR, LANE, USER, Conversation, frames, of

FORM = {"plan": "pro", "seats": 4, "agreed": True, "note": None, "tags": ["a", "b"], "price": 1.5}
CODES = {
    "bad_message_id",
    "bad_event",
    "bad_attachment",
    "attachment_missing",
    "input_too_long",
    "payload_too_large",
    "too_many_attachments",
    "message_size_limit",
}


def take(
    conversation: Conversation,
    payload: Any = None,
    *,
    id: str = "e1",  # noqa: A002 - as in `send`
    user: str = USER,
    **fields: Any,
) -> Admitted:
    founds = fields.pop("founds", True)
    arrival = Arrival(message_id=id, user=user, **{"kind": "form", "payload": payload or {}, **fields})
    return take_event(conversation.ports, LANE, arrival, founds=founds)


def stored(
    conversation: Conversation, body: bytes = b"bytes", *, lane: Lane = LANE, **fields: Any
) -> Attachment:
    """Put a file where events of the conversation find it; return its reference, valid or not."""
    sha256 = hashlib.sha256(body).hexdigest()
    conversation.ports.artifacts.put(attachment_key(lane, sha256), body, mime="text/plain")
    fields = {"filename": "a.txt", "mime": "text/plain", "size_bytes": len(body), "sha256": sha256, **fields}
    return Attachment(**fields)


def in_log(conversation: Conversation) -> Inbound:
    """Return the newest event in the form that readers of the log get."""
    whole = hydrate(conversation.ports.artifacts, decode_batch(encode_batch(conversation.tail)))
    return next(entry for entry in whole.entries if isinstance(entry, Inbound))


def refusal(conversation: Conversation, *args: Any, **fields: Any) -> str:
    """Return the code of an event's refusal; assert that nothing of it is in the log."""
    before = conversation.tail.n
    with pytest.raises(SteplineError) as caught:
        take(conversation, *args, **fields)
    assert conversation.tail.n == before
    return caught.value.reason


# --- accepted events


def test_a_forms_fields_files_and_text_are_in_the_log() -> None:
    conversation = Conversation()
    file = stored(conversation)
    take(conversation, {**FORM, "text": "my order"}, attachments=(file,), source="shop")
    event = in_log(conversation)
    assert (event.event, event.text, event.payload, event.reactive) == ("form", "my order", FORM, True)
    assert (event.attachments, event.source, event.user) == ((file,), "shop", USER)


def test_a_text_may_be_beside_the_payload_or_in_it_but_not_both() -> None:
    conversation = Conversation()
    take(conversation, {"a": 1}, text="beside")
    assert (in_log(conversation).text, in_log(conversation).payload) == ("beside", {"a": 1})
    assert refusal(conversation, {"text": "in"}, text="beside", id="e2") == "bad_event"


def test_an_event_at_all_its_limits_at_once_still_fits_into_a_batch() -> None:
    conversation = Conversation()
    file = stored(conversation)
    name, mime = '"' * FILENAME_MAX_BYTES, f"{'a' * 63}/{'b' * 127}"
    files = [
        Attachment(filename=name, mime=mime, size_bytes=5, sha256=file.sha256) for _ in range(ATTACHMENTS_MAX)
    ]
    payload = {f"k{n:03}": "v" * 40 for n in range(PAYLOAD_MAX_BYTES // 51 - 1)}
    text = "\x01" * TEXT_MAX_CHARS
    user = '"' * 256
    take(
        conversation,
        {**payload, "text": text},
        attachments=tuple(files),
        user=user,
        source="s" * 64,
        id="m" * 64,
    )
    assert len(encode_batch(conversation.tail)) <= BATCH_MAX_BYTES
    event = in_log(conversation)
    assert (event.text, event.payload, list(event.attachments)) == (text, payload, files)


def test_invisible_characters_of_a_text_are_kept() -> None:
    conversation = Conversation()
    take(conversation, {"a\x00": "b\x00\u202e", "text": "nul \x00 here"})
    assert (in_log(conversation).text, in_log(conversation).payload) == (
        "nul \x00 here",
        {"a\x00": "b\x00\u202e"},
    )


@pytest.mark.parametrize("depth", [1, PAYLOAD_MAX_DEPTH])
def test_a_payload_may_be_nested_up_to_its_limit(depth: int) -> None:
    conversation = Conversation()
    payload: dict[str, Any] = {}
    for _ in range(depth - 1):
        payload = {"a": payload}
    take(conversation, payload)
    assert in_log(conversation).payload == payload


# --- refused events


class Odd:
    pass


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "payload",
    [
        {"a": math.nan},
        {"a": -math.inf},
        {"a": 2**63},
        {"a": -(2**63) - 1},
        {"a": "\ud800"},
        {"\udfff": 1},
        {"a": CYCLE},
        {1: "a"},
        {"a": (1, 2)},
        {"a": b"bytes"},
        {"a": {1, 2}},
        {"a": Odd()},
        {"text": 7},
        {"text": None},
        {"text": "\ud800"},
        {"iteration_credit": True},
        {"iteration_credit": -1},
        {"iteration_credit": 1.0},
        {"iteration_credit": "3"},
        {"iteration_credit": None},
    ],
    ids=lambda payload: ascii(next(iter(payload.items())))[:40],
)
def test_values_that_json_changes_and_odd_credits_are_refused(payload: dict[Any, Any]) -> None:
    assert refusal(Conversation(), payload) == "bad_event"


@pytest.mark.parametrize(
    "kind", ["prompt", "", "Form", "form!", "a" * 33, "1form", "-form", "form\n", "a/b", "a.b", "a#b"]
)
def test_a_kind_is_a_short_word_and_prompt_is_reserved(kind: str) -> None:
    assert refusal(Conversation(), kind=kind) == "bad_event"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("followup", {"reactive": False, "text": "a"}),
        ("steer", {"reactive": True, "text": "a"}),
        ("stop", {"reactive": True}),
        ("stop", {"text": "now"}),
        ("steer", {"payload": {"a": 1}, "text": "a"}),
        ("stop", {"payload": {"a": 1}}),
        ("followup", {"text": ""}),
        ("followup", {"payload": {"a": 1}}),
    ],
)
def test_an_invalid_kind_is_refused(kind: str, fields: dict[str, Any]) -> None:
    assert refusal(Conversation(), kind=kind, **fields) == "bad_event"


def test_a_steer_with_files_is_refused() -> None:
    conversation = Conversation()
    assert (
        refusal(conversation, kind="steer", text="shorter", attachments=(stored(conversation),))
        == "bad_event"
    )


@pytest.mark.parametrize("name", ["", "../e", "e\n", "e" * 65, "ü"])
def test_a_message_id_that_cannot_be_a_key_is_refused(name: str) -> None:
    assert refusal(Conversation(), id=name) == "bad_message_id"


def test_each_exceeded_limit_has_its_own_code() -> None:
    conversation = Conversation()
    file = stored(conversation)
    assert refusal(conversation, {"a": "x" * PAYLOAD_MAX_BYTES}) == "payload_too_large"
    assert refusal(conversation, {"a": "ü" * (PAYLOAD_MAX_BYTES // 2)}) == "payload_too_large"
    assert refusal(conversation, {"text": "ü" * (TEXT_MAX_CHARS + 1)}) == "input_too_long"
    assert refusal(conversation, attachments=(file,) * (ATTACHMENTS_MAX + 1)) == "too_many_attachments"


def test_attachments_and_text_share_one_size_limit() -> None:
    conversation = Conversation()
    half = stored(conversation, bytes(EVENT_MAX_BYTES // 2))
    assert refusal(conversation, {"text": "x"}, attachments=(half, half)) == "message_size_limit"
    assert take(conversation, attachments=(half, half)).fate == "opened"


@pytest.mark.parametrize(
    "fields",
    [
        {"filename": ""},
        {"filename": "a\nb"},
        {"filename": "a\x00b"},
        {"filename": "a\x85b"},
        {"filename": "a\ud800"},
        {"filename": "ü" * (FILENAME_MAX_BYTES // 2 + 1)},
        {"mime": "text"},
        {"mime": "Text/Plain"},
        {"mime": "text/plain; charset=utf-8"},
        {"mime": "text/plain\n"},
        {"size_bytes": -1},
        {"size_bytes": ATTACHMENT_MAX_BYTES + 1},
        {"size_bytes": 4},
        {"sha256": "A" * 64},
        {"sha256": "a" * 63},
        {"sha256": "../../other/c-2/sent/x"},
    ],
    ids=ascii,
)
def test_an_invalid_file_reference_is_refused(fields: dict[str, Any]) -> None:
    conversation = Conversation()
    assert refusal(conversation, attachments=(stored(conversation, **fields),)) == "bad_attachment"


def test_a_file_must_exist_and_belong_to_this_conversation() -> None:
    conversation = Conversation()
    other = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-2")
    file = stored(conversation, b"theirs", lane=other)
    assert refusal(conversation, attachments=(file,)) == "attachment_missing"


def test_a_stranger_does_not_learn_which_files_a_conversation_has() -> None:
    conversation = Conversation()
    conversation.send()
    there, gone = stored(conversation), Attachment(filename="a", mime="a/b", size_bytes=1, sha256="0" * 64)
    codes = {refusal(conversation, attachments=(file,), user="bob", id="e2") for file in (there, gone)}
    assert codes == {"not_found"}


# --- once, and by whom


def test_the_same_event_of_the_same_source_is_one_event_and_that_of_another_is_refused() -> None:
    conversation = Conversation()
    assert take(conversation, FORM, source="shop").duplicate is False
    assert take(conversation, FORM, source="shop").duplicate is True
    with pytest.raises(InputError) as caught:
        take(conversation, FORM, source="billing")
    assert caught.value.reason == "message_id_taken"
    assert conversation.tail.n == 1


@pytest.mark.parametrize("kind", ["form", "alert"])
def test_only_an_allowed_event_begins_a_conversation(kind: str) -> None:
    conversation = Conversation()
    with pytest.raises(NotFoundError):
        take(conversation, FORM, kind=kind, founds=False)
    assert conversation.batches() == []
    take(conversation, FORM, kind=kind)
    take(conversation, FORM, kind=kind, id="e2", founds=False)
    assert conversation.tail.n == 2


@pytest.mark.parametrize(
    ("is_open", "kind", "reactive", "fate"),
    [
        (False, "form", None, "opened"),
        (False, "alert", None, "kept"),
        (False, "stop", None, "dropped"),
        (True, "form", None, "joined"),
        (True, "alert", None, "joined"),
        (True, "stop", None, "joined"),
    ],
)
def test_an_event_gets_a_receipt_with_its_number_and_fate(
    *, is_open: bool, kind: str, reactive: bool | None, fate: str
) -> None:
    conversation = Conversation()
    if is_open:
        conversation.send()
    assert take(conversation, kind=kind, reactive=reactive).fate == fate
    assert take(conversation, kind=kind, reactive=reactive).fate == fate


def test_an_event_adds_its_requested_rounds_up_to_the_limit() -> None:
    conversation = Conversation(max_iterations=5)
    conversation.send()
    seen = []
    for n, asked in enumerate((0, 3, 2**62)):
        take(conversation, {"iteration_credit": asked}, id=f"e{n}")
        seen.append(conversation.state.credits)
    take(conversation, {"iteration_credit": 5}, id="quiet", kind="alert")
    assert (seen, conversation.state.credits) == ([0, 3, 5], 5)


def test_no_event_adds_rounds_if_the_deployment_grants_none() -> None:
    conversation = Conversation(max_iterations=5, event_credit=0)
    conversation.send()
    take(conversation, {"iteration_credit": 3}, id="e1")
    conversation.send("and another thing", id="m2")
    assert conversation.state.credits == 0


# --- properties

NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
TEXTS = st.text(st.characters(), max_size=12)  # surrogates too
JSON = st.recursive(
    NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(payload=st.dictionaries(TEXTS | st.just("text") | st.just("iteration_credit"), JSON, max_size=4))
@settings(max_examples=budget(30, 3000))
def test_accepted_events_are_logged_unchanged_and_others_refused(
    payload: dict[str, Any],
) -> None:
    conversation, code = Conversation(), ""
    try:
        take(conversation, payload)
    except SteplineError as error:
        code = error.reason
    if code:
        assert code in CODES
        assert conversation.batches() == []
        return
    event = in_log(conversation)
    said = {**event.payload, **({"text": event.text} if "text" in payload else {})}
    assert json.dumps(said, sort_keys=True) == json.dumps(payload, sort_keys=True)


EVENTS = st.fixed_dictionaries(
    {"action": st.just("event"), "conversation": st.just("c-1"), "message_id": st.just("m1") | JSON},
    optional={
        "kind": st.sampled_from(["form", "followup", "steer", "stop", "prompt", "x" * 40]) | JSON,
        "reactive": st.booleans() | JSON,
        "payload": st.dictionaries(TEXTS | st.just("text"), JSON, max_size=3) | JSON,
        "uploads": st.lists(st.just(f"up_{'0' * 32}") | JSON) | JSON,
        "extra": JSON,
    },
)


@given(message=EVENTS)
@settings(max_examples=budget(30, 3000))
def test_every_message_over_the_socket_has_exactly_one_answer(message: dict[str, Any]) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1", expires_at=FAR)
    receive(conversation.ports, "k1", json.dumps(message))
    answers = [frame for frame in frames(inbox) if isinstance(frame, AckFrame | ErrorFrame)]
    assert len(answers) == 1
    assert bool(of(AckFrame, inbox)) == (len(conversation.batches()) == 1)


def test_an_event_keeps_its_users_time_zone() -> None:
    conversation = Conversation()
    take(conversation, {"text": "hi"}, kind="followup", timezone="America/Argentina/Ushuaia")
    assert in_log(conversation).timezone == "America/Argentina/Ushuaia"


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "Europe", "/etc/localtime", "../UTC", "tzdata.zi", " UTC", "UTC\n", "a" * 65]
)
def test_an_invalid_time_zone_is_refused(zone: str) -> None:
    assert refusal(Conversation(), {"text": "hi"}, kind="followup", timezone=zone) == "bad_timezone"
