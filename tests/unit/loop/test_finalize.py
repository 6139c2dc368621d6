"""Finalizing after a steer with a text: the number of rounds, their tools, and the events that cancel it."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.loop.steer import STOPPED
from stepline.model.entry import Closed, Resulted
from tests.support.generation import BROKEN, answered, called, coded
from tests.support.steered_conversation import SPOKEN, SteeredConversation

WRITE = called("react.write", {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"})
PLAN = called("react.plan", {"steps": ["one"]})
READ = called("react.read", {"paths": ["fi:turn_x.outputs/a.md"]})
SEARCH = called("web_tools.web_search", {"queries": "otters"})


def cut(*script: Any, **policy: Any) -> SteeredConversation:
    """Return a turn whose first generation was cut off by a steer, and which continues with this script."""
    live = SteeredConversation(SPOKEN, *script, **policy)
    live.at(1, live.steer)
    live.decide()
    return live


def ends(live: SteeredConversation) -> tuple[str, str, int]:
    """Run the turn; return the reason of its end, its answer, and the number of rounds after the first."""
    live.run()
    live.model.assert_read()
    return live.closed.reason, live.closed.answer, len(live.model.requests) - 1


# --- tools of its rounds


def test_an_answer_ends_finalizing() -> None:
    assert ends(cut(answered("Brief."))) == ("steer", "Brief.", 1)


@pytest.mark.parametrize("call", [WRITE, PLAN], ids=["write", "plan"])
def test_a_storing_tool_may_be_called_once_while_finalizing(call: str) -> None:
    live = cut(call, answered("Written."))
    assert ends(live) == ("steer", "Written.", 2)
    assert [entry.status for entry in live.entries(Resulted)] == ["ok"]


@pytest.mark.parametrize(
    "call", [READ, SEARCH, coded("print(1)", "a.csv")], ids=["read", "search", "program"]
)
def test_any_other_call_while_finalizing_is_refused_and_reported(call: str) -> None:
    live = cut(call, answered("Brief."))
    live.programs(lambda job: pytest.fail(f"{job} is run"))
    assert ends(live) == ("steer", "Brief.", 2)
    assert live.entries(Resulted) == []
    assert live.decided[1].notices[-1].code in live.requested()[2]


@pytest.mark.parametrize(
    "last", [WRITE, READ, BROKEN, "nonsense"], ids=["write", "read", "broken", "nonsense"]
)
@pytest.mark.parametrize("first", [WRITE, BROKEN], ids=["write", "broken"])
def test_the_last_finalizing_round_always_becomes_an_answer(first: str, last: str) -> None:
    live = cut(first, last)
    assert ends(live) == ("steer", STOPPED, 2)
    assert (live.decided[-1].accepted, live.decided[-1].ended) == (True, "steer")
    assert live.decided[-1].actions == ()


def test_finalizing_answers_are_short_and_announced() -> None:
    live = cut(WRITE, answered("Written."))
    live.run()
    assert [request.max_tokens for request in live.model.requests] == [live.agent.max_tokens, 3000, 3000]
    assert "FINALIZE" in live.requested()[1].upper()
    assert "FINALIZE" not in live.requested()[0].upper()


@pytest.mark.parametrize(("limit", "tokens"), [(100, 512), (700, 700), (10**6, 0)])
def test_the_length_of_finalizing_answers_has_a_floor_and_a_limit(limit: int, tokens: int) -> None:
    live = cut(answered("Brief."), finalize_max_tokens=limit)
    live.run()
    assert live.model.requests[1].max_tokens == (tokens or live.agent.max_tokens)


def test_the_number_of_finalizing_rounds_is_a_setting() -> None:
    live = cut(WRITE, WRITE, answered("Written."), finalize_rounds=3)
    assert live.state.finalize == 3
    assert ends(live) == ("steer", "Written.", 3)
    assert len(ends_of(cut(WRITE, finalize_rounds=1))) == 1


def ends_of(live: SteeredConversation) -> list[Closed]:
    assert ends(live)[1] == STOPPED
    return live.entries(Closed)


# --- the number of rounds


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_finalizing_rounds_are_bounded_by_the_rest_of_the_turn(rounds: int) -> None:
    live = cut(*[BROKEN] * min(2, max(1, rounds - 1)), max_iterations=rounds)
    assert live.steered[0].finalize == min(2, max(1, rounds - 1))
    assert ends(live)[:2] == ("steer", STOPPED)


def test_retries_do_not_shorten_finalizing() -> None:
    live = cut(BROKEN, answered("Brief."), round_retries=0, turn_retries=0)
    assert ends(live) == ("steer", "Brief.", 2)


def test_a_steer_while_finalizing_restarts_it() -> None:
    live = cut(WRITE, SPOKEN, WRITE, answered("In French."))
    live.at(1, lambda: live.steer("in French", id="s2"), call=2)
    assert ends(live) == ("steer", "In French.", 4)
    assert [entry.finalize for entry in live.steered] == [2, 2]


def test_a_stop_while_finalizing_ends_the_turn() -> None:
    live = cut(WRITE)
    live.decide()
    live.stop()
    assert ends(live) == ("stop", STOPPED, 1)


def test_a_later_stop_keeps_the_part_cut_off_by_a_steer() -> None:
    live = SteeredConversation(SPOKEN)
    live.at(20, live.steer)
    live.decide()
    live.stop()
    assert ends(live) == ("stop", STOPPED, 0)


# --- cancellation


@pytest.mark.parametrize(
    ("event", "called_off"),
    [
        ({"kind": "followup"}, True),
        ({"kind": "form", "text": ""}, True),
        ({"kind": "alert", "reactive": True}, True),
        ({"kind": "alert"}, False),
    ],
)
def test_a_reactive_event_after_the_steer_cancels_finalizing(
    event: dict[str, Any], *, called_off: bool
) -> None:
    live = cut(READ, answered("Both."))
    live.send(**{"text": "and that", "id": "m2", **event})
    live.run()
    codes = [entry.error["code"] for entry in live.entries(Resulted)]
    assert codes == (["read_nothing_attached"] if called_off else [])
    assert (live.model.requests[1].max_tokens == live.agent.max_tokens) is called_off
    assert live.closed.reason == ("complete" if called_off else "steer")


def test_a_message_before_the_steer_does_not_cancel_finalizing() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(1, lambda: (live.send("and that", id="m2"), live.steer()))
    live.decide()
    assert live.model.planned == {}
    assert ends(live) == ("steer", "Brief.", 1)
    assert "and that" in live.requested()[1]
    assert live.handed_back() == {}


def test_a_message_after_the_answer_defers_and_cancels_finalizing() -> None:
    live = cut(answered("Brief."), READ, answered("Both."))
    live.decide()
    live.send("and that", id="m2")
    assert ends(live) == ("complete", "Both.", 3)


def test_a_steer_after_such_a_message_finalizes_again() -> None:
    live = cut(answered("Brief."))
    live.send("and that", id="m2")
    live.steer("no, stop there", id="s2")
    assert ends(live) == ("steer", "Brief.", 1)
    assert [(entry.message_id, entry.phase) for entry in live.steered] == [("s1", "decision"), ("s2", "")]
