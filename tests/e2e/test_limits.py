"""Limits on the deployed stage: an admin sets them over HTTP, and a chat client shows their end."""

from __future__ import annotations

import json

import pytest

from stepline.model.wire.event import ErrorFrame
from tests.e2e.order import terminals
from tests.e2e.stage import a_word, is_text, read_lines, read_until

pytestmark = pytest.mark.emulator

DAY_S, MINUTE_S = 86_400, 60
SEARCH = "Search for prompt caching and tell me what you find, {word}."


def limits_of(stage):
    """Return where an admin sets the limits of the stage's user, who is in no other test."""
    return f"/v1/tenants/local/projects/default/users/{stage.user}/limits"


def refused(stage, conversation):
    """Return the refusal of a message."""
    said = {"action": "send", "message_id": a_word(), "conversation": conversation, "text": "Hello."}
    with stage.socket() as (socket, next_frame):
        socket.send(json.dumps(said))
        frame = next_frame()
    assert isinstance(frame, ErrorFrame)
    return frame


@pytest.fixture
def conversation():
    return f"e2e-limits-{a_word()}"


def test_a_client_sees_an_admins_budget_and_its_end(stage, conversation):
    admin, user = stage.over_http("boss", role="project_admin"), stage.over_http()
    stage.send("Hello.", conversation)
    (used, *_) = user.get("/v1/limits")["scopes"]
    assert used["used"]["tokens_day"] > 0
    set_ = admin.put(limits_of(stage), {"tokens_day": 1, "version": used["version"]})
    assert (set_["limits"]["tokens_day"], set_["version"]) == (1, 1)
    assert user.ask("PUT", limits_of(stage), json={"tokens_day": 10**9}).status_code == 404

    frame = refused(stage, conversation)
    assert frame.code == "limit_tokens"
    assert 0 < frame.retry_after_s <= DAY_S
    words = ("send", "And again.", "--user", stage.user, "--conversation", conversation)
    shown = stage.command(*words, check=False)
    assert shown.returncode == 1
    assert "error: limit_tokens:" in shown.stderr
    assert "You can send the message again in " in shown.stderr
    shown = stage.command("limits", "--user", stage.user).stdout
    assert " of 1, until " in shown

    admin.put(limits_of(stage), {"tokens_day": None})
    assert terminals(stage.send("And again.", conversation))


def test_the_kill_switch_ends_a_turn_that_runs_before_its_next_round(scripted, conversation):
    admin, word = scripted.over_http("boss", role="tenant_admin"), a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=60)
    with scripted.sending(SEARCH.format(word=word), conversation) as client:
        read_until(client, is_text)
        admin.put(limits_of(scripted), {"stopped": "unpaid"})
        (end,) = terminals(read_lines(client.stdout.read()))
    assert (end["type"], end["data"]["code"]) == ("chat.error", "stopped")
    assert len(scripted.model_requests(word)) == 1

    frame = refused(scripted, conversation)
    assert (frame.code, frame.retry_after_s) == ("stopped", 0)
    assert "unpaid" in frame.message
    scripted.command("limits", "--of", scripted.user, "--resume")
    assert terminals(scripted.send("Hello.", conversation))
