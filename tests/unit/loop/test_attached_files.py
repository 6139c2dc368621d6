"""Files attached to a message, in its turn: those that the model reads and cites, and that its programs find."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from stepline.model.entry import Decided, Resulted
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.file.mime import DOCX
from stepline.model.program.execution import Run
from tests.support.conversation import LANE, Conversation, files_of, text_of
from tests.support.files import pdf, picture
from tests.support.generation import answered, called, coded

PNG, PDF, TEXT = "image/png", "application/pdf", "text/plain"
SAID = "Größe;größer\nmäßig;groß\n" * 20


class WithFiles(Conversation):
    """A conversation whose first message has files."""

    def __init__(self, *files: tuple[str, bytes, str]) -> None:
        super().__init__()
        self.send("see this", attachments=tuple(self.store(*file) for file in files))

    def store(self, name: str, data: bytes, mime: str) -> Attachment:
        sha256 = hashlib.sha256(data).hexdigest()
        self.ports.artifacts.put(attachment_key(LANE, sha256), data, mime=mime)
        return Attachment(filename=name, mime=mime, size_bytes=len(data), sha256=sha256)

    def path(self, name: str) -> str:
        return f"fi:{self.state.turn}.user.attachments/{name}"

    def read(self, *names: str) -> Resulted:
        """Let the model read files; return the result."""
        self.model.add(called("react.read", {"paths": [self.path(name) for name in names]}))
        self.decide()
        self.act()
        return self.entries(Resulted)[-1]


def rows(result: Resulted) -> list[dict[str, object]]:
    report = next(block.text for block in result.blocks if block.text.startswith('{"paths"'))
    found: list[dict[str, object]] = msgspec.json.decode(report)["paths"]
    return found


def test_attached_files_are_named_in_the_message_and_read_on_demand():
    conversation = WithFiles(("a.png", picture(), PNG))
    conversation.model.add(answered("Fine."))
    conversation.decide()
    (request,) = conversation.model.requests
    assert (
        f"[USER ATTACHMENT] a.png | {PNG} | {len(picture())} bytes | {conversation.path('a.png')}"
        in text_of(request)
    )
    assert files_of(request) == []


@pytest.mark.parametrize(("name", "data", "mime"), [("a.png", picture(), PNG), ("a.pdf", pdf(), PDF)])
def test_a_read_picture_or_pdf_is_in_the_request_unchanged(name: str, data: bytes, mime: str):
    conversation = WithFiles((name, data, mime))
    conversation.read(name)
    conversation.model.add(answered("Seen."))
    conversation.decide()
    (file,) = files_of(conversation.model.requests[-1])
    assert (file.path, file.body.mime) == (conversation.path(name), mime)
    assert conversation.ports.artifacts.get(file.body.key) == data


@pytest.mark.parametrize(
    ("encoding", "recorded"),
    [("utf-8", ""), ("utf-16", ""), ("latin-1", ""), ("cp1257", "; charset=windows-1257")],
)
def test_a_text_is_read_in_every_supported_encoding(encoding: str, recorded: str):
    result = WithFiles(("a.csv", SAID.encode(encoding), f"text/csv{recorded}")).read("a.csv")
    assert result.blocks[-1].text == SAID


def test_a_document_of_office_is_named_and_left_to_programs():
    result = WithFiles(("a.docx", b"PK\x03\x04", DOCX)).read("a.docx")
    assert "[BINARY FILE NOT SHOWN]" in result.blocks[-1].text


def test_a_picture_is_a_source_once_it_was_looked_at_and_can_be_cited():
    conversation = WithFiles(("a.png", picture(), PNG))
    (row,) = rows(conversation.read("a.png"))
    source = conversation.timeline().sources[1]
    assert row["sid"] == 1
    assert (source.title, source.source_type, source.path) == (
        "a.png",
        "attachment",
        conversation.path("a.png"),
    )
    conversation.model.add(answered("A green field [[S:1]]."))
    conversation.decide()
    (cited,) = conversation.entries(Decided)[-1].citations
    assert (cited.sid, cited.path, cited.url) == (1, conversation.path("a.png"), "")


def test_a_file_that_is_not_a_picture_is_not_a_source():
    conversation = WithFiles(("a.pdf", pdf(), PDF), ("a.txt", b"so", TEXT), ("no.png", b"so", PNG))
    assert all("sid" not in row for row in rows(conversation.read("a.pdf", "a.txt", "no.png")))
    assert conversation.timeline().sources == {}


def test_a_program_finds_every_attached_file_under_a_unique_name():
    conversation = WithFiles(("a.txt", b"one", TEXT), ("A.TXT", b"two", TEXT))
    executor = conversation.programs(lambda _: Run(returncode=0))
    conversation.send("and this", id="m2", attachments=(conversation.store("a.txt", b"three", TEXT),))
    conversation.model.add(coded("print(1)", "outputs/a.txt"))
    conversation.execute(conversation.act(conversation.decide()))
    (job,) = executor.jobs
    turn = conversation.state.turn
    assert {file.path: job.fetch(file.key) for file in job.request.files} == {
        f"{turn}/attachments/a.txt": b"one",
        f"{turn}/attachments/A-2.TXT": b"two",
        f"{turn}/external/followup/attachments/m2/a.txt": b"three",
    }
