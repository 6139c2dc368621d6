"""The torture matrix's JavaScript peers: their events as a client of the matrix receives them, and as a stored thread."""

from __future__ import annotations

from bench.torture.subject import Event, Message
from bench.torture.subjects.eve_subject import fold_events
from bench.torture.subjects.mastra_subject import MastraStream

STEP = {"turnId": "turn_0", "sequence": 0, "stepIndex": 0}


def eve(kind, **data):
    return {"type": kind, "data": {**STEP, **data}}


def attempt(request):
    asked = {"requests": [{"requestId": request}]}
    return [
        eve("turn.started"),
        eve("message.received", message="pay"),
        eve("step.started"),
        eve("message.completed", message="I pay."),
        eve("input.requested", **asked),
        eve("turn.waiting"),
    ]


def test_a_step_of_eve_that_is_done_again_counts_once():
    seen = fold_events(iter([*attempt("first"), *attempt("second")]))
    assert seen.messages == (Message("user", "pay"), Message("assistant", "I pay."))
    assert (seen.state, seen.pending) == ("waiting", ("second",))


def test_a_request_of_eve_is_pending_once_its_turn_waits():
    assert fold_events(iter(attempt("first")[:-1])).pending == ()


def test_a_failed_turn_of_eve_is_failed_until_the_next_one_begins():
    failed = [eve("turn.started"), eve("turn.failed", message="no model"), eve("session.waiting")]
    assert (fold_events(iter(failed)).state, fold_events(iter(failed)).error) == ("failed", "no model")
    assert fold_events(iter([*failed, eve("turn.started")])).state == "running"


def mastra(index, kind, **payload):
    return {"index": index, "type": "chunk", "data": {"type": kind, "payload": payload}}


def test_a_client_of_mastra_that_continues_in_mid_answer_takes_its_rest_for_no_whole_answer():
    events = [mastra(0, "text-start"), mastra(1, "text-delta", text="a"), mastra(2, "text-delta", text="b")]
    events.append(mastra(3, "text-end"))
    whole = [event.kind for event in MastraStream.client_events("run", iter(events))]
    assert whole == ["reset", "text", "text", "answer"]
    rest = list(MastraStream.client_events("run", iter(events[2:])))
    assert rest == [Event("text", "b", cursor="run 3")]
