"""Messages that name uploads: ready files are attached, and for all others the message is refused without a loss."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine
from stepline.errors import SteplineError
from stepline.ingress.admit import Arrival
from stepline.ingress.event_validation import PENDING_S, take_event
from stepline.ingress.message import receive
from stepline.ingress.upload import SLOT_S, UploadPorts, UploadRequest, judge_upload, start_upload
from stepline.model.entry import Inbound
from stepline.model.file.attachment import ATTACHMENTS_MAX
from stepline.model.file.upload_slot import CHECK_S, LATE_S, quarantine_key
from stepline.model.ids import Lane
from stepline.model.wire.event import AckFrame, ErrorFrame
from stepline.ports.channel import Principal
from tests.support.conversation import FAR, LANE, USER, Conversation, of
from tests.support.generation import answered

TEXT = b"a,b\n1,2\n"
OTHER = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-2")


class Files:
    """A conversation to which its user, or another one, uploads files."""

    def __init__(self, *script: Any, **policy: Any) -> None:
        self.conversation = Conversation(*script, **policy)
        ports = self.conversation.ports
        self.quarantine = MemoryQuarantine(ports.clock)
        self.desk = UploadPorts(ports=ports, quarantine=self.quarantine, preflight=MemoryPreflight())

    def begin(self, data: bytes = TEXT, name: str = "a.csv", *, user: str = USER, lane: Lane = LANE) -> str:
        """Return an upload that waits for its file."""
        who = Principal(tenant=lane.tenant, project=lane.project, user=user, expires_at=FAR)
        sha256 = hashlib.sha256(data).hexdigest()
        file = UploadRequest(filename=name, size_bytes=len(data), sha256=sha256)
        return start_upload(self.desk, who, lane.conversation, file).upload

    def upload(self, data: bytes = TEXT, name: str = "a.csv", *, user: str = USER, lane: Lane = LANE) -> str:
        """Return an upload with a verdict."""
        upload = self.begin(data, name, user=user, lane=lane)
        self.quarantine.objects[quarantine_key(lane, upload)] = data
        judge_upload(self.desk, lane, upload)
        return upload

    def take(self, *uploads: str, **fields: Any) -> None:
        arrival = Arrival(**{"message_id": "m1", "user": USER, "text": "see this", **fields}, uploads=uploads)
        take_event(self.conversation.ports, LANE, arrival)

    def refusal(self, *uploads: str, **fields: Any) -> SteplineError:
        """Return the error of a refused message; assert that nothing of it is in the log."""
        before = self.conversation.tail.n
        with pytest.raises(SteplineError) as caught:
            self.take(*uploads, **fields)
        assert self.conversation.tail.n == before
        return caught.value

    def events(self) -> list[Inbound]:
        return self.conversation.entries(Inbound)


@pytest.fixture
def files() -> Files:
    return Files(answered("Seen."))


def test_a_message_has_the_files_of_its_uploads_by_their_verdicts(files: Files) -> None:
    files.take(files.upload(name="a.csv"), files.upload(b"{}", "b.json"))
    (event,) = files.events()
    assert [(one.filename, one.mime) for one in event.attachments] == [
        ("a.csv", "text/csv"),
        ("b.json", "application/json"),
    ]


def test_an_upload_that_is_not_judged_yet_may_be_named_again_soon(files: Files) -> None:
    upload = files.begin()
    for _ in ("waiting", "checking"):
        error = files.refusal(upload)
        assert (error.reason, error.context) == ("upload_pending", {"retry_after_s": PENDING_S})
        row = files.desk.uploads.get(LANE, upload)
        files.desk.uploads.settle(LANE, replace(row, state="checking"))
    files.quarantine.objects[quarantine_key(LANE, upload)] = TEXT
    judge_upload(files.desk, LANE, upload)
    files.take(upload)
    assert len(files.events()) == 1


def test_a_client_learns_when_to_name_a_pending_upload_again(files: Files) -> None:
    inbox = files.conversation.connect("k1")
    message = {"action": "send", "conversation": "c-1", "message_id": "m1", "text": "see"}
    upload = files.begin()
    receive(files.conversation.ports, "k1", json.dumps({**message, "uploads": [upload]}))
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.retryable, error.retry_after_s) == ("upload_pending", True, PENDING_S)
    receive(files.conversation.ports, "k1", json.dumps({**message, "uploads": [files.upload()]}))
    assert [frame.n for frame in of(AckFrame, inbox)] == [1]


def test_a_refused_file_refuses_its_message_and_opens_no_turn() -> None:
    files = Files(answered("One."), answered("Two."))
    files.take(files.upload())
    before = dict(files.conversation.ports.artifacts.objects)  # type: ignore[attr-defined]  # the twin's own
    error = files.refusal(files.upload(b"a\0b", "b.csv"), message_id="m2")
    assert error.reason == "attachment_rejected"
    assert "control character" in str(error)
    assert files.conversation.ports.artifacts.objects == before  # type: ignore[attr-defined]  # the twin's own
    assert files.conversation.state.status == "open"
    files.conversation.run()
    files.take(message_id="m3")
    assert len(files.events()) == 2


@pytest.mark.parametrize(
    ("state", "pause_s"), [("waiting", SLOT_S + LATE_S + 1), ("checking", SLOT_S + CHECK_S + 1)]
)
def test_a_slot_without_a_verdict_has_expired(files: Files, state: str, pause_s: float) -> None:
    upload = files.begin()
    row = files.desk.uploads.get(LANE, upload)
    files.desk.uploads.settle(LANE, replace(row, state=state))
    files.conversation.clock.pause(pause_s)
    assert files.refusal(upload).reason == "upload_expired"


def test_foreign_uploads_are_refused_like_missing_ones(files: Files) -> None:
    stranger, elsewhere = files.upload(user="eve"), files.upload(lane=OTHER)
    missing = {files.refusal(upload).reason for upload in (stranger, elsewhere, f"up_{'0' * 32}")}
    assert missing == {"upload_missing"}


def test_a_stranger_does_not_learn_which_uploads_a_conversation_has(files: Files) -> None:
    files.take()
    upload = files.upload()
    codes = {files.refusal(one, user="eve", message_id="m2").reason for one in (upload, f"up_{'0' * 32}")}
    assert codes == {"not_found"}


def test_one_pending_upload_refuses_the_whole_message(files: Files) -> None:
    assert files.refusal(files.upload(), files.begin()).reason == "upload_pending"


def test_uploads_of_a_message_keep_the_limits_of_the_deployment() -> None:
    files = Files(message_max_bytes=20)
    upload = files.upload()
    assert files.refusal(upload, upload, text="hello").reason == "message_size_limit"
    assert files.refusal(*[upload] * (ATTACHMENTS_MAX + 1)).reason == "too_many_attachments"
    files.take(upload, upload, text="four")


@pytest.mark.parametrize(("kind", "text"), [("steer", "shorter"), ("stop", "")])
def test_a_steer_with_uploads_is_refused(files: Files, kind: str, text: str) -> None:
    assert files.refusal(files.upload(), kind=kind, text=text).reason == "bad_event"


def test_a_file_alone_is_a_followup(files: Files) -> None:
    files.take(files.upload(), text="")
    assert [event.event for event in files.events()] == ["prompt"]


def test_a_resent_message_with_old_uploads_is_a_duplicate(files: Files) -> None:
    upload = files.upload()
    files.take(upload)
    files.take(upload)
    assert len(files.events()) == 1
