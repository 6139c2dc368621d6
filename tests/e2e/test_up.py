"""`stepline up` on a stage that runs: it changes nothing without need, and finds stalled turns."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from stepline.adapters.aws.table import HEAD, conversation_pk, key
from stepline.local.client.change import TextAppended
from stepline.local.stage.deployed import client, install_environment
from stepline.local.stage.lifecycle import mint
from stepline.model.ids import make_lane, utc
from tests.e2e.session_client import Device, check_devices
from tests.e2e.stage import a_word
from tests.e2e.test_recovery import LONG, check_log
from tests.e2e.test_takeover import lose

pytestmark = pytest.mark.emulator


def test_up_from_another_shell_leaves_a_running_turn_alone(scripted, conversation):
    word, pid = a_word(), scripted.emulator.pid
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=60)
    path = install_environment()["PATH"]
    other = {
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "C",
        "TZ": "Pacific/Apia",
        "TMPDIR": "/var/tmp",
        "HOME": "/var/tmp",
    }
    with Device(scripted, conversation) as device:
        device.session.say(LONG.format(word=word))
        device.until(TextAppended)
        said = scripted.command("up", env={**other, "PATH": f"/opt/elsewhere/bin:{path}"})
        assert "restarting" not in said.stderr
        assert scripted.emulator.pid == pid
        assert word in device.until_settled().answer
        check_devices(scripted, conversation, device)
    assert scripted.entries(conversation, "takeover") == []


@contextmanager
def unreported_ends(stage):
    """Drop the events of executions' ends, as an overload that keeps the sweeper from being called does."""
    events = client("events", stage.deployed)
    (rule,) = [one["Name"] for one in events.list_rules()["Rules"] if "TurnEndedBadly" in one["Name"]]
    events.disable_rule(Name=rule)
    try:
        yield
    finally:
        events.enable_rule(Name=rule)


def grow_old(stage, conversation):
    """Let the turn have been open for a day; the sweeper leaves alone what began just now."""
    client("dynamodb", stage.deployed).update_item(
        TableName=stage.deployed.table,
        Key=key(conversation_pk(make_lane("local", "default", conversation)), HEAD),
        UpdateExpression="SET lane_since = :since",
        ConditionExpression="attribute_exists(lane_open)",
        ExpressionAttributeValues={":since": {"S": utc(datetime.now(UTC) - timedelta(days=1))}},
    )


def test_up_takes_over_a_stalled_turn_while_the_stage_runs(scripted, conversation):
    word, pid = a_word(), scripted.emulator.pid
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=1500)
    with Device(scripted, conversation) as device:
        device.session.say(LONG.format(word=word))
        device.until(TextAppended)
        with unreported_ends(scripted):
            lose(scripted, conversation)
        grow_old(scripted, conversation)
        said = scripted.command("up")
        assert (scripted.emulator.pid, "took over 1 turn" in said.stderr) == (pid, True)
        assert word in device.until_settled().answer
        check_devices(scripted, conversation, device)
    assert len(scripted.entries(conversation, "takeover")) == 1
    check_log(scripted, conversation)


OWN, OTHER = "http://localhost:5173", "http://localhost:5174"


def shared(url, origin, **headers):
    """Return the origin with which an answer is shared, or the status of a refusal."""
    asked = urllib.request.Request(url, headers={"Origin": origin, **headers})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.headers["access-control-allow-origin"]
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def doors(stage, origin):
    """Return what a page of an origin gets from the HTTP API, the websocket and the issuer."""
    bearer = {"Authorization": f"Bearer {mint(stage.deployed, stage.user)}"}
    try:
        with connect(stage.deployed.socket_url, additional_headers=bearer, proxy=None, origin=origin):
            opened = origin
    except InvalidStatus as refused:
        opened = refused.response.status_code
    return (
        shared(f"{stage.deployed.api_url}/v1/conversations", origin, **bearer),
        opened,
        shared(f"{stage.deployed.issuer_url}/.well-known/openid-configuration", origin),
    )


def test_up_lets_pages_of_the_given_origins_call_until_the_next_up(scripted):
    page = scripted.deployed.page_url.rstrip("/")
    try:
        scripted.command("up", "--origin", OWN)
        assert doors(scripted, OWN) == (OWN, OWN, OWN)
        assert doors(scripted, page) == (page, page, page)
        assert doors(scripted, OTHER) == (403, 403, 403)
    finally:
        scripted.command("up")
    assert doors(scripted, OWN) == (403, 403, 403)
