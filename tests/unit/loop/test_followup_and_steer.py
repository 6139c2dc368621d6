"""Conformance tests 4 and 5, through the real loop: the times of a followup and of a steer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepline.adapters.memory.model import Say
from stepline.loop.steer import FINALIZE_TOOLS, STOPPED
from stepline.model.entry import Closed, Deferred, Opened
from stepline.ports.model import ModelRequest
from tests.support.conversation import text_of
from tests.support.generation import answered, called
from tests.support.rendered_text import forged
from tests.support.steered_conversation import ANSWER, END, SPOKEN, SteeredConversation

MIDST = (SPOKEN.index(ANSWER) + len(ANSWER) // 2) // 8
WRITE = {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"}


def read(live: SteeredConversation) -> str:
    """Return the model's current view of the conversation."""
    return "".join(piece.text for piece in live.timeline().pieces)


def timeline_of(request: ModelRequest) -> str:
    return "".join(part.text for part in request.content[:-1])


def announce_of(request: ModelRequest) -> str:
    return request.content[-1].text


def answers(live: SteeredConversation, turn: str = "") -> dict[str, tuple[str, Any, Any]]:
    """Return the completions of a turn by the end of their paths: text, index and count."""
    turn = turn or live.first_turn
    found = [block for block in live.timeline().turn_blocks(turn) if block.type == "assistant.completion"]
    return {
        block.path.removeprefix(f"ar:{turn}.assistant.completion"): (
            block.text,
            block.meta["completion_index"],
            block.meta["completion_count"],
        )
        for block in found
    }


def frame(text: str, number: int) -> str:
    """Return a round's frame in the model's view."""
    return text.partition(f"ROUND {number} ────────┐\n")[2].partition("└───")[0]


def later(
    live: SteeredConversation, happening: Callable[..., object], *args: Any, **fields: Any
) -> Callable[[], object]:
    """Return a function that runs another one a second later."""

    def happen() -> object:
        live.clock.pause(1)
        return happening(*args, **fields)

    return happen


def talk(live: SteeredConversation) -> list[str]:
    """Return the messages and answers, in the order in which they began."""
    kinds = ("user.", "event.", "assistant.completion")
    ordered = sorted(live.timeline().blocks(), key=lambda block: (block.turn_id, block.ts))
    return [b.text for b in ordered if b.type.startswith(kinds) and ".attempt" not in b.path]


# --- 4: a followup before, during and after the answer


def test_a_followup_before_the_answer_is_read_and_answered_with_it() -> None:
    live = SteeredConversation(called("react.write", WRITE), answered("Both."))
    live.decide()
    live.send("and tea?", id="f1")
    live.run()
    path = f"ar:{live.first_turn}.external.followup.f1"
    assert f"[FOLLOWUP DURING TURN]\n[path: {path}]\n  and tea?\n" in timeline_of(live.model.requests[1])
    assert answers(live) == {"": ("Both.", 1, 1)}
    assert [block.text for block in live.timeline().resolve(path)] == ["and tea?"]
    assert "(15 + 1 reactive bonus)" in announce_of(live.model.requests[1])


def test_a_followup_during_the_answer_makes_two_completions() -> None:
    live = SteeredConversation(SPOKEN, answered("And tea."))
    live.at(MIDST, later(live, live.send, "and tea?", id="f1"))
    live.run()
    text = read(live)
    path = f"ar:{live.first_turn}.external.followup.f1"
    assert f"[decided before it could read: {path}]\n" in frame(text, 1)
    assert f"[FOLLOWUP DURING TURN]\n[path: {path}]\n  and tea?\n" in frame(text, 1)
    assert text.count("and tea?") == 1
    assert answers(live) == {".1": (ANSWER, 1, 2), "": ("And tea.", 2, 2)}
    assert "[completion: 2]\n  And tea.\n" in text
    assert talk(live) == ["what is new?", ANSWER, "and tea?", "And tea."]
    assert forged(text) == []


def test_a_followup_after_the_answer_makes_two_completions() -> None:
    live = SteeredConversation(answered("First."), answered("And tea."))
    live.decide()
    live.send("and tea?", id="f1")
    assert live.close().route == "decide"
    live.run()
    (deferred,) = live.entries(Deferred)
    text = read(live)
    assert deferred.answer == "First."
    assert "[ASSISTANT MESSAGE ATTEMPT OUTCOME]" in text
    assert text.index("  First.") < text.index("  and tea?") < text.index("  And tea.")
    assert answers(live) == {".1": ("First.", 1, 2), "": ("And tea.", 2, 2)}
    assert [
        block.text for block in live.timeline().resolve(f"ar:{live.first_turn}.assistant.completion")
    ] == ["And tea."]


def test_each_followup_adds_one_round_and_a_quiet_event_none() -> None:
    live = SteeredConversation(SPOKEN, answered("All."))
    for number in range(3):
        live.at(MIDST, later(live, live.send, f"and {number}?", id=f"f{number}"))
    live.at(MIDST, lambda: live.send("disk is full", id="a1", kind="alert"))
    live.run()
    assert "(15 + 3 reactive bonus)" in announce_of(live.model.requests[1])
    assert "- events: 4 total" in announce_of(live.model.requests[1])
    assert [entry.rounds for entry in live.entries(Closed)] == [2]


def test_a_followup_that_no_round_is_left_for_opens_the_next_turn_and_is_read_once() -> None:
    live = SteeredConversation(SPOKEN, answered("And tea."), max_iterations=1)
    live.at(MIDST, lambda: live.send("and tea?", id="f1", payload={"iteration_credit": 0}))
    live.run()
    first, second = live.entries(Opened)
    text = read(live)
    assert answers(live) == {"": (ANSWER, 1, 1)}
    assert answers(live, second.turn) == {"": ("And tea.", 1, 1)}
    old = f"ar:{first.turn}.external.followup.f1"
    assert f"[path: ar:{second.turn}.user.prompt]\n[carried over from: {old}]\n" in text
    assert text.count("  and tea?") == 1
    (block,) = live.timeline().resolve(old)
    assert block.meta["promoted_to"] == second.turn


def test_an_unseen_quiet_event_is_read_by_the_next_turn() -> None:
    live = SteeredConversation(SPOKEN, answered("Again."))
    live.at(MIDST, lambda: live.send("", id="a1", kind="alert", payload={"disk": 91}))
    live.run()
    live.send("and now?", id="m2")
    live.run()
    read_next = timeline_of(live.model.requests[1])
    path = f"ar:{live.first_turn}.external.alert.a1"
    assert f'[path: {path}]\nreactive: no\nsent_by: user\npayload: {{"disk":91}}\n' in frame(read_next, 1)
    assert read_next.count("disk") == 1
    assert [event.path for event in live.timeline().events_since(0)] == []


# --- 5: a steer in every phase


def test_a_steer_in_the_model_phase_keeps_the_cut_text_and_two_rounds() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(MIDST, live.steer)
    live.run()
    text, request = read(live), live.model.requests[1]
    assert "[REACT DECISION RAW INTERRUPTED]\n" in frame(text, 1)
    assert "[STEER DURING TURN]\n" in frame(text, 1)
    assert "The decision you were writing was cut off" in text
    assert "[FINALIZE]" in announce_of(request)
    assert "- rounds left, counting this one: 2\n" in announce_of(request)
    assert answers(live) == {"": ("Brief.", 1, 1)}
    (raw,) = live.timeline().resolve(f"ar:{live.first_turn}.react.decision.raw.interrupted.0")
    assert raw.meta == {"interrupted": True}
    assert forged(text) == []


def test_a_steer_in_the_tool_phase_says_which_calls_were_not_run() -> None:
    live = SteeredConversation(called("react.write", WRITE), answered("Brief."))
    live.decide()
    live.steer()
    live.run()
    text = read(live)
    assert "].result react.write\nstatus: not run, because of the steer\n└───" in text
    assert "The calls above that say so were not run." in text
    assert live.timeline().resolve(f"fi:{live.first_turn}.outputs/a.md") == ()
    assert answers(live) == {"": ("Brief.", 1, 1)}


def test_finalizing_may_write_a_file_and_ends_with_an_answer() -> None:
    live = SteeredConversation(SPOKEN, called("react.write", WRITE), answered("It is in a.md."))
    live.at(MIDST, live.steer)
    live.run()
    last = announce_of(live.model.requests[2])
    assert "- rounds left, counting this one: 1\n- accepted now: complete or exit\n" in last
    assert "LAST ROUND" in last
    assert live.timeline().resolve(f"fi:{live.first_turn}.outputs/a.md") != ()
    assert (live.closed.reason, live.closed.answer) == ("steer", "It is in a.md.")


def test_a_steer_while_finalizing_interrupts_without_a_completion() -> None:
    live = SteeredConversation(SPOKEN, SPOKEN, answered("Brief."))
    live.at(MIDST, live.steer)
    live.at(MIDST, lambda: live.steer("even shorter", id="s2"), call=1)
    live.run()
    assert read(live).count("[REACT DECISION RAW INTERRUPTED]") == 2
    assert answers(live) == {"": ("Brief.", 1, 1)}


def test_a_followup_after_a_steer_lifts_the_bound() -> None:
    live = SteeredConversation(SPOKEN, called("react.write", WRITE), answered("Done."))
    live.at(MIDST, live.steer)
    live.at(MIDST, lambda: live.send("no, go on", id="f1"))
    live.run()
    assert "[FINALIZE]" not in announce_of(live.model.requests[1])
    assert "[FOLLOWUP DURING TURN]" in frame(read(live), 1)
    assert live.closed.reason == "complete"


def test_a_stop_ends_the_turn_with_the_shown_text_as_its_completion() -> None:
    live = SteeredConversation(Say(text=SPOKEN))
    live.at(MIDST, later(live, live.stop))
    live.run()
    partial = live.closed.answer
    assert ANSWER.startswith(partial)
    assert answers(live) == {"": (partial, 1, 1)}
    assert "said stop" in read(live)
    assert talk(live) == ["what is new?", partial, ""]


def test_a_stop_after_a_deferred_answer_makes_the_second_completion() -> None:
    live = SteeredConversation(answered("First."), SPOKEN)
    live.decide()
    live.send("and tea?", id="f1")
    live.close()
    live.at(0, live.stop, call=1)
    live.run()
    assert answers(live) == {".1": ("First.", 1, 2), "": (STOPPED, 2, 2)}
    assert f"[completion: 2]\n  {STOPPED}\n" in read(live)


@pytest.mark.parametrize("when", ["decided", "idle"])
def test_a_steer_after_the_answer_is_returned_and_never_read(when: str) -> None:
    live = SteeredConversation(answered("Done."), answered("Hello again."))
    live.decide()
    if when == "idle":
        live.close()
    live.steer("shorter!")
    live.run()
    live.send("hello", id="m9")
    live.run()
    assert live.handed_back() == {"s1": "turn_closed" if when == "decided" else "nothing_to_steer"}
    assert "shorter!" not in read(live)
    blocks = live.timeline().resolve(f"ar:{live.first_turn}.external.steer.s1")
    assert [block.meta["handed_back"] for block in blocks] == (["turn_closed"] if when == "decided" else [])


def test_messages_before_a_stop_are_returned_and_never_read() -> None:
    live = SteeredConversation(SPOKEN, answered("Hello again."))
    live.at(0, lambda: live.send("delete everything", id="f1"))
    live.at(MIDST, live.stop)
    live.run()
    live.send("hello", id="m9")
    live.run()
    assert live.handed_back() == {"f1": "stopped"}
    assert "delete everything" not in timeline_of(live.model.requests[-1])
    (block,) = live.timeline().resolve(f"ar:{live.first_turn}.external.followup.f1")
    assert (block.text, block.meta["handed_back"]) == ("delete everything", "stopped")


def test_a_steer_at_the_very_end_of_a_generation_is_read_as_one_in_it() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.at(END, live.steer)
    live.run()
    assert "[STEER DURING TURN]\n" in frame(read(live), 1)
    assert answers(live) == {"": ("Brief.", 1, 1)}


def test_the_announced_finalize_tools_are_those_of_the_agent() -> None:
    live = SteeredConversation(SPOKEN, answered("Brief."))
    live.forget("react.patch")
    live.at(END, live.steer)
    live.run()
    announced = text_of(live.model.requests[-1])
    had = [tool for tool in FINALIZE_TOOLS if tool in live.agent.callable_ids]
    assert 0 < len(had) < len(FINALIZE_TOOLS)
    assert f"- accepted now: {', '.join(had)}; then complete or exit" in announced
