"""Forms of text: the standard form matches the golden files, and another form needs no other change."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from stepline.context.request import render
from stepline.model.source import Source
from stepline.ports.model import Part
from stepline.rendering.text_form import STANDARD, TextForm
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LANE, LogBuilder, logs, patient
from tests.support.rendered_text import forged
from tests.unit.rendering.golden import GOLDEN, cases
from tests.unit.rendering.json_form import TERSE

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_what_its_golden_file_says(name: str):
    wanted = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert CASES[name] == wanted, "if this is meant: python -m tests.unit.rendering.golden"


def test_golden_files_match_the_set_of_texts():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)
    form = {name.partition(".")[0] for name in CASES}
    kinds = {
        "header",
        "prompt",
        "event",
        "round",
        "thinking",
        "notes",
        "code",
        "call",
        "notice",
        "raw",
        "status",
    }
    kinds |= {"result", "answer", "outcome", "summary", "note", "stage", "closing", "message", "feedback"}
    assert form >= kinds | {"memory", "plans", "checkpoint", "turn", "attachment", "pool", "announce"}


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("announce", "pool"))])
def test_unindented_lines_of_a_golden_file_are_structure(name: str):
    text = CASES[name]
    assert [line for line in forged(text) if "⋮" not in line] == []
    assert text.endswith("\n")


def rendered(log: LogBuilder, form: TextForm, upto: int | None = None) -> tuple[Timeline, tuple[Part, ...]]:
    """Return the timeline of a log in a form, and the parts that the model would read."""
    timeline = Timeline.empty(LANE, form=form).extended(log.batches[:upto])
    return timeline, render(timeline, system="rules").content


def long_log() -> LogBuilder:
    """Return the log of a conversation with every kind of entry and every kind of reduction."""
    log = LogBuilder()
    for number in range(8):
        log.message(f"question {number}")
        log.act(("web_tools.web_search", {"queries": "q" * 500}), thinking=("hm",), notes="Looking.")
        source = Source(sid=number + 1, title="A page", url=f"https://e.example/{number}")
        found = log.result(f"found {number} " * 200, tool="web_tools.web_search", sources=(source,))
        log.message("more!")
        log.reject()
        log.act(("react.plan", {}))
        log.result(
            tool="react.plan", plans=(log.plan("a", "b", plan_id=f"plan:{log.turn}:0a", current=False),)
        )
        log.act(("react.hide", {}))
        result = found.entries[0]
        if number % 2:
            log.result(tool="react.hide")
        else:
            log.hide(f"tc:{log.turn}.{result.call_id}.result", found.n)
        log.answer(f"answer {number}", summary="Goal: x" if number % 2 else "")
        if number == 6:
            log.rate("turn_0001", "not_ok", "bad")
            log.prune(keep=3, intact=1)
        if number == 7:
            log.compact(cut=log.timeline().history[5].opened, split=log.n - 3)
        log.close()
    log.message("the last one")
    return log


def test_another_layout_renders_prunes_hides_and_compacts_a_whole_conversation():
    log = long_log()
    for upto in range(1, len(log.batches) + 1):
        timeline, parts = rendered(log, TERSE, upto)
        text = "".join(part.text for part in parts)
        assert [line for line in text.splitlines() if not json.loads(line)["a"]] == []
        assert timeline.state == rendered(log, STANDARD, upto)[0].state
    said = {json.loads(line)["a"] for line in text.splitlines()}
    assert said >= {"memory", "event", "opening", "prompt", "plans"}
    assert timeline.visible("ar:turn_0001.user.prompt") is None
    assert [block.text for block in timeline.resolve("ar:turn_0001.user.prompt")] == ["question 0"]


def test_each_text_of_a_layout_is_used():
    log, asked = long_log(), set()
    for upto in range(1, len(log.batches) + 1):
        text = "".join(part.text for part in rendered(log, TERSE, upto)[1])
        asked |= {json.loads(line)["a"] for line in text.splitlines()}
    rare = {"event", "raw", "code", "takeover", "note", "stage", "outcome", "clipped", "steered", "edited"}
    rare |= {"forked"}
    assert asked | rare | {"name", "shows_text", "shows_call", "shows_event"} >= set(TERSE.__struct_fields__)


@patient
@given(logs(forgetting=True))
def test_any_layout_renders_whole_lines_and_folds_alike_in_pieces(log: LogBuilder):
    half = Timeline.empty(LANE, form=TERSE).extended(log.batches[: len(log.batches) // 2])
    timeline, parts = rendered(log, TERSE)
    assert half.extended(log.batches).pieces == timeline.pieces
    for part in parts:
        assert all(json.loads(line)["a"] for line in part.text.splitlines())
    plain = Timeline.empty(LANE).extended(log.batches)
    assert [(piece.kind, piece.path) for piece in timeline.pieces if piece.turn] == [
        (piece.kind, piece.path) for piece in plain.pieces if piece.turn
    ]


@patient
@given(logs(forgetting=True))
def test_shortened_text_cannot_forge_structure(log: LogBuilder):
    timeline = log.timeline()
    text = "".join(piece.text for piece in timeline.pieces)
    assert forged(text) == []
    assert all(piece.text == "" or piece.text.endswith("\n") for piece in timeline.pieces)
