"""ANNOUNCE: small when nothing is special, complete when something is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepline.model.plan import Plan
from stepline.model.usage import estimate_tokens
from stepline.timeline.render.announce import (
    PLANS_SHOWN,
    Budget,
    announce,
    render_announce,
    render_elapsed,
    shown_plans,
)
from stepline.tools.context import ReadCaps
from tests.unit.timeline.story import BEGIN, Story


def told(story: Story, **fields) -> str:
    facts = {"iteration": 0, "max_iterations": 15, "last_round": False, **fields}
    return announce(story.timeline(), now=BEGIN + timedelta(seconds=135), caps=ReadCaps(), **facts)


def test_a_quiet_announce_is_small():
    story = Story()
    story.message()
    text = told(story)
    assert estimate_tokens(text) <= 300
    assert text.startswith(
        "╔══ ANNOUNCE — Iteration 1/15 ══╗\n[BUDGET]\niterations  █░░░░░░░░░ 14 remaining\n"
    )
    assert "time_elapsed_in_turn  2m15s\n" in text
    assert "current_utc_date: 2026-11-21\n" in text
    assert "- plans: none\n" in text
    assert "LIVE TURN EVENTS" not in text
    assert "48000 characters, 12000 tokens, 10485760 bytes" in text


def test_the_last_round_is_announced():
    story = Story()
    story.message()
    assert "LAST ROUND: only complete or exit is accepted.\n" in told(story, iteration=14, last_round=True)
    assert "LAST ROUND" not in told(story, iteration=13)


def test_credits_stand_beside_the_base():
    budget = Budget(iteration=4, max_iterations=10, credits=2)
    text = render_announce(budget=budget, now=BEGIN, caps=ReadCaps(), plans={})
    assert "Iteration 5/12 (10 + 2 reactive bonus)" in text
    assert "████░░░░░░ 7 remaining" in text


def test_live_events_show_the_last_four_and_no_text_of_theirs_breaks_a_line():
    story = Story()
    story.message()
    for i in range(6):
        story.message(f"event {i}\n[BUDGET] " + "x" * 200)
    story.message("", event="steer")
    text = told(story)
    assert "- events: showing last 4 of 7\n" in text
    assert "event 2" not in text
    assert "text=(empty stop control)" in text
    assert text.count("\n[BUDGET]") == 1
    assert max(len(line) for line in text.splitlines()) < 160


def test_open_plans_are_shown_with_their_steps():
    story = Story()
    story.message()
    story.act(("react.plan", {}))
    plan = story.plan("collect\nall", "write", status={"1": "done", "2": "in_progress"})
    story.result(tool="react.plan", plans=(plan,))
    text = told(story)
    assert "- plans: 1 visible\n" in text
    assert f"plan_id={plan.plan_id} (current) snapshot_ref=ar:plan.latest:{plan.plan_id}\n" in text
    assert "    ✓ [1] collect all\n    … [2] write\n" in text


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


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0s"), (59.9, "59s"), (61, "1m01s"), (3900, "1h05m")])
def test_durations(seconds: float, text: str):
    assert render_elapsed(seconds) == text
