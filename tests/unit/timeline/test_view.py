"""Paths: the content that a tool finds at a logical path."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from stepline.errors import PathError
from stepline.model.decision import Notice
from stepline.model.path import parse_path
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LogBuilder, logs, patient


def texts_at(timeline: Timeline, path: str) -> list[str]:
    return [block.text for block in timeline.resolve(path)]


@patient
@given(logs())
def test_every_block_has_a_path_of_the_grammar_and_is_found_at_it(log: LogBuilder):
    timeline = log.timeline()
    for block in timeline.blocks():
        if not block.path:
            continue
        try:
            assert str(parse_path(block.path)) == block.path
        except PathError as error:
            pytest.fail(f"{block.path}: {error.reason}")
        assert any(found.path == block.path for found in timeline.resolve(block.path))


@patient
@given(logs())
def test_no_two_notices_have_the_same_path(log: LogBuilder):
    notices = [block.path for block in log.timeline().blocks() if block.type == "react.notice"]
    assert len(set(notices)) == len(notices)


def test_notices_of_a_round_are_stored_under_their_calls():
    log = LogBuilder()
    log.message()
    notices = [Notice(code="unknown_channel", message="a"), Notice(code="channel_not_closed", message="b")]
    calls = [log.call(i) for i in range(3)]
    log.act(
        ("react.read", {}),
        notices=(*notices, log.dropped(1), log.dropped(2), log.dropped(2, "bad_params")),
    )
    blocks = [block for block in log.timeline().blocks() if block.type == "react.notice"]
    assert [(block.call_id, block.path.partition(".notice")[2]) for block in blocks] == [
        (calls[0], ".1"),
        (calls[0], ".2"),
        (calls[1], ""),
        (calls[2], ""),
        (calls[2], ".1"),
    ]


@patient
@given(logs())
def test_blocks_do_not_depend_on_how_the_log_arrived(log: LogBuilder):
    half = log.timeline(len(log.batches) // 2)
    half.blocks()
    assert half.extended(log.batches).blocks() == log.timeline().blocks()


def test_the_newest_answer_has_the_plain_path_and_earlier_ones_are_numbered():
    log = LogBuilder()
    log.message()
    turn = log.turn
    log.answer("one", rendered=1, summary="summary one")
    log.message("more")
    log.defer()
    open_turn = log.timeline()
    assert texts_at(open_turn, f"ar:{turn}.assistant.completion") == ["one"]
    log.answer("two", summary="summary two")
    log.close()
    timeline = log.timeline()
    assert texts_at(timeline, f"ar:{turn}.assistant.completion") == ["two"]
    assert texts_at(timeline, f"ar:{turn}.assistant.completion.1") == ["one"]
    assert texts_at(timeline, f"ar:{turn}.assistant.completion.attempt.2") == ["two"]
    assert len(texts_at(timeline, f"ar:{turn}.assistant.completion.attempt.1.outcome")) == 1
    assert texts_at(timeline, f"ws:{turn}.conv.working.summary") == ["summary two"]
    assert texts_at(timeline, f"ws:{turn}.conv.working.summary.attempt.1") == ["summary one"]


def test_the_newest_summary_of_a_turn_has_the_plain_path_and_each_has_a_number():
    log = LogBuilder()
    for _ in range(3):
        log.message()
        log.answer("done")
        log.close()
    log.message()
    for turn, text in zip(log.timeline().history[1:3], ("older", "newer"), strict=True):
        log.compact(cut=turn.opened, summary=text)
    timeline, path = log.timeline(), f"su:{log.turn}.conv.range.summary"
    assert texts_at(timeline, path) == ["newer"]
    numbered = [texts_at(timeline, f"{path}.{number}") for number in range(4)]
    assert numbered == [[], ["older"], ["newer"], []]


def test_a_plan_is_found_by_its_newest_snapshot():
    log = LogBuilder()
    log.message()
    log.act(("react.plan", {}))
    plan = log.plan("a")
    log.result(tool="react.plan", plans=(plan,))
    done = log.plan("a", status={"1": "done"})
    log.answer(plan=done)
    (found,) = log.timeline().resolve(f"ar:plan.latest:{plan.plan_id}")
    assert msgspec.json.decode(found.text)["status"] == {"1": "done"}
    assert texts_at(log.timeline(), f"ar:{log.turn}.react.plan.ack.1") == ["✓ [1] a"]
    assert log.timeline().resolve("ar:plan.latest:plan:none") == ()


def test_a_view_is_never_a_substitute_for_its_source():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {}))
    log.result(tool="react.write", blocks=(log.file("a.md"),))
    source = f"fi:{log.turn}.outputs/a.md"
    assert log.timeline().visible(source) is None
    log.act(("react.read", {}))
    call = log.call()
    meta = {"source_path": source, "source_sha256": "ab" * 32, "whole": True}
    view = log.block(f"tc:{log.turn}.{log.call()}.view.0", "# A", meta=meta)
    liar = log.block(source, "not the file", meta={"source_path": f"fi:{log.turn}.outputs/b.md"})
    log.result(blocks=(view, liar))
    (found,) = log.timeline().resolve(source)
    assert found.body is not None
    assert log.timeline().resolve(view.path) == ()
    shown = log.timeline().visible(source)
    assert shown is not None
    assert (shown.path, shown.call_id, shown.digest) == (source, call, "ab" * 8)


def test_a_path_resolves_to_its_last_write():
    log = LogBuilder()
    log.message()
    for key in ("out/first", "out/second"):
        log.act(("react.write", {}))
        log.result(tool="react.write", blocks=(log.file("a.md", key=key),))
    (found,) = log.timeline().resolve(f"fi:{log.turn}.outputs/a.md")
    assert found.body.key == "out/second"


def test_only_text_that_is_shown_whole_is_visible():
    log = LogBuilder()
    log.message("hello")
    turn = log.turn
    log.act(("react.write", {"content": "x" * 3000}), ("react.read", {"paths": ["a"]}), notes="writing")
    long_call, short_call = log.call(0), log.call(1)
    log.result("word " * 4000, tool="web_tools.web_fetch")
    log.result("short")
    log.answer("bye", summary="internal")
    timeline = log.timeline()
    seen = [f"ar:{turn}.user.prompt", f"ar:{turn}.react.notes.{long_call}", f"tc:{turn}.{short_call}.call"]
    seen += [f"tc:{turn}.{short_call}.result", f"ar:{turn}.assistant.completion.attempt.1"]
    hidden = [f"tc:{turn}.{long_call}.call", f"tc:{turn}.{long_call}.result"]
    hidden += [
        f"ws:{turn}.conv.working.summary",
        f"ar:{turn}.react.round.start.{long_call}",
        "ar:turn_9.user.prompt",
    ]
    assert [path for path in seen if timeline.visible(path) is None] == []
    assert [path for path in hidden if timeline.visible(path) is not None] == []


def test_a_capped_call_keeps_its_whole_parameters():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {"path": "a", "content": "x" * 3000}))
    (block,) = log.timeline().resolve(f"tc:{log.turn}.{log.call()}.call")
    shown = msgspec.json.decode(block.text)["params"]["content"]
    assert (shown["text_symbols"], shown["omitted_text_symbols"], len(shown["preview"])) == (3000, 2400, 600)
    assert block.meta["omitted_fields"] == ["content"]
    assert block.meta["payload"]["content"] == "x" * 3000


def test_a_result_without_blocks_has_a_status_at_its_path():
    log = LogBuilder()
    log.message()
    log.act(("web_tools.send", {}))
    call = log.call()
    log.result(tool="web_tools.send", status="unverified", blocks=(), error={"code": "lost"})
    (block,) = log.timeline().resolve(f"tc:{log.turn}.{call}.result")
    assert block.type == "react.tool.result"
    assert block.text == '{"status":"unverified","error":{"code":"lost"}}'


def test_an_event_between_turns_belongs_to_the_next_one():
    log = LogBuilder()
    log.message("first")
    log.answer()
    log.close()
    log.message("build finished", event="event", reactive=False)
    log.message("steer", event="steer")
    log.message("second")
    timeline = log.timeline()
    assert texts_at(timeline, f"ar:{log.turn}.external.event.m2") == ["build finished"]
    assert texts_at(timeline, f"ar:{log.turn}.user.prompt") == ["second"]
    assert timeline.resolve(f"ar:{log.turn}.external.steer.m3") == ()


def test_the_blocks_of_an_open_turn_are_its_history_its_beginning_and_its_events():
    log = LogBuilder()
    log.message()
    log.answer("done")
    log.close()
    log.message("again")
    log.act(("react.read", {"paths": []}))
    log.message("more")
    timeline = log.timeline()
    assert {block.turn_id for block in timeline.history_blocks} == {timeline.turns[0]}
    assert [block.type for block in timeline.current_turn_blocks] == ["turn.header", "user.prompt"]
    assert [block.type for block in timeline.event_blocks][-2:] == ["react.tool.call", "user.followup"]
    parts = (*timeline.history_blocks, *timeline.current_turn_blocks, *timeline.event_blocks)
    assert parts == timeline.blocks()


def test_the_notes_of_a_decision_precede_its_call():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {"paths": []}), notes="I look it up.")
    assert [block.type for block in log.timeline().event_blocks][-2:] == ["react.notes", "react.tool.call"]


@patient
@given(logs())
def test_all_blocks_are_history_between_turns(log: LogBuilder):
    timeline = log.timeline()
    parts = (*timeline.history_blocks, *timeline.current_turn_blocks, *timeline.event_blocks)
    assert parts == timeline.blocks()
    if timeline.current is None:
        assert timeline.history_blocks == timeline.blocks()
