"""Files that a client attaches: uploaded one by one, and named once they are accepted."""

from __future__ import annotations

import pytest

from stepline.errors import DependencyError, InputError, LimitError
from stepline.ingress.admit import Arrival
from stepline.ingress.event_validation import take_event
from stepline.ingress.upload import judge_upload
from stepline.local.client.api_transport import ApiError
from stepline.local.client.http_api import HttpApi
from stepline.local.client.uploader import BEGINNING_CHARS, LONG_TEXT, WAIT_S, Uploader
from stepline.model.entry import Inbound
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, TEXT_MAX_CHARS, attachment_key
from stepline.model.file.upload_slot import read_quarantine_key
from tests.support.api_server import TOKEN
from tests.support.conversation import LANE, USER, Conversation
from tests.support.files import picture
from tests.support.upload_server import upload_server


class Client:
    def __init__(self, server, conversation):
        self.server, self.conversation, self.progress = server, conversation, []
        self.api = HttpApi(server.url, lambda: TOKEN)
        clock = conversation.ports.clock
        self.uploader = Uploader(self.api, clock, LANE.conversation, report=self.progress.append)

    def send(self, message):
        arrival = Arrival(message_id="m1", user=USER, text=message.text, uploads=message.uploads)
        take_event(self.conversation.ports, LANE, arrival)
        (event,) = self.conversation.entries(Inbound)
        return event


@pytest.fixture
def client():
    conversation = Conversation()
    with upload_server(conversation.ports) as server:
        found = Client(server, conversation)
        yield found
        found.api.close()


def test_a_file_is_uploaded_judged_and_named_by_the_message(client, tmp_path):
    data = picture()
    (tmp_path / "a.png").write_bytes(data)
    upload = client.uploader.upload_file(tmp_path / "a.png")
    event = client.send(client.uploader.compose("see this", (upload,)))
    (file,) = event.attachments
    assert (event.text, file.filename, file.mime) == ("see this", "a.png", "image/png")
    assert client.conversation.ports.artifacts.get(attachment_key(LANE, file.sha256)) == data
    assert client.progress == [f"a.png: uploading {len(data):,} bytes", "a.png: accepted"]


def test_a_refused_file_is_an_error_with_its_code_its_sentence_and_its_rules(client):
    with pytest.raises(InputError) as caught:
        client.uploader.upload("a.csv", b"a\0b")
    assert caught.value.reason == "preflight_rejected"
    assert str(caught.value).startswith("a.csv is refused: it has the control character")
    assert str(caught.value).endswith("(text_binary)")


def test_a_file_that_the_api_refuses_is_never_posted(client):
    with pytest.raises(ApiError) as caught:
        client.uploader.upload("a.zip", b"PK")
    assert caught.value.reason == "type_not_allowed"
    assert client.server.quarantine.objects == {}


def test_a_verdict_is_waited_for_but_not_for_ever(client):
    client.server.judges = False
    with pytest.raises(DependencyError) as caught:
        client.uploader.upload("a.csv", b"a,b")
    assert caught.value.reason == "upload_pending"


def test_a_late_verdict_is_received(client):
    clock, server = client.conversation.ports.clock, client.server
    server.judges = False
    until_s = clock.monotonic_s() + WAIT_S / 2

    class Judge:
        def pause(self, seconds):
            clock.pause(seconds)
            if clock.monotonic_s() > until_s and server.quarantine.objects:
                judge_upload(server.desk, *read_quarantine_key(next(iter(server.quarantine.objects))))

        def monotonic_s(self):
            return clock.monotonic_s()

    uploader = Uploader(client.api, Judge(), LANE.conversation, report=client.progress.append)
    assert client.send(client.uploader.compose("so", (uploader.upload("a.csv", b"a,b"),))).attachments


@pytest.mark.parametrize("name", ["Makefile", "notes", "a.unknown"])
def test_text_under_a_meaningless_name_is_text(client, name):
    event = client.send(client.uploader.compose("so", (client.uploader.upload(name, b"all: test\n"),)))
    assert [(file.filename, file.mime) for file in event.attachments] == [(name, "text/plain")]


def test_bytes_under_a_meaningless_name_are_refused(client):
    with pytest.raises(InputError) as caught:
        client.uploader.upload("notes", b"\xff\x00")
    assert caught.value.reason == "preflight_rejected"


def test_a_text_of_the_longest_length_is_sent_and_a_longer_one_goes_as_a_file(client):
    longest = "é" * TEXT_MAX_CHARS
    assert client.uploader.compose(longest).text == longest
    message = client.uploader.compose(longest + "!")
    event = client.send(message)
    (file,) = event.attachments
    assert (file.filename, file.mime) == (LONG_TEXT, "text/plain")
    assert (
        client.conversation.ports.artifacts.get(attachment_key(LANE, file.sha256)).decode() == longest + "!"
    )
    assert event.text.startswith("é" * BEGINNING_CHARS + "…")
    assert LONG_TEXT in event.text


def test_an_unreadable_and_a_too_large_file_are_never_uploaded(client, tmp_path):
    with pytest.raises(InputError) as missing:
        client.uploader.upload_file(tmp_path / "none.txt")
    with (tmp_path / "large.txt").open("wb") as large:
        large.truncate(ATTACHMENT_MAX_BYTES + 1)
    with pytest.raises(LimitError) as too_large:
        client.uploader.upload_file(tmp_path / "large.txt")
    assert (missing.value.reason, too_large.value.reason) == ("file_unreadable", "size_limit")
    assert client.progress == []
