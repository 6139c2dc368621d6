"""Uploads on the stage: a slot, a form that is posted to the bucket, the function that judges, and the verdict."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.client import session
from stepline.adapters.aws.table import Table
from stepline.adapters.upload.upload_rows import DynamoUploads
from stepline.local.stage.deployed import client, credentials
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, attachment_key
from stepline.model.file.mime import DOCX
from stepline.model.file.upload_slot import quarantine_key
from stepline.model.ids import make_lane
from stepline.model.wire.event import NoticeFrame, SyncFrame
from tests.e2e.http_user import submit
from tests.e2e.stage import Stage, a_word
from tests.support.files import pdf
from tests.support.office import document

pytestmark = pytest.mark.emulator

TABLE = b"month,tons\nJan,1\n"
PART = "word/media/a.bin"


class Desk:
    """A user who uploads to a conversation, and listens to it."""

    def __init__(self, stage, conversation):
        self.stage, self.conversation = stage, conversation
        self.lane = make_lane("local", "default", conversation)
        self.user = stage.over_http()
        self.url = f"/v1/conversations/{conversation}/uploads"
        stage.send("Hello there.", conversation)

    @contextmanager
    def listening(self):
        with self.stage.socket() as (socket, self._next_frame):
            socket.send(json.dumps({"action": "resume", "conversation": self.conversation, "after": 0}))
            while not isinstance(self._next_frame(), SyncFrame):
                pass
            yield self

    def heard(self, upload):
        """Return the next notice about an upload."""
        while True:
            frame = self._next_frame()
            if isinstance(frame, NoticeFrame) and frame.event.data["upload"] == upload:
                return frame.event

    def give(self, data, filename, mime=""):
        """Upload a file; return its slot's id and the verdict that was heard."""
        grant = self.user.begin(self.conversation, data, filename, mime)
        assert submit(grant, data).status_code == 201
        return grant["upload"], self.heard(grant["upload"])

    def state(self, upload):
        return self.user.get(f"{self.url}/{upload}")

    def wait_for_removal(self, upload):
        waiter = client("s3", self.stage.deployed).get_waiter("object_not_exists")
        key = quarantine_key(self.lane, upload)
        waiter.wait(Bucket=self.stage.deployed.bucket, Key=key, WaiterConfig={"Delay": 1, "MaxAttempts": 60})

    def stored(self, data):
        """Return what is stored under the hash of a file, None if there is nothing."""
        key = attachment_key(self.lane, hashlib.sha256(data).hexdigest())
        found = client("s3", self.stage.deployed).list_objects_v2(
            Bucket=self.stage.deployed.bucket, Prefix=key
        )
        return self.stage.object_bytes(key) if found["KeyCount"] else None


@pytest.fixture(scope="module")
def held(deployed):
    return Desk(Stage(deployed), f"e2e-{a_word()}")


@pytest.fixture
def desk(held):
    with held.listening():
        yield held


def test_a_file_is_uploaded_checked_stored_and_reported(desk):
    upload, event = desk.give(TABLE, "tons.csv")
    assert (event.type, event.data["upload"]) == ("chat.attachments", upload)
    status = desk.state(upload)
    assert (status["state"], status["file"]) == ("ready", event.data["items"][0])
    assert desk.stored(TABLE) == TABLE
    desk.wait_for_removal(upload)


def test_a_file_that_is_refused_leaves_only_its_reasons(desk):
    before, data = desk.stage.log(desk.conversation), b"month,tons\0\n"
    upload, event = desk.give(data, "tons.csv")
    assert (event.type, event.data["reasons"]) == ("rate_limit.attachment_failure", ["text_binary"])
    status = desk.state(upload)
    assert (status["state"], status["reason"], status["reasons"]) == (
        "refused",
        "preflight_rejected",
        ["text_binary"],
    )
    assert desk.stored(data) is None
    desk.wait_for_removal(upload)
    assert desk.stage.log(desk.conversation) == before


def test_the_bucket_takes_no_byte_more_and_the_slot_stays_open(desk):
    grant = desk.user.begin(desk.conversation, TABLE, "tons.csv")
    for data, code in ((TABLE + b"\n", "EntityTooLarge"), (TABLE[1:], "EntityTooSmall")):
        answer = submit(grant, data)
        assert (answer.status_code, f"<Code>{code}</Code>" in answer.text) == (400, True)
    assert desk.state(grant["upload"])["state"] == "waiting"
    assert submit(grant, TABLE).status_code == 201
    assert desk.heard(grant["upload"]).type == "chat.attachments"


def test_another_content_than_was_stated_is_refused(desk):
    grant = desk.user.begin(desk.conversation, TABLE, "tons.csv")
    assert submit(grant, TABLE.replace(b"1", b"2")).status_code == 201
    assert desk.heard(grant["upload"]).data["reasons"] == ["hash_mismatch"]
    assert desk.state(grant["upload"])["state"] == "refused"


def test_a_second_file_in_a_slot_changes_nothing(desk):
    grant = desk.user.begin(desk.conversation, TABLE, "tons.csv")
    submit(grant, TABLE)
    notice = desk.heard(grant["upload"])
    desk.wait_for_removal(grant["upload"])
    assert submit(grant, TABLE.replace(b"1", b"2")).status_code == 201
    assert desk.heard(grant["upload"]).data == notice.data
    desk.wait_for_removal(grant["upload"])
    assert desk.state(grant["upload"])["state"] == "ready"
    assert desk.stored(TABLE) == TABLE


def test_a_key_of_idempotency_names_one_slot_until_it_ends(desk):
    key = {"Idempotency-Key": f"k-{desk.conversation}"}
    grants = [desk.user.begin(desk.conversation, TABLE, "tons.csv", **key) for _ in range(2)]
    assert grants[0]["upload"] == grants[1]["upload"]
    body = {"filename": "b.csv", "size_bytes": 1, "sha256": "0" * 64}
    assert desk.user.ask("POST", desk.url, json=body, headers=key).json()["code"] == "idempotency_key_reused"
    end_slot(desk, grants[0]["upload"])
    file = {"filename": "tons.csv", "size_bytes": len(TABLE), "sha256": hashlib.sha256(TABLE).hexdigest()}
    assert desk.user.ask("POST", desk.url, json=file, headers=key).json()["code"] == "upload_expired"
    status = desk.state(grants[0]["upload"])
    assert (status["state"], status["reason"]) == ("refused", "upload_expired")


def end_slot(desk, upload):
    """Let the time of a slot be over long ago."""
    with as_the_stage(desk.stage):
        rows = DynamoUploads(Table(desk.stage.deployed.table))
        rows.begin(desk.lane, replace(rows.get(desk.lane, upload), until_s=1_000_000_000))


@contextmanager
def as_the_stage(stage):
    """Let the library's own clients reach the emulator."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials().items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", stage.deployed.endpoint)
        patch.setenv("AWS_DEFAULT_REGION", stage.deployed.region)
        session.cache_clear()
        yield
        session.cache_clear()


def test_no_other_user_uploads_to_a_conversation_or_reads_its_uploads(desk):
    upload, _ = desk.give(TABLE, "tons.csv")
    mallory = desk.stage.over_http("mallory")
    file = {"filename": "tons.csv", "size_bytes": len(TABLE), "sha256": hashlib.sha256(TABLE).hexdigest()}
    assert mallory.ask("POST", desk.url, json=file).json()["code"] == "not_found"
    foreign, absent = (mallory.ask("GET", f"{desk.url}/{name}") for name in (upload, f"up_{'0' * 32}"))
    assert (foreign.status_code, foreign.content) == (404, absent.content)


def test_500_pages_are_accepted_and_one_more_is_refused(desk):
    assert desk.give(pdf(500), "plan.pdf")[1].type == "chat.attachments"
    assert desk.give(pdf(501), "plan.pdf")[1].data["reasons"] == ["pdf_too_many_pages"]


def test_25_mib_are_accepted_and_one_byte_more_is_refused(desk):
    data = office(ATTACHMENT_MAX_BYTES)
    upload, event = desk.give(data, "plan.docx", DOCX)
    assert (event.type, event.data["items"][0]["size_bytes"]) == ("chat.attachments", ATTACHMENT_MAX_BYTES)
    assert desk.state(upload)["file"]["mime"] == DOCX
    more = {"filename": "plan.docx", "size_bytes": ATTACHMENT_MAX_BYTES + 1, "sha256": "0" * 64}
    refused = desk.user.ask("POST", desk.url, json=more)
    assert (refused.status_code, refused.json()["code"]) == (413, "size_limit")


def office(size_bytes):
    """Return a document of exactly this size."""
    rest = len(document(DOCX, {PART: b""}, stored=True))
    return document(DOCX, {PART: b"\1" + os.urandom(size_bytes - rest - 1)}, stored=True)
