"""Deployments of a stage that exists: in mid-turn, one that fails and is repeated, one that is rolled back, and one from a machine
without its choices.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import boto3
import pytest

from stepline.adapters.aws.table import log_pk
from stepline.errors import InputError
from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.deploy import Desk, Order, check_lost_choices
from stepline.local.cloud.former_versions import recorded_versions
from stepline.local.cloud.program.child import run
from stepline.local.cloud.rollback import roll_stage_back
from stepline.local.cloud.stage_choices import ask_app, read_record
from stepline.local.stage.deployed import client
from stepline.model.ids import make_lane
from tests.e2e.order import check_order, events, terminals
from tests.e2e.release import later_releases
from tests.e2e.release_stack import FUNCTION, ReleaseStack
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


def test_a_deployment_of_this_stage_from_a_machine_without_its_choices_is_refused(deployed, tmp_path):
    """The stage was deployed with an issuer, which it recorded; the other machine has neither its file nor its command line."""
    account = SimpleNamespace(client=lambda service: client(service, deployed))
    record = read_record(account, "local")
    recorded = json.loads(record)
    assert recorded["oidc_issuer"] == deployed.issuer_url
    own = {"endpoint": deployed.endpoint}
    forgotten = ask_app(run, "local", own, project=tmp_path, record=record)
    with pytest.raises(InputError, match=f"oidc_issuer: {re.escape(deployed.issuer_url)} → ") as refused:
        check_lost_choices("local", forgotten, lambda _said: None)
    assert refused.value.reason == "bad_choice"
    named = ask_app(run, "local", {**recorded, **own}, project=tmp_path, record=record)
    assert named.changes == ()


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


@pytest.fixture
def account(deployed):
    """The emulator's account, as the commands for AWS use one."""

    class Emulated(AwsAccount):
        def client(self, service):
            return client(service, deployed)

    return Emulated(boto3.Session(region_name=deployed.region))


@pytest.fixture
def releases_of_one(account):
    """A stack with release 1 of a function, whose versions are kept as those of the stage."""
    template = account.client("cloudformation").get_template(StackName="stepline-local-loop")["TemplateBody"]
    version = next(one for one in template["Resources"].values() if one["Type"] == "AWS::Lambda::Version")
    policies = {key: version[key] for key in ("DeletionPolicy", "UpdateReplacePolicy")}
    stack = ReleaseStack(account.client, policies)
    with stack.deployed():
        yield stack


def test_a_failed_update_is_repeated_and_goes_through(releases_of_one):
    stack = releases_of_one
    assert not stack.update(2, failing=True)
    assert (stack.served(), stack.versions()) == (1, ["1"])
    assert stack.update(2)
    assert stack.served() == 2


def test_a_rollback_serves_the_version_that_served_before(releases_of_one, account, tmp_path):
    stack, lines = releases_of_one, []
    desk = Desk(
        home=tmp_path,
        confirm=lambda _: True,
        say=lines.append,
        open_account=lambda _profile, _region: account,
    )
    for release, failing in ((2, False), (3, True), (4, False)):
        with recorded_versions(account, [FUNCTION], lines.append):
            assert stack.update(release, failing=failing) is not failing
    assert stack.served() == 4
    moved = roll_stage_back(Order(stage="back"), desk)
    assert (stack.served(), moved.keys()) == (2, {FUNCTION})
    with recorded_versions(account, [FUNCTION], lines.append):
        assert stack.update(5)
    roll_stage_back(Order(stage="back"), desk)
    assert stack.served() == 2
