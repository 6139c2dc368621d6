"""The rows of a conversation for the memory index, and their paths."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from stepline.model.file.attachment import Attachment
from stepline.model.memory_row import MEMORY_TEXT_CHARS, MemoryRow
from stepline.model.path import SourcesPath, parse_path
from stepline.model.source import Source
from stepline.timeline.fold import Timeline
from stepline.timeline.memory_rows import PIECE_CHARS, cut_text, range_rows, turn_rows
from stepline.timeline.sources_pool import select_sources
from tests.support.log_builder import LogBuilder, logs, patient
from tests.support.strategies import texts


def rows_of(timeline: Timeline, turn: str = "") -> list[MemoryRow]:
    return [row for one in ([turn] if turn else timeline.turns) for row in turn_rows(timeline, one)]


def texts_of(rows: list[MemoryRow], kind: str) -> list[str]:
    return [row.text for row in rows if row.kind == kind]


def whole_at(timeline: Timeline, path: str) -> str:
    """Return the whole content of a path, as its reader gets it."""
    parsed = parse_path(path)
    if isinstance(parsed, SourcesPath):
        found = [msgspec.to_builtins(row) for row in select_sources(timeline.sources, parsed.ranges)]
        return "\n".join(f"{row['title']}\n{row['text']}" for row in found)
    return "\n".join(f"{block.text} {block.meta.get('name', '')}" for block in timeline.resolve(path))


@patient
@given(logs(forgetting=True))
def test_every_row_is_at_a_canonical_path_that_leads_to_its_text(log: LogBuilder):
    timeline = log.timeline()
    for row in rows_of(timeline):
        assert str(parse_path(row.path)) == row.path
        whole = whole_at(timeline, row.path)
        if row.kind not in ("plan", "attachment", "note"):
            assert row.text in whole
        assert whole


@patient
@given(logs(forgetting=True))
def test_a_row_is_named_by_its_path_and_part_and_bounded(log: LogBuilder):
    timeline = log.timeline()
    rows = rows_of(timeline)
    assert len({(row.path, row.part) for row in rows}) == len(rows)
    parts: dict[str, list[int]] = {}
    for row in rows:
        parts.setdefault(row.path, []).append(row.part)
        assert row.text.strip() == row.text != ""
        assert len(row.text) <= MEMORY_TEXT_CHARS
        assert 0 < row.n <= timeline.n
        assert row.at.endswith("Z")
    assert all(found == list(range(len(found))) for found in parts.values())


@patient
@given(logs(forgetting=True))
def test_later_batches_change_no_row_of_a_closed_turn(log: LogBuilder):
    half = log.timeline(len(log.batches) // 2)
    later = log.timeline()
    for turn in [one.id for one in half.history if one.closed]:
        assert [row for row in turn_rows(half, turn) if row.kind != "source"] == [
            row for row in turn_rows(later, turn) if row.kind != "source"
        ]


@given(texts)
def test_the_pieces_of_a_text_hold_all_of_it_but_space(text: str):
    pieces = cut_text(text * 40)
    assert "".join("".join(pieces).split()) == "".join((text * 40).split())


def test_a_long_text_is_cut_between_its_sentences():
    sentences = [f"Sentence number {n} says that something happened on day {n}." for n in range(40)]
    pieces = cut_text(" ".join(sentences))
    assert len(pieces) > 5
    assert all(len(piece) <= PIECE_CHARS and piece.endswith(".") for piece in pieces)
    assert [one for piece in pieces for one in piece.replace(". S", ".|S").split("|")] == sentences


def test_a_text_without_an_end_is_cut_where_a_row_is_full():
    assert [len(piece) for piece in cut_text("x" * (2 * MEMORY_TEXT_CHARS + 7))] == [
        MEMORY_TEXT_CHARS,
        MEMORY_TEXT_CHARS,
        7,
    ]


def test_a_language_without_spaces_is_cut_at_its_full_stops():
    sentence = "\u6c34\u737a\u5728\u6cb3\u88e1\u7761\u89ba\u3002"
    pieces = cut_text(sentence * 100)
    assert len(pieces) > 1
    assert all(piece.endswith("\u3002") and len(piece) <= PIECE_CHARS for piece in pieces)


def a_turn(**answer: Any) -> LogBuilder:
    log = LogBuilder()
    log.message("Where do otters sleep?")
    log.answer("On their backs.", **answer)
    log.close()
    return log


def test_a_turn_has_its_prompt_answer_and_summary():
    log = a_turn(summary="Title: Otters\nThe user asked about otters.")
    turn = log.closed_turns()[0]
    rows = turn_rows(log.timeline(), turn)
    assert [(row.kind, row.path, row.text) for row in rows] == [
        ("prompt", f"ar:{turn}.user.prompt", "Where do otters sleep?"),
        (
            "summary",
            f"ws:{turn}.conv.working.summary",
            "Title: Otters\nThe user asked about otters.",
        ),
        ("answer", f"ar:{turn}.assistant.completion", "On their backs."),
    ]
    assert {row.n for row in rows} == {len(log.batches)}
    assert {row.conversation for row in rows} == {"c-1"}


def test_a_turn_without_a_summary_of_the_model_has_no_row_that_repeats_the_others():
    assert [row.kind for row in rows_of(a_turn().timeline())] == ["prompt", "answer"]


def test_the_newest_of_several_summaries_of_a_turn_counts():
    log = LogBuilder()
    log.message("a")
    log.answer("one", rendered=1, summary="summary one")
    log.message("more")
    log.defer()
    log.answer("two", summary="summary two")
    log.close()
    (row,) = [row for row in rows_of(log.timeline()) if row.kind == "summary"]
    assert (row.text, row.path) == ("summary two", f"ws:{log.closed_turns()[0]}.conv.working.summary")


def test_a_turn_that_is_not_over_has_no_rows_yet():
    log = LogBuilder()
    log.message("hello")
    assert turn_rows(log.timeline(), log.turn) == ()
    assert turn_rows(log.timeline(), "turn_unknown") == ()
    assert range_rows(log.timeline(), "turn_unknown") == ()


def test_every_answer_of_a_turn_has_rows_exactly_once():
    log = LogBuilder()
    log.message("a")
    log.answer("one", rendered=1)
    log.message("more")
    log.defer()
    log.answer("two")
    log.close()
    rows = [row for row in rows_of(log.timeline()) if row.kind == "answer"]
    turn = log.closed_turns()[0]
    assert [(row.path, row.text) for row in rows] == [
        (f"ar:{turn}.assistant.completion.1", "one"),
        (f"ar:{turn}.assistant.completion", "two"),
    ]


def test_events_are_rows_of_the_turn_that_showed_them():
    log = LogBuilder()
    log.message("begin")
    log.message("also look at herons", event="followup")
    log.answer("done")
    log.message("and badgers", event="followup")
    log.close()
    log.answer("badgers, too")
    log.close()
    first, second = log.closed_turns()
    timeline = log.timeline()
    assert texts_of(rows_of(timeline, first), "event") == ["also look at herons"]
    assert texts_of(rows_of(timeline, second), "prompt") == ["and badgers"]


def note(log: LogBuilder, text: str, name: str = "n.md") -> None:
    log.act(("react.write", {}))
    log.result(
        "",
        tool="react.write",
        blocks=(log.file(name), log.block(f"fi:{log.turn}.outputs/{name}", text, type="react.note")),
    )


def test_each_tagged_line_of_a_note_is_a_row_with_its_tag():
    log = LogBuilder()
    log.message()
    note(
        log,
        "Notes of today\n[P] tea, not coffee\n[D] we use UTC\n  because of the logs\n[K] a/b.py: the entry",
    )
    log.answer()
    log.close()
    rows = [row for row in rows_of(log.timeline()) if row.kind == "note"]
    assert [(row.text, row.tags, row.part) for row in rows] == [
        ("Notes of today", (), 0),
        ("tea, not coffee", ("P",), 1),
        ("we use UTC because of the logs", ("D",), 2),
        ("a/b.py: the entry", ("K",), 3),
    ]
    assert {row.path for row in rows} == {f"fi:{log.closed_turns()[0]}.outputs/n.md"}


def test_the_newest_text_of_a_rewritten_note_counts():
    log = LogBuilder()
    log.message()
    note(log, "[D] we use UTC\n[D] and SI units")
    note(log, "[D] we use local time")
    log.answer()
    log.close()
    assert texts_of(rows_of(log.timeline()), "note") == ["we use local time"]


def test_a_plan_row_has_the_newest_steps_of_its_turn():
    log = LogBuilder()
    log.message()
    log.act(("react.plan", {}))
    log.result(tool="react.plan", plans=(log.plan("count otters", "draw them"),))
    log.answer(plan=log.plan("count otters", "draw them", status={"1": "done", "2": "pending"}))
    log.close()
    assert texts_of(rows_of(log.timeline()), "plan") == ["✓ [1] count otters\n□ [2] draw them"]


def test_a_source_is_a_row_at_its_number_in_the_pool():
    log = LogBuilder()
    log.message()
    log.act(("web.search", {}))
    source = Source(
        sid=3, title="Otters", url="https://a.example/otters", text="They sleep afloat.", turn_id=log.turn
    )
    log.result(tool="web.search", sources=(source,))
    log.answer()
    log.close()
    (row,) = [row for row in rows_of(log.timeline()) if row.kind == "source"]
    assert row.path == "so:sources_pool[3]"
    assert row.text == "Otters\nThey sleep afloat.\nhttps://a.example/otters"


def test_an_attachment_is_found_by_its_name():
    log = LogBuilder()
    file = Attachment(filename="otter census.csv", mime="text/csv", size_bytes=9, sha256="0" * 64)
    log.message("count them", attachments=(file,))
    log.answer()
    log.close()
    (row,) = [row for row in rows_of(log.timeline()) if row.kind == "attachment"]
    assert row.text == "otter census.csv (text/csv)"
    assert row.path == f"fi:{log.closed_turns()[0]}.user.attachments/otter census.csv"


def test_a_range_summary_names_the_turns_that_no_older_one_covered():
    log = LogBuilder()
    for _ in range(3):
        log.message()
        log.answer()
        log.close()
    log.message()
    first, second, third = log.closed_turns()
    turns = log.timeline().history
    log.compact(cut=turns[1].opened, summary="the first turn", covered=(first,))
    log.compact(cut=0, split=log.n - 1)
    log.compact(cut=turns[3].opened, summary="three turns", covered=(second, third))
    rows = range_rows(log.timeline(), log.turn)
    path = f"su:{log.turn}.conv.range.summary"
    assert [(row.path, row.text, row.covers) for row in rows] == [
        (f"{path}.1", "the first turn", (first,)),
        (f"{path}.2", "three turns", (second, third)),
    ]
    assert [row.n for row in rows] == [len(log.batches) - 2, len(log.batches)]
    log.answer()
    log.close()
    assert [row for row in rows_of(log.timeline()) if row.kind == "range"] == list(rows)


def test_a_note_that_a_range_summary_took_over_is_a_row_with_its_tag():
    log = a_turn()
    log.message()
    summary = "The user likes otters.\n[P] tea, not coffee\nThey went on.\n[K] a.py: the entry"
    log.compact(cut=log.timeline().history[-1].opened, summary=summary)
    rows = range_rows(log.timeline(), log.turn)
    assert [(row.text, row.tags) for row in rows] == [
        ("The user likes otters.", ()),
        ("tea, not coffee", ("P",)),
        ("They went on.", ()),
        ("a.py: the entry", ("K",)),
    ]


def test_a_failed_compaction_has_no_rows():
    log = a_turn()
    log.message()
    log.compact(cut=log.timeline().history[-1].opened, status="error", summary="nothing")
    assert range_rows(log.timeline(), log.turn) == ()


@pytest.mark.parametrize("kind", ["user.prompt", "react.plan", "react.note"])
def test_a_bundles_block_of_any_content_breaks_nothing(kind: str):
    log = LogBuilder()
    log.message()
    log.contribute(log.block(f"ar:{log.turn}.system.message.mine", "[1, not a plan", type=kind))
    log.contribute(log.block("ar:turn_9999.user.prompt", "elsewhere", type=kind))
    log.answer()
    log.close()
    timeline = log.timeline()
    assert "elsewhere" not in [row.text for row in rows_of(timeline)]
    assert "[1, not a plan" in [row.text for row in rows_of(timeline)]
