"""The end of a turn: what it brings, in which order, and how the conversation goes on."""

from __future__ import annotations

import pytest

from stepline.events.derive import derive
from stepline.events.derive_close import ERROR_TYPES, FINAL, closing_events, weigh
from stepline.events.derive_round import linked
from stepline.model.entry import Closed, Deferred, Opened
from stepline.model.source import Citation
from stepline.model.usage import ModelCall, Usage
from stepline.model.wire.event import ClientEvent
from tests.support.log_builder import LogBuilder

AT = "2026-11-22T10:00:00.000Z"
CITED = (
    Citation(sid=1, title="One", url="https://example.com/1"),
    Citation(sid=3, title="A file", url=""),
    Citation(sid=4, title="Bad", url="javascript:alert(1)"),
)
USAGE = Usage(
    input_tokens=100,
    cache_read_tokens=1000,
    cache_write_5m_tokens=80,
    cache_write_1h_tokens=10,
    output_tokens=20,
)


def ended(*, next_turn: str = "", **fields: object) -> list[ClientEvent]:
    made = {"turn": "turn_1", "outcome": "completed", "reason": "complete", "at": AT, **fields}
    return closing_events(Closed(**made), next_turn)


def failed(code: str, **fields: object) -> list[ClientEvent]:
    return ended(outcome="error", reason="error", code=code, message="It failed.", **fields)


def data(events: list[ClientEvent], kind: str) -> dict[str, object]:
    (found,) = [event.data for event in events if event.type == kind]
    return found


def test_a_turns_closing_events_come_in_the_documented_order():
    events = ended(answer="[[S:1]]", citations=CITED, followups=("More?",), usage=USAGE)
    assert [event.type for event in events] == [
        "chat.citations",
        "chat.followups",
        "chat.conversation.turn.completed",
        "chat.turn.summary",
        "accounting.usage",
        "chat.complete",
        "conv.status",
    ]
    assert {(event.ts, event.turn_id, event.status) for event in events} == {(AT, "turn_1", "completed")}


def test_closing_events_that_do_not_apply_are_omitted():
    assert [event.type for event in ended(answer="done")] == [
        "chat.conversation.turn.completed",
        "chat.turn.summary",
        "chat.complete",
        "conv.status",
    ]


def test_the_answer_has_links_and_says_what_it_cites():
    events = ended(answer="so [[S:1,3,9]].", citations=CITED, model="m-1", followups=("More?",))
    assert data(events, "chat.complete") == {
        "final_answer": 'so [One](https://example.com/1 "S:1") A file.',
        "answer": 'so [One](https://example.com/1 "S:1") A file.',
        "followups": ["More?"],
        "suggested_followups": ["More?"],
        "reason": "complete",
        "used_sources": [1, 3],
        "unresolved_sids": [9],
        "selected_model": "m-1",
    }


def test_an_answer_with_unknown_sources_is_unchanged():
    found = data(ended(answer="so [[S:9-11]]."), "chat.complete")
    assert (found["answer"], found["used_sources"]) == ("so [[S:9-11]].", [])
    assert found["unresolved_sids"] == [9, 10, 11]
    assert linked("so [[S:9]].", Deferred(turn="t", iteration=0)) == "so [[S:9]]."


def test_a_citation_number_without_a_source_is_removed():
    found = data(ended(answer="so [[S:9]], `[[S:8]]`.", unresolved=(9,)), "chat.complete")
    assert (found["answer"], found["used_sources"]) == ("so , `[[S:8]]`.", [])
    assert found["unresolved_sids"] == [9]
    assert linked("so [[S:9]].", Deferred(turn="t", iteration=0, unresolved=(9,))) == "so ."


def test_citations_come_in_the_order_of_their_numbers():
    cited = tuple(Citation(sid=sid, title="T", url="https://example.com/") for sid in (7, 2, 5))
    items = data(ended(answer="[[S:7,2,5]]", citations=cited), "chat.citations")["items"]
    assert [item["sid"] for item in items] == [2, 5, 7]


def test_only_web_sources_are_citations():
    events = ended(answer="[[S:1,3,4]]", citations=CITED)
    assert data(events, "chat.citations") == {
        "count": 1,
        "items": [{"sid": 1, "title": "One", "url": "https://example.com/1"}],
    }
    assert data(events, "chat.conversation.turn.completed")["citation_count"] == 1
    assert "chat.citations" not in [event.type for event in ended(citations=CITED[1:])]


def test_a_document_of_the_agent_is_a_citation_by_its_path():
    document = Citation(sid=2, title="Costs", path="ks:docs/cost.md")
    events = ended(answer="[[S:2]]", citations=(document,))
    (item,) = data(events, "chat.citations")["items"]
    assert item == {"sid": 2, "title": "Costs", "url": "", "path": "ks:docs/cost.md"}
    assert data(events, "chat.complete")["answer"] == '[Costs](ks:docs/cost.md "S:2")'


def test_the_end_of_a_turn_reports_its_timings():
    events = ended(rounds=3, files=2, elapsed_ms=65_432, model_ms=60_000, tools_ms=1_040, starting_ms=3_000)
    assert data(events, "chat.conversation.turn.completed") == {
        "elapsed_ms": 65_432,
        "produced_file_count": 2,
        "citation_count": 0,
    }
    summary = data(events, "chat.turn.summary")
    assert summary == {
        "rounds": 3,
        "elapsed_ms": 65_432,
        "model_ms": 60_000,
        "tools_ms": 1_040,
        "starting_ms": 3_000,
        "between_ms": 1_392,
        "markdown": "| | |\n|---|---|\n| rounds | 3 |\n| model | 60.0 s |\n| tools | 1.0 s |\n"
        "| starting programs | 3.0 s |\n| between steps | 1.4 s |\n| whole turn | 65.4 s |",
    }


def test_usage_is_reported_in_tokens_and_dollars_by_role_and_model():
    title = Usage(input_tokens=3, output_tokens=5, estimated=True)
    bill = (
        ModelCall(role="decide", model="m-1", usage=USAGE, nanos=2_500_000, priced=True, count=2),
        ModelCall(role="title", model="m-2", usage=title),
    )
    found = data(ended(usage=USAGE, rounds=2, model="m-1", bill=bill), "accounting.usage")
    lines = found.pop("lines")
    assert found == {
        "rounds": 2,
        "input_tokens": 100,
        "cache_read_tokens": 1000,
        "cache_write_5m_tokens": 80,
        "cache_write_1h_tokens": 10,
        "output_tokens": 20,
        "total_input_tokens": 1190,
        "weighted_tokens": 100 + 100 + 100 + 20 + 100,
        "model": "m-1",
        "usd": 0.0025,
    }
    rows = [(one["role"], one["model"], one["calls"], one["usd"], one["priced"]) for one in lines]
    assert rows == [("decide", "m-1", 2, 0.0025, True), ("title", "m-2", 1, 0.0, False)]
    assert (lines[0]["cache_read_tokens"], lines[1]["output_tokens"], lines[1]["estimated"]) == (
        1000,
        5,
        True,
    )
    assert weigh(Usage()) == 0


def test_a_bill_is_priced_if_every_line_of_it_is():
    priced = ModelCall(role="decide", model="m-1", usage=USAGE, nanos=1, priced=True)
    assert data(ended(usage=USAGE, bill=(priced,)), "accounting.usage")["priced"] is True
    assert "priced" not in data(ended(usage=USAGE), "accounting.usage")


@pytest.mark.parametrize(
    ("code", "kind", "completion"),
    [
        ("execution_lost", "turn_interrupted", "interrupted"),
        ("step_timeout", "task_watchdog_timeout", "error"),
        ("context_limit", None, "error"),
    ],
)
def test_a_turn_that_fails_ends_with_its_code_and_what_it_consumed(code, kind, completion):
    events = failed(code, usage=USAGE, answer="[[S:1]]", citations=CITED, followups=("More?",))
    assert [event.type for event in events] == [
        "chat.conversation.turn.completed",
        "chat.turn.summary",
        "accounting.usage",
        "chat.error",
        "conv.status",
    ]
    error = data(events, "chat.error")
    assert (error["code"], error["error"], error.get("error_type")) == (code, "It failed.", kind)
    assert data(events, "conv.status") == {
        "state": "error",
        "updated_at": AT,
        "current_turn_id": "turn_1",
        "completion": completion,
    }


def test_each_error_type_belongs_to_a_code_that_can_end_a_turn():
    from stepline.loop.close import MESSAGES

    assert ERROR_TYPES.keys() | FINAL <= MESSAGES.keys()


@pytest.mark.parametrize(("code", "retryable"), [("model_overloaded", True), ("context_limit", False)])
def test_a_failure_says_whether_the_message_may_be_sent_again_and_when(code, retryable):
    error = data(failed(code), "chat.error")
    assert (error["retryable"], "retry_after_s" in error) == (retryable, False)
    assert data(failed(code, retry_after_s=30), "chat.error")["retry_after_s"] == 30


@pytest.mark.parametrize(
    ("fields", "state", "completion"),
    [
        ({}, "idle", "success"),
        ({"next_turn": "turn_2"}, "in_progress", "queued_next"),
        ({"outcome": "error", "code": "step_failed"}, "error", "error"),
        ({"outcome": "error", "code": "step_failed", "next_turn": "turn_2"}, "in_progress", "error"),
    ],
)
def test_the_terminal_event_is_followed_by_the_conversation_status(fields, state, completion):
    found = data(ended(**fields), "conv.status")
    assert (found["state"], found["completion"]) == (state, completion)
    assert found["current_turn_id"] == fields.get("next_turn", "turn_1")


def test_a_closing_batch_reports_the_ended_turn_before_the_next_one():
    log = LogBuilder()
    log.message()
    log.message("late")
    log.answer(rendered=1)
    log.close()
    events = derive(log.batches[-1])
    assert [(event.type, event.turn_id) for event in events[-3:]] == [
        ("chat.complete", "turn_0001"),
        ("conv.status", "turn_0001"),
        ("chat.start", "turn_0004"),
    ]
    assert events[-2].data["completion"] == "queued_next"
    assert any(isinstance(entry, Opened) for entry in log.batches[-1].entries)


def test_the_end_of_a_turn_without_usage_is_reported():
    log = LogBuilder()
    log.message()
    log.answer("done")
    log.close()
    kinds = [event.type for event in derive(log.batches[-1])]
    assert kinds[-2:] == ["chat.complete", "conv.status"]
    assert "accounting.usage" not in kinds


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("so far", {"message": "Stopped."}), ("Stopped.", {})],
    ids=["partial", "nothing"],
)
def test_a_stopped_turn_keeps_its_partial_answer_and_the_reason(answer: str, expected: dict[str, str]):
    (end,) = [
        event
        for event in ended(answer=answer, reason="stop", message="Stopped.")
        if event.type == "chat.complete"
    ]
    assert (end.data["final_answer"], end.data["reason"]) == (answer, "stop")
    assert {name: end.data[name] for name in ("message",) if name in end.data} == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"eur":12.5}', {"eur": 12.5}), ("[1]", [1]), ('"a"', "a"), ("false", False), ("{broken", "{broken")],
)
def test_the_value_of_a_result_is_in_the_terminal_event(text, value):
    assert data(ended(answer="It costs 12.50.", value=text), "chat.complete")["value"] == value


def test_an_answer_without_a_value_has_no_field_for_it():
    assert "value" not in data(ended(answer="done"), "chat.complete")
