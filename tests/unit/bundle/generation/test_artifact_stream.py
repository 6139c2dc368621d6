import asyncio
import json

import pytest

from stepline.bundle.generation.artifact_stream import CompositeJsonArtifactStreamer, FollowupStreamer
from stepline.bundle.generation.shown_text import read_sources
from stepline.bundle.generation.subscriber import StreamPolicyViolation
from stepline.protocol.parser.grammar import ChannelSpec
from tests.support.generation import start_tag, tagged
from tests.unit.bundle.generation.channel_call import SOURCES, Shown, StallingModel, stream

SIZES = (1, 2, 7, 13, 64, 10**9)
VALUES = {
    "report": 'Up [[S:1]] "quoted"\n',
    "skipped": "no",
    "page": "<p>[[S:2]]</p> 🙂",
    "count": 3,
    "nested": {"report": "not [[S:1]]", "list": [1, {"a": "]}"}, None, "\\"]},
    "rows": [],
    "missing": None,
    "done": True,
    "notes": "tail [[S:",
}
CONFIG = {
    "report": "markdown",
    "page": "html",
    "notes": "path.to.schema",
    "nested": "path.to.schema",
    "count": "text",
    "rows": "markdown",
    "missing": "json",
    "done": "text",
    "absent": "json",
}


def collect(text, size, aborted=""):
    deltas = []

    async def run():
        async def emit(**delta):
            deltas.append(delta)

        streamer = CompositeJsonArtifactStreamer(CONFIG, read_sources(SOURCES), "canvas", "me", emit)
        for at in range(0, len(text), size):
            await streamer.feed(text[at : at + size])
        await streamer.finish(aborted)

    asyncio.run(run())
    return deltas


def texts(deltas):
    joined = {}
    for one in deltas:
        joined[one["artifact_name"]] = joined.get(one["artifact_name"], "") + one["text"]
    return joined


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_each_named_value_is_an_artifact_however_the_text_is_cut(size, ascii_only):
    text = "```json\n" + json.dumps(VALUES, ensure_ascii=ascii_only) + "\n```"
    deltas = collect(text, size)
    assert texts(deltas) == {
        "report": 'Up [One](https://example.com/1 "S:1") "quoted"\n',
        "page": (
            '<p><sup class="cite" data-sids="2"><a href="https://example.com/2" target="_blank"'
            ' rel="noopener noreferrer">[S:2]</a></sup></p> 🙂'
        ),
        "notes": "tail [[S:",
        "nested": json.dumps(VALUES["nested"], ensure_ascii=ascii_only),
        "count": "3",
        "rows": "[]",
        "done": "true",
    }
    assert {one["artifact_name"]: one["format"] for one in deltas} == {
        "report": "markdown",
        "page": "html",
        "notes": "markdown",
        **dict.fromkeys(("nested", "count", "rows", "done"), "json"),
    }
    for name in ("report", "page", "notes", "nested", "count", "rows", "done"):
        own = [one for one in deltas if one["artifact_name"] == name]
        assert [one["index"] for one in own] == list(range(len(own)))
        assert [one["completed"] for one in own] == [False] * (len(own) - 1) + [True]
        assert not any("aborted" in one for one in own)


@pytest.mark.parametrize("begun", ['"half', '{"a": ["half", 1'])
@pytest.mark.parametrize(("aborted", "reason"), [("", "eof"), ("policy", "policy")])
def test_an_unfinished_value_is_closed_with_the_reason(begun, aborted, reason):
    deltas = collect(f'{{"report": {begun}', 3, aborted)
    assert texts(deltas) == {"report": begun.removeprefix('"')}
    assert deltas[-1]["completed"]
    assert deltas[-1]["aborted"] == reason


def test_every_instance_of_a_stream_has_its_own_artifacts():
    shown = Shown()
    body = tagged("usage", '{"a": "x"}')
    stream(body + body, emit=shown.emit, composite_cfg={"a": "text"}, composite_channel="USAGE")
    canvas = [one for one in shown if one["marker"] == "canvas"]
    assert [(one["channel_instance"], one["index"], one["text"], one["completed"]) for one in canvas] == [
        (0, 0, "x", False),
        (0, 1, "", True),
        (1, 0, "x", False),
        (1, 1, "", True),
    ]
    assert {one["channel"] for one in canvas} == {"usage"}


FOLLOWUP = ChannelSpec("followup", "json", replace_citations=False, emit_marker="followup")


SUGGESTED = json.dumps({"other": ["no"], "followups": ['Show "all"', " ", 3, ["no"], "Compare"]})


def test_a_followup_channel_becomes_followups():
    shown = Shown()
    text = tagged("followup", SUGGESTED) + tagged("followup", '{"followups": ["Only this", "half')
    stream(text, emit=shown.emit, channels=[FOLLOWUP], artifact_name="response")
    followups = {one["channel_instance"]: one for one in shown if one.get("type") == "chat.followups"}
    assert [one["data"] for one in followups.values()] == [
        {"items": ['Show "all"', "Compare"]},
        {"items": ["Only this"]},
    ]
    assert {(one["marker"], one["text"], one["artifact_name"]) for one in followups.values()} == {
        ("followup", "", "response")
    }
    assert shown.text("followup") == SUGGESTED


def test_a_suggestion_is_sent_as_soon_as_it_is_complete():
    sent = []

    async def run():
        streamer = FollowupStreamer(lambda *, index, data, **_: sent.append((index, data["items"])))
        for char in SUGGESTED:
            await streamer.feed(char)
        await streamer.finish()

    asyncio.run(run())
    assert sent == [(0, ['Show "all"']), (1, ['Show "all"', "Compare"])]


def test_a_stream_that_is_stopped_closes_the_artifacts_that_are_open():
    shown = Shown()

    def stop(*, text, **_):
        raise StreamPolicyViolation("stop")

    with pytest.raises(StreamPolicyViolation):
        stream(
            StallingModel(start_tag("usage") + '{"a": "half'),
            emit=shown.emit,
            subscribers={"usage": [stop]},
            composite_cfg={"a": "text"},
            composite_channel="usage",
        )
    assert [(one["text"], one.get("aborted")) for one in shown if one["marker"] == "canvas"] == [
        ("half", None),
        ("", "policy"),
    ]


def test_plain_functions_receive_artifacts_too():
    heard = []

    async def run():
        streamer = CompositeJsonArtifactStreamer(
            {"a": "text"}, {}, "canvas", "me", lambda *, text, **_: heard.append(text)
        )
        await streamer.feed('{"a": "x"}')
        await streamer.finish()

    asyncio.run(run())
    assert heard == ["x", ""]
