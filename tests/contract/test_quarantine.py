"""Quarantine, rows of uploads and the tag of a scan: the twin and the services do the same."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from msgspec.structs import replace

from stepline.adapters.memory.upload.quarantine import MemoryQuarantine, MemoryUploads
from stepline.adapters.upload.guard_duty import TAG, GuardDutyScanner
from stepline.adapters.upload.quarantine import S3Quarantine
from stepline.adapters.upload.upload_rows import DynamoUploads
from stepline.errors import NotFoundError
from stepline.model.file.attachment import Attachment
from stepline.model.file.upload_slot import Upload, quarantine_key
from stepline.ports.upload.quarantine import PostGrant

from .conftest import ENDPOINT, Memory

ID = "up_" + "0" * 32
UPLOAD = Upload(
    upload_id=ID,
    user="ada",
    file=Attachment(filename="a.txt", mime="text/plain", size_bytes=2, sha256="0" * 64),
    until_s=2_000_000_000,
)


@pytest.fixture
def quarantine(backend):
    return MemoryQuarantine(backend.clock) if isinstance(backend, Memory) else S3Quarantine(backend.name)


@pytest.fixture
def uploads(backend):
    return MemoryUploads() if isinstance(backend, Memory) else DynamoUploads(backend.table)


def post(quarantine, grant, data: bytes) -> None:
    if isinstance(quarantine, MemoryQuarantine):
        quarantine.post(grant, data)
        return
    assert str(send(grant, data).status_code) == "201"  # moto's is a text


def send(grant: PostGrant, data: bytes) -> requests.Response:
    return requests.post(grant.url, data=grant.fields, files={"file": data}, timeout=60)


def test_a_posted_file_is_fetched_and_removed(quarantine, lane, tmp_path: Path):
    key = quarantine_key(lane, ID)
    grant = quarantine.allow(key, mime="text/plain", size_bytes=2, ttl_s=60)
    assert quarantine.fetch(key, tmp_path / "f", max_bytes=2) is None
    post(quarantine, grant, b"hi")
    assert quarantine.fetch(key, tmp_path / "f", max_bytes=2) == 2
    assert (tmp_path / "f").read_bytes() == b"hi"
    quarantine.remove(key)
    quarantine.remove(key)
    assert quarantine.fetch(key, tmp_path / "f", max_bytes=2) is None


def test_a_file_that_is_too_large_is_not_fetched_whole(quarantine, lane, tmp_path: Path):
    key = quarantine_key(lane, ID)
    size_bytes = 5 * 1024 * 1024
    post(quarantine, quarantine.allow(key, mime="a/b", size_bytes=size_bytes, ttl_s=60), bytes(size_bytes))
    assert 10 < quarantine.fetch(key, tmp_path / "f", max_bytes=10) < size_bytes


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_right_to_post_allows_one_object_of_one_type_and_size_for_a_time(
    moto_aws, lane, monkeypatch, region
):
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    before = datetime.now(UTC).replace(microsecond=0)
    grant = S3Quarantine(moto_aws.name).allow(
        quarantine_key(lane, ID), mime="text/plain", size_bytes=7, ttl_s=60
    )
    assert grant.url == f"https://{moto_aws.name}.s3.{region}.amazonaws.com/"
    policy = json.loads(base64.b64decode(grant.fields["policy"]))
    ends = datetime.fromisoformat(policy["expiration"])
    assert before <= ends - timedelta(seconds=60) <= datetime.now(UTC)
    signed = {
        name: value for one in policy["conditions"] if isinstance(one, dict) for name, value in one.items()
    }
    assert [one for one in policy["conditions"] if not isinstance(one, dict)] == [
        ["content-length-range", 7, 7]
    ]
    assert signed == {
        "bucket": moto_aws.name,
        "key": quarantine_key(lane, ID),
        "Content-Type": "text/plain",
        "success_action_status": "201",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": grant.fields["x-amz-credential"],
        "x-amz-date": grant.fields["x-amz-date"],
    }
    assert grant.fields["x-amz-credential"].endswith(f"/{region}/s3/aws4_request")
    assert {**signed, **grant.fields} == {"bucket": moto_aws.name, **grant.fields}


@pytest.fixture
def emulator(request) -> S3Quarantine:
    """The quarantine of a service that holds a form to its policy, as moto does not."""
    if not ENDPOINT:
        pytest.skip("STEPLINE_TEST_ENDPOINT names no emulator")
    return S3Quarantine(request.getfixturevalue("emulator_aws").name)


@pytest.mark.emulator
def test_the_emulator_answers_a_posted_form_with_its_location(emulator, lane, tmp_path: Path):
    key = quarantine_key(lane, ID)
    grant = emulator.allow(key, mime="text/plain", size_bytes=2, ttl_s=60)
    answer = send(grant, b"hi")
    assert (answer.status_code, f"<Key>{key}</Key>" in answer.text) == (201, True)
    assert emulator.fetch(key, tmp_path / "f", max_bytes=2) == 2


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("changed", "data", "status"),
    [
        ({}, b"h", 400),
        ({}, b"hi!", 400),
        ({"Content-Type": "text/html"}, b"hi", 403),
        ({"key": "att/acme/docs/c/x"}, b"hi", 403),
        ({"key": f"quarantine/acme/docs/c/{ID}"}, b"hi", 403),
        ({"success_action_redirect": "https://evil.test"}, b"hi", 403),
        ({"acl": "public-read"}, b"hi", 403),
        ({"x-amz-signature": "0" * 64}, b"hi", 403),
        ({"policy": base64.b64encode(b'{"conditions": []}').decode()}, b"hi", 403),
    ],
)
def test_the_emulator_takes_no_other_object_than_was_allowed(emulator, lane, changed, data, status):
    grant = emulator.allow(quarantine_key(lane, ID), mime="text/plain", size_bytes=2, ttl_s=60)
    assert send(replace(grant, fields={**grant.fields, **changed}), data).status_code == status
    assert emulator.fetch(quarantine_key(lane, ID), Path("/dev/null"), max_bytes=2) is None


@pytest.mark.emulator
def test_the_emulator_takes_nothing_when_the_time_is_over(emulator, lane):
    grant = emulator.allow(quarantine_key(lane, ID), mime="text/plain", size_bytes=2, ttl_s=-1)
    assert send(grant, b"hi").status_code == 403


def test_the_first_final_state_stays(uploads, lane):
    assert uploads.get(lane, ID) is None
    with pytest.raises(NotFoundError):
        uploads.settle(lane, UPLOAD)
    uploads.begin(lane, UPLOAD)
    assert uploads.get(lane, ID) == UPLOAD
    checking, ready = replace(UPLOAD, state="checking"), replace(UPLOAD, state="ready")
    assert uploads.settle(lane, checking) == checking
    assert uploads.settle(lane, ready) == ready
    assert uploads.settle(lane, replace(UPLOAD, state="refused", code="malware")) == ready
    assert uploads.settle(lane, checking) == ready
    assert uploads.get(lane, ID) == ready


def test_an_upload_belongs_to_one_conversation(uploads, lane):
    uploads.begin(lane, UPLOAD)
    for field in ("tenant", "project", "conversation"):
        assert uploads.get(replace(lane, **{field: "other"}), ID) is None


@pytest.mark.parametrize(
    ("status", "finding"),
    [
        ("NO_THREATS_FOUND", "clean"),
        ("THREATS_FOUND", "infected"),
        ("UNSUPPORTED", "unknown"),
        ("ACCESS_DENIED", "unknown"),
        ("FAILED", "unknown"),
    ],
)
def test_a_scans_tag_decides_its_finding(aws, lane, tmp_path: Path, status: str, finding: str):
    key = quarantine_key(lane, ID)
    tag(aws, key, b"hi", status)
    (tmp_path / "f").write_bytes(b"hi")
    assert GuardDutyScanner(aws.name, aws.clock, timeout_s=3).scan(tmp_path / "f", key) == finding


def tag(aws, key: str, data: bytes, status: str) -> None:
    aws.artifacts.put(key, data, mime="text/plain")
    tags = {"TagSet": [{"Key": TAG, "Value": status}]}
    aws.artifacts.client.put_object_tagging(Bucket=aws.name, Key=key, Tagging=tags)


def test_a_clean_file_that_was_posted_over_the_fetched_one_speaks_for_itself_alone(aws, lane, tmp_path: Path):
    key = quarantine_key(lane, ID)
    tag(aws, key, b"ok", "NO_THREATS_FOUND")
    (tmp_path / "f").write_bytes(b"hi")
    assert GuardDutyScanner(aws.name, aws.clock, timeout_s=3).scan(tmp_path / "f", key) == "unknown"


def test_an_unscanned_object_is_not_clean_after_a_wait(aws, lane, tmp_path: Path):
    key = quarantine_key(lane, ID)
    aws.artifacts.put(key, b"hi", mime="text/plain")
    (tmp_path / "f").write_bytes(b"hi")
    before = aws.clock.monotonic_s()
    scanner = GuardDutyScanner(aws.name, aws.clock, timeout_s=3)
    assert scanner.scan(tmp_path / "f", key) == "unknown"
    assert aws.clock.monotonic_s() - before >= 3
    assert scanner.scan(tmp_path / "f", f"{key}x") == "unknown"
