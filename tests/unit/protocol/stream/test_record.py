"""A file while it is written: on which lane, under which name, in which format, and when it has to wait."""

from __future__ import annotations

import json

import pytest

from stepline.model.ids import call_id
from stepline.protocol.stream.lane import LaneFacts
from stepline.protocol.stream.record import turn_path
from tests.unit.protocol.stream.shown_lanes import TURN, call, raw, show_alike, show_so_far, write

PDF = "rendering_tools.write_pdf"


def lanes(text):
    return show_alike(text).texts


def facts(text, lane):
    return show_alike(text).facts[lane]


def test_a_file_is_a_canvas_lane_under_its_path_unless_it_says_otherwise():
    shown = show_alike(write("outputs/report.md", "# Report"))
    assert shown.texts == {"canvas.0": "# Report"}
    assert shown.facts["canvas.0"] == LaneFacts(
        marker="canvas",
        artifact_name="outputs/report.md",
        execution_id=call_id(TURN, 2, 0),
    )
    shown = show_alike(write("note.md", "short", channel="timeline_text"))
    assert shown.facts["timeline.0"].marker == "timeline_text"
    assert shown.facts["timeline.0"].artifact_name == "outputs/note.md"


@pytest.mark.parametrize("channel", ["internal", "nowhere"])
def test_an_internal_file_is_not_shown(channel):
    assert lanes(write("outputs/a.md", "secret", channel=channel)) == {}


def test_a_file_streams_while_it_is_written():
    text = write("outputs/a.md", "word " * 20)
    begun = text[: text.index("word ") + 42]
    assert show_so_far(begun, 3).texts == {"canvas.0": ("word " * 9)[:42]}


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a.md", "markdown"),
        ("a.HTML", "html"),
        ("a.htm", "html"),
        ("a.json", "json"),
        ("a.yml", "yaml"),
        ("a.txt", "text"),
        ("a.xml", "xml"),
        ("a.mmd", "mermaid"),
        ("a.py", "markdown"),
        ("a", "markdown"),
    ],
)
def test_the_format_is_that_of_the_files_name(path, form):
    assert facts(write(path, "x"), "canvas.0").format == form


def test_a_format_that_is_given_counts_more_than_the_name():
    text = call("react.write", path="a.md", channel="canvas", format="htm", content="x")
    assert facts(text, "canvas.0").format == "html"


def test_content_before_its_path_and_channel_waits_for_them():
    late = call("react.write", content="a file", path="outputs/a.md", channel="timeline_text")
    shown = show_alike(late)
    assert shown.texts == {"timeline.0": "a file"}
    assert shown.facts["timeline.0"].artifact_name == "outputs/a.md"
    assert show_so_far(late[: late.index("timeline_")]).texts == {}


def test_content_without_a_channel_is_shown_on_the_canvas_when_the_call_is_complete():
    text = call("react.write", path="outputs/a.md", content="a file")
    assert show_so_far(text[: text.index("file") + 4]).texts == {}
    assert lanes(text) == {"canvas.0": "a file"}
    assert lanes(call("react.write", path="outputs/a.md", content="a file", channel="internal")) == {}


def test_content_before_the_tool_is_shown_only_if_the_tool_writes():
    for tool_id, shown in (("react.write", {"canvas.0": "early"}), ("react.read", {}), ("no.such", {})):
        params = {"path": "a.md", "channel": "canvas", "content": "early"}
        body = json.dumps({"action": "call_tool", "tool_call": {"params": params, "tool_id": tool_id}})
        assert lanes(raw(body)) == shown


def test_content_that_is_no_text_is_not_streamed():
    assert lanes(call("react.write", path="a.json", channel="canvas", content={"a": "b"})) == {}
    assert lanes(call("react.write", path="a.json", channel="canvas", content=["a", "b"])) == {}


def test_a_patch_is_markdown_on_the_canvas():
    text = call("react.patch", path="files/a.py", channel="canvas", patch="- a\n+ b", content="never")
    shown = show_alike(text)
    assert shown.texts == {"canvas.0": "- a\n+ b"}
    assert shown.facts["canvas.0"].format == "markdown"


def test_a_renderers_content_is_shown_unless_it_is_a_reference():
    assert lanes(call(PDF, path="a.pdf", channel="canvas", content="# Text")) == {"canvas.0": "# Text"}
    assert lanes(call(PDF, path="a.pdf", channel="canvas", content="ref:fi:turn_1.outputs/a.md")) == {}
    assert lanes(call(PDF, path="a.pdf", channel="canvas", content="re")) == {"canvas.0": "re"}
    assert lanes(call(PDF, path="a.pdf", channel="timeline_text", content="text")) == {"canvas.0": "text"}


@pytest.mark.parametrize("channel", ["canvas", "timeline_text", "internal"])
def test_a_write_by_reference_shows_nothing_while_it_is_generated(channel):
    assert lanes(write("a.md", "ref:fi:turn_1.outputs/a.md", channel=channel)) == {}
    assert lanes(call("react.write", path="a.md", content="ref:fi:turn_1.outputs/a.md")) == {}
    assert lanes(call("react.write", content="ref:outputs/a.md", path="a.md", channel=channel)) == {}


def test_a_text_about_references_is_a_text():
    assert lanes(write("a.md", "As ref: says")) == {"canvas.0": "As ref: says"}
    assert lanes(write("a.md", "re")) == {"canvas.0": "re"}
    assert lanes(call("react.write", path="a.md", content="re")) == {"canvas.0": "re"}


def test_a_renderer_needs_no_channel():
    text = call(PDF, path="a.pdf", content="# A text")
    assert lanes(text) == {"canvas.0": "# A text"}
    assert show_so_far(text[: text.index("text") + 2]).texts == {"canvas.0": "# A te"}
    assert lanes(call(PDF, path="a.pdf", content="ref:outputs/a.md")) == {}
    assert lanes(call(PDF, path="a.pdf", content="re")) == {"canvas.0": "re"}
    assert lanes(call(PDF, content="before its path", path="a.pdf")) == {"canvas.0": "before its path"}
    assert lanes(call(PDF, content="# Without a path")) == {"canvas.0": "# Without a path"}
    assert lanes(call(PDF, content="ref:outputs/a.md")) == {}


def test_a_reference_is_recognized_after_four_characters():
    head = call(PDF, path="a.pdf", channel="canvas", content="@").partition("@")[0]
    assert show_so_far(head + "ref").texts == {}
    assert show_so_far(head + "refs").texts == {"canvas.0": "refs"}
    assert show_so_far(head + "a").texts == {"canvas.0": "a"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("report.md", "outputs/report.md"),
        ("files/src/a.py", "files/src/a.py"),
        (f"fi:{TURN}.outputs/a.md", "outputs/a.md"),
        (f"{TURN}/files/a.md", "files/a.md"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("fi:turn_other.outputs/a.md", "fi:turn_other.outputs/a.md"),
        ("", ""),
    ],
)
def test_a_file_is_named_by_its_path_in_the_turn(path, name):
    assert turn_path(TURN, path) == name
