"""The lines of single events on a terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepline.local.client.change import LaneEnded, LaneKnown, Steered
from stepline.local.terminal.render import (
    render_client_event,
    render_footer,
    render_outcome,
    render_program,
    render_progress,
)
from stepline.protocol.stream.lane import LaneFacts
from tests.unit.local.terminal.test_render_turn import EVIL, event


def test_tools_plans_and_files_are_lines():
    assert render_client_event(
        event("react.tool.call", tool_id="react.write", params={"path": "a.md", "n": 2})
    ) == ["→ react.write path=a.md n=2"]
    result = event(
        "react.tool.result", tool_id="react.read", status="ok", duration_ms=12, preview="two\nlines"
    )
    assert render_client_event(result) == ["✓ react.read, 12 ms"]
    failed = event("react.tool.result", tool_id="react.read", status="error", duration_ms=1, code="not_found")
    assert render_client_event(failed) == ["✗ react.read, 1 ms: not_found"]
    plan = event("react.plan", steps=["one", "two", "three"], status={"1": "done", "2": "in_progress"})
    assert render_client_event(plan) == ["  ✓ 1. one", "  … 2. two", "  □ 3. three"]
    over = replace(plan, data={**plan.data, "current": False, "open": False})
    assert render_client_event(over) == ["  ✂ replaced, 1 of 3 steps done: one …"]
    files = event("chat.files", items=[{"logical_path": "fi:turn_1.outputs/a.md"}])
    assert render_client_event(files) == ["⎙ fi:turn_1.outputs/a.md"]


def test_a_program_is_shown_by_its_size_its_first_line_and_what_it_printed():
    code = event("code_exec.code", language="python", text="\nimport pandas\nprint(1)\n")
    assert render_client_event(code) == ["  3 lines of python: import pandas"]
    assert render_client_event(event("code_exec.status", status="done")) == []
    log = event("code_exec.log", text="\n".join(f"row {n}" for n in range(9)))
    assert render_client_event(log) == [f"  row {n}" for n in range(4, 9)]


def test_an_event_of_a_tool_is_a_line():
    said = event("react.tool.event", type="rows", data={"count": 3})
    assert render_client_event(said) == ['  rows: {"count": 3}']


def test_a_progress_is_one_line_with_a_bar_and_without_a_total_an_amount():
    half = event("react.tool.progress", tool_id="acme.work", done=5, total=10, text=f"reading {EVIL}")
    line = render_progress(half)
    assert line.startswith("  acme.work [##########----------] 50%, 5 of 10, reading")
    assert line.isprintable()
    over = event("react.tool.progress", tool_id="acme.work", done=12.5, total=10)
    assert render_progress(over) == "  acme.work [####################] 100%, 12.5 of 10"
    open_end = event("react.tool.progress", tool_id="acme.work", done=1200, total=0)
    assert render_progress(open_end) == "  acme.work 1,200"


def test_a_compaction_is_a_line_when_it_begins_and_when_it_ends():
    about = event("chat.compaction", step="context.compaction", before_tokens=81_000, after_tokens=40_000)
    assert render_client_event(replace(about, status="started")) == [
        "… summarizing earlier turns, to make room"
    ]
    assert render_client_event(replace(about, status="completed")) == [
        "… summarized earlier turns: from 81000 to 40000 tokens"
    ]
    skipped = event("chat.compaction", reason=f"not_needed\n{EVIL}")
    (line,) = render_client_event(replace(skipped, status="skipped"))
    assert line.startswith("… nothing was summarized: not_needed")
    assert line.isprintable()
    silent = event("chat.compaction", reason="")
    assert render_client_event(replace(silent, status="skipped")) == ["… nothing was summarized"]


def test_the_message_of_an_end_is_below_the_answer():
    assert render_footer(event("chat.complete", message="The answer\nis incomplete.")) == [
        "The answer is incomplete."
    ]
    assert render_footer(event("chat.complete", answer="Hello.")) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"attempt": 2, "attempts": 4}, "… The model is busy, retrying in 12 s (attempt 2 of 4)"),
        ({}, "… The model is busy, retrying in 12 s"),
    ],
)
def test_a_busy_model_is_a_line_with_the_time_and_the_number_of_the_next_attempt(data, said):
    waiting = event("round.waiting", message=f"It is busy.{EVIL}", until="2026-01-02T03:04:05.678Z", **data)
    assert render_client_event(replace(waiting, ts="2026-01-02T03:03:54.000Z")) == [said]
    assert render_client_event(replace(waiting, ts=EVIL))[0].startswith(
        "… The model is busy, retrying in 0 s"
    )


def test_a_program_is_starting_until_it_runs_and_shows_its_times_at_its_end():
    lane = {"claim": 3, "lane": "exec.0.log"}
    facts = LaneFacts(marker="subsystem", format="text", began_at="2026-01-02T03:04:05.678Z")
    assert render_client_event(event("code_exec.status", status="exec")) == ["  … starting"]
    assert render_program(LaneKnown(**lane, facts=facts)) == "running"
    assert render_program(LaneKnown(**lane, facts=replace(facts, began_at=""))) == ""
    ended = LaneEnded(**lane, chars=0, at="2026-01-02T03:04:09.678Z")
    assert render_program(ended) == "collecting its files"
    assert render_program(replace(ended, at="")) == ""
    timings = {"start": 9_400, "exec": 3_100, "collect": 200}
    assert render_client_event(event("code_exec.status", status="done", timings=timings)) == [
        "  started in 9.4 s, ran for 3.1 s, collected in 200 ms"
    ]
    assert render_client_event(event("code_exec.status", status="done", timings={"exec": 3_100})) == []


def test_a_long_turn_says_below_its_answer_where_its_time_went():
    times = {
        "elapsed_ms": 15_700,
        "model_ms": 2_000,
        "tools_ms": 3_100,
        "starting_ms": 9_400,
        "waiting_ms": 0,
    }
    long = event("chat.turn.summary", **times)
    line = "  15.7 s: 2 s in the model, 3.1 s in tools and programs, 9.4 s starting programs, 1.2 s between steps"
    assert render_footer(long) == [line]
    short = event("chat.turn.summary", elapsed_ms=900, model_ms=800, tools_ms=100)
    assert render_footer(short) == []
    assert render_footer(short, usage=True) == ["  900 ms: 800 ms in the model, 100 ms in tools and programs"]


def test_a_notice_for_the_model_is_a_sentence_for_a_person_without_its_code():
    one = event("react.tool.rejected", code="multi_action_bundle_duplicate", action_index=2)
    assert render_client_event(one) == ["… action 2 of the model's reply was unusable and did not run"]
    whole = event("react.tool.rejected", code="no_json_candidate")
    assert render_client_event(whole) == ["… the model's reply was unusable; asking again"]
    assert render_client_event(event("react.notice", code="stray_channel_text")) == []


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        ({"status": "error", "code": "cancelled", "duration_ms": 5_012}, "✗ exec.run, 5 s: cancelled"),
        ({"status": "ok", "duration_ms": 3_240}, "✓ exec.run, 3.2 s"),
        ({"status": "ok", "duration_ms": 125_000}, "✓ exec.run, 2 min 5 s"),
        (
            {"status": "error", "code": "steered", "duration_ms": 0, "executed": False},
            "✗ exec.run was not run: you interrupted the turn first",
        ),
        (
            {"status": "unverified", "code": "unverified", "duration_ms": 0, "executed": None},
            "? exec.run may have run, or in part; it is not run again",
        ),
    ],
)
def test_a_call_is_shown_with_the_time_it_took_unless_it_never_ran(ended, shown):
    assert render_client_event(event("react.tool.result", tool_id="exec.run", **ended)) == [shown]


def test_one_thing_is_counted_in_the_singular():
    assert render_client_event(event("code_exec.code", language="python", text="print(1)")) == [
        "  1 line of python: print(1)"
    ]
    assert render_client_event(event("web_search.filtered_results", results=[{}], queries=["a"])) == [
        "  1 result for a"
    ]
    assert render_client_event(event("web_fetch.results", results=[{"sid": 1}])) == ["  1 of 1 page read"]
    steered = Steered(n=2, turn_id="t", message_id="m", text="short", phase="", finalize_rounds=1)
    assert render_outcome(steered) == "■ interrupted: short (at most 1 round to finish)"


def test_results_of_a_search_are_a_line():
    found = event("web_search.filtered_results", results=[{}, {}], queries=["a", "b"])
    assert render_client_event(found) == ["  2 results for a, b"]


def test_the_numbers_of_changed_sources_are_one_line():
    assert render_client_event(event("chat.sources", items=[{"sid": 3, "title": "A"}, {"sid": 7}])) == [
        "  sources 3, 7"
    ]
