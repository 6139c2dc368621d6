"""Feedback on the stage: over HTTP and the socket, heard by another connection, read by the model, counted and withdrawn."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from stepline.model.wire.event import AckFrame, ErrorFrame, EventFrame, SyncFrame
from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator


def listen(socket, next_frame, conversation):
    """Subscribe, and drop what was replayed."""
    socket.send(json.dumps({"action": "resume", "conversation": conversation, "after": 0}))
    while not isinstance(next_frame(), SyncFrame):
        pass


def until(next_frame, kind):
    while not isinstance(frame := next_frame(), kind):
        pass
    return frame


def newest_request(stage, word):
    return json.dumps(stage.model_requests(word)[-1])


def rate_from_two_doors(scripted, user, url, why):
    """Rate a turn over HTTP, then over the socket, while another connection listens."""
    _, _, _, conversation, _, turn, _ = url.split("/")
    with scripted.socket() as (mine, my_next), scripted.socket() as (other, others_next):
        listen(mine, my_next, conversation)
        listen(other, others_next, conversation)
        said = user.put(url, {"reaction": "not_ok", "text": f"Too {why}."})
        assert (said["reaction"], said["text"]) == ("not_ok", f"Too {why}.")
        for next_frame in (my_next, others_next):
            (event,) = until(next_frame, EventFrame).events
            assert (event.type, event.turn_id, event.data["reaction"]) == ("turn.feedback", turn, "not_ok")

        message = {"action": "feedback", "conversation": conversation, "message_id": "f1", "turn": turn}
        for _ in range(2):
            mine.send(json.dumps({**message, "reaction": "ok", "text": f"Still {why}."}))
        acks = [until(my_next, AckFrame) for _ in range(2)]
        assert [(ack.message_id, ack.kind, ack.duplicate) for ack in acks] == [
            ("f1", "feedback", False),
            ("f1", "feedback", True),
        ]
        (event,) = until(others_next, EventFrame).events
        assert (event.turn_id, event.data["text"]) == (turn, f"Still {why}.")
        mine.send(json.dumps({**message, "message_id": "f2", "turn": "turn_none", "reaction": "ok"}))
        assert until(my_next, ErrorFrame).code == "turn_not_found"


def count(user, conversation, turn, began):
    """Ask for the period's rates, and for its conversations."""
    period = {"from": began.isoformat(), "to": (began + timedelta(hours=1)).isoformat()}
    rates = user.get("/v1/feedback", **period)
    assert (rates["scope"], rates["user"]["ok"] >= 1, rates["user"]["satisfaction"] > 0) == (
        "own",
        True,
        True,
    )
    found = user.post(
        "/conversations/local/default/feedback/conversations-in-period",
        {"start": period["from"], "end": period["to"], "include_turns": True, "limit": 500},
    )
    (item,) = [one for one in found["items"] if one["conversation_id"] == conversation]
    assert item["feedback_counts"] == {
        "total": 1,
        "user": 1,
        "machine": 0,
        "ok": 1,
        "not_ok": 0,
        "neutral": 0,
    }
    assert item["turns"][0]["turn_id"] == turn


def test_feedback_is_sent_read_counted_and_withdrawn(scripted, conversation):
    word, why, user = a_word(), a_word(), scripted.over_http()
    began = datetime.now(UTC) - timedelta(minutes=1)
    scripted.send(f"Hello {word}.", conversation)
    (turn,) = [one["turn_id"] for one in user.get(f"/v1/conversations/{conversation}/timeline")["turns"]]
    url = f"/v1/conversations/{conversation}/turns/{turn}/feedback"

    rate_from_two_doors(scripted, user, url, why)
    scripted.send(f"And {word}?", conversation)
    assert f"| user | ok | Still {why}." in newest_request(scripted, word)
    count(user, conversation, turn, began)

    older = f"/conversations/local/default/{conversation}/turns/{turn}/feedback"
    assert user.post(older, {"reaction": None})["cleared"] is True
    scripted.send(f"Again {word}.", conversation)
    request = newest_request(scripted, word)
    assert "| user | withdrawn | " in request
    assert f"Still {why}." not in request
    events = [
        line for line in scripted.watch(conversation, "--after", "0") if line.get("type") == "turn.feedback"
    ]
    assert [(line["turn_id"], line["data"]["reaction"]) for line in events] == [
        (turn, "not_ok"),
        (turn, "ok"),
        (turn, None),
    ]


def test_the_command_line_rates_the_newest_turn_and_a_stranger_nothing(stage, conversation):
    stage.send("Hello there.", conversation)
    stage.command("feedback", conversation, "ok", "--text", "good", "--user", stage.user)
    assert [entry["text"] for entry in stage.entries(conversation, "feedback")] == ["good"]
    turn = stage.entries(conversation, "feedback")[0]["turn"]
    path = f"/v1/conversations/{conversation}/turns/{turn}/feedback"
    foreign = stage.over_http("mallory").ask("PUT", path, json={"reaction": "ok"})
    absent = stage.over_http("mallory").ask(
        "PUT", path.replace(conversation, "e2e-none"), json={"reaction": "ok"}
    )
    assert (foreign.status_code, foreign.json()) == (absent.status_code, absent.json())
    assert foreign.json()["code"] == "not_found"


def test_a_machine_signs_in_as_an_admin_and_rates_beside_the_user(stage, conversation):
    stage.send("Hello there.", conversation)
    stage.command("feedback", conversation, "ok", "--user", stage.user)
    turn = stage.entries(conversation, "feedback")[0]["turn"]
    path = f"/v1/conversations/{conversation}/turns/{turn}/machine-feedback"
    said = {"reaction": "not_ok", "text": "No source.", "confidence": 0.8}
    assert stage.over_http().ask("PUT", path, json=said).json()["code"] == "not_found"
    machine = stage.over_http("checker", role="project_admin")
    assert machine.put(path, said)["reaction"] == "not_ok"
    (rated,) = stage.over_http().post(
        f"/conversations/local/default/{conversation}/turns-with-feedbacks", {}
    )["turns"]
    assert [(one["origin"], one["reaction"]) for one in rated["feedbacks"]] == [
        ("user", "ok"),
        ("machine", "not_ok"),
    ]
