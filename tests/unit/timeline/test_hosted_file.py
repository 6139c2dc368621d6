"""The files that a user may download: external ones at their newest version, of this project, of any age."""

from __future__ import annotations

import pytest

from stepline.errors import NotFoundError
from stepline.model.block import Body, Produced
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.path import AttachmentPath, FilePath, out_key, parse_path
from stepline.timeline.fold import Timeline
from stepline.timeline.hosted_file import HostedFile, find_hosted, hosted_files
from tests.support.generation import PROGRAM
from tests.support.log_builder import LANE, LogBuilder

SENT = Attachment(filename="in.csv", mime="text/csv", size_bytes=3, sha256="2" * 64)


def begun() -> LogBuilder:
    log = LogBuilder()
    log.message()
    return log


def left(log: LogBuilder, *blocks: Produced, tool: str = "react.write") -> None:
    log.act((tool, {}))
    log.result(tool=tool, blocks=(Produced(text="done"), *blocks))


def stored(
    log: LogBuilder, name: str, digit: str = "0", *, visibility: str = "external", key: str = ""
) -> Produced:
    return log.file(name, visibility=visibility, key=key or out_key(LANE, log.turn, digit * 64))


def files(log: LogBuilder) -> list[HostedFile]:
    return hosted_files(LANE, log.timeline().turn_blocks(log.turn))


def find(log: LogBuilder, path: str) -> HostedFile:
    found = parse_path(path)
    assert isinstance(found, FilePath | AttachmentPath)
    return find_hosted(LANE, log.timeline(), found)


def test_a_file_that_was_written_twice_is_one_file_of_two_versions():
    log = begun()
    left(log, stored(log, "a.md", "1"), stored(log, "b.md", "2"))
    left(log, stored(log, "a.md", "3"))
    assert [(str(one.path), one.versions, one.origin) for one in files(log)] == [
        ("fi:turn_0001.outputs/b.md", 1, "agent"),
        ("fi:turn_0001.outputs/a.md", 2, "agent"),
    ]
    assert files(log)[-1].body.key == out_key(LANE, log.turn, "3" * 64)
    assert find(log, "fi:turn_0001.outputs/a.md").body == files(log)[-1].body


@pytest.mark.parametrize("visibility", ["internal", ""])
def test_a_file_that_is_not_external_is_not_found(visibility: str):
    log = begun()
    left(log, stored(log, "a.md", visibility=visibility))
    assert files(log) == []
    with pytest.raises(NotFoundError):
        find(log, "fi:turn_0001.outputs/a.md")


def test_the_newest_version_says_whether_a_file_is_external():
    log = begun()
    left(log, stored(log, "a.md", "1"), stored(log, "b.md", "1", visibility="internal"))
    left(log, stored(log, "a.md", "2", visibility="internal"), stored(log, "b.md", "2"))
    assert [one.filename for one in files(log)] == ["b.md"]
    with pytest.raises(NotFoundError):
        find(log, "fi:turn_0001.outputs/a.md")


def test_a_file_that_a_program_deleted_is_not_listed_and_is_found_by_its_path():
    log = begun()
    left(log, stored(log, "a.md"))
    left(log, Produced(text="", meta={"deleted": [f"{log.turn}/outputs/a.md"]}), tool=PROGRAM)
    assert files(log) == []
    assert find(log, "fi:turn_0001.outputs/a.md").filename == "a.md"


def test_an_attached_file_belongs_to_the_user():
    log = LogBuilder()
    log.message(attachments=(SENT,))
    log.message(attachments=(SENT,))
    assert [(str(one.path), one.origin, one.body.key) for one in files(log)] == [
        ("fi:turn_0001.user.attachments/in.csv", "user", attachment_key(LANE, SENT.sha256)),
        (
            "fi:turn_0001.external.followup.attachments/m2/in.csv",
            "user",
            attachment_key(LANE, SENT.sha256),
        ),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "out/umbrella/support/c-1/turn_0001/0",
        "out/acme/sales/c-1/turn_0001/0",
        "exec/acme/support/c-1/turn_0001/0",
        "git/acme/support/c-1/0",
        "store/acme/support/0",
        "out",
    ],
)
def test_an_object_of_another_project_is_not_found(key: str):
    log = begun()
    left(log, stored(log, "a.md", key=key))
    assert files(log) == []
    with pytest.raises(NotFoundError):
        find(log, "fi:turn_0001.outputs/a.md")


def test_a_file_is_found_after_its_turn_was_shortened():
    log = begun()
    left(log, stored(log, "a.md"))
    for _ in range(3):
        log.answer()
        log.close()
        log.message("go on")
    log.prune(keep=1, intact=1)
    assert find(log, "fi:turn_0001.outputs/a.md").filename == "a.md"


def test_a_view_of_a_file_is_no_file():
    log = begun()
    body = Body(key=out_key(LANE, log.turn, "1" * 64), sha256="1" * 64, size_bytes=1, mime="image/png")
    meta = {"visibility": "external", "source_path": "fi:turn_0001.outputs/b.png"}
    left(log, Produced(path="fi:turn_0001.outputs/a.png", body=body, meta=meta))
    assert files(log) == []


def test_a_path_of_no_turn_leads_to_nothing():
    with pytest.raises(NotFoundError):
        find_hosted(LANE, Timeline.empty(LANE), FilePath(turn="turn_x", space="files", rel="a"))
