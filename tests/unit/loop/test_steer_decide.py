"""The user steers during a model call: the cut, the kept text, and the next steps."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.adapters.memory.signal import MemorySignals, MemoryWatch
from stepline.adapters.polling_signals import PollingSignals
from stepline.errors import Fenced, ModelStreamBroken, ModelTimeout
from stepline.loop.steer import STOPPED
from stepline.loop.sweep import replace_owner
from stepline.metrics import DECISIONS_REJECTED, STEERS
from stepline.model.entry import Decided, Reopened, SteeredEntry
from stepline.model.ids import Lane
from stepline.model.usage import Usage
from stepline.model.wire.event import CONTROL_LANE, DeltaFrame
from stepline.ports.model import Completion, ModelRequest
from tests.support.conversation import LANE, event_types, of
from tests.support.faulty_log import BusyLog, LosingLog, StaleLog
from tests.support.generation import BROKEN, answered, called
from tests.support.steered_conversation import ANSWER, BEGIN, END, SPOKEN, SteeredConversation, shown_after

PIECES = (len(SPOKEN) + 7) // 8
MIDST = (SPOKEN.index(ANSWER) + len(ANSWER) // 2) // 8


def shown(inbox: list[bytes]) -> str:
    """Return the answer as a listener assembled it."""
    return "".join(frame.text for frame in of(DeltaFrame, inbox) if frame.lane == "answer.0")


# --- before the model is asked


def test_a_steer_before_the_round_is_heeded_with_one_model_call() -> None:
    live = SteeredConversation(answered("Brief."))
    live.steer("be brief")
    assert live.decide().route == "close"
    (steer,) = live.steered
    assert (steer.n, steer.phase, steer.text, steer.finalize, steer.message_id) == (
        2,
        "",
        "be brief",
        2,
        "s1",
    )
    assert "be brief" in live.requested()[0]
    assert (live.state.steered, [entry.interrupted for entry in live.decided]) == (2, [False])
    live.close()
    assert (live.closed.reason, live.closed.answer, live.handed_back()) == ("steer", "Brief.", {})


def test_a_stop_before_the_round_ends_the_turn_without_asking() -> None:
    live = SteeredConversation()
    inbox = live.listen()
    live.stop()
    live.run()
    assert live.model.requests == []
    assert (live.closed.outcome, live.closed.reason, live.closed.answer) == ("completed", "stop", STOPPED)
    assert (live.closed.message, live.state.status, live.handed_back()) == (STOPPED, "idle", {})
    assert event_types(inbox).count("chat.complete") == 1


def test_a_steer_before_the_record_of_another_is_heeded_too() -> None:
    log = BusyLog()
    live = SteeredConversation(log=log)
    live.steer("be brief")
    log.rivals = [live.stop]
    assert live.decide().route == "close"
    assert [(entry.n, entry.finalize) for entry in live.steered] == [(2, 2), (3, 0)]
    assert live.model.requests == []


def test_a_steer_is_heeded_once_by_whichever_attempt() -> None:
    live = SteeredConversation(*[Fail(error=ModelTimeout("busy"))] * 3, answered("Brief."))
    live.steer()
    with pytest.raises(ModelTimeout):
        live.decide()
    live.decide(attempt=1)
    assert len(live.steered) == 1
    assert live.state.finalize == 2


def test_a_lost_answer_of_its_record_does_not_make_it_two() -> None:
    log = LosingLog()
    live = SteeredConversation(answered("Brief."), log=log)
    live.steer()
    log.lose(True)
    live.decide()
    assert len(live.steered) == 1


def test_an_attempt_without_the_claim_heeds_nothing() -> None:
    live = SteeredConversation(*[Fail(error=ModelTimeout("busy"))] * 3)
    step = live.now()
    with pytest.raises(ModelTimeout):
        live.decide(live.now(attempt=1))
    live.steer()
    with pytest.raises(Fenced):
        live.decide(step)
    assert live.steered == []


def test_an_older_execution_heeds_nothing() -> None:
    live = SteeredConversation()
    live.stop()
    step = live.now()
    replace_owner(live.ports, LANE, live.tail)
    assert live.decide(step).route == "stop"
    assert live.steered == []


# --- during the generation


@pytest.mark.parametrize("piece", [0, 1, PIECES // 2, MIDST, PIECES - 1])
def test_a_steer_cuts_the_generation_and_keeps_the_shown_text(piece: int) -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    inbox = live.listen()
    live.at(piece, live.steer)
    following = live.decide()
    assert [type(entry) for entry in live.tail.entries] == [Decided, SteeredEntry]
    (cut,), (steer,) = live.decided, live.steered
    assert (following.route, following.iteration) == ("decide", 1)
    assert (cut.interrupted, cut.accepted, cut.actions, cut.stop_reason) == (True, False, (), "aborted")
    assert cut.answer == shown(inbox) == shown_after(piece * 8)
    assert SPOKEN.startswith(cut.raw)
    assert (steer.phase, steer.finalize) == ("decision", 2)
    assert (live.state.claim, live.state.finalize, live.state.rendered) == (live.tail.n, 2, 1)
    live.run()
    assert (live.closed.reason, live.closed.answer) == ("steer", "Brief.")


@pytest.mark.parametrize("piece", [0, MIDST])
def test_a_stop_cuts_the_generation_and_ends_with_the_shown_text(piece: int) -> None:
    live = SteeredConversation(SPOKEN)
    inbox = live.listen()
    live.at(piece, live.stop)
    live.run()
    assert (live.closed.reason, live.closed.message) == ("stop", STOPPED)
    assert live.closed.answer == (shown_after(piece * 8) or STOPPED)
    assert shown(inbox) == shown_after(piece * 8)
    assert (live.closed.model != "") is bool(piece)
    live.model.assert_read()


def test_thinking_before_a_cut_is_kept_and_shown_once() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(3, lambda: live.clock.pause(0.5))
    live.at(MIDST, live.steer)
    live.decide()
    (cut,) = live.decided
    assert (cut.interrupted, cut.thinking, cut.thinking_ms) == (True, ("Let me see.",), ((0, 500),))
    live.decide()
    assert live.requested()[1].count("Let me see.") == 1
    assert [entry.rounds_left for entry in live.decided] == [2, 1]


def test_lanes_are_closed_as_cancelled() -> None:
    live = SteeredConversation(SPOKEN)
    inbox = live.listen()
    live.at(MIDST, live.stop)
    live.decide()
    control = "".join(frame.text for frame in of(DeltaFrame, inbox) if frame.lane == CONTROL_LANE)
    assert '"aborted":"cancelled"' in control.splitlines()[-1]


@pytest.mark.parametrize("say", ["steer", "stop"])
def test_a_generation_that_ended_before_its_steer_was_seen_is_void(say: str) -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(END, getattr(live, say))
    live.decide()
    (cut,) = live.decided
    assert (cut.interrupted, cut.answer, cut.raw, cut.stop_reason) == (True, ANSWER, SPOKEN, "")
    live.run()
    assert live.closed.answer == ("Brief." if say == "steer" else ANSWER)


def test_a_steer_before_a_decision_in_the_log_voids_it() -> None:
    log = BusyLog()
    live = SteeredConversation(called("react.plan", {"steps": ["one"]}), answered("Brief."), log=log)
    log.rivals = [live.steer]
    assert live.decide().route == "decide"
    assert live.decided[0].interrupted
    assert live.decided[0].actions == ()


def test_a_message_before_a_decision_in_the_log_does_not_void_it() -> None:
    log = BusyLog()
    live = SteeredConversation(answered("Done."), log=log)
    log.rivals = [lambda: live.send("and this", id="m2")]
    live.decide()
    assert not live.decided[0].interrupted


def test_a_logged_decision_is_not_cut_off_by_a_later_steer() -> None:
    live = SteeredConversation(answered("Done."))
    live.decide()
    live.steer()
    live.stop()
    live.run()
    assert (live.closed.reason, live.closed.answer) == ("complete", "Done.")
    assert live.handed_back() == {"s1": "stopped", "x1": "turn_closed"}


def test_a_lost_answer_of_the_cut_does_not_ask_the_model_again() -> None:
    log = LosingLog()
    live = SteeredConversation(SPOKEN, answered("Brief."), log=log)

    def steer() -> None:
        live.steer()
        log.lose(True)

    live.at(MIDST, steer)
    following = live.decide()
    assert (len(live.decided), len(live.steered), following.iteration) == (1, 1, 1)
    again = live.decide(live.now(iteration=0, attempt=1))
    assert (again.route, again.iteration, len(live.model.requests)) == ("decide", 1, 1)


def test_a_cut_by_an_attempt_that_was_overtaken_is_not_recorded() -> None:
    live = SteeredConversation(SPOKEN, answered("fast"))
    step = live.now()

    def overtake() -> None:
        live.steer()
        live.decide(live.now(attempt=1))

    live.at(MIDST, overtake)
    assert live.decide(step).route == "close"
    assert [(entry.answer, entry.interrupted) for entry in live.decided] == [("fast", False)]
    assert [entry.phase for entry in live.steered] == [""]


def test_a_later_attempt_is_cut_off_under_its_own_claim() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(MIDST, live.steer)
    live.decide(attempt=1)
    assert live.entries(Reopened)
    assert live.decided[0].claim == 2


def test_a_call_that_fails_when_the_user_has_steered_is_not_tried_again_first() -> None:
    cut = Fail(error=ModelStreamBroken("gone", code="stream_cut"), text=SPOKEN, after_chars=MIDST * 8)
    live = SteeredConversation(cut, answered("Brief."))
    live.at(0, live.steer)
    assert live.decide().route == "decide"
    assert live.decided[0].interrupted


class LateWatch(MemoryWatch):
    """Sees a steer only when its call is over, as a polling watch may."""

    requested = False


class LateSignals(MemorySignals):
    def watch(self, lane: Lane, after: int) -> LateWatch:
        return LateWatch(self._log, lane, after)


@pytest.mark.parametrize("say", ["steer", "stop"])
def test_a_call_that_fails_after_text_is_not_repeated_in_its_stream(
    say: str,
) -> None:
    cut = Fail(error=ModelStreamBroken("gone", code="stream_cut"), text=SPOKEN, after_chars=MIDST * 8)
    live = SteeredConversation(cut, answered("Brief."))
    live.ports = dataclasses.replace(live.ports, signals=LateSignals(live.log))
    inbox = live.listen()
    live.at(0, getattr(live, say))
    with pytest.raises(ModelStreamBroken):
        live.decide()
    assert len(live.model.requests) == 1
    live.decide(attempt=1)
    spoken = [(frame.claim, frame.text) for frame in of(DeltaFrame, inbox) if frame.lane == "answer.0"]
    first = "".join(text for claim, text in spoken if claim == 1)
    assert first == shown_after(MIDST * 8)
    assert "".join(text for claim, text in spoken if claim != 1) == ("Brief." if say == "steer" else "")
    assert [entry.phase for entry in live.steered] == [""]


def test_a_call_that_fails_before_text_is_not_retried_after_a_steer() -> None:
    live = SteeredConversation(*[Fail(error=ModelTimeout("busy"))] * 3, answered("Brief."))
    live.ports = dataclasses.replace(live.ports, signals=LateSignals(live.log))
    live.at(BEGIN, live.steer)
    assert live.decide().route == "close"
    assert (live.entries(Reopened), [entry.phase for entry in live.steered]) == ([], [""])


def test_a_generation_without_thinking_is_cut_and_voided_by_the_steer() -> None:
    live = SteeredConversation("Well, hello there. " * 9, answered("Brief."))
    live.at(0, live.steer)
    live.decide()
    assert live.decided[0].interrupted
    assert live.ports.meter.counts[DECISIONS_REJECTED] == 0


def test_each_steer_interrupts_once() -> None:
    live = SteeredConversation(SPOKEN, SPOKEN, answered("Brief."))
    live.at(MIDST, lambda: live.steer("be brief", id="s1"))
    live.at(MIDST, lambda: live.steer("in French", id="s2"), call=1)
    live.run()
    assert [entry.interrupted for entry in live.decided] == [True, True, False]
    assert [(entry.message_id, entry.finalize) for entry in live.steered] == [("s1", 2), ("s2", 2)]
    assert live.closed.answer == "Brief."


def test_two_steers_at_once_interrupt_once_and_the_model_reads_both() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(MIDST, lambda: (live.steer("be brief", id="s1"), live.steer("in French", id="s2")))
    live.run()
    assert [entry.message_id for entry in live.steered] == ["s2"]
    assert "be brief" in live.requested()[1]
    assert "in French" in live.requested()[1]
    assert live.handed_back() == {}


@pytest.mark.parametrize("stop_first", [True, False])
def test_a_stop_among_steers_counts_and_the_others_are_returned(*, stop_first: bool) -> None:
    live = SteeredConversation(SPOKEN)

    def both() -> None:
        for say in (live.stop, live.steer) if stop_first else (live.steer, live.stop):
            say()

    live.at(MIDST, both)
    live.run()
    assert [entry.message_id for entry in live.steered] == ["x1"]
    assert live.closed.reason == "stop"
    assert live.handed_back() == {"s1": "turn_closed" if stop_first else "stopped"}


# --- costs and the cache


def test_the_usage_of_a_cut_call_is_counted() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(MIDST, live.steer)
    live.decide()
    usage = live.decided[0].usage
    assert usage is not None
    assert usage.estimated
    assert live.state.input_tokens == usage.prompt_tokens > 0
    assert live.state.output_tokens == usage.output_tokens > 0
    assert live.state.tally.rounds == 1
    assert live.ports.meter.counts[STEERS] == 1
    assert live.ports.meter.counts[DECISIONS_REJECTED] == 0


def test_the_request_after_a_cut_has_the_same_prefix() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(MIDST, live.steer)
    live.run()
    first, second = ([part.text for part in request.content] for request in live.model.requests)
    shared = first[:-1]  # the last part is announced anew each time
    assert second[: len(shared)] == shared


def test_a_generation_voided_later_keeps_the_providers_count() -> None:
    usage = Usage(input_tokens=5, cache_read_tokens=2000, output_tokens=7)
    live = SteeredConversation(Say(text=SPOKEN, usage=usage), answered("Brief."))
    live.at(END, live.steer)
    live.decide()
    assert live.decided[0].usage == usage
    assert live.decided[0].overhead_bytes > 0
    assert live.decided[0].system


def test_a_cut_does_not_count_as_a_decision_that_broke_the_protocol() -> None:
    live = SteeredConversation(BROKEN, SPOKEN, answered("Brief."), round_retries=1)
    live.at(MIDST, live.steer, call=1)
    live.decide()
    live.decide()
    assert (live.state.round_retries, live.state.turn_retries) == (1, 1)


# --- a silent model


class Silent:
    """A model that returns nothing until its call is ended; `begin` is called at its start."""

    def __init__(self, begin: Any) -> None:
        self.ended = threading.Event()
        self._begin = begin

    def stream(self, _request: ModelRequest) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    def __iter__(self) -> Any:
        self._begin()
        assert self.ended.wait(60)
        return iter(())

    def abort(self) -> None:
        self.ended.set()

    def completion(self) -> Completion:
        return Completion(text="", stop_reason="aborted", usage=Usage(), model="silent", aborted=True)


def test_a_model_that_is_silent_is_ended_from_beside_the_step() -> None:
    live = SteeredConversation()
    live.ports = dataclasses.replace(live.ports, signals=PollingSignals(live.log, poll_s=0.001))
    live.model = Silent(live.stop)  # type: ignore[assignment]  # a client, as the port has it
    assert live.decide().route == "close"
    (cut,) = live.decided
    assert (cut.interrupted, cut.answer, cut.raw) == (True, "", "")
    live.close()
    assert live.closed.answer == STOPPED


def test_a_stale_read_heeds_seen_steers_and_is_cut_by_the_rest() -> None:
    log = StaleLog(lag=1)
    live = SteeredConversation(SPOKEN, answered("Brief."), log=log)
    live.steer()
    live.run()
    assert [entry.message_id for entry in live.steered] == ["s1"]
    assert live.closed.reason == "steer"
