"""A deployment in mid-turn: functions of two releases work on one turn, and each reads what the other wrote."""

from __future__ import annotations

import json

import pytest

from stepline.adapters.aws.table import log_pk
from stepline.local.stage.deployed import client
from stepline.model.ids import make_lane
from tests.e2e.order import check_order, events, terminals
from tests.e2e.release import later_releases
from tests.e2e.stage import a_word, answer_of, is_text, read_until
from tests.e2e.test_recovery import LONG, check_log

pytestmark = pytest.mark.emulator


def stored(stage, conversation):
    """Return the stored batches of a conversation, with fields that this release does not read."""
    pages = (
        client("dynamodb", stage.deployed)
        .get_paginator("query")
        .paginate(
            TableName=stage.deployed.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": log_pk(make_lane("local", "default", conversation))}},
        )
    )
    return [json.loads(item["body"]["B"]) for page in pages for item in page["Items"]]


def releases(batches, kind):
    """Return which release wrote each batch with an entry of a kind."""
    return [
        batch.get("release", "ours") for batch in batches if kind in [e["kind"] for e in batch["entries"]]
    ]


def results(count):
    """Return a predicate that is True once `count` actions are done."""
    seen = []

    def is_last(line):
        seen.extend([line] if line.get("type") == "react.tool.result" else [])
        return len(seen) == count

    return is_last


def test_a_turn_continues_through_a_deployment_and_its_rollback(scripted, conversation):
    word = a_word()
    with later_releases(scripted) as released:
        with scripted.sending(LONG.format(word=word), conversation) as sender:
            seen = read_until(sender, is_text)
            released.publish("decide")
            seen += read_until(sender, results(2))
            released.publish("act")
            seen += read_until(sender, lambda line: line.get("terminal", False))
        steps = [
            json.loads(event["stateExitedEventDetails"]["output"])
            for event in scripted.history(conversation, events(seen, "chat.start")[0]["n"])
            if event["type"].endswith("StateExited")
        ]
    check_order(seen)
    assert len(terminals(seen)) == 1
    assert word in answer_of(seen)
    check_log(scripted, conversation)
    batches = stored(scripted, conversation)
    assert releases(batches, "decision") == ["ours", "later", "later", "later"]
    assert releases(batches, "result") == ["ours", "ours", "later"]
    assert {step.get("release", "ours") for step in steps} == {"ours", "later"}

    assert word in answer_of(scripted.send("What did I say before?", conversation))
    check_log(scripted, conversation)
    assert releases(stored(scripted, conversation), "decision")[4:] == ["ours"]
