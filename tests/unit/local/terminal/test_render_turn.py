"""Foreign text on a terminal, and a turn as users and programs read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.events.types import EVENT_TABLE
from stepline.local.client.change import (
    Acknowledged,
    EventsApplied,
    HandedBack,
    LaneEnded,
    LaneKnown,
    PutOff,
    Refused,
    StreamReset,
    StreamSettled,
    TextAppended,
    TurnEnded,
)
from stepline.local.safe_text import clean, one_line
from stepline.local.terminal.json_lines import render_effect, render_json_line
from stepline.local.terminal.render import (
    render_citation,
    render_client_event,
    render_footer,
    render_usage,
)
from stepline.local.terminal.turn_view import PlainView, RichView
from stepline.model.visible_text import has_hidden
from stepline.model.wire.event import AckFrame, ClientEvent, ErrorFrame
from stepline.protocol.stream.lane import LaneFacts
from tests.unit.local.terminal.recorded_surface import RecordedSurface

EVIL = "\x1b]8;;https://evil\x07link\x1b[2J\x9b31m\r\x08\u202eabc [red]not markup[/red]"


def event(kind, *, step="", **data):
    return ClientEvent(type=kind, route="chat_step", ts="", turn_id="turn_1", step=step, data=data)


@given(st.text())
def test_cleaned_text_holds_nothing_that_acts_on_a_terminal(text):
    assert not has_hidden(clean(text))


@given(st.text())
def test_a_line_is_one_line_of_bounded_length(text):
    line = one_line(text, 40)
    assert len(line) <= 40
    assert len(line.splitlines()) <= 1


def test_printable_text_is_unchanged():
    text = "# Grüße → 🙂\n\tcode\n"
    assert clean(text) == text


@given(st.text())
def test_json_lines_are_printable_ascii_and_say_the_same(text):
    line = render_json_line({"text": text})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


CITATIONS = event(
    "chat.citations",
    items=[{"sid": 1, "title": "One", "url": "https://example.com"}, {"sid": 2, "title": "", "url": "u"}],
)
FOLLOWUPS = event("chat.followups", items=["Compare the two"])
USAGE = event("accounting.usage", rounds=2, total_input_tokens=1200, cache_read_tokens=900, output_tokens=50)


def test_sources_and_suggestions_follow_an_answer():
    assert render_footer(CITATIONS) == ["[1] One — https://example.com", "[2] u"]
    assert render_footer(FOLLOWUPS) == ["» Compare the two"]
    assert not any(map(render_client_event, (CITATIONS, FOLLOWUPS, USAGE)))
    assert render_footer(event("chat.complete", answer="Hello.")) == []


def test_the_value_of_a_result_is_indented_json_after_the_answer():
    value = {"eur": 12.5, "of": ["lamp\u2028\x1b[2J"]}
    lines = render_footer(event("chat.complete", answer="It costs 12.50.", value=value, message="Cut."))
    assert lines[:4] == ["Cut.", "  {", '    "eur": 12.5,', '    "of": [']
    assert not any(map(has_hidden, lines))


def test_usage_of_a_turn_is_a_line_on_request():
    assert render_footer(USAGE) == []
    assert render_footer(USAGE, usage=True) == ["  rounds 2, tokens 1200 in (900 cached), 50 out"]
    assert "about" in render_usage({"estimated": True})


@pytest.mark.parametrize(
    ("usage", "last"),
    [(False, "» Compare the two"), (True, "  rounds 2, tokens 1200 in (900 cached), 50 out")],
)
def test_a_pipe_shows_sources_after_the_answer_and_usage_on_request(usage, last):
    written, complained = [], []
    view = PlainView(written.append, complained.append, usage=usage)
    view.show(EventsApplied(n=3, prev=2, events=(CITATIONS, FOLLOWUPS, USAGE)))
    assert written == []
    view.show(TurnEnded(n=3, turn_id="t", outcome="completed", answer="Hello."))
    assert written[:2] == ["\nHello.", "[1] One — https://example.com"]
    assert (written[-1], complained) == (last, [])
    view.show(TurnEnded(n=5, turn_id="t", outcome="error", answer="", code="step_failed"))
    assert (written[-1], len(complained)) == (last, 1)


def test_a_terminal_shows_sources_after_the_answer():
    paper = RecordedSurface(width=80)
    with RichView(paper) as view:
        view.show(EventsApplied(n=3, prev=2, events=(CITATIONS, FOLLOWUPS)))
        view.show(TurnEnded(n=3, turn_id="t", outcome="completed", answer="Hello."))
    lines = [line.strip() for line in paper.printed().splitlines() if line.strip()]
    assert lines[-4:] == ["Hello.", "[1] One — https://example.com", "[2] u", "» Compare the two"]


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "items",
    "results",
    "queries",
    "action_index",
    "code",
    "tool_id",
    "params",
    "notes",
    "status",
    "steps",
    "current",
]
FIELDS += ["duration_ms", "reason", "before_tokens", "logical_path", "language", "text", "type", "data"]


@given(st.sampled_from([row.type for row in EVENT_TABLE]), st.dictionaries(st.sampled_from(FIELDS), wild))
@example("react.tool.result", {"duration_ms": ""})
@example("react.tool.rejected", {"code": "", "action_index": None})
@example("chat.followups", {"items": [""]})
def test_lines_of_any_event_are_single_lines_without_escapes(kind, data):
    shown = event(kind, **data)
    for line in [*render_client_event(shown), *render_footer(shown, usage=True)]:
        assert len(line.splitlines()) <= 1
        assert line == one_line(line, len(line) + 1) or line.startswith("  ")
        assert not has_hidden(line)


def test_every_event_type_can_be_shown():
    shown = {row.type: render_client_event(event(row.type)) for row in EVENT_TABLE}
    assert all(line.isprintable() for lines in shown.values() for line in lines)


def test_an_event_of_a_later_release_prints_nothing():
    assert render_client_event(event("chat.something_new")) == []


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


@pytest.mark.parametrize("evil", [EVIL, "a&#8238;b &#x202e; &#65279; `&#27;`", "<b>\x9b</b>\u2066"])
def test_no_hidden_character_of_a_stranger_reaches_a_pipe_or_a_terminal(evil):
    written, complained, paper = [], [], RecordedSurface()
    data = dict.fromkeys(FIELDS, evil) | {"items": [{"sid": evil, "title": evil}]}
    events = [event(row.type, **data) for row in EVENT_TABLE]
    lanes = [f"{kind}.{evil}" for kind in ("thinking", "answer", "notes", "canvas", "code")]
    lanes.append(f"exec.{evil}.log")
    for view in (PlainView(written.append, complained.append, usage=True), RichView(paper)):
        for lane in lanes:
            view.show(TextAppended(claim=2, lane=lane, off=0, text=evil))
            view.show(LaneKnown(claim=2, lane=lane, facts=LaneFacts(marker="canvas", artifact_name=evil)))
        shown = paper.shown()
        view.show(EventsApplied(n=3, prev=2, events=tuple(events)))
        view.show(HandedBack(n=3, message_id="m", kind=evil, text=evil, reason=evil))
        view.show(TurnEnded(n=3, turn_id=evil, outcome="completed", answer=evil))
        view.show(TurnEnded(n=4, turn_id=evil, outcome="error", answer="", code=evil, message=evil))
        view.show(Refused(frame=ErrorFrame(code=evil, message=evil)))
        view.show(PutOff(frame=ErrorFrame(code=evil, message=evil, retryable=True, retry_after_s=1)))
        view.say(evil)
        view.echo(evil)
    for text in [*written, *complained, paper.printed(), paper.shown(), shown]:
        assert not has_hidden(text)


def test_a_turn_that_failed_complains_with_its_code():
    written, complained = [], []
    with PlainView(written.append, complained.append) as view:
        view.show(
            TurnEnded(n=3, turn_id="t", outcome="error", answer="", code="context_limit", message="too long")
        )
        view.show(Refused(frame=ErrorFrame(code="not_found", message="no such conversation")))
    assert complained == ["error: context_limit: too long", "error: not_found: no such conversation"]
    assert not written


def failed(**given):
    return TurnEnded(
        n=3, turn_id="t", outcome="error", answer="", code="model_overloaded", message="busy", **given
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"retryable": True}, "\nYou can send the message again."),
        ({"retryable": True, "retry_after_s": 20}, "\nYou can send the message again in 20 s."),
        ({"retry_after_s": 80_000}, "\nYou can send the message again in 23 h."),
    ],
)
def test_a_turn_that_failed_says_whether_to_send_its_message_again(given, said):
    complained, paper = [], RecordedSurface(width=100)
    for view in (PlainView(lambda _: None, complained.append), RichView(paper)):
        view.show(failed(**given))
    assert complained == [f"error: model_overloaded: busy{said}"]
    assert [line.strip() for line in paper.printed().splitlines()] == complained[0].splitlines()


@pytest.mark.parametrize(
    ("wait_s", "said"), [(37, "37 s"), (600, "10 min"), (86_000, "24 h"), (2_000_000, "24 days")]
)
def test_a_refusal_says_when_it_ends(wait_s, said):
    frame = ErrorFrame(code="limit_usd", message="Your daily budget is used up.", retry_after_s=wait_s)
    complained, paper = [], RecordedSurface(width=100)
    for view in (PlainView(lambda _: None, complained.append), RichView(paper)):
        view.show(Refused(frame=frame))
    assert complained[0].splitlines()[1] == f"You can send the message again in {said}."
    assert complained[0].splitlines()[1] in paper.printed()


def test_a_message_delayed_by_the_server_is_reported():
    frame = ErrorFrame(code="rate_limited", message="Only 10 a minute.", retryable=True, retry_after_s=37)
    complained, paper = [], RecordedSurface(width=100)
    for view in (PlainView(lambda _: None, complained.append), RichView(paper)):
        view.show(PutOff(frame=frame))
    assert complained == ["… rate_limited: Only 10 a minute. Sent again in 37 s."]
    assert complained[0] in paper.printed()


@pytest.mark.parametrize("width", [20, 100])
def test_a_terminal_shows_thinking_tools_and_answer_and_no_escape_of_a_stranger(width):
    paper = RecordedSurface(width=width)
    with RichView(paper) as view:
        thought = event("solver.react.decision", claim=1, thinking=[{"text": f"hm {EVIL}"}])
        for effect in [EventsApplied(n=1, prev=0, events=(thought,)), *effects()]:
            view.show(effect)
    shown = paper.printed()
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    words = " ".join(shown.split())
    assert "hm " in words
    assert "→" in words
    assert "Hello." in words


def test_thinking_is_shown_once_above_its_decision():
    paper = RecordedSurface(width=80)
    decided = (
        event("solver.react.decision", claim=2, notes="n", thinking=[{"text": "I look."}]),
        event("react.tool.call", tool_id="react.read", call_id="tc_1", params={}),
    )
    with RichView(paper) as view:
        view.show(TextAppended(claim=2, lane="thinking.0", off=0, text="I look."))
        view.show(EventsApplied(n=3, prev=2, events=decided))
        view.show(StreamSettled(claim=2))
    lines = [line.strip() for line in paper.printed().splitlines() if line.strip()]
    assert [line[:7] for line in lines] == ["I look.", "· n", "→ react"]


def test_output_of_a_program_is_shown_while_it_runs():
    paper = RecordedSurface(width=80)
    with RichView(paper) as view:
        view.show(TextAppended(claim=2, lane="exec.0.log", off=0, text="one\n[red]two[/red]\n"))
        assert [line.strip() for line in paper.shown().splitlines()[:3]] == [
            "✎ output",
            "one",
            "[red]two[/red]",
        ]
        view.show(StreamSettled(claim=2))
        assert "two" not in paper.shown()
    assert paper.printed().strip() == ""


def test_markup_of_a_stranger_is_text():
    paper = RecordedSurface(width=100)
    with RichView(paper) as view:
        view.say("[red]x[/red]")
    assert "[red]x[/red]" in paper.printed()


def test_each_event_is_a_json_line_and_the_last_one_is_the_only_terminal():
    lines = [line for effect in effects() for line in render_effect(effect)]
    assert [line["frame"] for line in lines] == ["ack", "delta", "delta", "settled", "event", "event"]
    assert [line.get("terminal", False) for line in lines] == [False] * 5 + [True]
    assert (lines[4]["n"], lines[4]["prev"], lines[4]["i"]) == (2, 1, 0)
    assert (lines[2]["lane"], lines[2]["off"], lines[2]["text"]) == ("answer.1", 0, "Hel")


def drawn(*effects, width=60, height=30):
    """Return the panel after these effects, in a terminal of this size."""
    paper = RecordedSurface(width, height)
    view = RichView(paper)
    for effect in effects:
        view.show(effect)
    return paper.printed() + paper.shown()


def text(lane, what, claim=1):
    return TextAppended(claim=claim, lane=lane, off=0, text=what)


def known(lane, name="", claim=1, replaces=""):
    facts = LaneFacts(marker="canvas", artifact_name=name, replaces=replaces)
    return LaneKnown(claim=claim, lane=lane, facts=facts)


def test_a_file_is_shown_by_its_name_and_its_end_while_it_is_written_and_then_by_its_name():
    lines = "".join(f"line {number}\n" for number in range(2_000))
    begun = (text("notes.0", "writing"), known("canvas.0", f"outputs/a.md{EVIL}"), text("canvas.0", lines))
    shown = drawn(*begun)
    assert "outputs/a.md" in shown
    assert "line 1999" in shown
    assert "line 1980" not in shown
    assert "writing" in shown
    assert "\x1b" not in shown
    shown = drawn(*begun, LaneEnded(claim=1, lane="canvas.0", chars=len(lines)))
    assert "outputs/a.md" in shown
    assert "line 1999" not in shown


def test_a_program_is_shown_under_its_name_while_it_is_written():
    shown = drawn(text("exec.1.name", "Sums"), text("code.1", f"print(1)  # {EVIL}"))
    assert "Sums" in shown
    assert "print(1)" in shown
    assert "\x1b" not in shown
    assert "program" in drawn(text("code.0", "x"))


@pytest.mark.parametrize("lane", ["code", "code.", ".", "", f"canvas.{EVIL}", "[red]", "code.0.r1", "exec"])
def test_a_name_of_a_lane_is_data(lane):
    shown = drawn(known(lane, f"[b]{EVIL}[/b]", replaces=lane + "x"), text(lane, f"[red]{EVIL}"))
    assert "\x1b" not in shown


def test_only_the_replacing_lane_is_shown():
    shown = drawn(
        text("answer.0", "he said"), known("answer.0.r1", replaces="answer.0"), text("answer.0.r1", "Whole.")
    )
    assert "Whole." in shown
    assert "he said" not in shown


def test_text_whose_lane_is_not_known_yet_is_shown_by_what_its_name_says():
    assert "canvas.0" in drawn(text("canvas.0", "# A"))
    assert "hm" in drawn(text("thinking.0", "hm"))


def test_a_panel_is_never_higher_than_the_terminal():
    many = [text(f"canvas.{number}", "line\n" * 50) for number in range(9)]
    assert len(drawn(*many, text("thinking.0", "hm\n" * 50), height=20).splitlines()) <= 20


def test_a_void_or_replaced_stream_is_removed():
    begun = (known("canvas.0", "old.md"), text("canvas.0", "old"))
    assert "old" not in drawn(*begun, StreamReset(claim=1))
    assert "old" not in drawn(*begun, text("thinking.0", "new", claim=2))
    assert "old" not in drawn(*begun, StreamSettled(claim=1))


def test_a_document_that_an_answer_cites_is_named_by_its_path():
    source = {"sid": 2, "title": "Costs", "url": "", "path": "ks:docs/cost.md"}
    assert render_citation(source) == "[2] Costs — ks:docs/cost.md"


def test_citations_are_below_the_answer():
    cited = event("chat.citations", items=[{"sid": 1, "title": f"One{EVIL}", "url": "https://example.com/1"}])
    ended = TurnEnded(n=3, turn_id="turn_1", outcome="completed", answer="See.")
    written = []
    with PlainView(written.append, written.append) as view:
        view.show(EventsApplied(n=3, prev=2, events=(cited,)))
        view.show(ended)
    assert written[0] == "\nSee."
    assert written[1].startswith("[1] One")
    assert "https://example.com/1" in written[1]
    shown = drawn(EventsApplied(n=3, prev=2, events=(cited,)), ended, width=300)
    assert shown.index("See.") < shown.index("[1] One")
    assert "\x1b" not in shown


def test_a_message_delayed_by_the_server_is_a_separate_json_line():
    frame = ErrorFrame(
        code="rate_limited", message="later", message_id="m1", retryable=True, retry_after_s=37
    )
    (line,) = render_effect(PutOff(frame=frame))
    assert (line["frame"], line["message_id"], line["retry_after_s"]) == ("put_off", "m1", 37)


def test_text_and_end_of_a_lane_are_json_lines():
    assert render_effect(known("canvas.0", "a.md")) == [
        {
            "frame": "lane",
            "claim": 1,
            "lane": "canvas.0",
            "facts": {"marker": "canvas", "artifact_name": "a.md"},
        }
    ]
    assert render_effect(LaneEnded(claim=1, lane="canvas.0", chars=3, aborted="policy")) == [
        {"frame": "lane_end", "claim": 1, "lane": "canvas.0", "chars": 3, "aborted": "policy"}
    ]
