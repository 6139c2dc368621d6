"""A stage goes back to a snapshot, on a new table: what was later is gone cleanly, and conversations go on."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from stepline.adapters.aws.table import log_pk
from stepline.local.client.change import Refused, TurnEnded
from stepline.local.client.reducer import BEYOND_END
from stepline.local.cloud.restore_stage import bring_back
from stepline.local.stage.deployed import client, load
from stepline.model.ids import make_lane
from tests.e2e.order import terminals
from tests.e2e.session_client import Device, stored_events
from tests.e2e.snapshot import EmulatedAccount, Snapshot, erase_again
from tests.e2e.stage import Stage, a_word, answer_of, is_text, read_until
from tests.e2e.test_kill import sweeping
from tests.e2e.test_recovery import LONG, check_log

pytestmark = pytest.mark.emulator

VARIABLE = "STEPLINE_RESTORED_TABLE"


class RewoundDevice(Device):
    """A device whose conversation may turn out to be shorter than it has seen; it begins anew then."""

    def move_to(self, stage):
        """Compare with another stage's log from now on."""
        self._stored = lambda: stored_events(stage, self.state.conversation)

    def _note(self, effect):
        if isinstance(effect, Refused) and effect.frame.code == BEYOND_END:
            self.effects.append(effect)
            self.events.clear()
            self.texts.clear()
        else:
            super()._note(effect)


@contextmanager
def versions_kept(deployed):
    """Let the bucket keep versions, as it does in AWS."""
    s3 = client("s3", deployed)
    s3.put_bucket_versioning(Bucket=deployed.bucket, VersioningConfiguration={"Status": "Enabled"})
    try:
        yield
    finally:
        s3.put_bucket_versioning(Bucket=deployed.bucket, VersioningConfiguration={"Status": "Suspended"})


@contextmanager
def restored(stage, snapshot):
    """Yield the stage on a table made of a snapshot, deployed there; afterwards it is on its own again."""
    name = f"stepline-local-restored-{a_word()}"
    deployed, began = stage.deployed, datetime.now(UTC)
    try:
        snapshot.restore(name)
        bring_back(EmulatedAccount(deployed), deployed.bucket, at=snapshot.at, until=began)
        erase_again(deployed, name)
        stage.command("up", env={VARIABLE: name})
        then = Stage(load())
        then.user = stage.user
        assert then.deployed.table == name
        assert then.deployed.machine_arn != deployed.machine_arn
        yield then
    finally:
        stage.command("up")
        assert load().table == deployed.table
        client("dynamodb", deployed).delete_table(TableName=name)


def keys(stage, conversation):
    """Return the stored batches of a conversation, by their keys."""
    lane = make_lane("local", "default", conversation)
    found = client("dynamodb", stage.deployed).query(
        TableName=stage.deployed.table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": log_pk(lane)}},
    )["Items"]
    return {row["sk"]["S"]: row["body"] for row in found if "body" in row}


def test_conversations_continue_from_a_snapshot_without_later_batches(scripted, conversation):
    said, lost, last, open_word = (a_word() for _ in range(4))
    names = {name: f"{conversation}-{name}" for name in ("talk", "open", "deleted", "new")}
    with versions_kept(scripted.deployed), RewoundDevice(scripted, names["talk"]) as device:
        device.session.say(LONG.format(word=said))
        assert said in device.until_settled().answer
        scripted.send(f"Tell me about the word {lost}.", names["deleted"])
        scripted.fault(kind="slow_tokens", match=open_word, count=1, token_delay_ms=40)
        with scripted.sending(LONG.format(word=open_word), names["open"]) as sender:
            seen = read_until(sender, is_text)
            snapshot = Snapshot(scripted.deployed)
            seen += read_until(sender, lambda line: line.get("terminal", False))
        assert open_word in answer_of(seen)
        before = keys(scripted, names["open"])

        device.session.say(LONG.format(word=lost))
        assert lost in device.until_settled().answer
        scripted.send(f"Tell me about the word {lost}.", names["new"])
        scripted.command("delete", names["deleted"], "--yes", "--user", scripted.user)

        with restored(scripted, snapshot) as then:
            # What was said before is there, what was said later never was: to a client that had seen it, either.
            device.session.say(f"Tell me about the word {last}.")
            device.until(lambda effect: isinstance(effect, Refused) and effect.frame.code == BEYOND_END)
            device.until(lambda effect: isinstance(effect, TurnEnded) and last in effect.answer)
            device.move_to(then)
            device.sync()
            assert device.events == stored_events(then, names["talk"])
            assert [entry["text"] for entry in then.entries(names["talk"], "in")] == [
                LONG.format(word=said),
                f"Tell me about the word {last}.",
            ]
            check_log(then, names["talk"])
            assert lost not in str(then.log(names["talk"]))

            # The turn that was open goes on in the new machine, from what the snapshot has of it.
            with sweeping(then):
                rest = then.watch(names["open"])
            assert len(terminals(rest)) == 1
            assert open_word in answer_of(rest)
            check_log(then, names["open"])
            after = keys(then, names["open"])
            assert [n for n, body in after.items() if before.get(n) == body]
            (written,) = [
                entry for entry in then.entries(names["open"], "result") if entry["tool_id"] == "react.write"
            ]
            assert written["status"] == "ok"

            # What was begun later is not there, and its name is free; what was deleted later has not come back.
            answer = answer_of(then.send(f"Tell me about the word {last}.", names["new"]))
            assert last in answer
            assert lost not in str(then.log(names["new"]))
            words = ("send", "Hello there.", "--conversation", names["deleted"], "--new", "--user", then.user)
            refused = then.command(*words, check=False)
            assert "conversation_deleted" in refused.stderr
            assert f"CONV#local#default#{names['talk']}" not in then.open_lanes()

    assert lost in str(scripted.log(names["talk"]))
