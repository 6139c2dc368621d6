"""The end of a turn and events that the model has not seen: each is promoted, kept or returned, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepline.loop.close import close_turn
from stepline.loop.steer import STOPPED
from stepline.model.entry import Closed, Deferred, Opened
from stepline.model.wire.live_event import RULES
from tests.support.conversation import event_types
from tests.support.faulty_log import BusyLog, LosingLog
from tests.support.generation import answered, called
from tests.support.steered_conversation import SPOKEN, SteeredConversation, shown_after

EVENTS: dict[str, dict[str, Any]] = {
    "message": {"kind": "followup"},
    "reactive": {"kind": "form", "text": ""},
    "quiet": {"kind": "alert"},
    "steer": {"kind": "steer"},
    "stop": {"kind": "stop", "text": ""},
}


def decided(**policy: Any) -> SteeredConversation:
    """Return a turn whose answer is decided."""
    live = SteeredConversation(answered("Done."), log=policy.pop("log", None), **policy)
    live.decide()
    return live


def fate(live: SteeredConversation, message: str) -> str:
    """Return the fate of an event at the end of the first turn."""
    if message in live.handed_back():
        return "dropped"
    n = next(b.n for b in live.batches() for e in b.entries if getattr(e, "message_id", "") == message)
    opened = [entry for entry in live.entries(Opened) if entry.turn != live.first_turn]
    return "promoted" if any(n in entry.prompts for entry in opened) else "kept"


@pytest.mark.parametrize("name", list(EVENTS))
def test_events_after_the_last_round_settle_by_the_table(name: str) -> None:
    live = decided(max_iterations=1, event_credit=0)
    live.send(**{"text": "say", "id": "e1", **EVENTS[name]})
    live.close()
    assert fate(live, "e1") == RULES[name].unseen  # type: ignore[index]  # a class of events
    assert (live.closed.answer, live.closed.reason) == ("Done.", "complete")


@pytest.mark.parametrize("name", list(EVENTS))
@pytest.mark.parametrize("heeded", [True, False])
def test_events_before_a_stop_settle_by_the_table(name: str, *, heeded: bool) -> None:
    if name == "stop":
        return
    live = SteeredConversation(SPOKEN) if heeded else decided()
    say: list[Callable[[], Any]] = [
        lambda: live.send(**{"text": "say", "id": "e1", **EVENTS[name]}),
        lambda: live.stop(id="x9"),
    ]
    if heeded:
        live.at(1, lambda: [one() for one in say])
        live.decide()
    else:
        for one in say:
            one()
    assert live.close().route == "done"
    assert fate(live, "e1") == RULES[name].stopped  # type: ignore[index]  # a class of events
    if RULES[name].stopped == "dropped":  # type: ignore[index]  # a class of events
        assert live.handed_back()["e1"] == "stopped"
    assert live.closed.answer == (STOPPED if heeded else "Done.")


@pytest.mark.parametrize("name", list(EVENTS))
@pytest.mark.parametrize("heeded", [True, False])
def test_events_after_a_stop_settle_like_those_after_an_end(name: str, *, heeded: bool) -> None:
    live = SteeredConversation() if heeded else decided()
    live.stop(id="x9")
    if heeded:
        live.decide()
    live.send(**{"text": "say", "id": "e1", **EVENTS[name]})
    assert live.close().route == "done"
    assert fate(live, "e1") == RULES[name].unseen  # type: ignore[index]  # a class of events
    assert live.entries(Deferred) == []


def test_a_message_that_the_model_has_seen_is_not_returned() -> None:
    live = SteeredConversation(SPOKEN)
    live.send("and that", id="m2")
    live.at(1, live.stop)
    live.run()
    assert live.handed_back() == {}
    assert live.closed.reason == "stop"


def test_a_heeded_steer_is_not_returned_by_a_stop() -> None:
    live = SteeredConversation(SPOKEN)
    live.at(1, live.steer)
    live.decide()
    live.stop()
    live.run()
    assert live.handed_back() == {}
    assert [entry.message_id for entry in live.steered] == ["s1", "x1"]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_steer_heeded_with_a_later_one_is_not_returned(*, stopped: bool) -> None:
    live = SteeredConversation(SPOKEN)
    live.at(1, lambda: (live.steer(id="s1"), live.steer("in French", id="s2")))
    live.decide()
    if stopped:
        live.stop()
        live.run()
    else:
        close_turn(live.ports, live.now(), code="step_failed")
    assert live.closed.reason == ("stop" if stopped else "error")
    assert live.handed_back() == {}


def test_a_late_stop_keeps_a_message_before_it_from_opening_a_turn() -> None:
    live = decided(max_iterations=1, event_credit=0)
    live.send("and that", id="m2")
    live.stop()
    live.close()
    assert live.handed_back() == {"m2": "stopped", "x1": "turn_closed"}
    assert live.state.status == "idle"


def test_a_late_steer_beside_a_message_waits_for_the_round_that_the_message_gets() -> None:
    live = decided()
    live.model.add(answered("Both."))
    live.send("and that", id="m2")
    live.steer()
    live.run()
    assert (live.closed.reason, live.closed.answer, live.handed_back()) == ("steer", "Both.", {})


def test_a_stop_after_a_deferral_ends_the_turn() -> None:
    live = decided()
    live.send("and that", id="m2")
    assert live.close().route == "decide"
    live.stop()
    live.run()
    assert (live.closed.reason, live.closed.answer) == ("stop", STOPPED)
    assert live.handed_back() == {"m2": "stopped"}


def test_a_steer_just_before_the_end_is_returned_by_that_end() -> None:
    log = BusyLog()
    live = decided(log=log)
    log.rivals = [live.steer]
    live.close()
    assert live.handed_back() == {"s1": "turn_closed"}


def test_a_message_just_before_a_stopped_turns_end_opens_the_next() -> None:
    log = BusyLog()
    live = SteeredConversation(SPOKEN, log=log)
    live.at(1, live.stop)
    live.decide()
    log.rivals = [lambda: live.send("next", id="m2")]
    live.close()
    assert fate(live, "m2") == "promoted"
    assert live.closed.reason == "stop"


def test_a_stopped_turn_is_closed_once_by_whichever_close() -> None:
    log = LosingLog()
    live = SteeredConversation(log=log)
    inbox = live.listen()
    live.stop()
    step = live.decide()
    log.lose(True)
    assert live.close(step).route == "done"
    assert live.close(step).route == "done"
    assert len(live.entries(Closed)) == 1
    assert set(event_types(inbox)) >= {"chat.complete"}


@pytest.mark.parametrize("code", ["step_failed", "execution_lost", "model_overloaded"])
def test_a_stopped_turn_ends_as_stopped_despite_later_failures(code: str) -> None:
    live = SteeredConversation(SPOKEN)
    live.at(20, live.stop)
    live.decide()
    close_turn(live.ports, live.now(), code=code)
    assert (live.closed.outcome, live.closed.reason, live.closed.code) == ("completed", "stop", "")
    assert live.closed.answer == shown_after(20 * 8)


def test_a_failed_turn_does_not_promote_messages_before_a_stop() -> None:
    live = SteeredConversation()
    live.send("and that", id="m2")
    live.stop()
    live.send("next", id="m3")
    close_turn(live.ports, live.now(), code="model_overloaded")
    assert (live.closed.outcome, live.closed.code) == ("error", "model_overloaded")
    assert live.handed_back() == {"m2": "stopped", "x1": "turn_closed"}
    assert fate(live, "m3") == "promoted"


def test_citations_of_a_part_that_stays_are_recorded_with_it() -> None:
    live = SteeredConversation(
        called("web_tools.web_search", {"queries": "prompt caching"}),
        answered("It is kept [[S:1]]. " * 9),
    )
    live.act(live.decide())
    live.at(30, live.stop, call=1)
    live.run()
    assert live.closed.reason == "stop"
    assert [row.sid for row in live.closed.citations] == [1]
    assert live.closed.answer.startswith("It is kept [[S:1]]. ")
