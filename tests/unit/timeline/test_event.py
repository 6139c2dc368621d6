"""Client events: a function of one batch, with one terminal a turn and nothing internal."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given

from stepline.model.batch import decode_batch, encode_batch
from stepline.model.entry import Closed
from stepline.model.event import ClientEvent, encode_frame, frame_events
from stepline.timeline.event import derive
from stepline.timeline.event_type import ROUTES, TERMINAL, render_reference
from tests.unit.timeline.story import Story, patient, stories

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "events.md"


def kinds(story: Story, n: int = 0) -> list[str]:
    return [event.type for event in derive(story.batches[n - 1])]


def only(story: Story, kind: str, n: int = 0) -> ClientEvent:
    (event,) = [event for event in derive(story.batches[n - 1]) if event.type == kind]
    return event


@patient
@given(stories())
def test_every_end_of_a_turn_has_exactly_one_terminal_event(story: Story):
    for batch in story.batches:
        ends = [entry.turn for entry in batch.entries if isinstance(entry, Closed)]
        assert [event.turn_id for event in derive(batch) if event.type in TERMINAL] == ends


@patient
@given(stories())
def test_a_batch_has_the_same_events_wherever_it_is_read(story: Story):
    for batch in story.batches:
        events = derive(batch)
        assert derive(decode_batch(encode_batch(batch))) == events
        assert all(ROUTES[event.type] == event.route for event in events)
        for frame in frame_events("c-1", n=batch.n, prev=0, claim=0, events=events):
            assert encode_frame(frame)


def test_the_events_of_a_turn():
    story = Story()
    story.message("hello")
    assert kinds(story) == ["chat.conversation.accepted", "chat.start"]
    story.act(("react.plan", {"steps": ["a"]}), ("react.write", {"path": "a.md"}))
    assert kinds(story) == ["solver.react.decision", "react.tool.call", "react.tool.call"]
    story.result(tool="react.plan", plans=(story.plan("a"),))
    assert kinds(story) == ["react.tool.result", "react.plan"]
    story.start()
    assert kinds(story) == []
    story.result(tool="react.write", blocks=(story.file("a.md"),))
    assert kinds(story) == ["react.tool.result", "chat.files"]
    story.reopen()
    assert only(story, "round.restarted").data == {"claim": story.n - 1, "iteration": 1, "attempt": 1}
    story.take_over()
    assert only(story, "round.restarted").data["attempt"] == 0
    story.reject("missing_tool_id")
    assert kinds(story) == ["solver.react.decision", "react.tool.rejected"]
    story.message("more")
    assert only(story, "chat.conversation.accepted").data["kind"] == "followup"
    story.answer("one", rendered=story.n - 2)
    story.defer()
    assert only(story, "chat.step").data == {"iteration": 2, "answer": "one"}
    story.answer("two")
    story.close()
    assert kinds(story) == ["chat.complete"]
    assert only(story, "chat.complete").data["final_answer"] == "two"


def test_a_turn_that_fails_ends_with_its_code():
    story = Story()
    story.message()
    story.close(code="step_failed")
    event = only(story, "chat.error")
    assert event.data == {"code": "step_failed", "error": "It failed."}
    assert event.turn_id == "turn_0001"


def test_a_closing_batch_that_opens_the_next_turn_says_both():
    story = Story()
    story.message()
    story.message("late")
    story.answer(rendered=1)
    story.close()
    assert [(e.type, e.turn_id) for e in derive(story.batches[-1])] == [
        ("chat.complete", "turn_0001"),
        ("chat.start", "turn_0004"),
    ]


def test_a_dropped_event_is_told():
    story = Story()
    story.message("stop", event="steer")
    assert kinds(story) == ["chat.conversation.accepted", "chat.step"]
    assert only(story, "chat.step").data == {"n": 1, "reason": "nothing_to_steer"}


def test_an_acknowledged_plan_is_told():
    story = Story()
    story.message()
    story.act(("react.read", {}), plan=story.plan("a", "b", status={"1": "done"}))
    assert only(story, "react.plan").data == {
        "plan_id": "plan:turn_0001:0a",
        "steps": ["a", "b"],
        "status": {"1": "done", "2": "pending"},
        "current": True,
        "open": True,
    }


def test_nothing_internal_leaves():
    story = Story()
    story.message("hello")
    story.act(
        ("react.write", {"path": "n.md", "channel": "internal", "content": "SECRET body"}),
        (
            "web_tools.web_fetch",
            {"q": "SECRET " * 40, "deep": {"content": "SECRET"}, "list": [{"code": "SECRET"}]},
        ),
    )
    status = f"tc:{story.turn}.{story.call()}.result"
    internal = story.block("fi:x.outputs/n.md", "SECRET text", meta={"visibility": "internal"})
    unknown = story.block("fi:x.outputs/m.md", "SECRET too")
    hidden = story.block(status, "SECRET", meta={"visibility": "internal"})
    file = story.file("n.md", visibility="internal", key="SECRET key")
    story.result(tool="react.write", blocks=(internal, unknown, hidden, file))
    story.result(
        status="error", error={"code": "tool_error", "message": "SECRET traceback"}, text="SECRET error"
    )
    story.reject(raw="SECRET raw", thinking=("SECRET thought",))
    story.answer("done", summary="SECRET summary")
    story.close()
    events = [event for batch in story.batches for event in derive(batch)]
    assert "SECRET" not in repr(events)
    assert "chat.files" not in [event.type for event in events]
    assert [e.data.get("code") for e in events if e.type == "react.tool.result"] == [None, "tool_error"]


def test_a_result_is_previewed_and_its_files_are_offered():
    story = Story()
    story.message()
    story.act(("react.write", {"path": "a.md", "content": "x" * 10}))
    call = only(story, "react.tool.call")
    assert call.data["params"] == {"path": "a.md", "content": {"chars": 10}}
    status = story.block(f"tc:{story.turn}.{story.call()}.result", "w" * 1000)
    story.result(tool="react.write", blocks=(status, story.file("a.md")), duration_ms=7)
    data = only(story, "react.tool.result").data
    assert (len(data["preview"]), data["duration_ms"], data["status"]) == (600, 7, "ok")
    assert data["paths"] == [status.path, "fi:turn_0001.outputs/a.md"]
    assert only(story, "chat.files").data == {
        "count": 1,
        "items": [
            {
                "logical_path": "fi:turn_0001.outputs/a.md",
                "filename": "a.md",
                "mime": "text/markdown",
                "size_bytes": 42,
            }
        ],
    }


def test_the_reference_page_is_the_table():
    assert REFERENCE.read_text(encoding="utf-8") == render_reference()
