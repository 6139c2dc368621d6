"""Events that another service submits through the library, in its own name, on the path of every message."""

import subprocess
import sys

import pytest

from stepline.bootstrap.event_source import EventReceipt, EventSource, event_source
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.model.entry import Inbound, Opened
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES
from stepline.settings import Settings
from tests.support.conversation import LANE, USER, Conversation, event_types

HERE = {"tenant": LANE.tenant, "project": LANE.project, "conversation": LANE.conversation}
LAZY = ("anthropic", "pydantic", "boto3", "yaml", "redis")


def source(conversation, name="billing"):
    return EventSource(conversation.ports, source=name)


def submit(open_conversation, kind="invoice", *, name="billing", **fields):
    given = {**HERE, "user": USER, "message_id": "inv-7", "payload": {"total": 12}, **fields}
    return source(open_conversation, name).submit_event(kind=kind, **given)


def test_an_event_of_a_service_joins_the_open_turn_in_the_services_name():
    conversation = Conversation()
    conversation.send()
    assert submit(conversation) == EventReceipt(
        n=2, kind="invoice", fate="joined", turn_id=conversation.state.turn
    )
    event = conversation.entries(Inbound)[-1]
    assert (event.source, event.user, event.payload, event.reactive) == (
        "billing",
        USER,
        {"total": 12},
        False,
    )


def test_a_reactive_event_opens_a_turn_and_starts_its_execution():
    conversation = Conversation()
    conversation.send(kind="note", id="m0")
    opened = submit(conversation, reactive=True)
    assert (opened.fate, opened.turn_id) == ("opened", conversation.state.turn)
    assert len(conversation.machine.queue) == 1
    assert conversation.entries(Opened)[0].prompts == (2,)


def test_listeners_get_the_submitted_event():
    conversation = Conversation()
    conversation.send(kind="note", id="m0")
    inbox = conversation.listen("k1")
    submit(conversation, reactive=True)
    assert event_types(inbox) == ["chat.conversation.accepted", "conv.status", "chat.start"]


def test_a_repeated_event_keeps_its_position():
    conversation = Conversation()
    conversation.send()
    first, again = submit(conversation), submit(conversation)
    assert (first.n, first.duplicate, again.n, again.duplicate) == (2, False, 2, True)
    assert conversation.tail.n == 2


def test_a_missing_conversation_is_created_only_with_founds():
    conversation = Conversation()
    with pytest.raises(NotFoundError):
        submit(conversation, reactive=True)
    assert conversation.batches() == []
    assert submit(conversation, reactive=True, founds=True).fate == "opened"
    assert conversation.state.owner == USER


def test_an_event_for_the_wrong_user_is_refused_like_a_missing_conversation():
    conversation = Conversation()
    conversation.send()
    with pytest.raises(NotFoundError):
        submit(conversation, user="bob")
    with pytest.raises(NotFoundError):
        submit(conversation, user="bob", founds=True)
    assert conversation.tail.n == 1


def test_a_service_may_stop_a_turn_and_learns_if_there_is_none():
    conversation = Conversation()
    conversation.send()
    assert submit(conversation, "stop", payload=None).fate == "joined"
    other = Conversation()
    other.send(kind="note", id="m0")
    assert submit(other, "stop", payload=None).fate == "dropped"


def test_a_file_is_stored_before_an_event_names_it_and_once():
    conversation = Conversation()
    conversation.send()
    file = source(conversation).store_attachment(
        **HERE, body=b"%PDF-", filename="inv.pdf", mime="application/pdf"
    )
    again = source(conversation).store_attachment(
        **HERE, body=b"%PDF-", filename="inv.pdf", mime="application/pdf"
    )
    assert file == again
    assert list(conversation.ports.artifacts.objects.values()) == [b"%PDF-"]
    submit(conversation, attachments=[file])
    assert conversation.entries(Inbound)[-1].attachments == (file,)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tenant": "a/b"}, "bad_tenant"),
        ({"project": ""}, "bad_project"),
        ({"conversation": "a#b"}, "bad_conversation"),
        ({"user": ""}, "bad_user"),
        ({"user": "ada\n"}, "bad_user"),
        ({"user": "a" * 257}, "bad_user"),
        ({"message_id": "a b"}, "bad_message_id"),
        ({"kind": "prompt"}, "bad_event"),
        ({"payload": {"a": float("nan")}}, "bad_event"),
        ({"name": "../shop"}, "bad_source"),
    ],
)
def test_an_event_that_the_log_cannot_store_is_refused(fields, code):
    conversation = Conversation()
    conversation.send()
    with pytest.raises(InputError) as caught:
        submit(conversation, **fields)
    assert (caught.value.reason, conversation.tail.n) == (code, 1)


def test_a_file_that_no_event_could_name_is_not_stored():
    conversation = Conversation()
    given = {**HERE, "filename": "a.bin", "mime": "application/octet-stream"}
    with pytest.raises(LimitError) as caught:
        source(conversation).store_attachment(**given, body=bytes(ATTACHMENT_MAX_BYTES + 1))
    assert caught.value.reason == "attachment_too_large"
    with pytest.raises(InputError):
        source(conversation).store_attachment(**{**given, "filename": "a\nb"}, body=b"x")
    assert conversation.ports.artifacts.objects == {}


def test_a_source_is_created_without_any_request():
    assert isinstance(event_source(Settings.from_env({}), source="billing"), EventSource)
    with pytest.raises(InputError):
        event_source(Settings.from_env({}), source="")


def test_a_service_that_submits_an_event_loads_no_model_and_no_framework():
    program = f"""
import sys
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bootstrap.event_source import EventSource, event_source
from stepline.settings import Settings
event_source(Settings.from_env({{}}), source="billing")
source = EventSource(in_memory(Settings.from_env({{}})).ports, source="billing")
where = {HERE!r}
file = source.store_attachment(**where, body=b"x", filename="a.txt", mime="text/plain")
for kind in ("alert", "steer"):
    source.submit_event(**where, user="ada", kind=kind, message_id=kind, payload={{"text": "now"}}, founds=True)
print([name for name in {LAZY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
