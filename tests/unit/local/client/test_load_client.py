"""The load test's own client, which shares no code with ours: it recovers losses, and reports what is wrong."""

from __future__ import annotations

import json
import time

import pytest

from bench.load_client import LoadClient, LostError
from tests.unit.local.client.gateway import HANG_UP, running_gateway

CONVERSATION = "load-1"
START, TEXT, END = "chat.start", "react.tool.call", "chat.complete"


def frame(which, **fields):
    return json.dumps({"frame": which, "conversation": CONVERSATION, **fields})


def events(n, prev, *types):
    rows = [{"type": kind, "turn_id": "turn_1", "data": {"place": 2}} for kind in types]
    return frame("events", n=n, prev=prev, events=rows)


ACK = frame("ack", message_id=f"m_{CONVERSATION}", n=1, kind="prompt")
SYNC = frame("sync", n=4)
WHOLE = (events(1, 0, START), events(2, 1, TEXT), events(4, 2, END))


@pytest.fixture
def play():
    """Return a function that plays a turn on a gateway with this script, and returns the client and its messages."""
    with running_gateway() as gateway:

        def play_with(script):
            gateway.script = script
            client = LoadClient(gateway.url, lambda: "token", CONVERSATION, "hello", time.monotonic)
            client.dial(time.monotonic() + 60)
            try:
                client.play(time.monotonic() + 60)
            finally:
                client.close()
            return client, list(gateway.requests.queue)

        yield play_with


def test_a_turn_is_followed_to_its_end(play):
    client, said = play(lambda _: [ACK, *WHOLE])
    assert client.heard.wrong() == []
    assert list(client.heard.batches) == [1, 2, 4]
    assert [request["action"] for request in said] == ["send"]


def test_a_gap_is_requested_and_a_duplicate_counts_once(play):
    client, said = play(lambda request: [ACK, WHOLE[2]] if request["action"] == "send" else [*WHOLE, SYNC])
    assert client.heard.wrong() == []
    assert said[1] == {"action": "resume", "conversation": CONVERSATION, "after": 0}
    client, _ = play(lambda _: [ACK, WHOLE[0], WHOLE[0], *WHOLE[1:]])
    assert client.heard.wrong() == []
    assert client.heard.again == 1


def test_an_unacknowledged_message_is_sent_again_under_its_id(play):
    sent = []

    def script(request):
        sent.append(request)
        return [HANG_UP] if len(sent) == 1 else [ACK, *WHOLE]

    client, said = play(script)
    assert client.heard.wrong() == []
    assert said[0] == said[1]
    assert client.heard.dialled == 2


def test_an_event_that_follows_another_than_it_says_is_lost(play):
    with pytest.raises(LostError, match="4 follows 1, not 2"):
        play(lambda _: [ACK, WHOLE[0], WHOLE[1], events(4, 1, END)])


def test_a_turn_that_ends_twice_or_begins_twice_is_wrong(play):
    client, _ = play(lambda _: [ACK, events(1, 0, START), events(2, 1, END, END)])
    assert client.heard.wrong() == ["ended with ['chat.complete', 'chat.complete']"]
    client, _ = play(lambda _: [ACK, events(1, 0, START, START), events(2, 1, "chat.error")])
    assert client.heard.wrong() == ["ended with ['chat.error']", "2 turns began"]


def test_queue_positions_are_recorded_from_every_frame_that_has_one(play):
    places = (
        events(1, 0, START, "turn.queued"),
        frame("sync", n=1, place=1),
        events(2, 1, "turn.begun", END),
    )
    client, _ = play(lambda _: [ACK, *places])
    assert client.heard.positions == [2, 1]


def test_a_refusal_for_good_is_lost(play):
    with pytest.raises(LostError, match="refused with not_found"):
        play(lambda _: [frame("error", code="not_found", message="no")])
