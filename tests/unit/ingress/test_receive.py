import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import AuthError, DependencyError, SteplineError, UnknownOutcome
from stepline.ingress.access import check_origin
from stepline.ingress.event_validation import PAYLOAD_MAX_BYTES
from stepline.ingress.message import SEND_AGAIN, receive, report_internal
from stepline.model.batch import BATCH_MAX_BYTES, Batch
from stepline.model.entry import Inbound
from stepline.model.file.attachment import TEXT_MAX_CHARS
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.wire.client_message import MESSAGE_MAX_BYTES
from stepline.model.wire.event import AckFrame, AuthFrame, ErrorFrame, EventFrame, PongFrame, SyncFrame
from stepline.ports.channel import Principal
from tests.support.conversation import FAR, LANE, USER, Conversation, event_types, frames, of
from tests.support.faulty_log import ContendedLog
from tests.support.generation import answered

UPLOAD = f"up_{'0' * 32}"


def body(action: str = "send", **fields: Any) -> str:
    send = {"message_id": "m1", "text": "hello"} if action == "send" else {}
    send |= {"message_id": "m1", "kind": "form"} if action == "event" else {}
    return json.dumps({"action": action, "conversation": "c-1", **send, **fields})


def say(conversation: Conversation, text: str, *, connection: str = "k1") -> None:
    receive(conversation.ports, connection, text)


def test_a_message_is_acknowledged_after_its_own_events() -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    say(conversation, body())
    assert [type(frame) for frame in frames(inbox)] == [EventFrame, AckFrame]
    ack = AckFrame(message_id="m1", conversation="c-1", n=1, kind="prompt", turn_id=conversation.state.turn)
    assert frames(inbox)[-1] == ack


@pytest.mark.parametrize("action", ["send", "event"])
def test_a_message_may_name_its_users_time_zone(action: str) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    say(conversation, body(action, message_id="m1", timezone="Europe/Zurich"))
    assert len(of(AckFrame, inbox)) == 1
    said = [
        entry for batch in conversation.batches() for entry in batch.entries if isinstance(entry, Inbound)
    ]
    assert [entry.timezone for entry in said] == ["Europe/Zurich"]
    say(conversation, body(action, message_id="m2", timezone="Europe/Nowhere"))
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["bad_timezone"]


def test_a_resent_message_is_acknowledged_as_a_duplicate() -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    for _ in range(2):
        say(conversation, body())
    first, second = of(AckFrame, inbox)
    assert (second.n, second.kind, second.turn_id) == (first.n, first.kind, first.turn_id)
    assert (first.duplicate, second.duplicate) == (False, True)


def test_a_resending_connection_gets_the_events_that_it_missed() -> None:
    conversation = Conversation(answered("All is quiet."))
    conversation.connect("k1")
    say(conversation, body())
    conversation.run()
    late = conversation.connect("k2")
    say(conversation, body(), connection="k2")
    (ack,) = of(AckFrame, late)
    assert ack.newest == conversation.tail.n > ack.n


@pytest.mark.parametrize(
    ("fields", "idle", "is_open"),
    [
        ({"kind": "followup", "payload": {"text": "hello"}}, "prompt", "followup"),
        ({"kind": "form"}, "form", "form"),
        ({"kind": "alert"}, "alert", "alert"),
        ({"kind": "steer", "payload": {"text": "shorter"}}, "steer", "steer"),
        ({"kind": "stop"}, "steer", "steer"),
    ],
)
def test_an_acknowledgement_has_the_fate_of_its_event(
    fields: dict[str, Any], idle: str, is_open: str
) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    say(conversation, body("event", conversation="c-2", **fields))
    say(conversation, body(message_id="m0"))
    say(conversation, body("event", **fields))
    assert [frame.kind for frame in of(AckFrame, inbox)] == [idle, "prompt", is_open]


def test_a_whole_turn_reaches_its_sender() -> None:
    conversation = Conversation(answered("All quiet."))
    inbox = conversation.connect("k1")
    say(conversation, body())
    conversation.run()
    assert event_types(inbox) == [
        "conv.status",
        "chat.conversation.accepted",
        "chat.conversation.title",
        "conv.status",
        "chat.start",
        "solver.react.decision",
        "chat.conversation.turn.completed",
        "chat.turn.summary",
        "accounting.usage",
        "chat.complete",
        "conv.status",
    ]


def test_a_resume_gets_missed_events_and_a_ping_the_newest_number() -> None:
    conversation = Conversation(answered("All quiet."))
    conversation.send()
    conversation.run()
    inbox = conversation.connect("k1")
    say(conversation, body("resume", after=2, stream={"claim": 1, "off": {"answer.0": 3}}))
    say(conversation, body("ping"))
    assert [type(frame) for frame in frames(inbox)] == [EventFrame, SyncFrame, PongFrame]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_json"),
        ("{", "bad_json"),
        ('{"action": "send", "conversation": "c-1", "message_id": "m", "text": "\\ud800"}', "bad_json"),
        (
            '{"action": "send", "conversation": "c-1", "message_id": "m", "text": "\ud800"}',
            "bad_json",
        ),
        ("[]", "bad_message"),
        ('"send"', "bad_message"),
        (json.dumps({"conversation": "c-1"}), "bad_message"),
        (body("shout"), "unknown_action"),
        (body("steer"), "unknown_action"),
        (body(text=""), "bad_message"),
        (body(text=7), "bad_message"),
        (body(message_id="../m"), "bad_message"),
        (body(message_id="m\n"), "bad_message"),
        (body(conversation="a/b"), "bad_message"),
        (body(conversation="a#b"), "bad_message"),
        (body(conversation=""), "bad_message"),
        (body(conversation="c" * 65), "bad_message"),
        (body(tenant="other"), "bad_message"),
        (body("resume", after=-1), "bad_message"),
        (body("resume", after=True), "bad_message"),
        (body("resume", stream={"claim": 1, "off": {"a": -1}}), "bad_message"),
        (body("resume"), "not_found"),
        (body("ping"), "not_found"),
        (json.dumps({"action": "auth"}), "bad_message"),
        (json.dumps({"action": "auth", "ticket": ""}), "bad_message"),
        (json.dumps({"action": "auth", "ticket": 7}), "bad_message"),
        (json.dumps({"action": "auth", "ticket": "x" * 129}), "bad_message"),
        (json.dumps({"action": "auth", "ticket": "x", "conversation": "c-1"}), "bad_message"),
        (json.dumps({"action": "auth", "ticket": "x" * 43}), "unauthorized"),
        (body("event"), None),
        (body("event", payload={"text": "hello", "a": [1, {"b": None}]}, reactive=False), None),
        (body("event", kind="steer", payload={"text": "shorter"}), None),
        (body("event", kind="Form"), "bad_message"),
        (body("event", kind="prompt"), "bad_event"),
        (body("event", reactive="yes"), "bad_message"),
        (body("event", text="hello"), "bad_message"),
        (body("event", payload=[]), "bad_message"),
        (body("event", payload={"text": 7}), "bad_event"),
        (body("event", payload={"a": float("inf")}), "bad_json"),
        (body("event", payload={"a": "x" * PAYLOAD_MAX_BYTES}), "payload_too_large"),
        (body("event", uploads=[{}]), "bad_message"),
        (body("event", uploads=["up_../x"]), "bad_message"),
        (body("event", uploads=[UPLOAD]), "upload_missing"),
        (body(uploads=[UPLOAD]), "upload_missing"),
        (body("event", uploads=[UPLOAD] * 21), "bad_message"),
        (body("event", source="billing"), "bad_message"),
        (body(text="x" * MESSAGE_MAX_BYTES), "message_too_large"),
        (body(text="ü" * (MESSAGE_MAX_BYTES // 2)), "message_too_large"),
        (body(text="🙂" * TEXT_MAX_CHARS), "message_too_large"),  # as twelve characters of ASCII each
        (json.dumps(json.loads(body(text="🙂" * TEXT_MAX_CHARS)), ensure_ascii=False), None),
        (body(text="x" * (TEXT_MAX_CHARS + 1)), "input_too_long"),
    ],
)
def test_every_refused_message_gets_one_error_with_a_stable_code(text: str, code: str | None) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    say(conversation, text)
    found = [frame.code for frame in of(ErrorFrame, inbox)]
    assert found == ([code] if code else [])
    assert len(conversation.batches()) == (0 if code else 1)


def test_an_error_names_the_message_and_the_conversation_it_answers() -> None:
    conversation = Conversation()
    conversation.send(user="bob")
    inbox = conversation.connect("k1")
    say(conversation, body(message_id="m7"))
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.message_id, error.conversation) == ("not_found", "m7", "c-1")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (body(text=""), "bad_message"),
        (body("event", kind="Bad Kind"), "bad_message"),
        (body("event", kind="prompt"), "bad_event"),
        (body(action="shout", message_id="m1"), "unknown_action"),
        (body(text="x" * MESSAGE_MAX_BYTES), "message_too_large"),
    ],
)
def test_an_error_names_the_refused_message(text: str, code: str) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    say(conversation, text)
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.message_id, error.conversation) == (code, "m1", "c-1")


def test_an_unknown_connection_is_unauthorized() -> None:
    conversation = Conversation()
    inbox = conversation.app.ports.publisher.open("k9")  # type: ignore[attr-defined]  # the memory twin's own
    say(conversation, body(), connection="k9")
    assert [(frame.code, frame.message_id) for frame in of(ErrorFrame, inbox)] == [("unauthorized", "m1")]
    assert conversation.batches() == []


def test_an_expired_token_is_refused_whatever_the_message_asks() -> None:
    conversation = Conversation()
    now = int(conversation.clock.now().timestamp())
    inbox = conversation.connect("k1", expires_at=now)
    for text in (body(), body("resume"), body("ping")):
        say(conversation, text)
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["auth_expired"] * 3
    assert of(ErrorFrame, inbox)[0].message_id == "m1"
    assert conversation.batches() == []


def test_a_token_is_good_up_to_its_last_second() -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1", expires_at=int(conversation.clock.now().timestamp()) + 1)
    say(conversation, body())
    assert len(of(AckFrame, inbox)) == 1


def renewal(conversation: Conversation, **fields: Any) -> str:
    """Return the message that renews a connection by a later token of ada, or of the user in the fields."""
    ada = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR + 1)
    later = msgspec.structs.replace(ada, **fields)
    return json.dumps({"action": "auth", "ticket": conversation.ports.tickets.issue(later)})


@pytest.mark.parametrize("has_expired", [False, True])
def test_a_ticket_of_a_later_token_renews_a_connection(has_expired: bool) -> None:
    conversation = Conversation()
    now = int(conversation.clock.now().timestamp())
    inbox = conversation.connect("k1", expires_at=now if has_expired else FAR)
    say(conversation, renewal(conversation))
    say(conversation, body())
    assert frames(inbox)[0] == AuthFrame(expires_at=FAR + 1)
    assert len(of(AckFrame, inbox)) == 1


@pytest.mark.parametrize("renews", [False, True])
def test_a_connection_without_a_renewal_gets_nothing_after_expiry(renews: bool) -> None:
    conversation = Conversation(answered("All quiet."))
    now = int(conversation.clock.now().timestamp())
    inbox = conversation.connect("k1", expires_at=now + 60)
    viewer = conversation.connect("k2", expires_at=now + 60)
    say(conversation, body())
    say(conversation, body("resume"), connection="k2")
    heard = len(inbox), len(viewer)
    if renews:
        say(conversation, renewal(conversation))
        say(conversation, renewal(conversation), connection="k2")
    conversation.clock.pause(61)
    conversation.run()
    assert ("chat.complete" in event_types(inbox)) is renews
    assert ("chat.complete" in event_types(viewer)) is renews
    assert ((len(inbox), len(viewer)) == heard) is not renews


@pytest.mark.parametrize("field", ["tenant", "project", "user"])
def test_a_ticket_of_another_user_renews_nothing(field: str) -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    before = conversation.ports.subscriptions.principal("k1")
    say(conversation, renewal(conversation, **{field: "other"}))
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.message_id, error.conversation) == ("unauthorized", "", "")
    assert conversation.ports.subscriptions.principal("k1") == before


def test_a_ticket_is_refused_on_a_connection_that_is_not_known_and_not_used_up() -> None:
    conversation = Conversation()
    inbox = conversation.app.ports.publisher.open("k9")  # type: ignore[attr-defined]  # the memory twin's own
    text = renewal(conversation)
    say(conversation, text, connection="k9")
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["unauthorized"]
    assert conversation.ports.tickets.redeem(json.loads(text)["ticket"]).user == "ada"


# --- the rate of one user


def limited(limit: int) -> Conversation:
    return Conversation(limits=ScopeLimits(user=Limits(messages_per_minute=limit)))


def test_a_message_beyond_the_rate_is_refused_with_a_retry_time() -> None:
    conversation = limited(2)
    conversation.clock.pause(45.5)
    inbox = conversation.connect("k1")
    for id in ("m1", "m2", "m3"):  # noqa: A001 - reads best
        say(conversation, body(message_id=id))
    assert len(conversation.batches()) == 2
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.message_id, error.retry_after_s) == ("rate_limited", "m3", 15)
    assert error.retryable
    assert error.message == "You may send 2 messages a minute. Please send this one again in 15 s."
    conversation.clock.pause(15)
    say(conversation, body(message_id="m3"))
    assert of(AckFrame, inbox)[-1].message_id == "m3"


def test_a_limit_holds_for_a_user_over_all_connections_and_conversations() -> None:
    conversation = limited(1)
    first, second = conversation.connect("k1"), conversation.connect("k2")
    bob = conversation.connect("k3", user="bob")
    say(conversation, body())
    say(conversation, body(conversation="c-2"), connection="k2")
    say(conversation, body(conversation="c-3"), connection="k3")
    assert [len(of(AckFrame, inbox)) for inbox in (first, second, bob)] == [1, 0, 1]


def test_only_messages_count_towards_the_rate() -> None:
    conversation = limited(1)
    inbox = conversation.connect("k1")
    for text in (body("ping"), body("resume"), "{", renewal(conversation), body()):
        say(conversation, text)
    assert len(of(AckFrame, inbox)) == 1


def test_refused_events_count_towards_the_rate() -> None:
    conversation = limited(2)
    inbox = conversation.connect("k1")
    for fields in ({"kind": "prompt"}, {"message_id": "m2"}, {"message_id": "m3"}):
        say(conversation, body("event", **fields))
    assert [(frame.code, frame.retryable) for frame in of(ErrorFrame, inbox)] == [
        ("bad_event", False),
        ("rate_limited", True),
    ]
    assert len(conversation.batches()) == 1


def test_a_message_that_is_sent_again_counts_again() -> None:
    conversation = limited(1)
    inbox = conversation.connect("k1")
    for _ in range(2):
        say(conversation, body())
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["rate_limited"]


def test_without_a_limit_nothing_is_counted() -> None:
    conversation = limited(0)
    inbox = conversation.connect("k1")
    for n in range(5):
        say(conversation, body(message_id=f"m{n}"))
    assert len(of(AckFrame, inbox)) == 5
    principal = conversation.ports.subscriptions.principal("k1")
    assert principal is not None
    assert conversation.ports.rate.count(principal, int(conversation.clock.now().timestamp()) // 60) == 1


def test_a_contended_conversation_asks_for_a_resend() -> None:
    log = ContendedLog()
    conversation = Conversation(log=log)
    log.contended = True
    inbox = conversation.connect("k1")
    say(conversation, body())
    assert [(frame.code, frame.retryable) for frame in of(ErrorFrame, inbox)] == [("busy", True)]


class Failing(MemoryLog):
    """Fails every read with one error."""

    def __init__(self, error: SteplineError) -> None:
        super().__init__()
        self._error = error

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DependencyError("AWS answered ThrottlingException"), "dependency"),
        (UnknownOutcome("AWS answered TransactionConflict"), "unknown_outcome"),
    ],
    ids=["dependency", "unknown_outcome"],
)
def test_a_transient_failure_asks_for_a_resend_and_hides_its_message(error: SteplineError, code: str) -> None:
    conversation = Conversation(log=Failing(error))
    inbox = conversation.connect("k1")
    say(conversation, body())
    (frame,) = of(ErrorFrame, inbox)
    assert (frame.code, frame.message, frame.message_id) == (code, SEND_AGAIN, "m1")


def test_an_internal_error_is_not_reported_as_the_clients() -> None:
    conversation = Conversation(log=Failing(SteplineError("AWS answered AccessDeniedException")))
    inbox = conversation.connect("k1")
    with pytest.raises(SteplineError):
        say(conversation, body())
    assert inbox == []


def test_a_stored_text_that_is_missing_does_not_make_a_conversation_unknown() -> None:
    conversation = Conversation()
    conversation.send("x" * 2 * BATCH_MAX_BYTES)
    conversation.app.ports.artifacts.objects.clear()  # type: ignore[attr-defined]  # the memory twin's own
    inbox = conversation.connect("k1")
    say(conversation, body("resume"))
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["body_missing"]


class Deaf:
    """Refuses every frame."""

    def post(self, connection: str, frame: bytes) -> None:
        raise DependencyError("the gateway is busy")


def test_an_undeliverable_answer_is_left_to_the_next_resume() -> None:
    conversation = Conversation()
    conversation.connect("k1")
    conversation.ports = replace(conversation.ports, publisher=Deaf())
    say(conversation, body())
    say(conversation, "{")
    assert len(conversation.batches()) == 1


def test_an_internal_failure_is_reported_without_details() -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    report_internal(conversation.ports, "k1", body())
    ((error,), frame) = (of(ErrorFrame, inbox), inbox[0])
    assert (error.code, error.message_id, error.retryable) == ("internal", "m1", True)
    assert b"Error" not in frame.replace(b'"frame":"error"', b"")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://app.example.evil", "HTTPS://APP.EXAMPLE"]
)
def test_a_browser_of_a_foreign_site_may_not_connect(origin: str) -> None:
    with pytest.raises(AuthError) as caught:
        check_origin(origin, ["https://app.example"])
    assert caught.value.reason == "origin_not_allowed"


def test_a_client_without_an_origin_is_no_browser_and_an_allowed_site_may_connect() -> None:
    check_origin("", [])
    check_origin("https://app.example", ["https://app.example"])
