from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.errors import ContextLimit, ModelOverloaded, ModelRateLimited, ModelRefused
from stepline.loop.close import ERRORS, MESSAGES
from stepline.model.batch import encode_batch
from stepline.model.entry import Closed, Decided, Deferred, Dropped, Opened, Titled
from stepline.model.ids import execution_name
from stepline.model.usage import Tally
from stepline.ports.model import DECISION_ROLE
from tests.support.conversation import LANE, USER, Conversation, closings, durable, event_types, text_of
from tests.support.faulty_log import BusyLog, CountingLog, LosingLog, StaleLog
from tests.support.generation import BROKEN, answered, called, tagged

ENDS = {"chat.complete", "chat.error"}


def at_the_end(*script: str, **fields: Any) -> Conversation:
    """Return a conversation whose turn has decided to answer and is about to close."""
    conversation = Conversation(*(script or (answered("done"),)), **fields)
    conversation.send()
    conversation.decide()
    return conversation


def listed(conversation: Conversation) -> list[Any]:
    return conversation.log.conversations(LANE.tenant, LANE.project, USER)


def test_a_turn_ends_with_the_answer_that_was_recorded() -> None:
    conversation = at_the_end(answered("All quiet.", suggested_followups=["More?"]))
    inbox = conversation.listen()
    assert conversation.close().route == "done"
    (closing,) = closings(conversation)
    assert (closing.outcome, closing.reason, closing.answer) == ("completed", "complete", "All quiet.")
    assert closing.followups == ("More?",)
    ((n, events),) = durable(inbox)
    (event,) = [event for event in events if event.type == "chat.complete"]
    assert (n, event.data["final_answer"], event.data["followups"]) == (3, "All quiet.", ["More?"])


def test_an_ended_turn_leaves_an_idle_lane_that_is_listed_and_no_longer_open() -> None:
    conversation = at_the_end()
    conversation.close()
    state = conversation.state
    assert (state.status, state.turn, state.epoch, state.route()) == ("idle", "", 0, "stop")
    assert conversation.log.open_lanes(before="9999") == []
    (row,) = listed(conversation)
    assert (row.lane, row.owner, row.applied_n, row.outcome) == (LANE, USER, 3, "completed")
    assert row.input_tokens == state.input_tokens > 0


def test_the_next_message_opens_a_new_turn() -> None:
    conversation = at_the_end()
    conversation.close()
    conversation.clock.pause(1)
    conversation.send(id="m2")
    first, second = conversation.entries(Opened)
    assert first.turn != second.turn
    assert conversation.state.rendered == conversation.tail.n == 4


# --- the exit gate


def test_a_message_the_model_has_not_seen_defers_the_end_and_is_seen_next() -> None:
    conversation = at_the_end(answered("first"), answered("both"))
    conversation.send("one more thing", id="second")
    following = conversation.close()
    assert (following.route, following.iteration) == ("decide", 1)
    assert conversation.entries(Deferred) == [
        Deferred(turn=conversation.state.turn, iteration=0, answer="first")
    ]
    assert (conversation.state.claim, conversation.state.status) == (conversation.tail.n, "open")
    conversation.drive(following)
    assert "one more thing" in text_of(conversation.model.requests[1])
    assert [closing.answer for closing in closings(conversation)] == ["both"]


def test_a_message_just_before_the_end_defers_it() -> None:
    log = BusyLog()
    conversation = at_the_end(answered("first"), answered("both"), log=log)
    log.rivals = [lambda: conversation.send(id="second")]
    assert conversation.close().route == "decide"
    assert closings(conversation) == []


def test_a_message_missed_by_a_stale_read_defers_the_end() -> None:
    log = StaleLog(lag=0)
    conversation = at_the_end(answered("first"), answered("both"), log=log)
    conversation.send(id="second")
    log.lag = 2
    assert conversation.close().route == "decide"


def test_a_quiet_event_does_not_keep_a_turn_open() -> None:
    conversation = at_the_end()
    conversation.send(id="e", kind="note")
    conversation.send(id="s", kind="steer")
    assert conversation.close().route == "done"
    assert conversation.entries(Dropped) == [
        Dropped(n=4, reason="turn_closed", message_id="s", event="steer")
    ]


def test_without_a_round_left_the_end_and_the_next_turn_are_one_batch() -> None:
    conversation = Conversation(answered("first"), answered("second"), max_iterations=1)
    inbox = conversation.listen()
    conversation.send()
    conversation.decide()
    out_of_rounds(conversation)
    assert conversation.close().route == "done"
    closed, opened_ = conversation.tail.entries
    assert isinstance(closed, Closed)
    assert isinstance(opened_, Opened)
    assert opened_.prompts == (3, 4)
    assert opened_.turn == conversation.state.turn != closed.turn
    assert conversation.state.epoch == conversation.state.rendered == conversation.tail.n
    assert event_types(inbox)[-3:] == ["chat.complete", "conv.status", "chat.start"]
    name, step = conversation.machine.queue[-1]
    assert (name, step.epoch) == (execution_name(LANE, conversation.tail.n), conversation.tail.n)
    assert conversation.log.open_lanes(before="9999") != []


def test_a_title_stays_where_the_end_of_its_turn_opens_the_next_one() -> None:
    named = [(answered(text) + tagged("summary", f"Title: {text}")) for text in ("One", "Two")]
    conversation = at_the_end(*named, max_iterations=1)
    out_of_rounds(conversation)
    conversation.close()
    assert (conversation.state.status, conversation.state.titled) == ("open", conversation.tail.n)
    conversation.run()
    assert [entry.title for entry in conversation.entries(Titled)] == ["One"]


def out_of_rounds(conversation: Conversation) -> None:
    """Send two messages that add no round."""
    strict = replace(conversation.ports.policy, max_iterations=0)
    kept, conversation.ports = conversation.ports, replace(conversation.ports, policy=strict)
    conversation.send(id="second")
    conversation.send(id="third")
    conversation.ports = kept


# --- error ends


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ContextLimit.__name__, "context_limit"),
        (ModelRefused.__name__, "model_refused"),
        (ModelOverloaded.__name__, "model_overloaded"),
        (ModelRateLimited.__name__, "model_rate_limited"),
        ("States.Timeout", "step_timeout"),
        ("ZeroDivisionError", "step_failed"),
        (None, "step_failed"),
    ],
)
def test_a_failed_turn_ends_with_a_stable_code_and_message(error: str | None, code: str) -> None:
    conversation = Conversation()
    inbox = conversation.listen()
    conversation.send()
    failure = {"Error": error, "Cause": "Traceback: s3://bucket/out/key"} if error else {}
    assert conversation.close(error=failure).route == "done"
    (closing,) = closings(conversation)
    assert (closing.outcome, closing.code, closing.message) == ("error", code, MESSAGES[code])
    (event,) = [event for event in durable(inbox)[-1][1] if event.type in ENDS]
    assert (event.type, event.data["code"], event.data["error"]) == ("chat.error", code, MESSAGES[code])


def test_every_code_of_a_failure_has_a_text() -> None:
    assert set(ERRORS.values()) <= MESSAGES.keys()


def test_a_failed_turn_promotes_waiting_messages_without_deferring() -> None:
    conversation = Conversation()
    conversation.send()
    conversation.send(id="second")
    conversation.close(error={"Error": "ContextLimit"})
    first, second = conversation.entries(Opened)
    assert (first.prompts, second.prompts) == ((1,), (2,))
    assert first.rounds == second.rounds == conversation.ports.policy.max_iterations
    assert conversation.entries(Deferred) == []


def test_a_failed_turn_is_listed_as_failed() -> None:
    conversation = Conversation()
    conversation.send()
    conversation.close(error={"Error": "ContextLimit"})
    assert [row.outcome for row in listed(conversation)] == ["error"]


# --- retries


def test_a_retry_of_a_successful_close_repeats_its_effects() -> None:
    log = LosingLog()
    conversation = at_the_end(log=log)
    step, mark = conversation.now(), dict(log._open)
    inbox = conversation.listen()
    conversation.close(step)
    log._listings.clear()
    log._open.update(mark)
    inbox.clear()
    assert conversation.close(step).route == "done"
    assert event_types(inbox).count("chat.complete") == 1
    assert [row.outcome for row in listed(conversation)] == ["completed"]
    assert conversation.log.open_lanes(before="9999") == []


def test_a_retry_of_a_promoting_close_starts_the_next_turn() -> None:
    conversation = Conversation(answered("first"), max_iterations=1)
    conversation.send()
    conversation.decide()
    out_of_rounds(conversation)
    step = conversation.now()
    conversation.close(step)
    name, started = conversation.machine.queue.pop()
    del conversation.machine._status[name]
    assert conversation.close(step).route == "done"
    assert conversation.machine.queue[-1] == (name, started)


def test_a_retry_does_not_take_a_later_turn_out_of_the_listing() -> None:
    conversation = at_the_end()
    step = conversation.now()
    conversation.close(step)
    conversation.send(id="m2")
    assert conversation.close(step).route == "done"
    assert [mark.n for mark in conversation.log.open_lanes(before="9999")] == [4]


@pytest.mark.parametrize("applied", [True, False])
def test_a_turn_ends_once_over_repeated_closes(applied: bool) -> None:
    log = LosingLog()
    conversation = at_the_end(log=log)
    step = conversation.now()
    log.lose(applied, applied)
    for _ in range(3):
        conversation.close(step)
    ends = [event for batch in conversation.batches() for event in batch.entries if isinstance(event, Closed)]
    assert len(ends) == 1


def test_every_kind_of_end_is_one_event() -> None:
    conversation = Conversation(answered("one"), answered("two"))
    inbox = conversation.listen()
    for message in ("m1", "m2"):
        conversation.send(id=message)
        conversation.run()
    seen = [(n, event.type) for n, events in durable(inbox) for event in events if event.type in ENDS]
    assert seen == [(3, "chat.complete"), (6, "chat.complete")]


def test_a_close_of_an_earlier_round_continues_with_the_later_one() -> None:
    conversation = at_the_end(answered("first"), answered("both"))
    zombie = conversation.now()
    conversation.send(id="second")
    conversation.decide(conversation.close())
    following = conversation.close(zombie)
    assert (following.route, following.iteration) == ("close", 1)
    assert (len(conversation.entries(Deferred)), closings(conversation)) == (1, [])


def test_a_close_of_another_turn_ends_its_execution_and_nothing_else() -> None:
    conversation = at_the_end()
    before = conversation.batches()
    assert conversation.close(turn="turn_other").route == "stop"
    assert conversation.batches() == before


# --- the counts of a turn


def test_the_end_counts_the_whole_turn_and_reads_it_once() -> None:
    file = {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"}
    log = CountingLog()
    conversation = Conversation(called("react.write", file), BROKEN, answered("done"), log=log)
    conversation.send()
    for _ in range(2):
        conversation.decide()
        conversation.clock.pause(2)
        if conversation.state.cursor.phase == "act":
            conversation.act()
    conversation.decide()
    used = conversation.state.tally.usage
    opened, n = conversation.state.opened, conversation.tail.n
    log.reads.clear()
    conversation.close()
    title = (0, 1)
    assert log.reads == [(opened, n), title]
    (closing,) = closings(conversation)
    assert [(line.role, line.model, line.count) for line in closing.bill] == [(DECISION_ROLE, "memory", 3)]
    assert closing.bill[0].usage == used
    assert (closing.rounds, closing.files, closing.model) == (3, 1, conversation.entries(Decided)[-1].model)
    assert closing.usage == used
    assert used.prompt_tokens == conversation.state.input_tokens > 0
    assert used.output_tokens == conversation.state.output_tokens > 0
    assert closing.elapsed_ms == 4000


def test_each_turn_is_counted_from_nothing() -> None:
    conversation = Conversation(answered("one"), answered("two"))
    for message in ("m1", "m2"):
        conversation.send(id=message)
        conversation.run()
        assert conversation.state.tally == Tally()
    first, second = closings(conversation)
    assert (first.rounds, second.rounds) == (1, 1)
    assert first.usage.output_tokens + second.usage.output_tokens == conversation.state.output_tokens


def test_a_turn_that_was_not_counted_from_its_begin_is_not_counted_at_all() -> None:
    conversation = at_the_end(answered("done"))
    stored = conversation.log.batches[LANE.key()]
    old = conversation.tail
    assert old.state.tally.rounds == 1
    uncounted = msgspec.structs.replace(old.state.tally, opened_ms=0)
    state = msgspec.structs.replace(old.state, tally=uncounted)
    stored[-1] = encode_batch(msgspec.structs.replace(old, state=state))
    conversation.close()
    (closing,) = closings(conversation)
    assert (closing.rounds, closing.usage, closing.elapsed_ms, closing.model_ms) == (0, None, 0, 0)


def test_a_turn_that_waited_is_counted_from_the_end_of_the_one_before() -> None:
    conversation = Conversation(answered("first"), answered("second"), max_iterations=1)
    conversation.send()
    conversation.clock.pause(3)
    conversation.decide()
    out_of_rounds(conversation)
    conversation.close()
    conversation.clock.pause(5)
    conversation.decide()
    conversation.close()
    assert [(closing.elapsed_ms, closing.rounds) for closing in closings(conversation)] == [
        (3000, 1),
        (5000, 1),
    ]


def test_a_failed_turn_counts_its_usage() -> None:
    conversation = at_the_end(BROKEN)
    conversation.close(error={"Error": "ContextLimit"})
    (closing,) = closings(conversation)
    assert (closing.outcome, closing.rounds) == ("error", 1)
    assert closing.usage.output_tokens > 0
    failed = Conversation()
    failed.send()
    failed.close(error={"Error": "ContextLimit"})
    assert (closings(failed)[0].rounds, closings(failed)[0].usage) == (0, None)
