"""Journals of any log: nothing forged, nothing too long, and what a cache or a program may rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from stepline.context.estimate import MARGIN
from stepline.context.journal.current_turn import OPTIONAL, SECTIONS
from stepline.context.journal.render_journal import LOG_HEADER, render_journal
from stepline.context.journal.staged import JournalText, StagedContent
from stepline.context.journal.turn_course import DETAILS
from stepline.context.request import Rendered
from stepline.model.block import Body
from stepline.model.entry import ApprovalAnswered, ApprovalRequested
from stepline.model.source import Source
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.ports.model import Part
from stepline.rendering.piece import byte_length
from stepline.rendering.result import result_path
from stepline.timeline.fold import Timeline
from tests.support.journal_request import FACTS, ask, digest, section, structure
from tests.support.log_builder import LANE, LogBuilder, logs, patient
from tests.support.strategies import FORGERIES, texts
from tests.unit.context.journal.journal_lines import forged_in_journal

forgeries = st.sampled_from([*FORGERIES, *(f"[{title}]\nnone" for title in SECTIONS), "```\n[LOOP ROUNDS]"])


@patient
@given(logs(forgetting=True), texts | forgeries)
def test_user_text_cannot_forge_structure_of_the_journal(log: LogBuilder, text: str) -> None:
    shown = (
        StagedContent(path="fi:a", kind=text, filename=text, text=text),
        StagedContent(path="fi:b", why=text),
    )
    log.message(text, source=text)
    assert forged_in_journal(digest(log.timeline(), shown=shown, skills=shown)) == []


@patient
@given(logs(forgetting=True))
def test_each_section_appears_once_and_in_order(log: LogBuilder) -> None:
    timeline = log.timeline()
    wanted = [f"[{title}]" for title in SECTIONS if timeline.current]
    found = [line for line in structure(digest(timeline)) if line in wanted]
    assert [line for line in wanted if line in found or line[1:-1] not in OPTIONAL] == found


@patient
@given(
    logs(forgetting=True),
    st.sampled_from([6_000, 20_000]),
    st.lists(texts.map(lambda text: text * 200), max_size=3),
)
def test_a_journal_request_stays_within_its_budget(log: LogBuilder, budget: int, staged: list[str]) -> None:
    shown = [StagedContent(path="fi:a", text=text) for text in staged]
    rendered = ask(log.timeline(), budget_tokens=budget, shown=shown)
    parts = [part for part in (*rendered.system, *rendered.content) if isinstance(part, Part)]
    assert sum(byte_length(part.text) for part in parts) * MARGIN <= budget * BYTES_PER_TOKEN


@patient
@given(logs(), st.data())
def test_a_turns_rounds_share_their_prior_turns_byte_for_byte(log: LogBuilder, data: st.DataObject) -> None:
    upto = data.draw(st.integers(1, len(log.batches)))
    earlier, later = log.timeline(upto), log.timeline()
    if earlier.current and later.current and earlier.current.id == later.current.id:
        before, after = (digest(one).partition("\n=== CURRENT TURN") for one in (earlier, later))
        assert before[0] == after[0]


@patient
@given(logs(forgetting=True), st.data())
def test_a_fold_without_its_older_batches_renders_the_same_journal(
    log: LogBuilder, data: st.DataObject
) -> None:
    whole = log.timeline()
    base = data.draw(st.integers(0, whole.n))
    read = []

    def load(after: int, upto: int) -> tuple:
        read.append((after, upto))
        return tuple(log.batches[after:upto])

    short = replace(whole, base=base, batches=whole.batches[base:], load=load)
    assert ask(short) == ask(whole)
    assert len(read) <= 1


def test_the_journal_reads_a_long_log_only_as_far_back_as_it_shows() -> None:
    log = LogBuilder()
    for number in range(60):
        log.message(f"question {number}")
        log.answer("so it is")
        log.close()
    log.message("and now?")
    read = []

    def load(after: int, upto: int) -> tuple:
        read.append((after, upto))
        return tuple(log.batches[after:upto])

    whole = log.timeline()
    text = digest(replace(whole, base=whole.n, batches=(), load=load))
    assert "[EARLIER TURNS] 36 not shown" in text
    assert "question 36" in text
    assert "question 35" not in text.partition("=== PRIOR TURN")[2]
    assert [after for after, _ in read] == [36 * 3]


def test_a_conversation_whose_turn_is_over_has_prior_turns_only() -> None:
    log = LogBuilder()
    log.message("hello")
    log.answer("hi")
    log.close()
    text = digest(log.timeline())
    assert "=== PRIOR TURN" in text
    assert "CURRENT TURN" not in text
    assert digest(Timeline.empty(LANE)).startswith("[OPERATIONAL DIGEST]\n")


def test_a_growing_turn_is_shown_in_less_detail_before_it_overflows() -> None:
    log = LogBuilder()
    log.message("look everywhere")
    for number in range(12):
        log.act(("web_tools.web_search", {"queries": f"{number} " * 300}), notes="I look. " * 100)
        source = Source(sid=number + 1, title="A page", url=f"https://e.example/{number}", text="long " * 300)
        log.result(f"found {number} " * 2_000, tool="web_tools.web_search", sources=(source,))
    sizes = [
        byte_length(digest(log.timeline(), budget_tokens=tokens)) for tokens in (80_000, 12_000, 7_000, 4_500)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    least = digest(log.timeline(), budget_tokens=4_500)
    assert "[SOLVER.REACT.EVENTS (oldest -> newest)]\n- … 21 more\n" in least
    assert "- … 9 more\n- SID:10" in least
    assert len(DETAILS) == 8


@pytest.mark.parametrize("most", [1_000, 10_000])
def test_staged_texts_share_the_remaining_room_and_short_ones_stay_whole(most: int) -> None:
    log = LogBuilder()
    log.message("show me")
    shown = (StagedContent(path="fi:a", text="short"), StagedContent(path="fi:b", text="word " * 20_000))
    text = digest(log.timeline(), shown=shown, budget_tokens=4_000 + most)
    assert "### fi:a [artifact]\n" in text
    assert "\n  short\n```\n" in text
    assert "[ARTIFACT PREVIEW TRUNCATED]\n" in text


@pytest.mark.parametrize("budget", [12_000, 80_000])
def test_staged_skills_share_half_the_remaining_room_and_short_ones_stay_whole(budget: int) -> None:
    skills = [StagedContent(path=f"sk:long.{at}", text="word " * 20_000) for at in range(8)]
    short = StagedContent(path="sk:short", text="Look twice.")
    log = LogBuilder()
    log.message("show me")
    rendered = ask(log.timeline(), skills=[*skills, short], budget_tokens=budget)
    assert "\n  Look twice.\n```\n" in rendered.system[1].text
    assert "[SKILL PREVIEW TRUNCATED]\n" in rendered.system[1].text
    parts = [part for part in (*rendered.system, *rendered.content) if isinstance(part, Part)]
    assert sum(byte_length(part.text) for part in parts) * MARGIN <= budget * BYTES_PER_TOKEN


def test_events_list_approval_answers_and_bundle_contributions() -> None:
    log = LogBuilder()
    log.message("send it")
    log.contribute(
        log.block("ar:turn_0001.system.message.mood", "[mood]\nfine", type="stage.mood"),
        log.block("fi:turn_0001.outputs/n.md", "[D] be brief", type="react.note"),
    )
    log.act(("mail.send", {"to": "ada"}))
    call, (action,) = log.call(), log.batches[-1].entries[0].actions  # type: ignore[union-attr]  # it is a decision
    about = {"turn": log.turn, "at": log.at, "iteration": 0}
    log.put(log.state, ApprovalRequested(action=action, rule="always", **about))
    edited = with_fields(action, call_id="tc_0123456789ab", params={"to": "bob"})
    answered = {
        "n": log.n - 1,
        "message_id": "m9",
        "call_id": call,
        "tool_id": "mail.send",
        "requested_at": log.at,
        **about,
    }
    log.put(log.state, ApprovalAnswered(verdict="edited", text="to bob", action=edited, **answered))
    log.take_over()
    text = digest(log.timeline())
    events = section(text, "SOLVER.REACT.EVENTS (oldest -> newest)")
    assert "[STAGE] stage.mood\n[path: ar:turn_0001.system.message.mood]\n  [mood]\n  fine\n" in events
    assert "be brief" not in events
    assert "- [D] fi:turn_0001.outputs/n.md: be brief\n" in text
    assert f"[APPROVAL ASKED] {call} mail.send\n" in events
    assert f"[EDITED BY THE USER] instead of {call}, which was not run:\n" in events
    assert "The turn was interrupted" in events
    session = text.partition(LOG_HEADER)[2]
    areas = [line.split("[")[1].partition("]")[0] for line in session.splitlines() if line.startswith("- ")]
    assert areas == ["user", "solver", "react", "solver", "user", "solver"]
    assert f"[user] edited {call} | to bob\n" in session


def test_an_artifact_shows_its_beginning_and_how_to_read_the_rest() -> None:
    log = LogBuilder()
    log.message("look")
    log.act(("lab.look", {}), ("lab.look", {}), ("react.read", {}), ("react.read", {}))
    log.result('{"rows": [' + "1, " * 2_000 + "1]}", tool="lab.look")
    log.result("word " * 320, tool="lab.look")
    log.result("", blocks=(log.view("fi:turn_0001.outputs/a.md", "line\n" * 400), log.file("c.md")))
    view = log.view("fi:turn_0001.outputs/b.png", "", media={"extent": "40x30", "tokens": 9})
    log.result(
        "",
        blocks=(
            with_fields(view, text="", body=Body(key="k", sha256="0" * 64, size_bytes=4, mime="image/png")),
        ),
    )
    artifacts = section(digest(log.timeline()), "SOLVER.CURRENT ARTIFACTS (oldest -> newest)")
    assert "shape:\n  dict[1]\n    rows: list[2001]\n" in artifacts
    assert "...[truncated]: 4413 more characters; show_artifacts shows them\n" in artifacts
    assert artifacts.count("...[truncated]") == 1
    assert artifacts.count("  line\n") == 400
    assert artifacts.count("| shown part: ") == 2
    assert f"| shown part: tc:turn_0001.{log.batches[-2].entries[0].call_id}.view.0 |" in artifacts  # type: ignore[union-attr]
    assert "| image/png | 4 bytes | 40x30; show_artifacts attaches it\n" in artifacts


def test_events_list_the_notice_of_a_call_with_its_text() -> None:
    log = LogBuilder()
    log.message("look")
    log.act(("lab.look", {}))
    log.result(blocks=(log.block("", "the page\nis gone", type="react.notice"),))
    events = section(digest(log.timeline()), "SOLVER.REACT.EVENTS (oldest -> newest)")
    path = result_path(log.turn, log.batches[-1].entries[0].call_id)  # type: ignore[union-attr]
    assert f"[REACT NOTICE]\n[path: {path}]\n  the page\n  is gone\n" in events
    assert "artifact: " not in events


def test_a_prefix_below_the_cache_minimum_gets_no_journal_mark() -> None:
    log = LogBuilder()
    log.message("hello")
    short = JournalText(instructions="A" * 32, tools="B" * 64, catalogue="C")
    marks = []
    for minimum in (0, 20, 40, 10_000):
        rendered = journal_of(log.timeline(), short, minimum)
        marks.append([part.cache for part in (*rendered.system, *rendered.content) if isinstance(part, Part)])
    assert marks == [
        [True, True, False, True],
        [False, True, False, True],
        [False, False, False, True],
        [False, False, False, False],
    ]


def journal_of(timeline: Timeline, text: JournalText, minimum_tokens: int) -> Rendered:
    """Return a request that stages nothing."""
    return render_journal(
        timeline, text=text, skills=(), shown=(), media=(), facts=FACTS, minimum_tokens=minimum_tokens
    )
