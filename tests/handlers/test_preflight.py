"""A file in quarantine: the event of its object or of its finished scan starts the check."""

from __future__ import annotations

import hashlib

import pytest

from lambdas import preflight
from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine
from stepline.ingress.upload import UploadPorts, UploadRequest, start_upload
from stepline.model.file.upload_slot import quarantine_key
from stepline.model.ids import Lane
from stepline.ports.channel import Principal

from .conftest import LambdaRuntime, recorded

LANE = Lane(tenant="acme", project="support", conversation="c-1")
ME = Principal(tenant="acme", project="support", user="ada", expires_at=2_000_000_000)


@pytest.fixture
def desk(runtime: LambdaRuntime, monkeypatch: pytest.MonkeyPatch) -> UploadPorts:
    ports = runtime.app.ports
    found = UploadPorts(
        ports=ports,
        quarantine=MemoryQuarantine(ports.clock),
        preflight=MemoryPreflight(),
    )
    monkeypatch.setattr(preflight, "uploads_on_aws", lambda *_: found)
    return found


def posted(desk: UploadPorts, data: bytes) -> str:
    request = UploadRequest(
        filename="secret.txt", size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
    )
    grant = start_upload(desk, ME, LANE.conversation, request)
    key = quarantine_key(LANE, grant.upload)
    desk.quarantine.objects[key] = data
    return key


def event_of(key: str) -> dict:
    event = recorded("program_printed")
    event["detail"]["object"]["key"] = key
    return event


def test_a_posted_file_is_judged_and_counted(runtime: LambdaRuntime, desk: UploadPorts):
    assert runtime.call(preflight.handler, event_of(posted(desk, b"hi"))) == {"state": "ready"}
    assert runtime.metrics()["UploadsReady"] == 1
    assert "secret" not in runtime.text


def test_a_refused_file_is_counted_with_its_code(runtime: LambdaRuntime, desk: UploadPorts):
    assert runtime.call(preflight.handler, event_of(posted(desk, b"a\0\1"))) == {"state": "refused"}
    assert runtime.lines[-1]["reasons"] == ["text_binary"]
    assert runtime.metrics()["UploadsRefused"] >= 1


def test_the_end_of_a_scan_starts_it_as_well(runtime: LambdaRuntime, desk: UploadPorts):
    event = recorded("scan_finished")
    event["detail"]["s3ObjectDetails"]["objectKey"] = posted(desk, b"hi")
    assert runtime.call(preflight.handler, event) == {"state": "ready"}


@pytest.mark.parametrize("key", ["att/acme/support/c-1/sent/0", "quarantine/acme/support/c-1/up_" + "0" * 32])
def test_another_object_is_not_treated_as_an_upload(runtime: LambdaRuntime, desk: UploadPorts, key: str):
    assert runtime.call(preflight.handler, event_of(key)) == {"state": ""}
