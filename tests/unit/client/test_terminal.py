"""Text of strangers on a terminal, and what a person and a program read of a turn."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stepline.local.client.effect import (
    Acknowledged,
    EventsApplied,
    Refused,
    StreamSettled,
    TextAppended,
    TurnEnded,
)
from stepline.local.record import render_effect, render_json
from stepline.local.terminal import clean, one_line, render_event
from stepline.local.view import PlainView, RichView
from stepline.model.event import AckFrame, ClientEvent, ErrorFrame

EVIL = "\x1b]8;;https://evil\x07link\x1b[2J\x9b31m\r\x08\u202eabc [red]not markup[/red]"


def event(kind, *, step="", **data):
    return ClientEvent(type=kind, route="chat_step", ts="", turn_id="turn_1", step=step, data=data)


@given(st.text())
def test_cleaned_text_holds_nothing_that_acts_on_a_terminal(text):
    assert not [c for c in clean(text) if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]


@given(st.text())
def test_a_line_is_one_line_of_bounded_length(text):
    line = one_line(text, 40)
    assert len(line) <= 40
    assert len(line.splitlines()) <= 1


def test_printable_text_stays_as_it_is():
    text = "# Grüße → 🙂\n\tcode\n"
    assert clean(text) == text


@given(st.text())
def test_json_lines_are_printable_ascii_and_say_the_same(text):
    line = render_json({"text": text})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


def test_tools_plans_and_files_are_lines():
    assert render_event(event("react.tool.call", tool_id="react.write", params={"path": "a.md", "n": 2})) == [
        "→ react.write path=a.md n=2"
    ]
    result = event(
        "react.tool.result", tool_id="react.read", status="ok", duration_ms=12, preview="two\nlines"
    )
    assert render_event(result) == ["✓ react.read, 12 ms"]
    failed = event("react.tool.result", tool_id="react.read", status="error", duration_ms=1, code="not_found")
    assert render_event(failed) == ["✗ react.read, 1 ms: not_found"]
    plan = event("react.plan", steps=["one", "two", "three"], status={"1": "done", "2": "in_progress"})
    assert render_event(plan) == ["  ✓ 1. one", "  … 2. two", "  □ 3. three"]
    files = event("chat.files", items=[{"logical_path": "fi:turn_1.outputs/a.md"}])
    assert render_event(files) == ["⎙ fi:turn_1.outputs/a.md"]


def test_a_program_is_shown_by_its_size_its_first_line_and_its_start():
    code = event("code_exec.code", language="python", text="\nimport pandas\nprint(1)\n")
    assert render_event(code) == ["  3 lines of python: import pandas"]
    assert render_event(event("code_exec.status", status="exec")) == ["  … running"]
    assert render_event(event("code_exec.status", status="done")) == []


def test_what_a_tool_says_on_its_way_is_a_line():
    said = event("react.tool.event", type="rows", data={"count": 3})
    assert render_event(said) == ['  rows: {"count": 3}']


def test_every_event_type_can_be_shown():
    from stepline.timeline.event_type import TABLE

    shown = {row.type: render_event(event(row.type)) for row in TABLE}
    assert all(line.isprintable() for lines in shown.values() for line in lines)


def test_an_event_of_a_later_release_says_nothing():
    assert render_event(event("chat.something_new")) == []


def effects():
    return [
        Acknowledged(frame=AckFrame(message_id="m1", conversation="c1", n=1, kind="prompt")),
        TextAppended(claim=1, lane="thinking.0", off=0, text=f"hm {EVIL}"),
        TextAppended(claim=1, lane="answer.1", off=0, text="Hel"),
        StreamSettled(claim=1),
        EventsApplied(n=2, prev=1, events=(event("react.tool.call", tool_id=EVIL, params={"path": EVIL}),)),
        EventsApplied(n=3, prev=2, events=(event("chat.complete", answer="Hello."),)),
        TurnEnded(n=3, turn_id="turn_1", outcome="completed", answer=f"Hello. {EVIL}"),
    ]


def test_a_pipe_gets_tool_lines_and_the_recorded_answer():
    written, complained = [], []
    with PlainView(written.append, complained.append) as view:
        for effect in effects():
            view.show(effect)
    assert written[0].startswith("→ ")
    assert written[-1].startswith("\nHello. ")
    assert not complained
    assert "\x1b" not in "".join(written)


def test_a_turn_that_failed_complains_with_its_code():
    written, complained = [], []
    with PlainView(written.append, complained.append) as view:
        view.show(
            TurnEnded(n=3, turn_id="t", outcome="error", answer="", code="context_limit", message="too long")
        )
        view.show(Refused(frame=ErrorFrame(code="not_found", message="no such conversation")))
    assert complained == ["error: context_limit too long", "error: not_found no such conversation"]
    assert not written


@pytest.mark.parametrize("width", [20, 100])
def test_a_terminal_shows_thinking_tools_and_answer_and_no_escape_of_a_stranger(width):
    console = Console(file=io.StringIO(), width=width, height=20, color_system=None, force_terminal=False)
    with RichView(console) as view:
        for effect in effects():
            view.show(effect)
    shown = console.file.getvalue()
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    words = " ".join(shown.split())
    assert "hm " in words
    assert "→" in words
    assert "Hello." in words


def test_markup_of_a_stranger_is_text():
    console = Console(file=io.StringIO(), width=100, force_terminal=False, markup=False)
    with RichView(console) as view:
        view.say("[red]x[/red]")
    assert "[red]x[/red]" in console.file.getvalue()


def test_each_event_is_a_json_line_and_the_last_one_is_the_only_terminal():
    lines = [line for effect in effects() for line in render_effect(effect)]
    assert [line["frame"] for line in lines] == ["ack", "delta", "delta", "settled", "event", "event"]
    assert [line.get("terminal", False) for line in lines] == [False] * 5 + [True]
    assert (lines[4]["n"], lines[4]["prev"], lines[4]["i"]) == (2, 1, 0)
    assert (lines[2]["lane"], lines[2]["off"], lines[2]["text"]) == ("answer.1", 0, "Hel")
