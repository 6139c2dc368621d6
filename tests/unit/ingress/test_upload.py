"""Uploads: a slot, one file in it, and one verdict, over repeated and interrupted steps."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine, MemoryScanner
from stepline.errors import DependencyError, InputError, LimitError, NotFoundError
from stepline.ingress.upload import (
    SLOT_S,
    UploadPorts,
    UploadRequest,
    judge_upload,
    read_upload,
    start_upload,
)
from stepline.model.file.attachment import attachment_key, check_attachment
from stepline.model.file.upload_slot import CHECK_S, LATE_S, quarantine_key, read_quarantine_key
from stepline.model.wire.event import NoticeFrame
from stepline.ports.channel import Principal
from stepline.ports.upload.quarantine import PostGrant
from tests.support.conversation import FAR, LANE, USER, Conversation, of
from tests.support.generation import answered

ME = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)
TEXT = b"a,b\n1,2\n"


def asked(data: bytes = TEXT, filename: str = "a.csv", mime: str = "text/csv") -> UploadRequest:
    sha256 = hashlib.sha256(data).hexdigest()
    return UploadRequest(filename=filename, mime=mime, size_bytes=len(data), sha256=sha256)


class Desk:
    """Uploads to a conversation whose owner listens."""

    def __init__(self) -> None:
        self.conversation = Conversation(answered("Hi."))
        self.conversation.send()
        self.inbox = self.conversation.listen()
        ports = self.conversation.ports
        self.quarantine = MemoryQuarantine(ports.clock)
        self.ports = UploadPorts(
            ports=ports,
            quarantine=self.quarantine,
            preflight=MemoryPreflight(),
            scanner=MemoryScanner(),
        )

    @property
    def artifacts(self):
        return self.ports.ports.artifacts

    def start(self, request: UploadRequest, *, who: Principal = ME):
        return start_upload(self.ports, who, LANE.conversation, request)

    def post(self, data: bytes = TEXT, request: UploadRequest | None = None) -> str:
        grant = self.start(request or asked(data))
        self.quarantine.objects[quarantine_key(LANE, grant.upload)] = data
        return grant.upload

    def judge(self, upload: str):
        return judge_upload(self.ports, LANE, upload)

    def read(self, upload: str, *, who: Principal = ME):
        return read_upload(self.ports, who, LANE.conversation, upload)

    def notices(self) -> list:
        return [frame.event for frame in of(NoticeFrame, self.inbox)]

    def use(self, **ports) -> None:
        self.ports = replace(self.ports, **ports)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_an_accepted_file_is_stored_under_its_hash_and_leaves_quarantine(desk: Desk):
    upload = desk.post()
    assert desk.read(upload).state == "waiting"
    assert desk.judge(upload).state == "ready"
    status = desk.read(upload)
    assert (status.state, status.file.sha256) == ("ready", asked().sha256)
    assert desk.artifacts.get(attachment_key(LANE, asked().sha256)) == TEXT
    assert desk.artifacts.mimes[attachment_key(LANE, asked().sha256)] == "text/csv"
    assert desk.quarantine.objects == {}


def test_the_encoding_of_a_text_is_recorded_with_its_type_and_its_bytes_stay(desk: Desk):
    data = "Preço;Notiz\r\n12,50 €;„gut“ ok…\r\n".encode("cp1252")
    upload = desk.post(data)
    assert desk.judge(upload).file.mime == "text/csv; charset=windows-1252"
    file = desk.read(upload).file
    assert file.mime == "text/csv; charset=windows-1252"
    check_attachment(file)
    assert desk.artifacts.get(attachment_key(LANE, file.sha256)) == data


def test_the_key_of_a_slot_is_that_of_its_file_after_its_encoding_was_found(desk: Desk):
    data = "für Größe".encode("cp1252")
    grants = []
    for _ in range(2):
        grants.append(start_upload(desk.ports, ME, LANE.conversation, asked(data), key="k").upload)
        desk.quarantine.objects[quarantine_key(LANE, grants[-1])] = data
        desk.judge(grants[-1])
    assert grants[0] == grants[1]


def test_a_listening_owner_gets_the_attachment_of_an_upload(desk: Desk):
    upload = desk.post()
    desk.judge(upload)
    (event,) = desk.notices()
    assert (event.type, event.data["upload"]) == ("chat.attachments", upload)
    assert event.data["items"] == [
        {"filename": "a.csv", "mime": "text/csv", "size_bytes": len(TEXT), "sha256": asked().sha256}
    ]


def test_a_refused_file_is_not_stored_and_its_owner_gets_the_reason(desk: Desk):
    before = dict(desk.artifacts.objects)
    upload = desk.post(b"a\0b")
    assert desk.judge(upload).reasons == ("text_binary",)
    (event,) = desk.notices()
    assert event.type == "rate_limit.attachment_failure"
    assert (event.data["reason"], event.data["reasons"]) == ("preflight_rejected", ["text_binary"])
    assert desk.artifacts.objects == before
    assert desk.quarantine.objects == {}
    status = desk.read(upload)
    assert (status.state, status.reason, status.file) == ("refused", "preflight_rejected", None)


def test_a_slot_allows_one_size_for_a_short_time(desk: Desk):
    grant = desk.start(asked())
    form = PostGrant(url=grant.url, fields=grant.fields)
    with pytest.raises(DependencyError):
        desk.quarantine.post(form, TEXT + b"more")
    desk.quarantine.post(form, TEXT)
    desk.ports.ports.clock.pause(SLOT_S + 1)
    with pytest.raises(DependencyError):
        desk.quarantine.post(form, TEXT)


@pytest.mark.parametrize(("finding", "code"), [("infected", "malware"), ("unknown", "av_unavailable")])
def test_a_file_that_the_scanner_does_not_pass_is_refused(desk: Desk, finding, code: str):
    desk.use(scanner=MemoryScanner(finding))
    upload = desk.post()
    assert desk.judge(upload).code == code
    assert desk.artifacts.size(attachment_key(LANE, asked().sha256)) is None


def test_without_a_scanner_a_file_is_judged_by_its_bytes_alone(desk: Desk):
    desk.use(scanner=None)
    assert desk.judge(desk.post()).state == "ready"


def test_a_content_other_than_the_stated_one_is_refused(desk: Desk):
    upload = desk.post(b"a,b\n1,3\n", asked(TEXT))
    assert desk.judge(upload).reasons == ("hash_mismatch",)


def test_a_verdict_is_final_despite_later_posts(desk: Desk):
    upload = desk.post()
    desk.judge(upload)
    desk.quarantine.objects[quarantine_key(LANE, upload)] = b"a\0b"
    assert desk.judge(upload).state == "ready"
    assert desk.quarantine.objects == {}
    assert desk.artifacts.get(attachment_key(LANE, asked().sha256)) == TEXT


def test_a_slot_without_a_file_says_so(desk: Desk):
    upload = desk.start(asked()).upload
    assert desk.judge(upload).code == "upload_missing"


def test_an_unused_slot_expires(desk: Desk):
    upload = desk.start(asked()).upload
    desk.ports.ports.clock.pause(SLOT_S + LATE_S)
    assert desk.read(upload).state == "waiting"
    desk.ports.ports.clock.pause(1)
    assert desk.read(upload).reason == "upload_expired"
    desk.quarantine.objects[quarantine_key(LANE, upload)] = TEXT
    assert desk.judge(upload).code == "upload_expired"
    assert desk.quarantine.objects == {}


def test_a_check_that_never_ends_expires(desk: Desk, monkeypatch):
    upload = desk.post()

    def fail(*_a, **_k):
        raise DependencyError("away")

    monkeypatch.setattr(desk.artifacts, "put", fail)
    with pytest.raises(DependencyError):
        desk.judge(upload)
    assert desk.read(upload).state == "checking"
    desk.ports.ports.clock.pause(SLOT_S + CHECK_S + 1)
    assert desk.read(upload).reason == "upload_expired"


def test_an_object_without_a_slot_is_removed(desk: Desk):
    key = quarantine_key(LANE, "up_" + "0" * 32)
    desk.quarantine.objects[key] = TEXT
    assert desk.judge("up_" + "0" * 32) is None
    assert desk.quarantine.objects == {}
    assert desk.notices() == []


BOUNDARIES = ["checking", "put", "settle", "remove", "send"]


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_next_delivery_repairs_a_crash_at_any_step(desk: Desk, monkeypatch, boundary, after):
    upload = desk.post()
    seam, name = {
        "checking": (desk.ports.uploads, "settle"),
        "settle": (desk.ports.uploads, "settle"),
        "put": (desk.artifacts, "put"),
        "remove": (desk.quarantine, "remove"),
        "send": (desk.ports.ports.broadcast, "send"),
    }[boundary]
    own, calls, at = getattr(seam, name), [0], 2 if boundary == "settle" else 1

    def breaks(*args, **kwargs):
        calls[0] += 1
        if calls[0] == at and not after:
            raise DependencyError("crash")
        answer = own(*args, **kwargs)
        if calls[0] == at:
            raise DependencyError("crash")
        return answer

    kind = type(seam)
    monkeypatch.setattr(kind, name, lambda _self, *a, **k: breaks(*a, **k))
    with pytest.raises(DependencyError):
        desk.judge(upload)
    assert desk.judge(upload).state == "ready"
    assert desk.judge(upload).state == "ready"
    assert desk.read(upload).state == "ready"
    assert desk.artifacts.get(attachment_key(LANE, asked().sha256)) == TEXT
    assert desk.quarantine.objects == {}
    assert {event.type for event in desk.notices()} == {"chat.attachments"}


@pytest.mark.parametrize("field", ["tenant", "project", "user"])
def test_an_upload_of_another_user_is_absent(desk: Desk, field: str):
    upload = desk.post()
    stranger = changed(ME, **{field: "other"})
    with pytest.raises(NotFoundError):
        desk.read(upload, who=stranger)


def test_an_upload_to_another_users_conversation_is_refused(desk: Desk):
    with pytest.raises(NotFoundError):
        desk.start(asked(), who=changed(ME, user="other"))


def test_a_file_for_a_conversation_that_another_user_began_meanwhile_is_refused():
    desk = Desk()
    stranger = changed(ME, user="other")
    ports = replace(desk.ports, ports=replace(desk.ports.ports, log=type(desk.ports.ports.log)()))
    upload = start_upload(ports, stranger, LANE.conversation, asked()).upload
    desk.quarantine.objects[quarantine_key(LANE, upload)] = TEXT
    assert desk.judge(upload).code == "not_found"
    assert desk.notices() == []
    assert desk.artifacts.size(attachment_key(LANE, asked().sha256)) is None


@pytest.mark.parametrize(
    ("request_", "kind", "code"),
    [
        (asked(b""), InputError, "empty"),
        (changed(asked(), size_bytes=26_214_401), LimitError, "size_limit"),
        (changed(asked(), size_bytes=-1), InputError, "bad_attachment"),
        (changed(asked(), sha256="x"), InputError, "bad_attachment"),
        (changed(asked(), filename="a\nb"), InputError, "bad_attachment"),
        (asked(filename="a.zip", mime="application/zip"), InputError, "type_not_allowed"),
        (asked(filename="a.pdf"), InputError, "content_type_mismatch"),
    ],
)
def test_an_invalid_upload_request_gets_no_slot(desk: Desk, request_, kind, code: str):
    with pytest.raises(kind) as refused:
        desk.start(request_)
    assert refused.value.reason == code


@pytest.mark.parametrize("upload", ["", "up_1", "up_" + "0" * 31 + "/", "../x"])
def test_an_invalid_upload_id_is_refused(desk: Desk, upload: str):
    with pytest.raises(InputError) as refused:
        desk.read(upload)
    assert refused.value.reason == "bad_upload"


def test_only_the_key_of_a_slot_identifies_an_upload():
    key = quarantine_key(LANE, "up_" + "a" * 32)
    assert read_quarantine_key(key) == (LANE, "up_" + "a" * 32)
    for other in (
        f"{key}/x",
        f"x{key}",
        key.replace("up_", "up-"),
        key.replace("quarantine", "att"),
        f"{key}\n",
    ):
        assert read_quarantine_key(other) is None
