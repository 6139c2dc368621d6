"""A deletion on the deployed stage, while a turn runs: what its clients hear, and what the table and the bucket have left."""

from __future__ import annotations

import json
import secrets
import time

import pytest

from stepline.local.stage.deployed import HOME, client
from stepline.model.wire.event import ErrorFrame, EventFrame, FeedFrame, SyncFrame, WatchingFrame
from tests.e2e.order import terminals
from tests.e2e.stage import a_word, is_text, read_lines, read_until

pytestmark = pytest.mark.emulator

FORGOTTEN_S = 60
LONG_AGO = "2020-01-01T00:00:00.000Z"


class Storage:
    """The table and the bucket of the stage, as they are, and the function that erases."""

    def __init__(self, deployed):
        self.deployed = deployed
        self.table, self.s3 = client("dynamodb", deployed), client("s3", deployed)

    def erase(self):
        """Let the eraser make a pass, and return what it says."""
        name = self.deployed.machine_arn.rpartition(":")[2].rpartition("-")[0]
        answer = client("lambda", self.deployed).invoke(FunctionName=f"{name}-eraser")
        assert "FunctionError" not in answer, answer["Payload"].read()
        return json.load(answer["Payload"])

    def rows(self, *words):
        """Return the rows that have one of these words anywhere."""
        pages = self.table.get_paginator("scan").paginate(TableName=self.deployed.table)
        return [row for page in pages for row in page["Items"] if any(word in str(row) for word in words)]

    def objects(self, word):
        """Return the keys of all versions and delete markers of objects that have this word in their key."""
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=self.deployed.bucket)
        kinds = ("Versions", "DeleteMarkers")
        found = [one["Key"] for page in pages for kind in kinds for one in page.get(kind, ())]
        return [key for key in found if word in key]

    def age(self, conversation):
        """Let the deletion be long ago, and its next pass due."""
        (stone,) = [row for row in self.rows(conversation) if row["sk"]["S"] == "TOMB"]
        self.table.update_item(
            TableName=self.deployed.table,
            Key={"pk": stone["pk"], "sk": stone["sk"]},
            UpdateExpression="SET deleted_at = :then, lane_since = :then",
            ExpressionAttributeValues={":then": {"S": LONG_AGO}},
        )

    def erase_wholly(self, conversation):
        """Make passes, each as if its time had come, until nothing is left; return how many were needed."""
        for passes in range(1, 9):
            self.age(conversation)
            self.erase()
            (stone,) = [row for row in self.rows(conversation) if row["sk"]["S"] == "TOMB"]
            if "done_at" in stone:
                return passes
        raise AssertionError(f"not erased: {self.rows(conversation)}")


@pytest.fixture
def storage(deployed):
    return Storage(deployed)


@pytest.fixture
def conversation():
    return f"e2e-erased-{a_word()}"


def await_forgotten(word):
    """Wait until the emulator has written its files without what was deleted."""
    until = time.monotonic() + FORGOTTEN_S
    folders = [HOME / "data" / name for name in ("changes", "state")]
    while found := [path for folder in folders for path in folder.iterdir() if has_word(path, word)]:
        assert time.monotonic() < until, found
        time.sleep(0.5)


def has_word(path, word):
    try:
        return path.is_file() and word.encode() in path.read_bytes()
    except FileNotFoundError:  # it was written anew meanwhile
        return True


def status(lines):
    return [
        line["data"]["state"]
        for line in lines
        if line.get("type") == "conv.status" and line["data"]["state"] == "deleted"
    ]


def refusal(stage, conversation):
    """Return the code with which a message to the conversation is refused."""
    said = {"action": "send", "message_id": a_word(), "conversation": conversation, "text": "Again."}
    with stage.socket() as (socket, next_frame):
        socket.send(json.dumps(said))
        return next_frame().code


def test_a_conversation_that_is_deleted_while_a_turn_runs_leaves_its_tombstone(
    scripted, storage, conversation
):
    word, other, kept = a_word(), f"u{secrets.token_hex(4)}", f"e2e-kept-{a_word()}"
    scripted.send("Hello, this stays.", kept, user=other)
    user, url = scripted.over_http(), f"/v1/conversations/{conversation}"
    words = ("send", "And again.", "--user", scripted.user, "--conversation")
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=60)
    with scripted.sending(f"Tell me about the word {word}.", conversation) as sender:
        read_until(sender, is_text)
        first = user.ask("DELETE", url)
        assert (first.status_code, first.json()["state"]) == (202, "pending")
        ended = read_lines(sender.stdout.read())
    assert status(ended) == ["deleted"]
    assert not terminals(ended)

    # Resent, read, listed, requested by another user, and deleted again.
    assert refusal(scripted, conversation) == "conversation_deleted"
    assert "conversation_deleted" in scripted.command(*words, conversation, check=False).stderr
    assert user.ask("GET", url).json()["code"] == "conversation_deleted"
    assert user.get("/v1/conversations")["items"] == []
    stranger = scripted.over_http(other)
    assert stranger.ask("GET", url).json()["code"] == "not_found"
    assert stranger.ask("DELETE", url).json()["code"] == "not_found"
    assert user.ask("DELETE", url).json() == first.json()

    storage.erase_wholly(conversation)
    (left,) = storage.rows(conversation, word)
    assert left["sk"] == {"S": "TOMB"}
    assert scripted.user not in str(left)
    assert storage.objects(conversation) == []
    assert user.ask("DELETE", url).json()["state"] == "done"
    assert refusal(scripted, conversation) == "conversation_deleted"
    assert storage.rows(conversation, word) == [left]

    (row,) = stranger.get("/v1/conversations")["items"]
    assert (row["conversation"], row["turns"]) == (kept, 1)
    assert stranger.get(f"/v1/conversations/{kept}/events")["events"]


def test_watchers_of_the_list_are_notified_of_a_deleted_conversation(stage, conversation):
    stage.send("Hello.", conversation)
    with stage.socket() as (socket, next_frame):
        socket.send(json.dumps({"action": "watch"}))
        assert isinstance(next_frame(), WatchingFrame)
        assert stage.over_http().ask("DELETE", f"/v1/conversations/{conversation}").status_code == 202
        notice = next_frame()
        assert isinstance(notice, FeedFrame)
        assert [event.data["state"] for event in notice.events] == ["deleted"]
        socket.send(json.dumps({"action": "resume", "conversation": conversation, "after": 0}))
        while not isinstance(answer := next_frame(), ErrorFrame):
            assert answer == notice  # the eraser sends it again
        assert answer.code == "conversation_deleted"


def test_an_erased_user_has_nothing_left_and_is_notified(stage, storage, conversation):
    word, kept = a_word(), f"e2e-kept-{a_word()}"
    other = f"u{secrets.token_hex(4)}"
    stage.send(f"Hello, {word}.", conversation)
    stage.send("Hello, this stays.", kept, user=other)
    user = stage.over_http()
    pages = [user.get("/v1/me/export")]
    assert pages[0]["conversation"]["conversation"] == conversation
    assert word in json.dumps(pages[0]["documents"])
    with stage.socket() as (socket, next_frame):
        for message in ({"action": "watch"}, {"action": "resume", "conversation": conversation, "after": 0}):
            socket.send(json.dumps(message))
        while not isinstance(next_frame(), SyncFrame):
            pass  # a resume after the erasure is refused
        asked = user.ask("POST", "/v1/me/erasure")
        assert (asked.status_code, asked.json()["state"]) == (202, "pending")
        storage.erase()
        frames = []
        while not (frames and isinstance(frames[-1], ErrorFrame)):
            frames.append(next_frame())
        assert frames[-1].code == "account_erased"
        assert any(
            event.data.get("state") == "deleted"
            for frame in frames
            if isinstance(frame, EventFrame)
            for event in frame.events
        )
    assert user.get("/v1/conversations")["items"] == []
    assert user.get("/v1/me/erasure")["conversations"] == 1
    storage.erase_wholly(conversation)
    assert [row["sk"]["S"] for row in storage.rows(conversation, word)] == ["TOMB"]
    assert storage.objects(conversation) == []
    await_forgotten(word)
    (row,) = stage.over_http(other).get("/v1/conversations")["items"]
    assert row["conversation"] == kept
