"""The terms of the older decision context, one by one, in a conversation with content for each."""

from __future__ import annotations

from typing import Final

import pytest

from stepline.context.journal.current_turn import OPTIONAL, SECTIONS
from stepline.context.journal.render_journal import GUARD, LOG_HEADER
from stepline.context.journal.staged import StagedContent
from stepline.context.journal.staged_text import ARTIFACTS, SKILLS
from stepline.model.file.attachment import Attachment
from stepline.ports.model import Media, Part
from tests.support.files import PDF, PNG, media, picture
from tests.support.journal_request import FACTS, FOUND, TEXT, ask, digest, section, structure, told_log
from tests.support.log_builder import LogBuilder

IN_ORDER: Final = (
    "USER PROMPT STRUCTURAL/SEMANTIC INVENTORIZATION SUMMARY",
    "CONTEXT USED (digest of past turns)",
    "OBJECTIVE",
    "GATE",
    "SOLVER.COORDINATOR DECISION (planner guidance)",
    "TURN MEMORIES -- CHRONOLOGICAL",
    "USER FEEDBACK -- CHRONOLOGICAL",
    "SOLVER.TURN CONTRACT SLOTS (to fill)",
    "SOLVER.REACT.EVENTS (oldest -> newest)",
    "SOLVER.CURRENT ARTIFACTS (oldest -> newest)",
    "FILES (CURRENT) -- OUT_DIR-relative paths",
    "EXPLORED IN THIS TURN. WEB SEARCH/FETCH ARTIFACTS",
    "TURN SOURCES POOL (global SIDs)",
    "SOLVER.CURRENT TURN PROGRESS SNAPSHOT",
    "CURRENT SLOTS",
    "BUDGET SNAPSHOT",
)
"""The sections of the open turn in the older decision context."""
EXPECTED: Final = (
    "[USER MESSAGE]\n[path: ar:turn_0009.user.prompt]\n  And one on herons.",
    "- fi:turn_0001.outputs/report.md",
    'conversation: "Otters and herons"\nobjective: plan_id=plan:turn_0001:0a: 0 of 2 steps done',
    'route: gate, then react\ngate: "They want reports."',
    "[OPEN PLANS]\n- plans: 1 visible",
    "- [D] fi:turn_0009.outputs/note.md: herons before storks",
    'user on ar:turn_0001.feedback.latest: not_ok "Too short."',
    "turn_<id>.slots.<name> is the file fi:turn_<id>.outputs/<name>.\n  □ [1] look",
    "┌──────── ROUND 2 ────────┐",
    "- tc:turn_0009.tc_6d3a21307411.result | react.tool.result by tc_6d3a21307411",
    "- turn_0009/outputs/herons.md | text/markdown | 42 bytes",
    "web_tools.web_search: so:sources_pool[2] | tc:turn_0009.",
    '- SID:01 "Otters" a.example "All about Otters."\n- SID:02 ',
    "rounds: 2, of them refused: 0\ncalls: 4 ok",
    "- herons.md: fi:turn_0009.outputs/herons.md | text/markdown | 42 bytes",
    "iterations: 2 used of 15, 13 left with this one\ntokens: ",
)
"""A part of the text of each section in the conversation of these tests."""
TABLE: Final = StagedContent(
    path="fi:turn_0009.outputs/a.csv",
    kind="file",
    format="text",
    mime="text/csv",
    filename="a.csv",
    type="react.tool.result",
    ts="2026-11-21T10:00:14.000Z",
    text="a,b\n1,2",
)
PICTURE: Final = StagedContent(path="fi:turn_0009.outputs/a.png", kind="file", format="image", mime=PNG)
SKILL: Final = StagedContent(path="sk:tidy", kind="skill", format="text", text="Put everything back.")


# --- the system part


def test_instructions_and_catalogues_are_cached_but_the_time_is_not() -> None:
    rendered = ask(told_log().timeline())
    assert [part.cache for part in rendered.system] == [True, True, False]
    assert rendered.system[0].text == TEXT.instructions


def test_active_skills_come_between_common_and_infrastructure_tools() -> None:
    timeline = told_log().timeline()
    block = ask(timeline, skills=(SKILL,)).system[1].text
    headings = ["[AVAILABLE COMMON TOOLS]", SKILLS, "[AVAILABLE INFRASTRUCTURE TOOLS]", "[SKILL CATALOG]"]
    assert [line for line in structure(block) if line in headings] == headings
    assert "### sk:tidy [skill]" in structure(block)
    assert SKILLS not in ask(timeline).system[1].text


def test_only_the_last_round_ends_the_second_block_with_the_wrapup() -> None:
    timeline = told_log().timeline()
    assert ask(timeline, last_round=True).system[1].text.endswith(TEXT.wrapup)
    assert TEXT.wrapup not in ask(timeline).system[1].text


def test_the_last_block_has_date_time_and_zone_and_warns_against_guessed_dates() -> None:
    log = told_log()
    text = ask(log.timeline()).system[2].text
    assert f"current_utc_timestamp: {FACTS.now}" in text
    assert f"user_timezone: UTC\n{GUARD}" in text
    assert "never guess" in text


def test_the_last_block_has_the_users_time_too_if_it_is_known() -> None:
    log = LogBuilder()
    log.message("hello", timezone="Europe/Zurich")
    text = ask(log.timeline()).system[2].text
    assert "user_timezone: Europe/Zurich\nuser_local_time: 2026-11-21T11:05+01:00 (Saturday)\n" in text


# --- the human text


def test_the_digest_is_one_cached_text_that_ends_with_the_numbers_of_the_rounds() -> None:
    (part,) = ask(told_log().timeline()).content
    assert isinstance(part, Part)
    assert part.cache
    assert part.text.endswith("[LOOP ROUNDS]\niteration_index: 2\nmax_iterations: 15\n")


def test_media_follow_the_text_without_a_mark() -> None:
    files = (media("fi:a.png", picture(), PNG), media("fi:a.pdf", b"%PDF-", PDF))
    human, *attached = ask(told_log().timeline(), media=files).content
    assert isinstance(human, Part)
    assert tuple(attached) == files
    assert all(isinstance(part, Media) for part in attached)


def test_the_digest_is_journal_then_session_log_then_full_artifacts() -> None:
    timeline = told_log().timeline()
    places = ["[TURN SESSION JOURNAL] oldest -> newest", LOG_HEADER.rstrip("\n"), ARTIFACTS, "[LOOP ROUNDS]"]
    text = digest(timeline, shown=(TABLE,))
    assert [line for line in structure(text) if line in places] == places
    assert ARTIFACTS not in digest(timeline)


def test_staging_does_not_change_the_text_before_it() -> None:
    timeline = told_log().timeline()
    plain, staged = digest(timeline), digest(timeline, shown=(TABLE,))
    assert staged.partition(f"\n{ARTIFACTS}\n")[0] == plain.partition("\n[LOOP ROUNDS]\n")[0]


# --- prior turns


def test_prior_turns_precede_the_open_one_oldest_first() -> None:
    log = told_log()
    log.answer("Herons stand in herons.md.")
    log.close()
    log.message("Thanks.")
    heads = [line for line in structure(digest(log.timeline())) if line.startswith("=== ")]
    assert [head.split()[1:4] for head in heads] == [
        ["PRIOR", "TURN", "turn_0001"],
        ["PRIOR", "TURN", "turn_0009"],
        ["CURRENT", "TURN", "(live)"],
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[USER PROMPT SUMMARY] ar:turn_0001.user.prompt\n  Write a report on otters.",
        "[OBJECTIVE] a report on otters",
        "[GATE] no gate in this turn",
        "[SOLVER LOG] rounds: 3; calls: web_tools.web_search x1, react.write x1",
        "[PRODUCED SLOTS]\ncompleted:\n- report.md: fi:turn_0001.outputs/report.md",
        "[ASSISTANT RESPONSE SUMMARY] ar:turn_0001.assistant.completion\n  It is in report.md.",
        "[TURN SUMMARY] ws:turn_0001.conv.working.summary\n  Goal: a report on otters",
    ],
)
def test_a_prior_turn_shows_its_prompt_its_outcome_and_its_paths(line: str) -> None:
    assert f"\n{line}" in prior(digest(told_log().timeline()))


def prior(text: str) -> str:
    """Return the prior turns of a digest."""
    return text.partition("\n=== CURRENT TURN")[0]


def test_a_prior_turn_shows_deliverables_but_no_tool_results() -> None:
    text = prior(digest(told_log().timeline()))
    assert FOUND not in text
    assert ".result" not in text
    assert "own.md" not in text


def test_the_deliverables_of_a_turn_are_grouped_by_their_status() -> None:
    log = LogBuilder()
    log.message("Write.")
    log.act(("react.write", {}))
    log.result(tool="react.write", blocks=(log.file("a.md"),))
    log.close(code="timeout")
    log.message("Go on.")
    assert "[PRODUCED SLOTS]\npartial:\n- a.md: " in prior(digest(log.timeline()))


def test_turns_without_room_become_one_line_with_a_count_and_a_search_hint() -> None:
    log = LogBuilder()
    for _ in range(5):
        log.message("Tell me. " * 100)
        log.answer("So it is. " * 150)
        log.close()
    log.message("And now?")
    text = digest(log.timeline(), budget_tokens=8_000)
    (line,) = [line for line in structure(text) if line.startswith("[EARLIER TURNS]")]
    shown = text.count("=== PRIOR TURN")
    assert 0 < shown < 5
    assert f"{5 - shown} not shown (turn_0001" in line
    assert "react.memsearch" in line


# --- the open turn


def test_the_open_turn_has_its_sections_in_the_designed_order() -> None:
    headings = [f"[{title}]" for title in IN_ORDER]
    assert [line for line in structure(digest(told_log().timeline())) if line in headings] == headings
    assert tuple(SECTIONS) == IN_ORDER


def test_an_event_that_waited_for_the_turn_names_its_files() -> None:
    plan = Attachment(filename="plan.pdf", mime=PDF, size_bytes=9, sha256="0" * 64)
    log = LogBuilder()
    log.message("The plans changed.", event="alert", reactive=False, attachments=(plan,))
    log.message("What is new?")
    events = section(digest(log.timeline()), "SOLVER.REACT.EVENTS (oldest -> newest)")
    assert "The plans changed." in events
    assert f"fi:{log.turn}.external.alert.attachments/m1/plan.pdf" in events


def test_empty_sections_are_shown_except_current_slots() -> None:
    log = LogBuilder()
    log.message("hello")
    lines = structure(digest(log.timeline()))
    assert [title for title in IN_ORDER if f"[{title}]" not in lines] == ["CURRENT SLOTS"]
    assert {"CURRENT SLOTS"} == OPTIONAL


def test_a_new_turn_has_no_gate_and_no_calls() -> None:
    log = LogBuilder()
    log.message("hello")
    text = digest(log.timeline())
    assert section(text, "GATE").strip() == "route: react"
    assert "\ncalls: none\n" in section(text, "SOLVER.CURRENT TURN PROGRESS SNAPSHOT")


@pytest.mark.parametrize(("title", "expected"), list(zip(IN_ORDER, EXPECTED, strict=True)))
def test_each_section_shows_its_part_of_the_log(title: str, expected: str) -> None:
    assert expected in section(digest(told_log().timeline()), title)


def test_a_round_appends_events_and_artifacts_and_renews_the_snapshot() -> None:
    log = told_log()
    titles = IN_ORDER[8], IN_ORDER[9]
    before = [section(digest(log.timeline()), title) for title in titles]
    log.act(("react.read", {"paths": ["so:sources_pool[1]"]}))
    log.result("All about Otters.")
    text = digest(log.timeline(), iteration=3)
    after = [section(text, title) for title in titles]
    assert all(
        now.startswith(was.rstrip("\n")) and len(now) > len(was)
        for was, now in zip(before, after, strict=True)
    )
    assert "rounds: 3" in section(text, IN_ORDER[13])


# --- the session log


def test_a_line_of_the_session_log_has_its_time_its_area_a_message_and_data() -> None:
    lines = digest(told_log().timeline()).partition(LOG_HEADER)[2].splitlines()
    assert lines[0] == (
        "- 2026-11-21T10:00:08.000Z [user] prompt ar:turn_0009.user.prompt | And one on herons."
    )
    areas = {line.split("[")[1].partition("]")[0] for line in lines if line.startswith("- ")}
    assert areas == {"user", "user.prompt.summary", "react"}


def test_the_session_log_only_grows() -> None:
    log = told_log()
    whole = digest(log.timeline()).partition(LOG_HEADER)[2].partition("\n[LOOP")[0]
    log.message("And storks.")
    log.act(("react.read", {"paths": ["fi:turn_0009.outputs/herons.md"]}))
    log.result("# Herons")
    later = digest(log.timeline()).partition(LOG_HEADER)[2]
    assert later.startswith(whole)
    assert "[user] followup" in later


# --- what is shown in full


def test_an_artifact_that_is_shown_in_full_has_its_path_its_facts_and_its_text() -> None:
    text = digest(told_log().timeline(), shown=(TABLE,)).partition(f"\n{ARTIFACTS}\n")[2]
    assert text.startswith(
        "### fi:turn_0009.outputs/a.csv [artifact]\n"
        "meta: time=2026-11-21T10:00:14.000Z, kind=file, format=text, mime=text/csv, filename=a.csv,"
        " type=react.tool.result\n"
        "content:\n```text\n  a,b\n  1,2\n```\n"
    )


def test_a_picture_has_only_its_definition_in_the_text() -> None:
    file = media(PICTURE.path, picture(), PNG)
    human, *attached = ask(told_log().timeline(), shown=(PICTURE,), media=(file,)).content
    assert isinstance(human, Part)
    assert f"### {PICTURE.path} [artifact]\nmeta: " in human.text
    assert "content: attached behind this text" in structure(human.text)
    assert attached == [file]


def test_content_that_cannot_be_shown_says_why() -> None:
    text = digest(
        told_log().timeline(), shown=(StagedContent(path="fi:turn_0009.outputs/b.md", why="there is none"),)
    )
    assert "content: not shown: there is none" in structure(text)
