"""The client of an import: files first, then the documents, with retries, and resumable at any point."""

from __future__ import annotations

import pytest

from stepline.api import imports
from stepline.errors import DependencyError, LimitError
from stepline.local.client import importer
from stepline.local.client.api_transport import ApiError
from stepline.local.client.http_api import HttpApi
from stepline.local.client.importer import Importer
from stepline.local.imported_documents import ImportedDocuments
from stepline.model.file.attachment import attachment_key
from tests.support.api_server import TOKEN
from tests.support.conversation import Conversation
from tests.support.moved_conversation import CSV, FILE, MOVED, SENT, exported, hydrated, said
from tests.support.upload_server import upload_server
from tests.unit.ingress.test_allow import set_limits


class Client:
    def __init__(self, url, home):
        self.home, self.progress = home, []
        self.api = HttpApi(url, lambda: TOKEN)
        self.importer = Importer(self.api, home.ports.clock, MOVED.conversation, report=self.progress.append)


@pytest.fixture(scope="module")
def documents():
    return exported(said().ports)


@pytest.fixture
def imported(documents):
    files = {SENT.sha256: lambda: CSV, FILE: lambda: b"# Ulm"}
    return ImportedDocuments(documents=documents, files=files)


@pytest.fixture
def client():
    home = Conversation()
    with upload_server(home.ports) as server:
        found = Client(server.url, home)
        yield found
        found.api.close()


def test_files_and_documents_come_in(client, imported):
    status = client.importer.import_documents(imported)
    assert (status.state, status.report.files, status.report.files_missing) == ("whole", 2, 0)
    stored = client.home.ports.artifacts
    assert [stored.get(attachment_key(MOVED, sha256)) for sha256 in (SENT.sha256, FILE)] == [CSV, b"# Ulm"]
    assert "cities.csv: accepted" in client.progress


def test_it_sends_the_same_until_it_is_whole(client, imported, monkeypatch):
    monkeypatch.setattr(imports, "PASS_S", 0.0)
    status = client.importer.import_documents(imported)
    assert status.state == "whole"
    assert f"1 of {status.batches} batches, 0 of 2 turns remembered" in client.progress


def test_a_restarted_import_continues_with_its_initial_files(client, imported, monkeypatch):
    monkeypatch.setattr(imports, "PASS_S", 0.0)
    asked = []

    def cut_off(conversation, body, **_):
        asked.append(client.api.move_in(conversation, body))
        raise DependencyError("gone", code="api_unreachable")

    api = HttpApi(client.api._url, lambda: TOKEN)
    monkeypatch.setattr(api, "move_in", cut_off)
    first = Importer(api, client.home.ports.clock, MOVED.conversation, report=client.progress.append)
    monkeypatch.setattr(importer, "TRIES", 1)
    with pytest.raises(DependencyError):
        first.import_documents(imported)
    assert asked[0].written == 1
    before = len(client.progress)
    status = client.importer.import_documents(imported)
    assert (status.state, status.report.files) == ("whole", 2)
    assert not [text for text in client.progress[before:] if "uploading" in text]
    before = hydrated(client.home.ports, MOVED)
    assert client.importer.import_documents(imported) == status
    assert hydrated(client.home.ports, MOVED) == before


def test_a_missing_or_refused_file_is_imported_without_its_bytes(client, documents):
    files = {SENT.sha256: lambda: b"a\0b"}
    status = client.importer.import_documents(ImportedDocuments(documents=documents, files=files))
    assert (status.state, status.report.files, status.report.files_missing) == ("whole", 0, 2)
    progress = "\n".join(client.progress)
    assert "which are missing" in progress
    assert "cities.csv: without its bytes" in progress


def test_the_importer_waits_for_a_limit_per_minute(client, imported):
    set_limits(client.home, messages_per_minute=1)
    began = client.home.clock.now()
    assert client.importer.import_documents(imported).state == "whole"
    assert (client.home.clock.now() - began).total_seconds() >= 60


def test_a_used_and_a_deleted_name_are_refused_before_any_upload(client, imported):
    client.home.send("hello", lane=MOVED)
    with pytest.raises(ApiError) as taken:
        client.importer.import_documents(imported)
    client.api.delete_conversation(MOVED.conversation)
    with pytest.raises(ApiError) as gone:
        client.importer.import_documents(imported)
    assert (taken.value.reason, gone.value.reason) == ("conversation_exists", "conversation_deleted")
    assert client.progress == []


def test_documents_that_no_body_holds_are_refused_before_anything_is_sent(client, imported, monkeypatch):
    monkeypatch.setattr(importer, "BODY_BYTES", importer.FRAME_BYTES + 10)
    with pytest.raises(LimitError) as caught:
        client.importer.import_documents(imported)
    assert caught.value.reason == "import_too_large"
