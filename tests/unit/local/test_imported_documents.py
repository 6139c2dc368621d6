"""Documents to import from a folder, a zip, the archive of a user or one file; other content is ignored."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from stepline.errors import InputError, LimitError
from stepline.local import imported_documents
from stepline.local.command.content.export import exports
from stepline.local.exported_files import plan_files
from stepline.local.imported_documents import read_imported_documents
from stepline.local.named_files import write_files
from tests.support.conversation import LANE, Conversation
from tests.support.moved_conversation import CSV, FILE, SENT, said


@pytest.fixture(scope="module")
def source() -> Conversation:
    return said()


@pytest.fixture
def folder(source: Conversation, tmp_path: Path) -> Path:
    """Return a folder that `stepline export --out` wrote."""
    into = tmp_path / "out"
    documents = exports(source.ports.log, source.ports.artifacts, LANE)
    files = plan_files(documents, source.ports.artifacts, LANE)
    assert len(list(write_files(into, files, overwrite=False))) == len(documents) + 2
    return into


def zipped(folder: Path, prefix: str = "") -> Path:
    path = folder.parent / "all.zip"
    with ZipFile(path, "a") as archive:
        for found in folder.rglob("*"):
            if found.is_file():
                archive.write(found, f"{prefix}{found.relative_to(folder).as_posix()}")
    return path


def code_of(path: Path, **fields: str) -> str:
    with pytest.raises((InputError, LimitError)) as caught:
        read_imported_documents(path, **fields)
    return caught.value.reason


def test_an_export_brings_its_documents_and_the_bytes_of_its_files_by_hash(folder: Path) -> None:
    imported = read_imported_documents(folder)
    kinds = [one.kind for one in imported.documents]
    assert sorted(set(kinds)) == [
        "artifact:conv.timeline.v1",
        "artifact:conv:sources_pool",
        "artifact:turn.log",
    ]
    assert len(kinds) == 4
    assert {sha256: read() for sha256, read in imported.files.items()} == {SENT.sha256: CSV, FILE: b"# Ulm"}


def test_an_export_has_its_files_by_their_names(folder: Path) -> None:
    found = {path.name: path.read_bytes() for path in (folder / "files").rglob("*") if path.is_file()}
    assert found == {"cities.csv": CSV, "ulm.md": b"# Ulm"}


def test_a_file_in_its_own_documents_folder_is_no_document(folder: Path) -> None:
    below = folder / "files/turn_9/files/documents"
    below.mkdir(parents=True)
    (below / "plan.json").write_bytes(b"[1]")
    imported = read_imported_documents(folder)
    assert len(imported.documents) == 4
    assert hashlib.sha256(b"[1]").hexdigest() in imported.files


def test_a_zip_is_the_same_as_its_folder(folder: Path) -> None:
    unpacked, packed = read_imported_documents(folder), read_imported_documents(zipped(folder))
    assert {one.kind: one.payload for one in packed.documents} == {
        one.kind: one.payload for one in unpacked.documents
    }
    assert {sha256: read() for sha256, read in packed.files.items()} == {
        sha256: read() for sha256, read in unpacked.files.items()
    }


def test_one_conversation_of_a_user_archive_is_imported_with_its_documents_only(
    folder: Path,
) -> None:
    (folder / "conversation.json").write_text("{}")
    documents = folder / "documents"
    documents.mkdir()
    for found in [*folder.glob("conv.*.json"), *folder.glob("turn.log/*.json")]:
        found.rename(documents / f"{found.parent.name}.{found.name}")
    path = zipped(folder, "conversations/a/")
    with ZipFile(path, "a") as archive:
        archive.writestr("index.json", "{}")
        archive.writestr("limits.json", "{}")
    assert len(read_imported_documents(path).documents) == 4
    zipped(folder, "conversations/b/")
    assert code_of(path) == "import_several"
    assert len(read_imported_documents(path, conversation="b").documents) == 4
    assert code_of(path, conversation="c") == "import_nothing"


def test_one_file_may_have_one_document_or_an_array_of_them_or_one_a_line(
    folder: Path, tmp_path: Path
) -> None:
    (turn,) = list(folder.glob("turn.log/*.json"))[:1]
    document = {"kind": "artifact:turn.log", "payload": json.loads(turn.read_text())}
    for name, text in {
        "one.json": json.dumps(document),
        "array.json": json.dumps([document, document]),
        "lines.jsonl": f"{json.dumps(document)}\n{json.dumps(document)}\n",
    }.items():
        (tmp_path / name).write_text(text)
        imported = read_imported_documents(tmp_path / name)
        assert {one.kind for one in imported.documents} == {"artifact:turn.log"}
        assert len(imported.documents) == (1 if name == "one.json" else 2)


def test_bytes_inside_a_block_become_a_separate_file(tmp_path: Path) -> None:
    block = {"type": "user.attachment", "mime": "image/png", "base64": b64encode(CSV).decode()}
    path = tmp_path / "turn.json"
    path.write_text(json.dumps({"turn_id": "turn_1", "ts": "2026-01-01T00:00:00Z", "blocks": [block]}))
    imported = read_imported_documents(path)
    (taken,) = imported.documents[0].payload["blocks"]
    digest = hashlib.sha256(CSV).hexdigest()
    assert taken["base64"] is None
    assert taken["body"] == {"key": "", "sha256": digest, "size_bytes": len(CSV), "mime": "image/png"}
    assert imported.files[digest]() == CSV


def test_half_a_surrogate_which_some_programs_write_becomes_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"turn_id": "turn_1", "blocks": [{"type": "x", "text": "a\\ud800b"}]}')
    (document,) = read_imported_documents(tmp_path / "a.json").documents
    assert document.payload["blocks"][0]["text"] == "a?b"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{not json", "import_not_json"),
        ("[" * 100_000, "import_not_json"),
        ("[1]", "import_unknown_document"),
    ],
)
def test_an_invalid_document_is_refused_by_name(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert code_of(tmp_path / "a.json") == code


def test_an_empty_folder_a_broken_zip_and_a_document_that_is_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(tmp_path) == "import_nothing"
    assert code_of(tmp_path / "nowhere") == "file_unreadable"
    (tmp_path / "a.json").write_text('{"a": 1}')
    monkeypatch.setattr(imported_documents, "DOCUMENT_BYTES", 3)
    assert code_of(tmp_path) == "import_too_large"


def test_a_zip_that_is_damaged_anywhere_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("a.json", json.dumps({"turn_id": "turn_1", "blocks": []}))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_imported_documents(path)
        except (InputError, LimitError) as refused:
            assert refused.reason  # noqa: PT017 - either is right


def test_folder_names_are_printed_on_one_line_without_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipFile(path, "w") as archive:
        for name in ("a\nb", "c\x1b[31m"):
            archive.writestr(f"conversations/{name}/a.json", "{}")
    with pytest.raises(InputError) as refused:
        read_imported_documents(path)
    assert refused.value.reason == "import_several"
    assert str(refused.value).isprintable()
