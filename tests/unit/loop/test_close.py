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
from tests.support.conversation import (
    BROKEN,
    LANE,
    USER,
    Scene,
    answered,
    called,
    closings,
    durable,
    event_types,
)
from tests.support.faulty_log import BusyLog, CountingLog, LosingLog, StaleLog

ENDS = {"chat.complete", "chat.error"}


def at_the_end(*script: str, **fields: Any) -> Scene:
    """Return a scene whose turn has decided to answer and is about to close."""
    scene = Scene(*(script or (answered("done"),)), **fields)
    scene.send()
    scene.decide()
    return scene


def listed(scene: Scene) -> list[Any]:
    return scene.log.conversations(LANE.tenant, LANE.project, USER)


def test_a_turn_ends_with_the_answer_that_was_recorded() -> None:
    scene = at_the_end(answered("All quiet.", suggested_followups=["More?"]))
    inbox = scene.listen()
    assert scene.close().route == "done"
    (closing,) = closings(scene)
    assert (closing.outcome, closing.reason, closing.answer) == ("completed", "complete", "All quiet.")
    assert closing.followups == ("More?",)
    ((n, events),) = durable(inbox)
    (event,) = [event for event in events if event.type == "chat.complete"]
    assert (n, event.data["final_answer"], event.data["followups"]) == (3, "All quiet.", ["More?"])


def test_an_ended_turn_leaves_an_idle_lane_that_is_listed_and_no_longer_open() -> None:
    scene = at_the_end()
    scene.close()
    state = scene.state
    assert (state.status, state.turn, state.epoch, state.route()) == ("idle", "", 0, "stop")
    assert scene.log.open_lanes(before="9999") == []
    (row,) = listed(scene)
    assert (row.lane, row.owner, row.applied_n, row.outcome) == (LANE, USER, 3, "completed")
    assert row.input_tokens == state.input_tokens > 0


def test_the_next_message_opens_a_turn_of_its_own() -> None:
    scene = at_the_end()
    scene.close()
    scene.clock.pause(1)
    scene.send(id="m2")
    first, second = scene.entries(Opened)
    assert first.turn != second.turn
    assert scene.state.rendered == scene.tail.n == 4


# --- the exit gate


def test_a_message_the_model_has_not_seen_defers_the_end_and_is_seen_next() -> None:
    scene = at_the_end(answered("first"), answered("both"))
    scene.send("one more thing", id="second")
    following = scene.close()
    assert (following.route, following.iteration) == ("decide", 1)
    assert scene.entries(Deferred) == [Deferred(turn=scene.state.turn, iteration=0, answer="first")]
    assert (scene.state.claim, scene.state.status) == (scene.tail.n, "open")
    scene.drive(following)
    assert "one more thing" in "".join(part.text for part in scene.model.requests[1].content)
    assert [closing.answer for closing in closings(scene)] == ["both"]


def test_a_message_that_slips_in_before_the_end_is_put_defers_it() -> None:
    log = BusyLog()
    scene = at_the_end(answered("first"), answered("both"), log=log)
    log.rivals = [lambda: scene.send(id="second")]
    assert scene.close().route == "decide"
    assert closings(scene) == []


def test_a_message_that_a_late_read_does_not_show_defers_the_end_all_the_same() -> None:
    log = StaleLog(lag=0)
    scene = at_the_end(answered("first"), answered("both"), log=log)
    scene.send(id="second")
    log.lag = 2
    assert scene.close().route == "decide"


def test_what_asks_for_no_answer_does_not_keep_a_turn_open() -> None:
    scene = at_the_end()
    scene.send(id="e", kind="note")
    scene.send(id="s", kind="steer")
    assert scene.close().route == "done"
    assert scene.entries(Dropped) == [Dropped(n=4, reason="turn_closed", message_id="s", event="steer")]


def test_without_a_round_left_the_end_and_the_next_turn_are_one_batch() -> None:
    scene = Scene(answered("first"), answered("second"), max_iterations=1)
    inbox = scene.listen()
    scene.send()
    scene.decide()
    out_of_rounds(scene)
    assert scene.close().route == "done"
    closed, opened_ = scene.tail.entries
    assert isinstance(closed, Closed)
    assert isinstance(opened_, Opened)
    assert opened_.prompts == (3, 4)
    assert opened_.turn == scene.state.turn != closed.turn
    assert scene.state.epoch == scene.state.rendered == scene.tail.n
    assert event_types(inbox)[-3:] == ["chat.complete", "conv.status", "chat.start"]
    name, step = scene.machine.queue[-1]
    assert (name, step.epoch) == (execution_name(LANE, scene.tail.n), scene.tail.n)
    assert scene.log.open_lanes(before="9999") != []


def test_a_title_stays_where_the_end_of_its_turn_opens_the_next_one() -> None:
    named = [f"{answered(text)}<channel:summary>Title: {text}</channel:summary>" for text in ("One", "Two")]
    scene = at_the_end(*named, max_iterations=1)
    out_of_rounds(scene)
    scene.close()
    assert (scene.state.status, scene.state.titled) == ("open", scene.tail.n)
    scene.run()
    assert [entry.title for entry in scene.entries(Titled)] == ["One"]


def out_of_rounds(scene: Scene) -> None:
    """Let two messages arrive that bring no round with them."""
    strict = replace(scene.ports.policy, max_iterations=0)
    kept, scene.ports = scene.ports, replace(scene.ports, policy=strict)
    scene.send(id="second")
    scene.send(id="third")
    scene.ports = kept


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
def test_a_failed_turn_ends_with_a_stable_code_and_a_text_of_ours(error: str | None, code: str) -> None:
    scene = Scene()
    inbox = scene.listen()
    scene.send()
    failure = {"Error": error, "Cause": "Traceback: s3://bucket/out/key"} if error else {}
    assert scene.close(error=failure).route == "done"
    (closing,) = closings(scene)
    assert (closing.outcome, closing.code, closing.message) == ("error", code, MESSAGES[code])
    (event,) = [event for event in durable(inbox)[-1][1] if event.type in ENDS]
    assert (event.type, event.data["code"], event.data["error"]) == ("chat.error", code, MESSAGES[code])


def test_every_code_of_a_failure_has_a_text() -> None:
    assert set(ERRORS.values()) <= MESSAGES.keys()


def test_a_failed_turn_never_defers_and_promotes_what_waits() -> None:
    scene = Scene()
    scene.send()
    scene.send(id="second")
    scene.close(error={"Error": "ContextLimit"})
    assert [entry.prompts for entry in scene.entries(Opened)] == [(1,), (2,)]
    assert scene.entries(Deferred) == []


def test_a_failed_turn_is_listed_as_failed() -> None:
    scene = Scene()
    scene.send()
    scene.close(error={"Error": "ContextLimit"})
    assert [row.outcome for row in listed(scene)] == ["error"]


# --- retries


def test_a_retry_of_a_close_that_got_through_does_its_effects_again() -> None:
    log = LosingLog()
    scene = at_the_end(log=log)
    step, mark = scene.now(), dict(log._open)
    inbox = scene.listen()
    scene.close(step)
    log._listings.clear()
    log._open.update(mark)
    inbox.clear()
    assert scene.close(step).route == "done"
    assert event_types(inbox).count("chat.complete") == 1
    assert [row.outcome for row in listed(scene)] == ["completed"]
    assert scene.log.open_lanes(before="9999") == []


def test_a_retry_of_a_close_that_promoted_starts_what_it_could_not() -> None:
    scene = Scene(answered("first"), max_iterations=1)
    scene.send()
    scene.decide()
    out_of_rounds(scene)
    step = scene.now()
    scene.close(step)
    name, started = scene.machine.queue.pop()
    del scene.machine._status[name]
    assert scene.close(step).route == "done"
    assert scene.machine.queue[-1] == (name, started)


def test_a_retry_does_not_take_a_later_turn_out_of_the_listing() -> None:
    scene = at_the_end()
    step = scene.now()
    scene.close(step)
    scene.send(id="m2")
    assert scene.close(step).route == "done"
    assert [mark.n for mark in scene.log.open_lanes(before="9999")] == [4]


@pytest.mark.parametrize("applied", [True, False])
def test_a_turn_has_one_end_however_often_its_close_is_tried(applied: bool) -> None:
    log = LosingLog()
    scene = at_the_end(log=log)
    step = scene.now()
    log.lose(applied, applied)
    for _ in range(3):
        scene.close(step)
    ends = [event for batch in scene.batches() for event in batch.entries if isinstance(event, Closed)]
    assert len(ends) == 1


def test_an_end_is_one_event_wherever_it_came_from() -> None:
    scene = Scene(answered("one"), answered("two"))
    inbox = scene.listen()
    for message in ("m1", "m2"):
        scene.send(id=message)
        scene.run()
    seen = [(n, event.type) for n, events in durable(inbox) for event in events if event.type in ENDS]
    assert seen == [(3, "chat.complete"), (6, "chat.complete")]


def test_a_close_of_an_earlier_round_goes_on_with_the_later_one() -> None:
    scene = at_the_end(answered("first"), answered("both"))
    zombie = scene.now()
    scene.send(id="second")
    scene.decide(scene.close())
    following = scene.close(zombie)
    assert (following.route, following.iteration) == ("close", 1)
    assert (len(scene.entries(Deferred)), closings(scene)) == (1, [])


def test_a_close_of_another_turn_ends_its_execution_and_nothing_else() -> None:
    scene = at_the_end()
    before = scene.batches()
    assert scene.close(turn="turn_other").route == "stop"
    assert scene.batches() == before


# --- what a turn came to


def test_the_end_counts_the_whole_turn_without_reading_it_back() -> None:
    file = {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"}
    log = CountingLog()
    scene = Scene(called("react.write", file), BROKEN, answered("done"), log=log)
    scene.send()
    for _ in range(2):
        scene.decide()
        scene.clock.pause(2)
        if scene.state.cursor.phase == "act":
            scene.act()
    scene.decide()
    used = scene.state.tally.usage
    n = scene.tail.n
    log.reads.clear()
    scene.close()
    title = (0, 1)
    assert log.reads == [(n - 1, n), title]
    (closing,) = closings(scene)
    assert (closing.rounds, closing.files, closing.model) == (3, 1, scene.entries(Decided)[-1].model)
    assert closing.usage == used
    assert used.prompt_tokens == scene.state.input_tokens > 0
    assert used.output_tokens == scene.state.output_tokens > 0
    assert closing.elapsed_ms == 4000


def test_each_turn_is_counted_from_nothing() -> None:
    scene = Scene(answered("one"), answered("two"))
    for message in ("m1", "m2"):
        scene.send(id=message)
        scene.run()
        assert scene.state.tally == Tally()
    first, second = closings(scene)
    assert (first.rounds, second.rounds) == (1, 1)
    assert first.usage.output_tokens + second.usage.output_tokens == scene.state.output_tokens


def test_a_turn_that_was_not_counted_from_its_begin_is_not_counted_at_all() -> None:
    scene = at_the_end(answered("done"))
    stored = scene.log.batches[LANE.key()]
    old = scene.tail
    assert old.state.tally.rounds == 1
    uncounted = msgspec.structs.replace(old.state.tally, opened_ms=0)
    state = msgspec.structs.replace(old.state, tally=uncounted)
    stored[-1] = encode_batch(msgspec.structs.replace(old, state=state))
    scene.close()
    (closing,) = closings(scene)
    assert (closing.rounds, closing.usage, closing.elapsed_ms, closing.model_ms) == (0, None, 0, 0)


def test_a_turn_that_waited_is_counted_from_the_end_of_the_one_before() -> None:
    scene = Scene(answered("first"), answered("second"), max_iterations=1)
    scene.send()
    scene.clock.pause(3)
    scene.decide()
    out_of_rounds(scene)
    scene.close()
    scene.clock.pause(5)
    scene.decide()
    scene.close()
    assert [(closing.elapsed_ms, closing.rounds) for closing in closings(scene)] == [(3000, 1), (5000, 1)]


def test_a_turn_that_failed_counts_what_it_consumed() -> None:
    scene = at_the_end(BROKEN)
    scene.close(error={"Error": "ContextLimit"})
    (closing,) = closings(scene)
    assert (closing.outcome, closing.rounds) == ("error", 1)
    assert closing.usage.output_tokens > 0
    failed = Scene()
    failed.send()
    failed.close(error={"Error": "ContextLimit"})
    assert (closings(failed)[0].rounds, closings(failed)[0].usage) == (0, None)
