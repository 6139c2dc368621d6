"""Feedback over HTTP: a turn is rated, by its user or a machine; periods are counted and listed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.log.lists import rated_conversations
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.ports.channel import Role
from tests.support.api_caller import Caller, read
from tests.support.conversation import LANE, Conversation, event_types
from tests.support.generation import answered

PERIOD = "/conversations/acme/support/feedback/conversations-in-period"
ALWAYS = {"start": "2026-01-01", "end": "2026-12-31"}


class Talk:
    """A conversation of two turns, and the callers of the API."""

    def __init__(self, **policy: Any) -> None:
        self.loop = Conversation(answered("One."), answered("Two."), **policy)
        for i in range(2):
            self.loop.send(f"question {i}", id=f"m{i}")
            self.loop.run()
            self.loop.clock.pause(60)
        self.first, self.second = self.loop.timeline().turns
        self.mine = self.caller()

    def caller(self, *, role: Role = "user", **who: str) -> Caller:
        caller = Caller(self.loop.ports, **who)
        caller.principal = replace(caller.principal, role=role)
        return caller

    def rate(
        self, reaction: str | None, text: str = "", *, turn: str = "", caller: Caller | None = None
    ) -> Any:
        path = f"/v1/conversations/{LANE.conversation}/turns/{turn or self.first}/feedback"
        return (caller or self.mine).ask("PUT", path, {"reaction": reaction, "text": text})

    def check(self, caller: Caller, **said: Any) -> Any:
        path = f"/v1/conversations/{LANE.conversation}/turns/{self.first}/machine-feedback"
        body = {"reaction": "not_ok", "text": "No source.", "confidence": 0.8, **said}
        return caller.ask("PUT", path, body)

    def say(self, user: str, conversation: str) -> None:
        """Begin a conversation of a user, and rate it."""
        lane = replace(LANE, conversation=conversation)
        self.loop.model.add(answered("Other."))
        self.loop.send("hello", id="m0", user=user, lane=lane)
        self.loop.run()
        (turn,) = [b.state.turn for b in self.loop.batches(lane) if b.state.turn][:1]
        path = f"/v1/conversations/{conversation}/turns/{turn}/feedback"
        answer = self.caller(user=user).ask("PUT", path, {"reaction": "neutral"})
        assert answer.status == 200


def test_feedback_reaches_every_client_at_its_turn() -> None:
    talk = Talk()
    inbox = talk.loop.listen("another device")
    said = read(talk.rate("ok", "Very helpful!"))
    assert said == {"reaction": "ok", "text": "Very helpful!", "at": talk.loop.tail.at}
    assert event_types(inbox) == ["turn.feedback"]
    assert read(talk.rate("ok", "Very helpful!")) == said
    assert event_types(inbox) == ["turn.feedback"]


def test_a_clients_time_is_stored_but_does_not_order_feedback() -> None:
    talk = Talk()
    path = f"/v1/conversations/{LANE.conversation}/turns/{talk.first}/feedback"
    said = {"reaction": "ok", "ts": "1999-01-01T00:00:00Z"}
    current = read(talk.mine.ask("PUT", path, said))
    assert current == {"reaction": "ok", "text": "", "at": talk.loop.tail.at}
    (row,) = talk.loop.log.conversation_feedback(LANE)
    assert (row.given_at, row.at) == ("1999-01-01T00:00:00.000Z", current["at"])
    assert read(talk.mine.ask("PUT", path, said | {"ts": "2099-01-01"})) == current


def test_the_older_spelling_reports_the_result_of_feedback() -> None:
    talk = Talk()
    path = f"/conversations/acme/support/{LANE.conversation}/turns/{talk.first}/feedback"
    taken = talk.mine.post(path, {"reaction": "ok", "text": "Very helpful!", "ts": "2026-03-21T10:00:00Z"})
    message = taken.pop("message")
    assert taken == {"success": True, "turn_id": talk.first, "reaction": "ok", "cleared": False}
    (row,) = talk.loop.log.conversation_feedback(LANE)
    assert (row.text, row.given_at) == ("Very helpful!", "2026-03-21T10:00:00.000Z")
    cleared = talk.mine.post(path, {"reaction": None})
    assert (cleared["reaction"], cleared["cleared"]) == (None, True)
    assert cleared["message"] != message
    assert talk.loop.log.conversation_feedback(LANE) == []


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"reaction": "great"}, 400, "bad_message"),
        ({"text": "no reaction"}, 400, "bad_message"),
        ({"reaction": "ok", "text": "x" * 1_001}, 400, "bad_message"),
        ({"reaction": "ok", "ts": "yesterday"}, 400, "bad_message"),
        ({"reaction": "ok", "origin": "machine"}, 400, "bad_message"),
    ],
)
def test_invalid_feedback_is_refused(said: dict[str, Any], status: int, code: str) -> None:
    talk = Talk()
    before = talk.loop.batches()
    path = f"/conversations/acme/support/{LANE.conversation}/turns/{talk.first}/feedback"
    answer = talk.mine.ask("POST", path, said)
    assert (answer.status, answer.code) == (status, code)
    assert talk.loop.batches() == before


def test_feedback_distinguishes_an_open_turn_from_a_missing_one() -> None:
    talk = Talk()
    talk.loop.send("third", id="m2")
    is_open = talk.rate("ok", turn=talk.loop.state.turn)
    assert (is_open.status, is_open.code) == (409, "turn_open")
    absent = talk.rate("ok", turn="turn_none")
    assert (absent.status, absent.code) == (404, "turn_not_found")


def test_feedback_has_a_rate_limit() -> None:
    talk = Talk(limits=ScopeLimits(user=Limits(messages_per_minute=1)))
    assert talk.rate("ok").status == 200
    refused = talk.rate("not_ok")
    assert (refused.status, refused.code) == (429, "rate_limited")


def test_a_machine_rates_any_users_turn_as_an_admin() -> None:
    talk = Talk()
    talk.rate("ok", "good")
    machine = talk.caller(role="project_admin", user="checker")
    assert read(talk.check(machine))["reaction"] == "not_ok"
    (turn,) = talk.mine.post(f"/conversations/acme/support/{LANE.conversation}/turns-with-feedbacks", {})[
        "turns"
    ]
    said = [(one["origin"], one["reaction"], one["confidence"]) for one in turn["feedbacks"]]
    assert said == [("user", "ok", 1.0), ("machine", "not_ok", 0.8)]
    talk.check(machine, reaction=None, text="")
    assert [row.origin for row in talk.loop.log.conversation_feedback(LANE)] == ["user"]


def test_feedback_of_an_unsure_machine_or_of_a_user_as_machine_is_refused() -> None:
    talk = Talk()
    machine = talk.caller(role="project_admin", user="checker")
    for said in ({"confidence": 0.69}, {"confidence": None}, {"text": ""}):
        refused = talk.check(machine, **said)
        assert (refused.status, refused.code) == (400, "bad_feedback")
    forged = talk.check(talk.mine)
    assert (forged.status, forged.code) == (404, "not_found")
    elsewhere = talk.check(talk.caller(role="tenant_admin", project="sales"))
    assert (elsewhere.status, elsewhere.code) == (404, "not_found")


def test_an_admin_cannot_rate_another_users_turn_as_that_user() -> None:
    talk = Talk()
    refused = talk.rate("ok", caller=talk.caller(role="tenant_admin", user="boss"))
    assert (refused.status, refused.code) == (404, "not_found")


# --- rates


def rates(caller: Caller, start: str = "2026-01-01", end: str = "2026-12-31", **query: str) -> Any:
    return caller.get("/v1/feedback", **{"from": start, "to": end, **query})


def test_satisfaction_is_the_share_of_ok_and_never_divides_by_zero() -> None:
    talk = Talk()
    nothing = {"total": 0, "ok": 0, "not_ok": 0, "neutral": 0, "satisfaction": None}
    empty = rates(talk.mine)
    assert (empty["user"], empty["machine"], empty["next"]) == (nothing, nothing, "")
    talk.rate("ok")
    talk.rate("neutral", turn=talk.second)
    talk.check(talk.caller(role="project_admin"), reaction=None, text="Looks fine.")
    found = rates(talk.mine)
    assert found["user"] == {"total": 2, "ok": 1, "not_ok": 0, "neutral": 1, "satisfaction": 0.5}
    assert found["machine"] == {**nothing, "total": 1}
    talk.rate("not_ok")  # replaces the ok
    talk.rate(None, turn=talk.second)
    assert rates(talk.mine)["user"] == {"total": 1, "ok": 0, "not_ok": 1, "neutral": 0, "satisfaction": 0.0}


def test_users_count_their_own_conversations_and_admins_those_of_the_project() -> None:
    talk = Talk()
    talk.rate("ok")
    talk.say("eve", "c-eve")
    assert (rates(talk.mine)["scope"], rates(talk.mine)["user"]["total"]) == ("own", 1)
    admin = rates(talk.caller(role="project_admin", user="boss"))
    assert (admin["scope"], admin["user"]["total"]) == ("project", 2)
    assert rates(talk.caller(role="project_admin", project="sales"))["user"]["total"] == 0
    assert rates(talk.caller(role="tenant_admin", tenant="umbrella"))["user"]["total"] == 0


def test_counts_of_pages_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rated_conversations, "ROWS_MAX", 1)
    talk = Talk()
    talk.rate("ok")
    talk.rate("not_ok", turn=talk.second)
    newest = rates(talk.mine)
    assert (newest["user"]["not_ok"], newest["user"]["total"]) == (1, 1)
    older = rates(talk.mine, after=newest["next"])
    assert (older["user"]["ok"], older["user"]["total"], older["next"]) == (1, 1, "")
    for other in (talk.caller(user="eve"), talk.caller(role="project_admin")):
        refused = other.ask(
            "GET", "/v1/feedback", **{"from": "2026-01-01", "to": "2026-12-31", "after": newest["next"]}
        )
        assert (refused.status, refused.code) == (400, "bad_cursor")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("soon", "2026-12-31"),
        ("2026-01-01", "later"),
        ("2026-02-01", "2026-01-31"),
        ("2025-01-01", "2026-01-03"),
        ("2026-01-01", "9999-12-31"),
        ("0001-01-01T00:00:00+23:00", "0001-01-02"),
    ],
)
def test_an_invalid_period_is_refused(start: str, end: str) -> None:
    refused = Talk().mine.ask("GET", "/v1/feedback", **{"from": start, "to": end})
    assert (refused.status, refused.code) == (400, "bad_window")


def test_a_period_includes_its_last_moment_and_a_whole_last_day() -> None:
    talk = Talk()
    at = read(talk.rate("ok"))["at"]
    assert rates(talk.mine, at, at)["user"]["total"] == 1
    found = rates(talk.mine, at[:10], at[:10])
    assert (found["from"], found["to"]) == (f"{at[:10]}T00:00:00.000Z", f"{at[:10]}T23:59:59.999Z")
    assert found["user"]["total"] == 1


# --- conversations


def test_conversations_of_a_period_have_counts_and_requested_turns() -> None:
    talk = Talk()
    talk.rate("ok", "good")
    talk.check(talk.caller(role="project_admin"))
    talk.rate("neutral", turn=talk.second)
    found = talk.mine.post(PERIOD, {**ALWAYS, "include_turns": True})
    turns = talk.loop.timeline().history
    (item,) = found["items"]
    given = {"confidence": 1.0, "origin": "user", "given_at": ""}
    assert [(turn["turn_id"], turn["ts"]) for turn in item["turns"]] == [(t.id, t.started_at) for t in turns]
    user, machine = item["turns"][0]["feedbacks"]
    assert user == {"turn_id": talk.first, "ts": user["ts"], "text": "good", "reaction": "ok", **given}
    assert (machine["origin"], machine["confidence"]) == ("machine", 0.8)
    assert item["feedback_counts"] == {
        "total": 3,
        "user": 2,
        "machine": 1,
        "ok": 1,
        "not_ok": 1,
        "neutral": 1,
    }
    assert item["started_at"] == talk.loop.batches()[0].at
    assert item["last_activity_at"] == talk.loop.log.listing(LANE).last_at
    assert (found["tenant"], found["project"], found["next_cursor"]) == ("acme", "support", "")
    assert found["window"] == {"start": "2026-01-01T00:00:00.000Z", "end": "2026-12-31T23:59:59.999Z"}
    assert talk.mine.post(PERIOD, ALWAYS)["items"][0]["turns"] is None


@pytest.mark.parametrize(("limit", "at_once"), [(1, 200), (9, 1)])
def test_each_conversation_is_on_one_page_even_if_it_is_rated_on_many_days(
    monkeypatch: pytest.MonkeyPatch, limit: int, at_once: int
) -> None:
    monkeypatch.setattr(rated_conversations, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(rated_conversations, "ROWS_MAX", 2 * at_once)
    talk = Talk()
    talk.rate("ok")
    for i in range(3):
        talk.say("eve", f"eve-{i}")
        talk.loop.clock.pause(86_400)
    talk.rate("not_ok", turn=talk.second)
    admin = talk.caller(role="project_admin", user="boss")
    found: list[str] = []
    cursor = ""
    while True:
        page = admin.post(PERIOD, {**ALWAYS, "limit": limit, "cursor": cursor})
        found += [item["conversation_id"] for item in page["items"]]
        if not (cursor := page["next_cursor"]):
            break
    assert found == [LANE.conversation, "eve-2", "eve-1", "eve-0"]
    assert [item["conversation_id"] for item in talk.mine.post(PERIOD, ALWAYS)["items"]] == [
        LANE.conversation
    ]


def test_only_feedback_within_the_period_counts() -> None:
    talk = Talk()
    at = read(talk.rate("ok"))["at"]
    talk.loop.clock.pause(86_400)
    talk.rate("not_ok", turn=talk.second)
    (item,) = talk.mine.post(PERIOD, {"start": at, "end": at})["items"]
    assert (item["feedback_counts"]["ok"], item["feedback_counts"]["total"]) == (1, 1)


def test_a_tenant_admin_reads_feedback_of_all_its_projects_only() -> None:
    talk = Talk()
    talk.rate("ok")
    boss = talk.caller(role="tenant_admin", user="boss", project="sales")
    assert [item["conversation_id"] for item in boss.post(PERIOD, ALWAYS)["items"]] == [LANE.conversation]
    assert boss.post(PERIOD.replace("support", "sales"), ALWAYS)["items"] == []
    for caller in (
        talk.caller(role="project_admin", project="sales"),
        talk.caller(role="tenant_admin", tenant="umbrella"),
    ):
        refused = caller.ask("POST", PERIOD, ALWAYS)
        assert (refused.status, refused.code) == (404, "not_found")


def test_an_invalid_project_is_not_found() -> None:
    boss = Talk().caller(role="tenant_admin")
    refused = boss.ask("POST", PERIOD.replace("support", "a%23b"), ALWAYS)
    assert (refused.status, refused.code) == (404, "not_found")


def test_an_index_that_is_late_shows_no_conversation_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    talk.rate("ok")
    stale = talk.loop.log.conversation_feedback(LANE)
    talk.loop.clock.pause(60)
    talk.rate("not_ok")
    fresh = talk.loop.log.conversation_feedback(LANE)
    monkeypatch.setattr(talk.loop.log, "feedback", lambda query, _: [] if query.before else [*fresh, *stale])
    (item,) = talk.mine.post(PERIOD, ALWAYS)["items"]
    assert item["feedback_counts"]["total"] == 1
