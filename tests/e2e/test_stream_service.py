"""A conversation read as a stream over HTTP: through the gateway, its routes and the function that waits."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
import pytest

from stepline.local.client.state import ClientState
from stepline.model.wire.event import CONTROL_LANE, DeltaFrame, EventFrame, Frame
from tests.e2e.session_client import Device, stored_events
from tests.e2e.stage import a_word
from tests.support.fold import fold_frames

pytestmark = pytest.mark.emulator

ASKED = "Describe the word {word}."
SLOW_MS = 30
PAGE = msgspec.json.Decoder(list[EventFrame | DeltaFrame])
NEXT, UP_TO_DATE = "Stream-Next-Offset", "Stream-Up-To-Date"


class StreamClient:
    """Reads a conversation by offsets; each offset must be greater than the one before it."""

    def __init__(self, stage, conversation, offset="-1"):
        self._user, self._path = stage.over_http(), f"/v1/conversations/{conversation}/stream"
        self.offset, self.frames = offset, list[Frame]()
        self.state = ClientState(conversation=conversation)

    def ask(self, method="GET", headers=None, **query):
        return self._user.ask(method, self._path, params=query, headers=headers)

    def read(self, **query):
        """Take the next page."""
        answer = self.ask(offset=self.offset, **query)
        assert answer.status_code in (HTTPStatus.OK, HTTPStatus.NO_CONTENT), answer.text
        found = PAGE.decode(answer.content) if answer.content else []
        after = answer.headers[NEXT]
        assert self.offset in ("-1", "now") or (after > self.offset) == bool(found)
        self.offset = after
        self.frames += found
        self.state, _ = fold_frames(self.state, found)
        return answer

    def until_ended(self):
        """Wait for pages until the turn has ended."""
        while "chat.complete" not in self.kinds():
            self.read(live="long-poll")
        return self

    def kinds(self):
        return {
            event.type for frame in self.frames if isinstance(frame, EventFrame) for event in frame.events
        }

    def answer_text(self):
        """Return the running text of the answer; it must continue where it ended."""
        text = ""
        for frame in self.frames:
            if isinstance(frame, DeltaFrame) and frame.lane == "answer.0":
                assert frame.off == len(text), "running text is lost, or sent twice"
                text += frame.text
        return text

    def check(self, stage, conversation):
        """Assert that each event of the log has arrived once and in order."""
        expected = [n for n, _ in stored_events(stage, conversation)]
        assert [frame.n for frame in self.frames if isinstance(frame, EventFrame)] == expected


def test_a_reader_catches_up_and_waits_while_a_turn_streams_and_loses_nothing(scripted, conversation):
    word = a_word()
    scripted.send("Hello there.", conversation)
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    reader = StreamClient(scripted, conversation)
    assert reader.read().headers[UP_TO_DATE] == "true"
    before = reader.offset
    with Device(scripted, conversation) as device:
        device.session.say(ASKED.format(word=word))
        device.until_answering()
        restarted = StreamClient(
            scripted, conversation, before
        )  # another process, from the offset that was kept
        while not restarted.answer_text():
            restarted.read(live="long-poll")
        middle = restarted.offset
        assert reader.ask("HEAD").headers[NEXT] >= middle
        restarted.until_ended()
        end = device.until_idle()
    shown = restarted.answer_text()
    assert shown
    assert end.answer.startswith(shown)
    assert any(isinstance(one, DeltaFrame) and one.lane == CONTROL_LANE for one in restarted.frames)
    reader.frames += restarted.frames
    reader.check(scripted, conversation)
    # An offset within text that has settled leads to the events alone, and to the same state.
    late = StreamClient(scripted, conversation, middle).until_ended()
    assert late.answer_text() == ""
    whole = StreamClient(scripted, conversation).until_ended()
    assert whole.offset == late.offset == restarted.offset
    whole.check(scripted, conversation)


def test_a_wait_ends_without_content_before_the_gateway_does(stage, conversation):
    stage.send("Hello there.", conversation)
    answer = StreamClient(stage, conversation, "now").read(live="long-poll")
    assert (answer.status_code, answer.content, answer.headers[UP_TO_DATE]) == (204, b"", "true")
    assert int(answer.headers["Stream-Cursor"]) > 0


def test_caches_and_tags_are_those_of_the_protocol(stage, conversation):
    stage.send("Hello there.", conversation)
    reader = StreamClient(stage, conversation)
    whole, head = reader.ask(), reader.ask("HEAD")
    assert (head.status_code, head.content, head.headers[NEXT]) == (200, b"", whole.headers[NEXT])
    assert (head.headers["Content-Type"], head.headers["Cache-Control"]) == ("application/json", "no-store")
    assert "ETag" not in head.headers
    tag = whole.headers["ETag"]
    same = reader.ask(headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert same.headers[NEXT] == whole.headers[NEXT]
    stage.send("Hello again.", conversation)
    more = reader.ask(headers={"If-None-Match": tag})
    assert (more.status_code, more.headers["ETag"] != tag) == (200, True)


REFUSED = (
    ({"offset": "no offset"}, "bad_offset"),
    ({"offset": "999999999999"}, "resume_beyond_end"),
    ({"offset": "-1", "live": "sse"}, "bad_message"),
    ({"live": "long-poll"}, "bad_message"),
)
"""Bad reads, and their codes."""


def test_a_bad_read_and_a_foreign_stream_are_problems_with_a_code(stage, conversation):
    absent = StreamClient(stage, conversation).ask()
    stage.send("Hello there.", conversation)
    reader = StreamClient(stage, conversation)
    for query, code in REFUSED:
        answer = reader.ask(**query)
        assert (answer.status_code, answer.json()["code"]) == (400, code), query
        assert answer.headers["Content-Type"] == "application/problem+json"
    stage.user = f"{stage.user}x"
    foreign = StreamClient(stage, conversation)
    assert (foreign.ask().status_code, absent.status_code) == (404, 404)
    assert foreign.ask().json()["code"] == absent.json()["code"] == "not_found"
    assert (foreign.ask("HEAD").status_code, foreign.ask("HEAD").content) == (404, b"")
