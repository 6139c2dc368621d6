"""Paths: what a tool finds at a logical path."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from stepline.errors import PathError
from stepline.model.decision import Notice
from stepline.model.path import parse_path
from stepline.timeline.fold import Timeline
from tests.support.log_builder import Story, patient, stories


def texts_at(timeline: Timeline, path: str) -> list[str]:
    return [block.text for block in timeline.resolve(path)]


@patient
@given(stories())
def test_every_block_has_a_path_of_the_grammar_and_is_found_at_it(story: Story):
    timeline = story.timeline()
    for block in timeline.blocks():
        if not block.path:
            continue
        try:
            assert str(parse_path(block.path)) == block.path
        except PathError as error:
            pytest.fail(f"{block.path}: {error.reason}")
        assert any(found.path == block.path for found in timeline.resolve(block.path))


@patient
@given(stories())
def test_no_two_notices_stand_at_one_path(story: Story):
    notices = [block.path for block in story.timeline().blocks() if block.type == "react.notice"]
    assert len(set(notices)) == len(notices)


def test_the_notices_of_a_round_stand_under_the_calls_they_are_about():
    story = Story()
    story.message()
    told = [Notice(code="unknown_channel", message="a"), Notice(code="channel_not_closed", message="b")]
    calls = [story.call(i) for i in range(3)]
    story.act(
        ("react.read", {}),
        notices=(*told, story.dropped(1), story.dropped(2), story.dropped(2, "bad_params")),
    )
    blocks = [block for block in story.timeline().blocks() if block.type == "react.notice"]
    assert [(block.call_id, block.path.partition(".notice")[2]) for block in blocks] == [
        (calls[0], ".1"),
        (calls[0], ".2"),
        (calls[1], ""),
        (calls[2], ""),
        (calls[2], ".1"),
    ]


@patient
@given(stories())
def test_blocks_do_not_depend_on_how_the_log_arrived(story: Story):
    half = story.timeline(len(story.batches) // 2)
    half.blocks()
    assert half.extended(story.batches).blocks() == story.timeline().blocks()


def test_the_newest_answer_has_the_plain_path_and_earlier_ones_are_numbered():
    story = Story()
    story.message()
    turn = story.turn
    story.answer("one", rendered=1, summary="summary one")
    story.message("more")
    story.defer()
    open_turn = story.timeline()
    assert texts_at(open_turn, f"ar:{turn}.assistant.completion") == ["one"]
    story.answer("two", summary="summary two")
    story.close()
    timeline = story.timeline()
    assert texts_at(timeline, f"ar:{turn}.assistant.completion") == ["two"]
    assert texts_at(timeline, f"ar:{turn}.assistant.completion.1") == ["one"]
    assert texts_at(timeline, f"ar:{turn}.assistant.completion.attempt.2") == ["two"]
    assert len(texts_at(timeline, f"ar:{turn}.assistant.completion.attempt.1.outcome")) == 1
    assert texts_at(timeline, f"ws:{turn}.conv.working.summary") == ["summary two"]
    assert texts_at(timeline, f"ws:{turn}.conv.working.summary.attempt.1") == ["summary one"]


def test_the_newest_summary_of_a_turn_has_the_plain_path_and_each_has_a_number():
    story = Story()
    for _ in range(3):
        story.message()
        story.answer("done")
        story.close()
    story.message()
    for turn, text in zip(story.timeline().history[1:3], ("older", "newer"), strict=True):
        story.compact(cut=turn.opened, summary=text)
    timeline, path = story.timeline(), f"su:{story.turn}.conv.range.summary"
    assert texts_at(timeline, path) == ["newer"]
    numbered = [texts_at(timeline, f"{path}.{number}") for number in range(4)]
    assert numbered == [[], ["older"], ["newer"], []]


def test_a_plan_is_found_by_its_newest_snapshot():
    story = Story()
    story.message()
    story.act(("react.plan", {}))
    plan = story.plan("a")
    story.result(tool="react.plan", plans=(plan,))
    done = story.plan("a", status={"1": "done"})
    story.answer(plan=done)
    (found,) = story.timeline().resolve(f"ar:plan.latest:{plan.plan_id}")
    assert msgspec.json.decode(found.text)["status"] == {"1": "done"}
    assert texts_at(story.timeline(), f"ar:{story.turn}.react.plan.ack.1") == ["✓ [1] a"]
    assert story.timeline().resolve("ar:plan.latest:plan:none") == ()


def test_a_view_never_stands_for_its_source():
    story = Story()
    story.message()
    story.act(("react.write", {}))
    story.result(tool="react.write", blocks=(story.file("a.md"),))
    source = f"fi:{story.turn}.outputs/a.md"
    assert story.timeline().visible(source) is None
    story.act(("react.read", {}))
    call = story.call()
    meta = {"source_path": source, "source_sha256": "ab" * 32, "whole": True}
    view = story.block(f"tc:{story.turn}.{story.call()}.view.0", "# A", meta=meta)
    liar = story.block(source, "not the file", meta={"source_path": f"fi:{story.turn}.outputs/b.md"})
    story.result(blocks=(view, liar))
    (found,) = story.timeline().resolve(source)
    assert found.body is not None
    assert story.timeline().resolve(view.path) == ()
    shown = story.timeline().visible(source)
    assert shown is not None
    assert (shown.path, shown.call_id, shown.digest) == (source, call, "ab" * 8)


def test_what_was_written_last_is_what_a_path_means():
    story = Story()
    story.message()
    for key in ("out/first", "out/second"):
        story.act(("react.write", {}))
        story.result(tool="react.write", blocks=(story.file("a.md", key=key),))
    (found,) = story.timeline().resolve(f"fi:{story.turn}.outputs/a.md")
    assert found.body.key == "out/second"


def test_only_text_that_is_shown_whole_is_visible():
    story = Story()
    story.message("hello")
    turn = story.turn
    story.act(("react.write", {"content": "x" * 3000}), ("react.read", {"paths": ["a"]}), notes="writing")
    long_call, short_call = story.call(0), story.call(1)
    story.result("word " * 4000, tool="web_tools.web_fetch")
    story.result("short")
    story.answer("bye", summary="internal")
    timeline = story.timeline()
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
    story = Story()
    story.message()
    story.act(("react.write", {"path": "a", "content": "x" * 3000}))
    (block,) = story.timeline().resolve(f"tc:{story.turn}.{story.call()}.call")
    shown = msgspec.json.decode(block.text)["params"]["content"]
    assert (shown["text_symbols"], shown["omitted_text_symbols"], len(shown["preview"])) == (3000, 2400, 600)
    assert block.meta["omitted_fields"] == ["content"]
    assert block.meta["payload"]["content"] == "x" * 3000


def test_a_result_without_blocks_has_a_status_at_its_path():
    story = Story()
    story.message()
    story.act(("web_tools.send", {}))
    call = story.call()
    story.result(tool="web_tools.send", status="unverified", blocks=(), error={"code": "lost"})
    assert texts_at(story.timeline(), f"tc:{story.turn}.{call}.result") == [
        '{"status":"unverified","error":{"code":"lost"}}'
    ]


def test_an_event_between_turns_belongs_to_the_next_one():
    story = Story()
    story.message("first")
    story.answer()
    story.close()
    story.message("build finished", event="event", reactive=False)
    story.message("steer", event="steer")
    story.message("second")
    timeline = story.timeline()
    assert texts_at(timeline, f"ar:{story.turn}.external.event.m2") == ["build finished"]
    assert texts_at(timeline, f"ar:{story.turn}.user.prompt") == ["second"]
    assert timeline.resolve(f"ar:{story.turn}.external.steer.m3") == ()
