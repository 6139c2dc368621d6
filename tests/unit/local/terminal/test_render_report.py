"""Reports of a running tool on a terminal: one rewritten line; in a pipe: a line for each tenth."""

from __future__ import annotations

from stepline.local.client.change import EventsApplied, Reported
from stepline.local.terminal.turn_view import PlainView, RichView
from tests.unit.local.terminal.recorded_surface import RecordedSurface
from tests.unit.local.terminal.test_render_turn import event


def progress(done: int, text: str = "") -> Reported:
    one = event("react.tool.progress", tool_id="acme.work", call_id="tc_1", done=done, total=100, text=text)
    return Reported(claim=3, lane="report.0.0", events=(one,))


def test_a_terminal_rewrites_the_line_of_a_progress_and_removes_it_with_the_result() -> None:
    paper = RecordedSurface()
    ended = event("react.tool.result", tool_id="acme.work", status="ok", duration_ms=12)
    with RichView(paper) as view:
        view.show(progress(10, "reading"))
        assert "10%, 10 of 100, reading" in paper.shown()
        view.show(progress(60, "writing"))
        assert "60%, 60 of 100, writing" in paper.shown()
        assert "reading" not in paper.shown()
        view.show(EventsApplied(n=4, prev=3, events=(ended,)))
        assert "acme.work [" not in paper.shown()
        assert paper.printed() == "✓ acme.work, 12 ms\n"


def test_a_pipe_gets_a_line_for_each_tenth_of_a_progress_and_each_text() -> None:
    written: list[str] = []
    noted: list[str] = []
    with PlainView(written.append, noted.append) as view:
        for done in range(101):
            view.show(progress(done))
        view.show(progress(100, "closing"))
    assert [line.partition("]")[2] for line in noted] == [
        *(f" {done}%, {done} of 100" for done in range(0, 101, 10)),
        " 100%, 100 of 100, closing",
    ]
    assert written == []


def test_a_live_event_of_a_tool_is_a_line_at_once() -> None:
    said = event("react.tool.event", type="rows", data={"count": 3})
    report = Reported(claim=3, lane="report.0.0", events=(said,))
    written: list[str] = []
    paper = RecordedSurface()
    with PlainView(written.append, written.append) as plain, RichView(paper) as rich:
        plain.show(report)
        rich.show(report)
    assert written == ['  rows: {"count": 3}']
    assert paper.printed() == '  rows: {"count": 3}\n'
