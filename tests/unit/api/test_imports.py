"""The endpoint of an import: its two forms of a body, their bounds, and the codes of its refusals."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from stepline.api import imports
from stepline.api.router import ApiResponse
from tests.security.every_endpoint import DOCUMENT
from tests.support.api_caller import Caller, read
from tests.support.conversation import Conversation
from tests.support.moved_conversation import MOVED

PATH = "/v1/conversations/moved/import"


@pytest.fixture
def caller() -> Caller:
    return Caller(Conversation().ports)


def packed(text: bytes) -> dict[str, Any]:
    return {"packed": b64encode(gzip.compress(text)).decode()}


def post(caller: Caller, body: Any, path: str = PATH) -> ApiResponse:
    return caller.ask("POST", path, body)


def untouched(caller: Caller) -> bool:
    log = caller.services.ports.log
    return log.tail(MOVED, consistent=True) is None and caller.get("/v1/conversations")["items"] == []


def test_documents_may_be_plain_or_packed(caller: Caller) -> None:
    as_they_are = read(post(caller, {"documents": [DOCUMENT]}))
    assert (as_they_are["state"], as_they_are["turns"], as_they_are["report"]["origin"]) == (
        "whole",
        1,
        "foreign",
    )
    assert read(post(caller, packed(json.dumps([DOCUMENT]).encode()))) == as_they_are
    whole = {"kind": "artifact:turn.log", "tags": [], "text": "", "payload": DOCUMENT}
    assert read(post(caller, {"documents": [whole]})) == as_they_are


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "import_empty"),
        ({"documents": []}, 400, "import_empty"),
        ({"documents": [{}]}, 400, "import_unknown_document"),
        ({"documents": [DOCUMENT], **packed(b"[]")}, 400, "import_not_packed"),
        ({"packed": "%"}, 400, "import_not_packed"),
        ({"packed": b64encode(b"no gzip").decode()}, 400, "import_not_packed"),
        (packed(b"{}"), 400, "import_not_packed"),
        (packed(b"[1]"), 400, "import_unknown_document"),
        (packed(b"[" * 100_000), 400, "import_not_packed"),
        (packed(b"[\xff]"), 400, "import_not_packed"),
        ({"documents": [DOCUMENT], "uploads": ["x"]}, 400, "bad_upload"),
        ({"documents": [DOCUMENT], "bundle": "none"}, 400, "unknown_bundle"),
        ({"documents": [DOCUMENT], "tenant": "other"}, 400, "bad_message"),
        ({"documents": [DOCUMENT], "remembered": -1}, 400, "bad_message"),
        ({"documents": [DOCUMENT], "uploads": [f"up_{0:032x}"] * 501}, 413, "import_too_many_files"),
    ],
)
def test_an_invalid_import_gets_a_code_and_writes_nothing(
    caller: Caller, body: dict[str, Any], status: int, code: str
) -> None:
    answer = post(caller, body)
    assert (answer.status, answer.code) == (status, code), answer.body
    assert untouched(caller)


def test_an_import_body_and_its_unpacked_content_are_bounded(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = b'["' + b" " * (imports.UNPACKED_BYTES + 1) + b'"]'
    answer = post(caller, packed(bomb))
    assert (answer.status, answer.code) == (413, "import_too_large")
    answer = post(caller, packed(b"[" + b"[]," * imports.VALUES_MAX + b"[]]"))
    assert (answer.status, answer.code) == (413, "import_too_large")
    answer = post(caller, {"packed": " " * imports.BODY_BYTES})
    assert (answer.status, answer.code) == (413, "limit_exceeded")
    assert untouched(caller)


def test_a_truncated_archive_is_refused(caller: Caller) -> None:
    whole = gzip.compress(msgspec.json.encode([DOCUMENT]))
    answer = post(caller, {"packed": b64encode(whole[: len(whole) // 2]).decode()})
    assert (answer.status, answer.code) == (400, "import_not_packed")


def test_an_import_longer_than_a_request_is_unfinished_and_resent(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "PASS_S", 0.0)
    answers = [read(post(caller, {"documents": [DOCUMENT]}))]
    while answers[-1]["state"] == "unfinished":
        assert caller.ask("GET", "/v1/conversations/moved").code == "import_unfinished"
        answers.append(read(post(caller, {"documents": [DOCUMENT], "remembered": answers[-1]["remembered"]})))
    assert [one["written"] for one in answers] == list(range(1, answers[-1]["batches"] + 1))
    assert len({json.dumps(one["report"]) for one in answers}) == 1
    assert caller.get("/v1/conversations/moved")["turns"] == 1
