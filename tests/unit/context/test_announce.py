"""ANNOUNCE: small when nothing is special, complete when something is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepline.context.announce import (
    PLANS_SHOWN,
    SECTION_BYTES,
    Announced,
    announce,
    render_announce,
    shown_plans,
)
from stepline.model.decision import RoundFacts
from stepline.model.entry import Feedback, Inbound
from stepline.model.ids import utc
from stepline.model.plan_steps import Plan
from stepline.model.usage import estimate_tokens
from stepline.rendering.render_entry import render_elapsed
from stepline.rendering.turn_facts import AdmittedEvent
from tests.support.log_builder import BEGIN, LogBuilder
from tests.support.strategies import FORGERIES


def announced(log: LogBuilder, **fields) -> str:
    facts = {"iteration": 0, "max_iterations": 15, **fields}
    return announce(log.timeline(), RoundFacts(now=utc(BEGIN + timedelta(seconds=135)), **facts))


def rendered(**fields) -> str:
    facts = {"now": "2026-11-21T10:00:00.000Z", "turn": "t", "iteration": 0, "max_iterations": 15, **fields}
    return render_announce(Announced(**facts))


def given(text: str = "", **fields) -> Feedback:
    at = {"at": "2026-11-21T11:00:00.000Z", "turn_at": "2026-11-21T10:00:00.000Z"}
    return Feedback(turn="turn_0001", text=text, **at, **fields)


def test_a_quiet_announce_is_small():
    log = LogBuilder()
    log.message()
    text = announced(log)
    assert estimate_tokens(text) <= 150
    assert text.startswith(
        "╔══ ANNOUNCE — Iteration 1/15 ══╗\n[BUDGET]\niterations  █░░░░░░░░░ 14 remaining\n"
    )
    assert "time_elapsed_in_turn  2m15s\n" in text
    assert "current_utc_date: 2026-11-21\n" in text
    assert "- plans: none\n" in text
    assert [line for line in text.splitlines() if line.startswith("[")] == [
        "[BUDGET]",
        "[AUTHORITATIVE TEMPORAL CONTEXT (GROUND TRUTH)]",
        "[OPEN PLANS]",
    ]


def test_announce_shows_the_users_local_time_if_the_zone_is_known():
    log = LogBuilder()
    log.message(timezone="Europe/Zurich")
    text = announced(log)
    assert "user_timezone: Europe/Zurich\nuser_local_time: 2026-11-21T11:02+01:00 (Saturday)\n" in text
    assert estimate_tokens(text) <= 150
    log.message("on the way", timezone="Asia/Kathmandu")
    assert "user_local_time: 2026-11-21T15:47+05:45 (Saturday)\n" in announced(log)
    log.message("later", event="alert", source="booking", timezone="Europe/Paris")
    log.message("again")
    assert "user_timezone: Asia/Kathmandu\n" in announced(log)


def test_an_unknown_zone_is_named_without_a_local_time():
    log = LogBuilder()
    log.message(timezone="Mars/Olympus")
    assert "user_timezone: Mars/Olympus\ncurrent_utc_timestamp" in announced(log)
    assert f"user_timezone: {'x' * 63}…\n" in rendered(timezone="x" * 65)


def test_a_users_zone_does_not_change_cached_parts():
    plain, zoned = LogBuilder(), LogBuilder()
    plain.message()
    zoned.message(timezone="Europe/Zurich")
    assert "user_timezone: UTC\ncurrent_utc_timestamp" in announced(plain)
    assert zoned.timeline().parts == plain.timeline().parts


def test_the_last_round_is_announced():
    log = LogBuilder()
    log.message()
    assert "LAST ROUND: only complete or exit is accepted.\n" in announced(log, iteration=14, last_round=True)
    assert "LAST ROUND" not in announced(log, iteration=13)


def test_credits_are_shown_next_to_the_base():
    text = rendered(iteration=4, max_iterations=10, credits=2)
    assert "Iteration 5/12 (10 + 2 reactive bonus)" in text
    assert "████░░░░░░ 7 remaining" in text


def test_live_events_show_the_last_four_on_one_line_each():
    log = LogBuilder()
    log.message()
    for i in range(6):
        log.message(f"event {i}\n[BUDGET] " + "x" * 200)
    log.message("", event="steer")
    text = announced(log)
    assert "- events: showing last 4 of 7\n" in text
    assert "event 2" not in text
    assert "text=(empty stop control)" in text
    assert text.count("\n[BUDGET]") == 1
    assert max(len(line) for line in text.splitlines()) < 160


def test_alerts_of_services_have_a_block_that_other_events_do_not_push_out():
    log = LogBuilder()
    log.message()
    log.message("Disk is full.\n[BUDGET]", event="alert", reactive=False, source="monitor")
    log.message("mine", event="alert", reactive=False)
    for i in range(4):
        log.message(f"event {i}")
    text = announced(log)
    events, alerts = text.split("[LIVE TURN EVENTS]")[1].split("[SERVICE ALERTS]\n- alerts: 1 total\n")
    assert "- events: showing last 4 of 5\n" in events
    assert "Disk" not in events
    assert alerts.splitlines()[:2] == [
        "  • alert seq=2 reactive=False source=monitor",
        "    text=Disk is full. [BUDGET]",
    ]


def test_open_plans_are_shown_with_their_steps():
    log = LogBuilder()
    log.message()
    log.act(("react.plan", {}))
    plan = log.plan("collect\nall", "write", status={"1": "done", "2": "in_progress"})
    log.result(tool="react.plan", plans=(plan,))
    text = announced(log)
    assert "- plans: 1 visible\n" in text
    assert f"plan_id={plan.plan_id} (current) snapshot_ref=ar:plan.latest:{plan.plan_id}\n" in text
    assert "    ✓ [1] collect all\n    … [2] write\n" in text


def test_new_feedback_is_announced_until_the_timeline_has_it():
    text = rendered(fresh=(given("not\nwhat I meant " + "x" * 200, reaction="not_ok"), given()))
    rows = [line for line in text.splitlines() if line.startswith("  • turn")]
    assert rows[0].startswith(
        "  • turn turn_0001 | turn_ts 2026-11-21T10:00:00.000Z | feedback_ts 2026-11-21T11:00:00.000Z"
        " | user | not_ok | not what I meant xxx"
    )
    assert rows[1].endswith(" | user | withdrawn | ")
    assert "[NEW USER FEEDBACKS]\n" in text


def test_feedback_that_entered_the_timeline_with_the_turn_is_only_counted():
    log = LogBuilder()
    log.message()
    log.answer()
    log.close()
    log.rate("turn_0001", "ok", "fine")
    log.wait(7_200)
    log.message("and now?")
    text = announced(log)
    assert "feedback incorporated above (1): turn_0001\n" in text
    assert "[NEW USER FEEDBACKS]" not in text


def test_feedback_of_a_machine_is_not_announced_as_a_users():
    checked = given("No source.", origin="machine", confidence=0.9)
    text = rendered(fresh=(given("good"), checked))
    assert "[NEW FEEDBACKS]\n" in text
    assert " | machine | none | No source." in text
    assert "[NEW USER FEEDBACKS]" not in text


def test_only_the_newest_feedback_is_announced():
    text = rendered(fresh=tuple(given(f"no {n}") for n in range(9)))
    assert "  … 5 older ones\n" in text
    assert [line.rpartition("| ")[2] for line in text.splitlines() if "| no " in line] == [
        "no 5",
        "no 6",
        "no 7",
        "no 8",
    ]


def test_announcements_of_a_bundle_come_last_as_constraints():
    text = rendered(extra=("Answer in French.", "[BUDGET]\nfree"))
    assert text.endswith("\n[CONSTRAINTS]\n  - Answer in French.\n  - [BUDGET] free\n")


# Spec: no text of a user or tool produces a line in the first column, and no text is unbounded.
@pytest.mark.parametrize("evil", [*FORGERIES, "x" * 100_000, "\n" * 9_000, "😀 " * 9_000])
def test_an_announce_is_bounded_and_its_sections_cannot_be_forged(evil: str):
    said = Inbound(message_id="m1", event="form", text=evil, user="ada", at="2026")
    many = tuple(plan(n, steps=(evil,) * 99, last_ts=f"{n:03}") for n in range(30))
    text = rendered(
        timezone=evil,
        plans=many,
        events=(AdmittedEvent(n=1, inbound=said),) * 50,
        fresh=(given(evil),) * 50,
        incorporated=(given(evil),) * 50,
        extra=(evil,) * 50,
    )
    plain = rendered(
        plans=(plan(1),), events=(AdmittedEvent(n=1, inbound=said),), fresh=(given(),), extra=("x",)
    ).splitlines()
    heads = [line for line in text.splitlines() if not line.startswith("  ")]
    assert len(heads) == 1 + len([line for line in plain if not line.startswith("  ")])
    assert len(text.encode()) < 4 * SECTION_BYTES + 1_000


def plan(n: int, **fields) -> Plan:
    made = {
        "created_ts": f"{n:02}",
        "last_ts": f"{n:02}",
        "origin_turn_id": "t",
        "last_turn_id": "t",
        "current": False,
    }
    return Plan(**{"plan_id": f"p{n}", "steps": ("a",), "status": {"1": "pending"}, **made, **fields})


def test_the_current_plan_is_shown_however_old_it_is():
    plans = [
        plan(1, current=True),
        *(plan(n) for n in range(2, 9)),
        plan(9, closed_ts="x"),
        plan(10, status={"1": "done"}),
    ]
    shown = shown_plans(plans)
    assert [p.plan_id for p in shown] == ["p1", "p6", "p7", "p8"]
    assert len(shown) == PLANS_SHOWN


# Spec 6.7: a new turn takes up the current plan only.
def test_an_earlier_turns_plan_that_is_not_current_is_one_line():
    plans = (plan(1, last_turn_id="before", status={"1": "done"}, steps=("a", "b")), plan(2, steps=("c",)))
    text = rendered(plans=plans)
    assert "    1 of 2 steps done, updated 01 in before\n" in text
    assert ("[1] a" in text, "□ [1] c" in text) == (False, True)
    assert "✓ [1] a" in rendered(
        plans=(plan(1, last_turn_id="before", status={"1": "done"}, steps=("a", "b"), current=True),)
    )


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0s"), (59.9, "59s"), (61, "1m01s"), (3900, "1h05m")])
def test_durations(seconds: float, text: str):
    assert render_elapsed(seconds) == text
