"""Client events: a function of one batch, with one terminal a turn and nothing internal."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.events.derive import derive, has_events
from stepline.events.filter import EventFilter
from stepline.events.types import EVENT_ROUTES, EVENT_TABLE, TERMINAL
from stepline.model.batch import Batch, State, decode_batch, encode_batch
from stepline.model.decision import Notice
from stepline.model.entry import Closed, Decided, Deferred, Deleted, Entry, Opened, Resulted
from stepline.model.file.attachment import Attachment
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.model.wire.event import ClientEvent, encode_frame, frame_events
from tests.support.log_builder import LANE, LogBuilder, logs, patient
from tests.unit.events.any_entry import entries

OPENING = [
    "conv.status",
    "chat.conversation.accepted",
    "chat.conversation.title",
    "conv.status",
    "chat.start",
]
ENDING = ["chat.conversation.turn.completed", "chat.turn.summary"]
CITED = (
    Citation(sid=1, title="One", url="https://example.com/1"),
    Citation(sid=2, title="Two", url="https://example.com/2"),
)


def kinds(log: LogBuilder, n: int = 0) -> list[str]:
    return [event.type for event in derive(log.batches[n - 1])]


def only(log: LogBuilder, kind: str, n: int = 0) -> ClientEvent:
    (event,) = [event for event in derive(log.batches[n - 1]) if event.type == kind]
    return event


@patient
@given(logs())
def test_each_closed_turn_has_exactly_one_terminal_event(log: LogBuilder):
    for batch in log.batches:
        ends = [entry.turn for entry in batch.entries if isinstance(entry, Closed)]
        assert [event.turn_id for event in derive(batch) if event.type in TERMINAL] == ends


@patient
@given(logs())
def test_a_batch_has_the_same_events_wherever_it_is_read(log: LogBuilder):
    for batch in log.batches:
        events = derive(batch)
        assert derive(decode_batch(encode_batch(batch))) == events
        assert all(EVENT_ROUTES[event.type] == event.route for event in events)
        for frame in frame_events("c-1", n=batch.n, prev=0, claim=0, events=events):
            assert encode_frame(frame)


def test_the_events_of_a_turn():
    log = LogBuilder()
    log.message("hello")
    assert kinds(log) == OPENING
    log.act(("react.plan", {"steps": ["a"]}), ("react.write", {"path": "a.md"}))
    assert kinds(log) == ["solver.react.decision", "react.tool.call", "react.tool.call"]
    log.result(tool="react.plan", plans=(log.plan("a"),))
    assert kinds(log) == ["react.tool.result", "react.plan"]
    log.start()
    assert kinds(log) == []
    log.result(tool="react.write", blocks=(log.file("a.md"),))
    assert kinds(log) == ["react.tool.result", "chat.files"]
    log.reopen()
    assert only(log, "round.restarted").data == {"claim": log.n - 1, "iteration": 1, "attempt": 1}
    log.take_over()
    assert only(log, "round.restarted").data["attempt"] == 0
    log.reject("missing_tool_id")
    assert kinds(log) == ["solver.react.decision", "react.tool.rejected"]
    log.message("more")
    assert kinds(log) == ["chat.conversation.accepted", "queue.continuation.accepted"]
    log.answer("one", rendered=log.n - 2)
    log.defer()
    assert only(log, "chat.step").data == {"iteration": 2, "answer": "one"}
    log.answer("two")
    log.close()
    assert kinds(log) == [*ENDING, "chat.complete", "conv.status"]
    assert only(log, "chat.complete").data["final_answer"] == "two"


def test_a_conversation_has_the_name_of_its_first_message():
    log = LogBuilder()
    log.message("  What\n is " + "x" * 100)
    assert only(log, "chat.conversation.title").data == {"title": "What is " + "x" * 71 + "…"}
    assert only(log, "chat.conversation.title").step == "conversation_title"
    log.answer()
    log.close()
    log.message("another")
    assert "chat.conversation.title" not in kinds(log)


def test_a_steer_that_finds_no_conversation_does_not_name_it():
    log = LogBuilder()
    log.message("be brief", event="steer")
    assert "chat.conversation.title" not in kinds(log)


@pytest.mark.parametrize("kind", ["followup", "steer", "event"])
def test_a_message_in_an_open_turn_is_reported_as_queued(kind):
    log = LogBuilder()
    log.message()
    assert "queue.continuation.accepted" not in kinds(log)
    log.message("more", event=kind)
    assert only(log, "queue.continuation.accepted").data == {
        "message_id": "m2",
        "message_kind": kind,
        "active_turn_id": "turn_0001",
        "n": 2,
    }


def test_a_dropped_event_is_reported():
    log = LogBuilder()
    log.message("stop", event="steer")
    assert kinds(log) == [*OPENING[:2], "chat.step"]
    assert only(log, "chat.step").data == {
        "n": 1,
        "reason": "nothing_to_steer",
        "message_id": "m1",
        "kind": "steer",
    }


def test_an_event_is_sent_with_text_source_and_files_but_no_payload_or_key():
    log = LogBuilder()
    file = Attachment(filename="a.pdf", mime="application/pdf", size_bytes=9, sha256="5" * 64)
    log.message("", event="form", payload={"secret": 7}, source="booking", attachments=(file,))
    assert only(log, "chat.conversation.accepted").data == {
        "message_id": "m1",
        "kind": "form",
        "text": "",
        "chars": 0,
        "source": "booking",
        "attachments": [
            {
                "filename": "a.pdf",
                "mime": "application/pdf",
                "size_bytes": 9,
                "path": "fi:turn_0001.user.attachments/a.pdf",
            }
        ],
    }
    assert "555" not in str(derive(log.batches[0]))
    assert "secret" not in str(derive(log.batches[0]))


@pytest.mark.parametrize(("words", "rounds"), [("be brief", 2), ("", 0)])
def test_an_applied_steer_is_reported_with_the_work_it_interrupted(words, rounds):
    log = LogBuilder()
    log.message()
    log.message(words, event="steer")
    log.interrupt("<channel:", rendered=1)
    sent = only(log, "timeline.external.steer.interrupted")
    assert (sent.route, sent.turn_id) == ("chat_service", "turn_0001")
    assert sent.data == {
        "turn_id": "turn_0001",
        "sequence": 2,
        "message_id": "m2",
        "text": words,
        "checkpoint": 0,
        "cancelled_phase": "decision",
        "finalize_rounds": rounds,
    }


def test_an_acknowledged_plan_is_sent():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}), plan=log.plan("a", "b", status={"1": "done"}))
    assert only(log, "react.plan").data == {
        "plan_id": "plan:turn_0001:0a",
        "steps": ["a", "b"],
        "status": {"1": "done", "2": "pending"},
        "current": True,
        "open": True,
    }


def test_internal_content_is_never_sent():
    log = LogBuilder()
    log.message("hello")
    log.act(
        ("react.write", {"path": "n.md", "channel": "internal", "content": "SECRET body"}),
        (
            "web_tools.web_fetch",
            {"q": "SECRET " * 40, "deep": {"content": "SECRET"}, "list": [{"code": "SECRET"}]},
        ),
    )
    status = f"tc:{log.turn}.{log.call()}.result"
    internal = log.block("fi:x.outputs/n.md", "SECRET text", meta={"visibility": "internal"})
    unknown = log.block("fi:x.outputs/m.md", "SECRET too")
    hidden = log.block(status, "SECRET", meta={"visibility": "internal"})
    file = log.file("n.md", visibility="internal", key="SECRET key")
    log.result(tool="react.write", blocks=(internal, unknown, hidden, file))
    log.result(
        status="error", error={"code": "tool_error", "message": "SECRET traceback"}, text="SECRET error"
    )
    log.reject(raw="SECRET raw")
    log.answer("done", summary="SECRET summary")
    log.close()
    dropped = Notice(
        code="multi_action_bundle_same_file_collision",
        message="SECRET",
        extra={"index": 2, "tool_id": "react.write", "details": "SECRET", "parent_tool_call_id": "tc_2"},
    )
    log.message()
    log.act(("react.read", {}), notices=(dropped,))
    events = [event for batch in log.batches for event in derive(batch)]
    assert "SECRET" not in repr(events)
    assert "chat.files" not in [event.type for event in events]
    assert [e.data.get("code") for e in events if e.type == "react.tool.result"] == [None, "tool_error"]


def test_a_result_has_a_preview_and_lists_its_files():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {"path": "a.md", "content": "x" * 10}))
    call = only(log, "react.tool.call")
    assert call.data["params"] == {"path": "a.md", "content": {"chars": 10}}
    status = log.block(f"tc:{log.turn}.{log.call()}.result", "w" * 1000)
    log.result(tool="react.write", blocks=(status, log.file("a.md")), duration_ms=7)
    data = only(log, "react.tool.result").data
    assert (len(data["preview"]), data["duration_ms"], data["status"]) == (600, 7, "ok")
    assert data["paths"] == [status.path, "fi:turn_0001.outputs/a.md"]
    assert only(log, "chat.files").data == {
        "count": 1,
        "items": [
            {
                "logical_path": "fi:turn_0001.outputs/a.md",
                "filename": "a.md",
                "mime": "text/markdown",
                "size_bytes": 42,
                "sha256": log.file("a.md").body.sha256,
                "call_id": call.data["call_id"],
            }
        ],
    }


def test_a_file_has_a_resource_name_if_the_conversation_is_known():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {}))
    code = log.block(f"fi:{log.turn}.code.tc_1", body=log.file("a.md").body, meta={"visibility": "external"})
    odd = log.block("fi:nonsense", body=log.file("a.md").body, meta={"visibility": "external"})
    log.result(tool="react.write", blocks=(log.file("a b.md"), code, odd))
    batch = replace(log.batches[-1], state=replace(log.batches[-1].state, owner="ada"))
    (sent,) = [event for event in derive(batch, LANE) if event.type == "chat.files"]
    assert [item.get("rn") for item in sent.data["items"]] == [
        "ef:acme:support:chatbot:file:ada:c-1:turn_0001:artifact:outputs/a%20b.md",
        None,
        None,
    ]
    (bare,) = [event for event in derive(batch) if event.type == "chat.files"]
    assert not any("rn" in item for item in bare.data["items"])


def test_a_dropped_action_is_rejected_by_its_number():
    log = LogBuilder()
    log.message()
    dropped = Notice(
        code="multi_action_bundle_strategy_incompatible",
        message="Action 2 was not run.",
        extra={"index": 2, "tool_id": "react.write", "parent_tool_call_id": "tc_2", "details": "…"},
    )
    soft = Notice(code="text_outside_channels", message="It was dropped.", extra={"chars": 3})
    log.act(("react.read", {"paths": ["a"]}), notices=(dropped, soft))
    assert kinds(log) == [
        "solver.react.decision",
        "react.tool.rejected",
        "react.notice",
        "react.tool.call",
    ]
    assert only(log, "react.tool.rejected").data == {
        "iteration": 0,
        "code": "multi_action_bundle_strategy_incompatible",
        "phase": "rejected",
        "executed": False,
        "action_index": 2,
        "tool_id": "react.write",
        "parent_tool_call_id": "tc_2",
    }


def test_an_action_with_a_non_numeric_index_is_rejected_without_one():
    log = LogBuilder()
    log.message()
    notice = Notice(code="bad_params", message="It was not run.", extra={"index": True})
    log.act(("react.read", {"paths": ["a"]}), notices=(notice,), accepted=False)
    assert "action_index" not in only(log, "react.tool.rejected").data


def test_a_turn_starts_with_its_recorded_limits():
    log = LogBuilder()
    log.message("hello")
    assert only(log, "chat.start").data == {"turn_id": log.turn, "prompts": [1]}
    limited = Opened(turn="turn_1", at=BEGAN, prompts=(1,), rounds=15, max_tokens=80_000)
    begun = next(event for event in derive(lone(limited)) if event.type == "chat.start")
    assert (begun.data["rounds"], begun.data["max_tokens"]) == (15, 80_000)


def test_a_decision_has_its_streamed_thinking_and_its_cost():
    log = LogBuilder()
    log.message()
    seen = log.message("more")
    log.act(
        ("react.read", {}),
        rendered=seen.n,
        thinking=("First.", "Then."),
        thinking_ms=((10, 250),),
        rounds_left=13,
        model="m-1",
        usage=Usage(input_tokens=3, output_tokens=2),
        lost=Usage(input_tokens=1, cache_read_tokens=9),
    )
    data = only(log, "solver.react.decision").data
    entry = next(e for batch in log.batches for e in batch.entries if isinstance(e, Decided))
    assert (data["started_at"], data["rendered"]) == (entry.started_at, seen.n)
    assert (data["rounds_left"], data["model"]) == (13, "m-1")
    assert data["thinking"] == [{"text": "First.", "began_ms": 10, "ended_ms": 250}, {"text": "Then."}]
    assert data["usage"] == {
        "input_tokens": 4,
        "cache_read_tokens": 9,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
        "output_tokens": 2,
    }


def test_a_decision_with_several_actions_is_sent_as_a_bundle():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}))
    assert "bundle" not in only(log, "solver.react.decision").data
    log.result()
    log.act(("react.plan", {}), ("react.read", {}), action="complete", answer="done")
    data = only(log, "solver.react.decision").data
    assert data["bundle_size"] == 3
    assert data["bundle"] == [
        {"action": "call_tool", "tool_id": "react.plan", "call_id": log.call(0)},
        {"action": "call_tool", "tool_id": "react.read", "call_id": log.call(1)},
        {"action": "complete"},
    ]


@pytest.mark.parametrize(("tool", "family"), [("react.read", "react"), ("web_tools.web_search", "external")])
@pytest.mark.parametrize(
    ("status", "code", "executed"),
    [
        ("ok", "", True),
        ("error", "not_found", True),
        ("error", "bad_params", False),
        ("error", "path_not_first", False),
        ("error", "sandbox_not_started", False),
        ("error", "steered", False),
        ("error", "cancelled", True),
        ("unverified", "unverified", None),
    ],
)
def test_a_call_says_whose_tool_it_is_and_whether_it_ran(tool, family, status, code, executed):
    log = LogBuilder()
    log.message()
    log.act((tool, {}))
    call = only(log, "react.tool.call").data
    assert (call["tool_family"], call["phase"], call["executed"]) == (family, "started", False)
    log.result(tool=tool, status=status, error={"code": code} if code else None)
    data = only(log, "react.tool.result").data
    assert (data["tool_family"], data["phase"], data["executed"]) == (family, "completed", executed)


@pytest.mark.parametrize(("duration_ms", "executed"), [(0, False), (40, True)])
def test_a_program_that_was_cancelled_before_it_began_did_not_run(duration_ms, executed):
    log = LogBuilder()
    log.message()
    log.act(("exec_tools.execute_code_python", {}))
    result = {"error": {"code": "cancelled"}, "program": True, "duration_ms": duration_ms}
    log.result(tool="exec_tools.execute_code_python", status="error", **result)
    assert only(log, "react.tool.result").data["executed"] is executed


def test_notes_and_deferred_answers_have_links_only_in_events():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}), notes="found [[S:1]]", citations=CITED[:1])
    assert only(log, "solver.react.decision").data["notes"] == 'found [One](https://example.com/1 "S:1")'
    assert log.batches[-1].entries[0].notes == "found [[S:1]]"
    log.result()
    deferred = Deferred(turn=log.turn, iteration=1, answer="so [[S:2]]", citations=CITED)
    batch = log.put(log.state, deferred)
    assert derive(batch)[0].data["answer"] == 'so [Two](https://example.com/2 "S:2")'


FOUND = {"search_id": "s1", "objective": "o", "queries": ["q"], "results": [{"sid": 1, "title": "One"}]}


def test_search_results_have_a_separate_event_type():
    sent, _ = events_of("web_search.filtered_results", FOUND)
    assert (sent.type, sent.route) == ("web_search.filtered_results", "chat_step")
    assert sent.data == {**FOUND, "tool_id": "web_tools.web_search", "call_id": "tc_1"}


def test_search_results_are_also_sent_as_html_without_page_markup():
    row = {
        "sid": 1,
        "title": "<script>x()</script>",
        "url": "https://e.example/?a=1&b='\"><i>",
        "text": "5 < 6 & <b>bold</b>",
        "published_time_iso": "2026-05-01T10:00:00Z",
    }
    rows = [row, {"title": "No link", "url": "javascript:x()"}, {"title": 1}]
    _, sent = events_of("web_search.filtered_results", {**FOUND, "objective": "<o>", "results": rows})
    assert (sent.type, sent.route, sent.data["search_id"]) == ("web_search.html_view", "chat_step", "s1")
    assert sent.data["html"] == (
        '<section class="web-search"><h3>&lt;o&gt;</h3><ol><li data-sid="1">'
        '<a href="https://e.example/?a=1&amp;b=&#x27;&quot;&gt;&lt;i&gt;" target="_blank" rel="noopener noreferrer">'
        "&lt;script&gt;x()&lt;/script&gt;</a> <cite>e.example</cite> <time>2026-05-01</time>"
        "<p>5 &lt; 6 &amp; &lt;b&gt;bold&lt;/b&gt;</p></li><li>No link <p></p></li><li> <p></p></li></ol></section>"
    )


def test_fetched_pages_have_a_separate_event_type():
    data = {"execution_id": "tc_1", "objective": "", "urls": ["https://e.example"], "results": [{"sid": 1}]}
    (sent,) = events_of("web_fetch.results", data)
    assert (sent.type, sent.route) == ("web_fetch.results", "chat_step")
    assert sent.data == {**data, "tool_id": "web_tools.web_search", "call_id": "tc_1"}


def test_followups_of_a_tool_become_client_followups():
    (sent,) = events_of("chat.followups", {"items": ["Compare"]})
    assert (sent.type, sent.route, sent.data) == ("chat.followups", "chat_step", {"items": ["Compare"]})


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("chat.followups", {"items": ["a", 1]}),
        ("rows", {"count": 3}),
        ("web_search.filtered_results", {"results": "none"}),
        ("web_search.filtered_results", {**FOUND, "more": 1}),
        ("chat.complete", {"answer": "forged"}),
    ],
)
def test_custom_events_of_a_tool_keep_their_type_and_data(kind, data):
    (sent,) = events_of(kind, data)
    assert (sent.type, sent.route) == ("react.tool.event", "chat_service")
    assert sent.data == {"type": kind, "data": data, "tool_id": "web_tools.web_search", "call_id": "tc_1"}


def events_of(kind: str, data: dict[str, object]) -> list[ClientEvent]:
    """Return the client events of one event of a tool."""
    emitted = (ToolEvent(type=kind, at="2026-11-22T10:00:00.000Z", data=data),)
    entry = Resulted(
        call_id="tc_1", tool_id="web_tools.web_search", iteration=0, status="ok", at="", emitted=emitted
    )
    return [event for event in derive(lone(entry)) if event.type != "react.tool.result"]


def lone(*entries: Entry, **state: object) -> Batch:
    """Return a batch of these entries alone."""
    return Batch(n=7, by="b", at=BEGAN, entries=entries, state=State(turn="turn_1", **state))


BEGAN = "2026-11-22T10:00:00.000Z"


def test_a_deletion_is_the_last_event_and_ends_the_turn():
    ended = Closed(turn="turn_1", outcome="error", reason="", at=BEGAN, code="conversation_deleted")
    batch = lone(ended, Deleted(at=BEGAN, turn="turn_1"), deleted=7)
    *_, last = events = derive(batch)
    assert [event.type for event in events if event.type in TERMINAL] == ["chat.error"]
    assert (last.type, last.turn_id) == ("conv.status", "turn_1")
    assert last.data == {"state": "deleted", "updated_at": BEGAN, "current_turn_id": "turn_1"}


@given(st.lists(entries, max_size=4), st.sampled_from(["idle", "open"]))
def test_any_entry_derives_events_that_match_their_models(found, status):
    batch = lone(*found, status=status)
    events = derive(batch)
    assert bool(events) == has_events(batch)
    for event in events:
        row = next(row for row in EVENT_TABLE if (row.type, row.step) == (event.type, event.step))
        assert event.route == row.route
        assert msgspec.to_builtins(msgspec.convert(event.data, row.model)) == event.data
    assert EventFilter().sift(events).events == events
    assert msgspec.json.decode(msgspec.json.encode(events), type=tuple[ClientEvent, ...]) == events
