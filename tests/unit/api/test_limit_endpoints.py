"""Limits over HTTP: effective limits, limits set by admins, and their visibility."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepline.adapters.memory.model import Say
from stepline.model.ids import person
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.usage import Usage
from stepline.ports.channel import Role
from tests.support.api_caller import Caller, read
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

TENANT = "/v1/tenants/acme/limits"
PROJECT = "/v1/tenants/acme/projects/support/limits"
ADA = "/v1/tenants/acme/projects/support/users/ada/limits"


class Talk:
    """A conversation of ada that has used 1000 tokens, and callers of its stage."""

    def __init__(self, **policy: Any) -> None:
        spent = Usage(input_tokens=900, output_tokens=100)
        self.conversation = Conversation(Say(text=answered("Hello."), usage=spent), **policy)
        self.conversation.send()
        self.conversation.run()

    def caller(self, role: Role = "user", user: str = USER) -> Caller:
        return Caller(self.conversation.ports, role=role, user=user)

    def put(self, path: str, role: Role = "tenant_admin", **limits: Any) -> Any:
        return read(self.caller(role).ask("PUT", path, limits))

    def own(self, role: Role = "user", user: str = USER) -> dict[str, Any]:
        return {one["scope"]: one for one in self.caller(role, user).get("/v1/limits")["scopes"]}


def test_every_user_reads_their_identity_limits_and_resets() -> None:
    talk = Talk(limits=ScopeLimits(user=Limits(tokens_day=10**6)))
    answer = talk.caller().get("/v1/limits")
    assert {name: answer[name] for name in ("tenant", "project", "user", "role")} == {
        "tenant": "acme",
        "project": "support",
        "user": "ada",
        "role": "user",
    }
    user = talk.own()["user"]
    assert (user["limits"], user["given"], user["version"]) == ({"tokens_day": 10**6}, {}, 0)
    assert user["used"]["tokens_day"] == 1000
    assert (user["minute_ends_at"], user["day_ends_at"], user["month_ends_at"]) == (
        "2026-01-01T00:01:00.000Z",
        "2026-01-02T00:00:00.000Z",
        "2026-02-01T00:00:00.000Z",
    )


def test_a_user_sees_only_the_usage_of_a_projects_set_limits() -> None:
    talk = Talk()
    assert "tokens_day" not in talk.own(user="bob")["project"]["used"]
    assert talk.own("project_admin", "bob")["project"]["used"]["tokens_day"] == 1000
    assert "tokens_day" not in talk.own("project_admin", "bob")["tenant"]["used"]
    talk.put(PROJECT, tokens_month=9000)
    used = talk.own(user="bob")["project"]["used"]
    assert (used["tokens_month"], "tokens_day" in used, "usd_month" in used) == (1000, False, False)


def test_a_set_limit_replaces_the_default_until_it_is_null() -> None:
    talk = Talk(limits=ScopeLimits(user=Limits(turns_at_once=3, usd_day=1.5)))
    set_ = talk.put(ADA, usd_day=9, stopped="unpaid")
    assert set_["limits"] == {"turns_at_once": 3, "usd_day": 9.0, "stopped": "unpaid"}
    assert set_["given"] == {"usd_day": 9.0, "stopped": "unpaid"}
    again = talk.put(ADA, usd_day=None)
    assert (again["limits"], again["given"], again["version"]) == (
        {"turns_at_once": 3, "usd_day": 1.5},
        {},
        2,
    )


def test_concurrent_turns_are_counted_if_they_are_limited() -> None:
    talk = Talk()
    talk.put(ADA, turns_at_once=2)
    talk.conversation.send("again", id="m2")
    assert talk.own()["user"]["used"]["turns"] == 1


def test_a_write_over_a_concurrent_change_of_limits_is_refused() -> None:
    talk = Talk()
    seen = talk.put(PROJECT, usd_day=1)["version"]
    talk.put(PROJECT, usd_day=2, version=seen)
    refused = talk.caller("project_admin").ask("PUT", PROJECT, {"usd_day": 3, "version": seen})
    assert (refused.status, refused.code) == (412, "limits_changed")
    assert talk.put(PROJECT, usd_day=4)["limits"] == {"usd_day": 4.0}


@pytest.mark.parametrize(
    "body",
    [
        {"usd_day": -0.01},
        {"usd_day": "5"},
        {"usd_day": 1e12},
        {"tokens_day": 1.5},
        {"tokens_day": -1},
        {"turns_at_once": 1001},
        {"storage_bytes": 10**16},
        {"stopped": "x" * 201},
        {"stopped": True},
        {"dollars": 5},
        {"tenant": "umbrella"},
        {"version": -1},
        [],
    ],
)
def test_an_invalid_limit_is_refused_and_sets_nothing(body: Any) -> None:
    talk = Talk()
    answer = talk.caller("tenant_admin").ask("PUT", TENANT, body)
    assert (answer.status, answer.code) == (400, "bad_message")
    assert talk.caller("tenant_admin").get(TENANT)["version"] == 0


def test_a_user_name_may_be_any_name_of_a_token() -> None:
    talk = Talk()
    path = "/v1/tenants/acme/projects/support/users/auth0|a/b%20c/limits"
    talk.put(path, "project_admin", tokens_day=7)
    assert talk.own(user="auth0|a/b c")["user"]["limits"]["tokens_day"] == 7


def test_the_log_names_the_setter_account_and_limits_without_text(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk()
    with caplog.at_level(logging.INFO, logger="stepline"):
        talk.put(ADA, usd_day=2, stopped="a word about ada")
    (line,) = [one for one in caplog.records if one.message == "limits set"]
    assert line.limits == {"usd_day": 2.0}  # type: ignore[attr-defined]  # a field of the line
    assert (line.stopped, line.version, line.by) == (True, 1, person("acme", "support", "ada"))  # type: ignore[attr-defined]  # as above
    assert not [value for value in vars(line).values() if USER in str(value).split("#")]
    assert "a word" not in str(vars(line))


def test_a_stopped_user_gets_the_reason_and_others_continue() -> None:
    talk = Talk()
    talk.put(ADA, stopped="unpaid")
    assert talk.own()["user"]["limits"]["stopped"] == "unpaid"
    assert "stopped" not in talk.own(user="bob")["user"]["limits"]
    assert talk.conversation.batches(LANE)
