"""Uploads over HTTP: the grant, its repetition, the verdict, and answers to strangers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine, MemoryScanner
from stepline.api.endpoint import Services
from stepline.api.router import Request, Router
from stepline.api.uploads import ENDPOINTS
from stepline.ingress.upload import UploadPorts, judge_upload
from stepline.log.timeline_cache import History
from stepline.model.file.upload_slot import quarantine_key
from stepline.ports.channel import Principal
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.generation import answered

ROUTER = Router(ENDPOINTS)
UPLOADS = f"/v1/conversations/{LANE.conversation}/uploads"
TEXT = b"a,b\n"
FILE = {
    "filename": "a.csv",
    "mime": "text/csv",
    "size_bytes": len(TEXT),
    "sha256": hashlib.sha256(TEXT).hexdigest(),
}


class Client:
    """A user with a conversation, who uploads over HTTP."""

    def __init__(self) -> None:
        conversation = Conversation(answered("Hi."))
        conversation.send()
        self.quarantine = MemoryQuarantine(conversation.ports.clock)
        self.desk = UploadPorts(
            ports=conversation.ports,
            quarantine=self.quarantine,
            preflight=MemoryPreflight(),
            scanner=MemoryScanner(),
        )
        self.services = Services(ports=conversation.ports, history=History(), uploads=self.desk)
        self.clock = conversation.ports.clock

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "", **who: str) -> tuple[int, Any]:
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        fields = {"tenant": LANE.tenant, "project": LANE.project, "user": USER, **who}
        request = Request(method=method, path=path, headers=headers, body=json.dumps(body).encode())
        answer = ROUTER.answer(self.services, Principal(**fields, expires_at=FAR), request)
        return int(answer.status), json.loads(answer.body)


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_file_is_posted_by_its_grant_and_its_verdict_read(client: Client) -> None:
    status, grant = client.ask("POST", UPLOADS, FILE)
    assert (status, sorted(grant)) == (201, ["expires_in_s", "fields", "upload", "url"])
    at = f"{UPLOADS}/{grant['upload']}"
    assert client.ask("GET", at) == (200, {"state": "waiting"})
    client.quarantine.objects[quarantine_key(LANE, grant["upload"])] = TEXT
    judge_upload(client.desk, LANE, grant["upload"])
    assert client.ask("GET", at) == (200, {"state": "ready", "file": FILE})


def test_the_same_request_under_the_same_key_has_the_same_slot(client: Client) -> None:
    first = client.ask("POST", UPLOADS, FILE, key="k")[1]["upload"]
    assert client.ask("POST", UPLOADS, FILE, key="k")[1]["upload"] == first
    assert client.ask("POST", UPLOADS, FILE)[1]["upload"] != first
    assert client.ask("POST", UPLOADS, FILE, key="k", user="eve")[0] == 404


def test_a_key_is_for_one_file_as_long_as_its_slot(client: Client) -> None:
    client.ask("POST", UPLOADS, FILE, key="k")
    status, problem = client.ask("POST", UPLOADS, {**FILE, "filename": "b.csv"}, key="k")
    assert (status, problem["code"]) == (422, "idempotency_key_reused")
    client.clock.pause(601)
    status, problem = client.ask("POST", UPLOADS, FILE, key="k")
    assert (status, problem["code"]) == (400, "upload_expired")


@pytest.mark.parametrize(
    "who",
    [{"user": "eve"}, {"tenant": "elsewhere"}, {"project": "elsewhere"}],
    ids=["user", "tenant", "project"],
)
def test_another_users_upload_is_not_found(client: Client, who: dict[str, str]) -> None:
    upload = client.ask("POST", UPLOADS, FILE)[1]["upload"]
    missing = client.ask("GET", f"{UPLOADS}/up_{'0' * 32}")
    assert missing[0] == 404
    assert client.ask("GET", f"{UPLOADS}/{upload}", **who) == missing


def test_a_stage_without_uploads_has_no_such_address(client: Client) -> None:
    client.services = Services(ports=client.services.ports, history=History())
    assert client.ask("POST", UPLOADS, FILE)[0] == 404
