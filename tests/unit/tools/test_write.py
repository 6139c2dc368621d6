from __future__ import annotations

import hashlib
import json

import pytest

from stepline.model.block import NOTE_TAGS
from stepline.model.source import Source
from stepline.tools.spec import render_tool_card
from stepline.tools.write import WRITE

from .conftest import LANE, TURN, ToolConversation, read_status


def write(conversation: ToolConversation, **params: object):
    return conversation.call("react.write", params)


def test_a_write_returns_the_status_and_then_the_file_at_its_path(conversation):
    output = write(conversation, path="report.md", channel="canvas", content="# Hi\nthere", kind="file")
    status, content = output.blocks
    assert output.status == "ok"
    assert status.path == f"tc:{TURN}.{status.call_id}.result"
    assert content.path == f"fi:{TURN}.outputs/report.md"
    assert json.loads(status.text) == {
        "artifact_path": f"fi:{TURN}.outputs/report.md",
        "physical_path": f"{TURN}/outputs/report.md",
        "mime": "text/markdown",
        "kind": "file",
        "visibility": "external",
        "channel": "canvas",
        "tool_call_id": status.call_id,
        "size_bytes": 10,
        "text_symbols": 10,
        "line_count": 2,
        "ts": status.ts,
    }


def test_the_bytes_are_in_the_store_under_their_hash_before_anything_names_them(conversation):
    output = write(conversation, path="files/a.txt", channel="internal", content="Grüße")
    data = "Grüße".encode()
    body = output.blocks[-1].body
    assert body is not None
    assert body.key == f"out/{LANE.prefix()}/{TURN}/{hashlib.sha256(data).hexdigest()}"
    assert conversation.artifacts.objects == {body.key: data}
    assert body.size_bytes == len(data)
    assert output.blocks[-1].text == ""


def test_writing_the_same_again_writes_nothing_new(conversation):
    first = write(conversation, path="a.md", content="same")
    second = write(conversation, path="a.md", content="same")
    assert first.blocks[-1].body == second.blocks[-1].body
    assert len(conversation.artifacts.objects) == 1


def test_an_object_is_written_as_indented_json(conversation):
    write(conversation, path="data.json", content={"b": [1, 2], "a": "é"})
    (data,) = conversation.artifacts.objects.values()
    assert json.loads(data) == {"b": [1, 2], "a": "é"}
    assert data.decode().startswith('{\n  "b": [')


def test_an_internal_file_is_a_file_and_only_the_agent_sees_it(conversation):
    status = read_status(write(conversation, path="a.md", channel="internal", content="x"))
    assert (status["kind"], status["visibility"]) == ("file", "internal")


def test_a_scratchpad_is_also_a_note(conversation):
    output = write(conversation, path="a.md", channel="internal", content="[D] UTC", scratchpad=True)
    note = output.blocks[-1]
    assert (note.type, note.path, note.text) == ("react.note", f"fi:{TURN}.outputs/a.md", "[D] UTC")


def test_a_note_names_the_kinds_of_its_lines(conversation):
    text = "[D] UTC\n[P] short answers\n[D] two pages\n[X] no kind"
    note = write(conversation, path="a.md", channel="internal", content=text, scratchpad=True).blocks[-1]
    assert note.meta["note_tags"] == ["D", "P"]
    plain = write(conversation, path="b.md", channel="internal", content="x", scratchpad=True).blocks[-1]
    assert "note_tags" not in plain.meta


def test_the_write_tool_explains_the_kinds_of_a_notes_lines():
    card = render_tool_card(WRITE)
    assert [tag for tag in NOTE_TAGS if f"[{tag}] " in card] == ["P", "D", "S", "A", "K"]


def test_sources_that_the_text_cites_are_named(conversation):
    status = read_status(
        write(conversation, path="a.md", content="As shown [[S:3,1-2]] and [[ s : 3 ]], not [S:9].")
    )
    assert status["sources_used"] == [3, 1, 2]


@pytest.mark.parametrize(
    ("path", "content", "rows", "codes"),
    [
        ("a.md", "As shown [[S:1 2]].", 1, ["citation_unreadable"]),
        ("a.html", "<p>[[S:x]]</p>", 1, ["citation_unreadable"]),
        ("a.md", "As shown [[S:1; S:2]].", 1, []),
        ("a.md", "As shown [[S:1 2]].", 0, []),
        ("a.txt", "As shown [[S:1 2]].", 1, []),
    ],
)
def test_an_unreadable_citation_is_reported_for_formats_with_citations(
    conversation: ToolConversation, path: str, content: str, rows: int, codes: list[str]
) -> None:
    conversation.sources |= {sid: Source(sid=sid, title="T") for sid in range(1, rows + 1)}
    output = write(conversation, path=path, content=content)
    assert output.status == "ok"
    assert [block.meta["code"] for block in output.blocks if block.type == "react.notice"] == codes


def test_a_type_that_the_canvas_cannot_draw_is_written_with_a_warning(conversation):
    output = write(conversation, path="files/main.py", content="print(1)")
    notice = output.blocks[0]
    assert output.status == "ok"
    assert notice.meta["code"] == "protocol_violation.write_extension_mismatch"
    assert read_status(output)["mime"] == "text/x-python"


@pytest.mark.parametrize("channel", ["internal", "timeline_text"])
def test_other_channels_take_any_type(conversation, channel):
    output = write(conversation, path="files/main.py", channel=channel, content="print(1)")
    assert [block.type for block in output.blocks] == ["react.tool.result"] * 2


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"path": "../x", "content": ""}, "path_dot_segment"),
        ({"path": "fi:turn_20200101T000000_000000.files/a.md", "content": ""}, "path_not_current_turn"),
        ({"path": "a.md", "content": "x", "scratchpad": True}, "scratchpad_requires_internal"),
        ({"path": "a.md", "content": "\ud800"}, "content_not_utf8"),
        ({"path": "a.md"}, "bad_params"),
        ({"path": "a.md", "content": "x", "mode": "append"}, "bad_params"),
        ({"path": "a.md", "content": 3}, "bad_params"),
        ({"content": "x", "path": "a.md"}, "path_not_first"),
        ({"path": "a.md", "content": "x", "channel": "canvas"}, "channel_not_second"),
    ],
)
def test_a_refused_write_is_a_result_and_writes_nothing(conversation, params, code):
    output = write(conversation, **params)
    assert output.status == "error"
    assert output.error is not None
    assert output.error["code"] == code
    assert [block.type for block in output.blocks] == ["react.notice", "react.tool.result"]
    assert conversation.artifacts.objects == {}


def test_a_write_to_an_older_turn_is_answered_with_the_correct_path(conversation):
    output = write(conversation, path="fi:turn_20200101T000000_000000.files/a.md", content="x")
    assert json.loads(output.blocks[0].text)["suggested_path"] == f"fi:{TURN}.files/a.md"


@pytest.mark.parametrize("other", ["Report.md", "report.md/part.md"])
def test_two_files_that_cannot_lie_in_one_folder_are_refused(conversation, other):
    write(conversation, path="report.md", content="a")
    output = write(conversation, path=other, content="b")
    assert output.error["code"] == "path_clash"


def test_a_file_may_be_written_again_under_its_own_name(conversation):
    write(conversation, path="report.md", content="a")
    assert write(conversation, path="report.md", content="b").status == "ok"


@pytest.mark.parametrize("path", ["chart.png", "report.pdf", "files/book.xlsx", "song.MP3"])
def test_a_text_is_not_written_under_the_extension_of_a_binary_type(conversation, path):
    output = conversation.call("react.write", {"path": path, "content": "<html><script>alert(1)</script>"})
    assert output.error["code"] == "content_type_mismatch"
    assert conversation.artifacts.objects == {}
