"""The service of docs/how-to/send-events.md works as the page says."""

import json
import re
from typing import get_args

import pytest

from stepline.adapters.aws import client
from stepline.bootstrap.event_source import EventSource
from stepline.ingress.admit import Fate
from stepline.ingress.message import receive
from stepline.model.entry import Inbound
from stepline.model.wire.event import AckFrame
from tests.support.conversation import Conversation, of
from tests.unit.docs.source import DOCS, run_blocks

PAGE = DOCS / "how-to/send-events.md"
INVOICE = {"conversation": "c-1", "user": "ada", "number": 7}


@pytest.fixture
def page():
    """The page's names, its blocks run one after the other."""
    return run_blocks(PAGE)


@pytest.fixture
def conversation():
    found = Conversation()
    found.send()
    return found


def test_the_event_source_is_built_from_the_outputs_of_the_stack(page, monkeypatch):
    monkeypatch.setattr(client, "_TAKEN", [])
    monkeypatch.setenv(
        "EVENT_SOURCE_ENVIRONMENT", json.dumps({"STEPLINE_TABLE": "t", "STEPLINE_BUCKET": "b"})
    )
    monkeypatch.setenv("EVENT_SOURCE_ROLE_ARN", "arn:aws:iam::111122223333:role/events")
    assert isinstance(page["make_source"](), EventSource)
    client.session.cache_clear()


def test_the_event_of_the_page_is_in_the_conversation_once(page, conversation):
    source = EventSource(conversation.ports, source="billing")
    first, again = page["payment_failed"](source, INVOICE), page["payment_failed"](source, INVOICE)
    assert (first.fate, first.kind, again.n, again.duplicate) == ("joined", "payment-failed", first.n, True)
    assert conversation.entries(Inbound)[-1].text == "The card was declined."


def test_the_event_of_the_page_has_its_file(page, conversation):
    page["statement_ready"](EventSource(conversation.ports, source="billing"), INVOICE, b"%PDF-")
    (file,) = conversation.entries(Inbound)[-1].attachments
    assert (file.filename, file.size_bytes) == ("statement.pdf", 5)


def test_every_fate_is_explained():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)) == set(get_args(Fate))


def test_the_message_of_the_page_is_accepted(conversation):
    (body,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    inbox = conversation.connect("k1")
    receive(conversation.ports, "k1", body)
    assert len(of(AckFrame, inbox)) == 1
